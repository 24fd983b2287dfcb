"""Maps from attention alone: rollout against loops and by hand, its rows, its order, its class column; refusals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import PROPERTY

from mhalib.vision import VisionTransformer
from mhalib.vision.saliency import FUSIONS, class_attention, fuse_heads, rollout


def random_maps(batch=2, depth=3, heads=4, tokens=6, *, seed=0, dtype=torch.float64):
    scores = torch.randn(batch, depth, heads, tokens, tokens, generator=torch.Generator().manual_seed(seed)).double()
    return (2 * scores).softmax(-1).to(dtype)


def rollout_by_loops(maps, fusion, discard, prefix):
    """One image at a time, one number at a time, in Python's own floats."""
    batch, depth, heads, length, _ = maps.shape
    result = []
    for b in range(batch):
        joint = [[float(i == j) for j in range(length)] for i in range(length)]
        for layer in range(depth):
            fuse = {"mean": lambda values: sum(values) / heads, "max": max, "min": min}[fusion]
            layer_maps = maps[b, layer].tolist()
            mixed = [[fuse([layer_maps[h][i][j] for h in range(heads)]) for j in range(length)] for i in range(length)]
            places = sorted((mixed[i][j], i, j) for i in range(length) for j in range(prefix, length))
            for _, i, j in places[: round(discard * len(places))]:
                mixed[i][j] = 0.0
            for i in range(length):
                mixed[i][i] += 1.0
                total = sum(mixed[i])
                mixed[i] = [value / total for value in mixed[i]]
            joint = [
                [sum(mixed[i][k] * joint[k][j] for k in range(length)) for j in range(length)] for i in range(length)
            ]
        result.append(joint)
    return torch.tensor(result, dtype=torch.float64)


@pytest.mark.parametrize("prefix", [1, 3])
@pytest.mark.parametrize("discard", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_rollout_equals_the_loops(fusion, discard, prefix):
    maps = random_maps()
    expected = rollout_by_loops(maps, fusion, discard, prefix)
    found = rollout(maps, fusion=fusion, discard=discard, prefix=prefix)
    # Some 20 roundings of 1.1e-16 for each of three layers, of numbers up to 1.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@PROPERTY
@given(
    tokens=st.integers(2, 17),
    depth=st.integers(1, 5),
    heads=st.integers(1, 4),
    fusion=st.sampled_from(FUSIONS),
    discard=st.floats(0, 0.99),
    seed=st.integers(0, 10_000),
)
def test_rows_of_a_rollout_sum_to_one(tokens, depth, heads, fusion, discard, seed):
    found = rollout(random_maps(1, depth, heads, tokens, seed=seed), fusion=fusion, discard=discard)
    assert (found >= 0).all()
    assert (found.sum(-1) - 1).abs().max() < 1e-13


@pytest.mark.parametrize("fusion", FUSIONS)
def test_identity_maps_give_the_identity(fusion):
    maps = torch.eye(7, dtype=torch.float64).expand(2, 3, 4, 7, 7)
    assert torch.equal(rollout(maps, fusion=fusion), torch.eye(7, dtype=torch.float64).expand(2, 7, 7))


def test_the_later_layer_stands_on_the_left():
    """Layer 1 lets token 1 read token 2; layer 2 lets the class token read token 1. So the class token reaches 2."""
    still = torch.eye(3, dtype=torch.float64)
    first, second = still.clone(), still.clone()
    first[1] = torch.tensor([0.0, 0.0, 1.0])
    second[0] = torch.tensor([0.0, 1.0, 0.0])
    found = rollout(torch.stack([first, second])[None, :, None])
    assert found[0, 0].tolist() == [0.5, 0.25, 0.25]
    swapped = rollout(torch.stack([second, first])[None, :, None])
    assert swapped[0, 0].tolist() == [0.5, 0.5, 0.0]


def test_each_row_is_divided_by_its_own_sum():
    """After discarding, row sums differ: dividing column j by the sum of row j would go unnoticed before."""
    found = rollout(random_maps(1, 1, 1, 5, seed=3), discard=0.5)
    by_hand = rollout_by_loops(random_maps(1, 1, 1, 5, seed=3), "mean", 0.5, 1)
    assert torch.allclose(found.sum(-1), torch.ones(1, 5).double(), rtol=0, atol=1e-15)
    assert torch.allclose(found, by_hand, rtol=0, atol=1e-15)


def test_discarding_keeps_the_class_column():
    maps = random_maps(1, 1, 1, 6, seed=1)
    found = rollout(maps, discard=0.999)
    off_diagonal = ~torch.eye(6, dtype=torch.bool)
    off_diagonal[:, 0] = False
    assert (found[0, 1:, 0] > 0).all()
    assert (found[0][off_diagonal] == 0).all()


def test_discarding_treats_each_image_by_itself():
    maps = random_maps(3, 2, 2, 6)
    alone = torch.cat([rollout(maps[b : b + 1], discard=0.4) for b in range(3)])
    assert torch.equal(rollout(maps, discard=0.4), alone)


def test_fused_heads():
    maps = random_maps()
    assert torch.allclose(fuse_heads(maps), sum(maps.unbind(2)) / 4, rtol=0, atol=1e-16)
    assert torch.equal(fuse_heads(maps, "max"), maps.max(2).values)
    assert torch.equal(fuse_heads(maps, "min"), maps.min(2).values)


@pytest.mark.parametrize("prefix", [1, 3])
@pytest.mark.parametrize("layer", [-1, 0, 2])
def test_class_attention_is_the_class_tokens_row(layer, prefix):
    maps = random_maps()
    found = class_attention(maps, layer=layer, prefix=prefix)
    assert found.shape == (2, 4, 6 - prefix)
    for b in range(2):
        for head in range(4):
            assert found[b, head].tolist() == maps[b, layer, head, 0].tolist()[prefix:]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_maps_of_lower_precision(dtype):
    """Rows that softmax rounded to the dtype are accepted; a step has error of a few eps, and there are three."""
    exact = random_maps()
    found = rollout(exact.to(dtype))
    assert found.dtype == dtype
    assert (found.double() - rollout(exact)).abs().max() < 12 * torch.finfo(dtype).eps


@pytest.mark.parametrize("registers", [0, 2])
def test_maps_of_the_model(registers):
    torch.manual_seed(0)
    model = VisionTransformer(
        (4, 6), 2, in_channels=1, num_classes=3, d_model=8, depth=2, num_heads=2, num_registers=registers
    ).eval()
    with torch.no_grad():
        _, maps = model(torch.randn(2, 1, 4, 6), need_weights=True)
    prefix = 1 + registers
    assert class_attention(maps, prefix=prefix).shape == (2, 2, 6)
    assert rollout(maps, prefix=prefix)[:, 0, prefix:].shape == (2, 6)


GOOD = random_maps()
DROPPED = torch.nn.functional.dropout(GOOD, 0.5)
REFUSED = {
    "none": (None, {}, TypeError, "maps: got None; the model gives them with model"),
    "list": ([GOOD], {}, TypeError, "maps: got list"),
    "without a batch": (GOOD[0], {}, ValueError, r"accepted is \(B, depth, H, T, T\)"),
    "averaged over heads": (GOOD.mean(2), {}, ValueError, r"accepted is \(B, depth, H, T, T\)"),
    "not square": (GOOD[..., :-1], {}, ValueError, r"accepted is \(B, depth, H, T, T\)"),
    "no layers": (GOOD[:, :0], {}, ValueError, "not empty"),
    "integers": (GOOD.long(), {}, TypeError, "maps: got torch.int64"),
    "after dropout": (DROPPED, {}, ValueError, "before dropout"),
    "scores": (GOOD.log(), {}, ValueError, "as softmax gives them"),
    "negative": (torch.eye(6) * 2 - torch.ones(6, 6) / 6 + 0 * GOOD, {}, ValueError, "weight below 0"),
    "not finite": (GOOD * float("nan"), {}, ValueError, "as softmax gives them"),
    "prefix 0": (GOOD, {"prefix": 0}, ValueError, "prefix: got 0"),
    "prefix too large": (GOOD, {"prefix": 6}, ValueError, "prefix: got 6 for 6 tokens"),
}


@pytest.mark.parametrize("function", [rollout, class_attention])
@pytest.mark.parametrize("case", REFUSED)
def test_maps_that_are_refused(function, case):
    maps, options, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        function(maps, **options)


OPTIONS = [
    (rollout, {"fusion": "sum"}, ValueError, "fusion: got 'sum'; accepted is one of"),
    (rollout, {"discard": 1}, ValueError, "discard: got 1"),
    (rollout, {"discard": -0.1}, ValueError, "discard: got -0.1"),
    (rollout, {"discard": float("nan")}, ValueError, "discard: got nan"),
    (rollout, {"discard": "0.1"}, TypeError, "discard: got str '0.1'"),
    (rollout, {"discard": True}, TypeError, "discard: got bool True"),
    (class_attention, {"layer": 3}, ValueError, "layer: got 3 for maps of 3 layers; accepted is -3 to 2"),
    (class_attention, {"layer": -4}, ValueError, "layer: got -4"),
    (class_attention, {"layer": 1.0}, TypeError, "layer: got 1.0"),
    (class_attention, {"layer": True}, TypeError, "layer: got True"),
]


@pytest.mark.parametrize(("function", "options", "error", "message"), OPTIONS)
def test_options_that_are_refused(function, options, error, message):
    with pytest.raises(error, match=message):
        function(GOOD, **options)
