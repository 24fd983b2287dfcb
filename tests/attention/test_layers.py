"""`MultiHeadAttention`: MHA, GQA and MQA in one class, and its way to and from torch's layer."""

import math

import pytest
import torch
from oracle import BACKEND_NAMES, DTYPES, assert_within, coin, leaves, normal
from torch import nn

import mhalib
from mhalib import MultiHeadAttention, RotaryEmbedding
from mhalib.layers import join_heads, split_heads

#: Two projections of 24 terms and a softmax of at most 9, of size about 1, in float64: far below this.
EXACT = 1e-12


def layer_of(d_model=24, num_heads=4, *, seed=0, dtype=torch.float64, **options):
    """A layer whose biases are not 0, as they are at the start: a lost one shows."""
    torch.manual_seed(seed)
    layer = MultiHeadAttention(d_model, num_heads, dtype=dtype, **options)
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return layer


def by_hand(layer, query, key, value, mask=None):
    """Head by head, from the projections: query head h reads key head h // group."""
    q, k, v = layer.q_proj(query), layer.k_proj(key), layer.v_proj(value)
    size, group = layer.head_dim, layer.num_heads // layer.num_kv_heads
    outputs, weights = [], []
    for h in range(layer.num_heads):
        own = slice(h * size, (h + 1) * size)
        shared = slice(h // group * size, (h // group + 1) * size)
        score = q[..., own] @ k[..., shared].mT / math.sqrt(size)
        if mask is not None:
            score = score.masked_fill(~mask, -math.inf)
        weights.append(score.softmax(-1))
        outputs.append(weights[-1] @ v[..., shared])
    return layer.out_proj(torch.cat(outputs, -1)), torch.stack(weights, dim=1)


# ---------------------------------------------------------------------------------------------- splitting heads


def test_head_h_of_a_token_is_its_own_block_of_channels():
    """O14: a view in the wrong order mixes tokens; with one head it would not show."""
    x = torch.arange(2 * 3 * 8).reshape(2, 3, 8)
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    for h in range(4):
        assert torch.equal(heads[:, h], x[..., 2 * h : 2 * h + 2])
    assert torch.equal(join_heads(heads), x)
    assert not torch.equal(x.reshape(2, 4, 3, 2), heads)


def test_a_changed_token_changes_its_own_row_of_every_head_only():
    x = normal(1, 5, 12, seed=1)
    other = x.clone()
    other[:, 2] += 1
    changed = (split_heads(other, 3) != split_heads(x, 3)).any(-1)
    assert changed.tolist() == [[[False, False, True, False, False]] * 3]


def test_joining_puts_heads_side_by_side():
    heads = normal(2, 3, 5, 4, seed=1)
    assert torch.equal(join_heads(heads), torch.cat([heads[:, h] for h in range(3)], dim=-1))
    assert torch.equal(split_heads(join_heads(heads), 3), heads)


# ------------------------------------------------------------------------------------------------ what it computes


@pytest.mark.parametrize("kv_heads", [None, 4, 2, 1])
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_mha_gqa_and_mqa_against_their_projections(backend, kv_heads):
    layer = layer_of(num_kv_heads=kv_heads, backend=backend)
    x = normal(2, 7, 24, seed=1)
    expected, _ = by_hand(layer, x, x, x)
    assert_within(layer(x)[0], expected, EXACT, "output")
    causal, _ = by_hand(layer, x, x, x, torch.ones(7, 7, dtype=torch.bool).tril())
    assert_within(layer(x, causal=True)[0], causal, EXACT, "causal output")


def test_kv_heads_set_the_size_of_two_projections_only():
    sizes = {"q_proj": (24, 24), "k_proj": (12, 24), "v_proj": (12, 24), "out_proj": (24, 24)}
    layer = layer_of(num_kv_heads=2)
    assert {name: tuple(getattr(layer, name).weight.shape) for name in sizes} == sizes
    wide = layer_of(num_heads=3, head_dim=16, num_kv_heads=1, bias=False)
    sizes = {"q_proj": (48, 24), "k_proj": (16, 24), "v_proj": (16, 24), "out_proj": (24, 48)}
    assert {name: tuple(getattr(wide, name).weight.shape) for name in sizes} == sizes
    assert all(getattr(wide, name).bias is None for name in sizes)
    x = normal(1, 5, 24, seed=1)
    assert_within(wide(x)[0], by_hand(wide, x, x, x)[0], EXACT, "a head_dim of its own")


def test_grouped_heads_are_the_full_layer_with_repeated_projections():
    """O15: each key head is repeated in place for its group of query heads."""
    grouped, full = layer_of(num_kv_heads=2), layer_of(seed=1)
    repeat = lambda x: x.unflatten(0, (2, 6)).repeat_interleave(2, 0).flatten(0, 1)  # noqa: E731
    state = grouped.state_dict()
    full.load_state_dict({name: repeat(x) if name[:2] in ("k_", "v_") else x for name, x in state.items()})
    x = normal(2, 5, 24, seed=1)
    assert_within(grouped(x)[0], full(x)[0], EXACT, "output")


@pytest.mark.parametrize("given", ["query", "query and key", "query, key and value"])
def test_self_and_cross_attention(given):
    layer = layer_of()
    x, y, z = normal(2, 3, 24, seed=1), normal(2, 5, 24, seed=2), normal(2, 5, 24, seed=3)
    arguments = {"query": (x,), "query and key": (x, y), "query, key and value": (x, y, z)}[given]
    full = {"query": (x, x, x), "query and key": (x, y, y), "query, key and value": (x, y, z)}[given]
    expected, weights = by_hand(layer, *full)
    output, got = layer(*arguments, need_weights=True)
    assert_within(output, expected, EXACT, "output")
    assert_within(got, weights, EXACT, "weights")


def test_all_options_reach_the_function():
    layer = layer_of(window=3)
    x = normal(2, 6, 24, seed=1)
    options = {
        "mask": coin(6, 6, seed=2) | torch.eye(6, dtype=torch.bool),
        "bias": normal(2, 4, 6, 6, seed=3),
        "causal": True,
        "key_lengths": torch.tensor([6, 4]),
        "query_lengths": torch.tensor([6, 5]),
    }
    q, k, v = (split_heads(p(x), 4) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    for names in (["mask"], ["bias"], ["causal"], ["key_lengths"], ["query_lengths"], list(options)):
        chosen = {name: options[name] for name in names}
        expected = layer.out_proj(join_heads(mhalib.attention(q, k, v, window=3, **chosen)))
        assert_within(layer(x, **chosen)[0], expected, EXACT, str(names))
        assert not torch.allclose(layer(x, **chosen)[0], layer(x)[0])


def test_window_of_the_layer_is_the_window_of_the_mask():
    x = normal(1, 9, 24, seed=1)
    windowed, free = layer_of(window=3), layer_of()
    for causal in (False, True):
        mask = mhalib.masks.window(9, 9, 3, causal=causal)
        assert_within(windowed(x, causal=causal)[0], free(x, mask=mask)[0], EXACT, f"causal={causal}")


# ------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_asking_for_weights_changes_nothing_else(training):
    """O10, O24: the same numbers with and without weights, causal included; without asking, None."""
    layer = layer_of().train(training)
    x = normal(2, 7, 24, seed=1)
    for options in ({}, {"causal": True}, {"key_lengths": torch.tensor([7, 2])}):
        output, weights = layer(x, **options, need_weights=True)
        plain, nothing = layer(x, **options)
        assert nothing is None
        assert weights.shape == (2, 4, 7, 7)
        assert_within(output, plain, EXACT, "output")


def test_weights_are_per_head():
    """O08: never the mean over heads."""
    layer = layer_of()
    x = normal(1, 5, 24, seed=1)
    _, weights = layer(x, need_weights=True)
    assert_within(weights, by_hand(layer, x, x, x)[1], EXACT, "weights")
    assert (weights[:, 0] - weights[:, 1]).abs().max() > 0.01


def test_weights_come_before_dropout():
    """O07: rows sum to one in training too."""
    layer = layer_of(dropout=0.5).train()
    x = normal(2, 7, 24, seed=1)
    output, weights = layer(x, need_weights=True)
    assert_within(weights.sum(-1), torch.ones(2, 4, 7, dtype=weights.dtype), EXACT, "sum of a row")
    assert_within(weights, by_hand(layer, x, x, x)[1], EXACT, "weights")
    assert not torch.allclose(output, layer.eval()(x)[0])


def test_a_named_backend_without_weights_refuses_them():
    with pytest.raises(ValueError, match=r"'sdpa' cannot serve this request: .* never form the weights"):
        layer_of(backend="sdpa")(normal(1, 3, 24, seed=1), need_weights=True)


@pytest.mark.parametrize("backend", [*BACKEND_NAMES, "auto"])
def test_dropout_is_off_in_evaluation(backend):
    """O06: two calls are equal to the last bit, and equal to the layer without dropout."""
    layer, without = layer_of(dropout=0.5, backend=backend), layer_of(backend=backend)
    x = normal(2, 7, 24, seed=1)
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(layer(x)[0], without(x)[0])
    layer.train()
    assert not torch.equal(layer(x)[0], layer(x)[0])


# ------------------------------------------------------------------------------------------------------- rotary


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_only_distances_matter_to_a_rotary_layer(layout, kv_heads):
    layer = layer_of(num_kv_heads=kv_heads, rotary=RotaryEmbedding(6, layout=layout))
    x = normal(2, 9, 24, seed=1)
    start = torch.arange(9)
    first = layer(x, causal=True)[0]
    assert torch.equal(layer(x, causal=True, positions=start)[0], first)
    assert torch.equal(layer(x, causal=True, positions=start.expand(2, 9))[0], first)
    shifted = layer(x, causal=True, positions=start + 100)[0]
    # Angles up to 109 in float64: off by 109 · eps, in a sum of 6 products of size about 1.
    assert_within(shifted, first, 1e-11, "all positions moved by 100")
    assert not torch.allclose(layer(x, causal=True, positions=2 * start)[0], first)
    each = torch.stack([start, start + 5])
    assert_within(layer(x, positions=each)[0], layer(x)[0], 1e-11, "one shift for each sequence")


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_turns_queries_and_keys_and_not_values(layout):
    rotary = RotaryEmbedding(6, layout=layout)
    layer = layer_of(rotary=rotary)
    x, positions = normal(1, 5, 24, seed=1), torch.tensor([3, 1, 4, 0, 7])
    q, k, v = (split_heads(p(x), 4) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    heads = mhalib.attention(rotary(q, positions), rotary(k, positions), v)
    assert_within(layer(x, positions=positions)[0], layer.out_proj(join_heads(heads)), EXACT, "output")


@pytest.mark.parametrize(("layout", "partner"), [("half", 3), ("interleaved", 1)])
def test_which_channels_turn_together(layout, partner):
    """O17: channel 0 turns with channel D/2, or with channel 1, by one radian for each position."""
    x = torch.zeros(1, 1, 1, 6, dtype=torch.float64)
    x[..., 0] = 1
    turned = RotaryEmbedding(6, layout=layout)(x, torch.tensor([2]))
    expected = torch.zeros(6, dtype=torch.float64)
    expected[0], expected[partner] = math.cos(2), math.sin(2)
    assert_within(turned[0, 0, 0], expected, EXACT, "channel 0 after two positions")


def test_order_is_invisible_without_rotary_and_visible_with_it():
    x, order = normal(1, 6, 24, seed=1), torch.tensor([3, 0, 5, 1, 4, 2])
    plain = layer_of()
    assert_within(plain(x[:, order])[0], plain(x)[0][:, order], EXACT, "permutation equivariance")
    turned = layer_of(rotary=RotaryEmbedding(6))
    assert not torch.allclose(turned(x[:, order])[0], turned(x)[0][:, order])
    moved = turned(x[:, order], positions=order)[0]
    assert_within(moved, turned(x)[0][:, order], EXACT, "tokens that take their positions along")


def test_a_sequence_attending_to_itself_by_name_is_self_attention():
    layer = layer_of(rotary=RotaryEmbedding(6))
    x = normal(1, 5, 24, seed=1)
    assert torch.equal(layer(x, x)[0], layer(x)[0])
    assert torch.equal(layer(x, x, x)[0], layer(x)[0])


# ---------------------------------------------------------------------------------------- torch's layer, state


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_to_torch_and_back_is_the_same_layer(dtype, bias):
    layer = layer_of(bias=bias, dropout=0.25, dtype=dtype).eval()
    theirs = layer.to_torch()
    back = MultiHeadAttention.from_torch(theirs, backend="reference")
    assert (theirs.batch_first, theirs.dropout, theirs.training) == (True, 0.25, False)
    assert (back.dropout, back.training, back.backend) == (0.25, False, "reference")
    assert back.state_dict().keys() == layer.state_dict().keys()
    for name, parameter in layer.state_dict().items():
        assert parameter.dtype == dtype
        assert torch.equal(back.state_dict()[name], parameter)
    assert torch.equal(theirs.in_proj_weight, torch.cat([p.weight for p in (layer.q_proj, layer.k_proj, layer.v_proj)]))
    assert back.train().to_torch().training


def test_conversion_copies():
    """Training one layer afterwards leaves the other alone."""
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    ours = MultiHeadAttention.from_torch(theirs)
    again = ours.to_torch()
    kept = again.in_proj_weight.clone(), ours.q_proj.weight.clone()
    with torch.no_grad():
        theirs.in_proj_weight.add_(1)
        theirs.out_proj.bias.add_(1)
    assert torch.equal(ours.q_proj.weight, kept[1])
    assert not ours.out_proj.bias.any()
    with torch.no_grad():
        ours.q_proj.weight.add_(1)
    assert torch.equal(again.in_proj_weight, kept[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "batch_first=False reads .* set batch_first"),
        ({"batch_first": True, "kdim": 6}, "kdim, vdim, .* have no counterpart here"),
        ({"batch_first": True, "vdim": 6}, "kdim, vdim, .* have no counterpart here"),
        ({"batch_first": True, "add_bias_kv": True}, "add_bias_kv .* no counterpart here"),
        ({"batch_first": True, "add_zero_attn": True}, "add_zero_attn have no counterpart here"),
    ],
)
def test_torch_layers_without_a_counterpart_are_refused(options, words):
    """O09 among them: the same call on (B, L, d) would attend over the batch."""
    with pytest.raises(ValueError, match=f"module: .*{words}"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, **options))


def test_what_is_no_torch_layer_is_refused():
    with pytest.raises(TypeError, match=r"module: got Linear; accepted is torch.nn.MultiheadAttention"):
        MultiHeadAttention.from_torch(nn.Linear(8, 8))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_kv_heads": 2}, "num_kv_heads=2"),
        ({"head_dim": 8}, "head_dim=8"),
        ({"rotary": RotaryEmbedding(6)}, "rotary=RotaryEmbedding"),
        ({"window": 3}, "window=3"),
    ],
)
def test_layers_that_torch_has_not_are_refused(options, words):
    with pytest.raises(ValueError, match=f"to_torch: torch's layer has no counterpart for .*{words}"):
        layer_of(**options).to_torch()


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_state_dict_round_trip(kv_heads):
    layer, other = layer_of(num_kv_heads=kv_heads, seed=1), layer_of(num_kv_heads=kv_heads, seed=2)
    names = {f"{part}_proj.{kind}" for part in ("q", "k", "v", "out") for kind in ("weight", "bias")}
    assert set(layer.state_dict()) == names
    x = normal(1, 5, 24, seed=1)
    assert not torch.equal(layer(x)[0], other(x)[0])
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x)[0], other(x)[0])
    assert set(layer_of(rotary=RotaryEmbedding(6)).state_dict()) == names  # rotary brings no parameters


def test_it_starts_as_glorot_uniform_with_biases_at_zero():
    torch.manual_seed(0)
    layer = MultiHeadAttention(256, 4, num_kv_heads=1)
    for name, fan_out in (("q_proj", 256), ("k_proj", 64), ("v_proj", 64), ("out_proj", 256)):
        weight, bias = getattr(layer, name).weight, getattr(layer, name).bias
        limit = math.sqrt(6 / (256 + fan_out))
        assert weight.abs().max() <= limit
        # Uniform on ±limit: standard deviation limit / √3; of 16,384 draws or more it is known to 1 %.
        assert abs(weight.std() / (limit / math.sqrt(3)) - 1) < 0.02
        assert not bias.any()


# ------------------------------------------------------------------------------------------- dtypes, gradients


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype, need_weights):
    exact = layer_of(num_kv_heads=2)
    x = normal(2, 7, 24, seed=1, dtype=dtype)
    half = layer_of(num_kv_heads=2).to(dtype)
    exact.load_state_dict({name: parameter.double() for name, parameter in half.state_dict().items()})
    output, weights = half(x, causal=True, need_weights=need_weights)
    expected, expected_weights = exact(x.double(), causal=True, need_weights=need_weights)
    assert output.dtype == dtype
    # Projected queries, keys and values (up to 6 in size), heads and output are each rounded: eps/2 of the size.
    # A score sums 6 products of two rounded factors and moves by 6 · 6 · eps / √6, a weight by that, relatively.
    eps = torch.finfo(dtype).eps
    assert_within(output, expected, (6 * 6 / math.sqrt(6) + 4) * 6 * eps, "output")
    if need_weights:
        assert weights.dtype == dtype
        assert_within(weights, expected_weights, 6 * 6 / math.sqrt(6) * eps, "weights")


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_gradients_reach_every_parameter_and_input(kv_heads):
    layer = layer_of(num_kv_heads=kv_heads)
    x, y = normal(2, 3, 24, seed=1), normal(2, 5, 24, seed=2)
    expected = leaves(x, y)
    by_hand(layer, expected[0], expected[1], expected[1])[0].pow(2).sum().backward()
    wanted = {name: parameter.grad.clone() for name, parameter in layer.named_parameters()}
    layer.zero_grad()
    got = leaves(x, y)
    layer(*got)[0].pow(2).sum().backward()
    for name, parameter in layer.named_parameters():
        # Sums over 10 tokens of terms of size about 10.
        assert_within(parameter.grad, wanted[name], 1e-10, name)
    for mine, hand in zip(got, expected, strict=True):
        assert_within(mine.grad, hand.grad, 1e-10, "input")


def test_device_and_dtype_go_to_every_parameter():
    layer = MultiHeadAttention(24, 4, device="meta", dtype=torch.float16)
    assert all(parameter.device.type == "meta" for parameter in layer.parameters())
    assert all(parameter.dtype == torch.float16 for parameter in layer.parameters())


def test_it_prints_what_it_is():
    layer = layer_of(num_kv_heads=2, dropout=0.1, window=3, rotary=RotaryEmbedding(6), backend="reference")
    text = repr(layer)
    expected = "d_model=24, num_heads=4, num_kv_heads=2, head_dim=6, dropout=0.1, window=3, backend='reference'"
    assert expected in text
    assert "RotaryEmbedding(head_dim=6, base=10000, layout='half')" in text
    assert "(q_proj): Linear(in_features=24, out_features=24, bias=True)" in text
