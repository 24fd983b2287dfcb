"""The ways that `auto` takes on the CPU (bands, folded groups, sequence by sequence) give the reference's numbers.

What a case expects is the reference in float64 (held to the loops in test_parity.py) on the inputs as rounded to the
dtype, within the dtype's budget. Each case also says which way must have been taken, and the calls to torch's kernel
are looked at: a case that fell back to the kernel on the whole would prove nothing.
"""

import math

import pytest
import torch
from oracle import (
    DTYPES,
    Shape,
    Truth,
    assert_gradients,
    assert_output,
    coin,
    gradients_of,
    inputs,
    leaves,
    normal,
    upstream,
)

import mhalib
from mhalib.backends import bands, torch_kernel, ways
from mhalib.backends.request import validate

REASONS = {
    "whole": "torch's fused kernel serves this request without forming the weights",
    "folded": "torch's fused kernel, the queries of a group as rows of one head, so that no key is repeated",
    "banded": "torch's fused kernel on bands of queries, each with only the keys that its window reaches",
    "by length": "torch's fused kernel, sequence by sequence without the padding, which needs no mask",
}


KERNEL, DROPS_NONE = "torch's fused kernel", "torch's fused kernel drops no weights on a CPU"


@pytest.fixture(autouse=True)
def calls_for_nothing(monkeypatch):
    """What a way saves on requests as small as these is less than its calls cost; here they cost nothing.

    tests/backends/test_plan.py holds what is chosen at the true costs.
    """
    monkeypatch.setattr(ways, "CALL", 0)


def reference(q, k, v, grad, *, bias=None, **options):
    """Output and gradients in float64, and the sums of absolute values that the budgets of `oracle` are factors of."""
    *qkv, bias = leaves(*(x.double() for x in (q, k, v)), None if bias is None else bias.double())
    grad = grad.double()
    output, weights, lse = mhalib.attention(
        *qkv, bias=bias, **options, backend="reference", return_weights=True, return_lse=True
    )
    gradients = gradients_of(output, grad, query=qkv[0], key=qkv[1], value=qkv[2], bias=bias)
    with torch.no_grad():
        group, scale = q.shape[1] // k.shape[1], 1 / math.sqrt(q.shape[3])
        size_q, size_k, size_v = (x.abs() for x in qkv)
        size_k, size_v = size_k.repeat_interleave(group, 1), size_v.repeat_interleave(group, 1)
        from_weights = grad.abs() @ size_v.mT
        from_scores = weights * (from_weights + (weights * from_weights).sum(-1, keepdim=True))
        sizes = {
            "output": weights @ size_v,
            "query": scale * from_scores @ size_k,
            "key": (scale * from_scores.mT @ size_q).unflatten(1, (-1, group)).sum(2),
            "value": (weights.mT @ grad.abs()).unflatten(1, (-1, group)).sum(2),
        }
        reached = scale * size_q @ size_k.mT
        if bias is not None:
            sizes["bias"] = from_scores.sum_to_size(bias.shape) if bias.dim() == 4 else from_scores.sum((0, 1))
            reached = reached + bias.abs().masked_fill(bias.isinf(), 0)
        return Truth(output, weights, lse, gradients, sizes, float(reached.max()))


@pytest.fixture
def calls(monkeypatch):
    """Each call of torch's kernel: the shapes of query and key, and the options."""
    seen, kernel = [], torch_kernel.scaled_dot_product_attention

    def spy(q, k, v, **options):
        seen.append((tuple(q.shape), tuple(k.shape), options))
        return kernel(q, k, v, **options)

    monkeypatch.setattr(torch_kernel, "scaled_dot_product_attention", spy)
    return seen


def check(way, shape, options, dtype=torch.float64, qkv=None):
    """The way is taken, and output and gradients are those of the reference."""
    qkv = inputs(shape, dtype) if qkv is None else qkv
    assert mhalib.explain_backend(*qkv, **options) == ("sdpa", REASONS[way])
    options, bias = dict(options), options.get("bias")
    options.pop("bias", None)
    expected = reference(*qkv, upstream(shape, dtype), bias=bias, **options)
    leaf = [x.detach().requires_grad_() for x in qkv]
    (bias,) = leaves(bias)
    output = mhalib.attention(*leaf, bias=bias, **options)
    what = f"{way}, {shape}, {dtype}, {list(options)}"
    assert_output(output, expected, shape, dtype, what)
    sources = {"query": leaf[0], "key": leaf[1], "value": leaf[2], "bias": bias}
    assert_gradients(gradients_of(output, upstream(shape, dtype), **sources), expected, shape, dtype, what)
    assert not output[expected.lse == -math.inf].any()
    return output


def test_the_reasons_are_those_of_the_backend():
    assert ways.WAYS == REASONS
    assert (bands.EDGE, torch_kernel.FEW_QUERIES) == (256, 16)


# ------------------------------------------------------------------------------------------------- which way


MHA, GQA = Shape(2, 2, 2, 40, 90, 4, 4), Shape(2, 4, 2, 40, 90, 4, 4)
LENGTHS = torch.tensor([90, 31])


@pytest.mark.parametrize(
    ("way", "shape", "options"),
    [
        ("whole", MHA, {}),
        ("whole", MHA, {"causal": True}),
        ("whole", GQA, {"causal": True}),  # 40 queries under a mask: repeating the mask costs more than it saves
        ("folded", GQA, {}),
        ("folded", Shape(2, 4, 1, 16, 90, 4, 4), {"causal": True}),
        ("whole", Shape(2, 4, 1, 17, 90, 4, 4), {"causal": True}),
        ("folded", Shape(2, 4, 1, 17, 90, 4, 4), {}),
        ("folded", Shape(2, 4, 1, 1, 90, 4, 4), {"causal": True}),
        ("banded", MHA, {"window": 5, "causal": True}),
        ("banded", MHA, {"window": 50, "causal": True}),  # 89 of 90 keys: one less
        ("whole", MHA, {"window": 51, "causal": True}),
        ("banded", MHA, {"window": 50}),
        ("whole", MHA, {"window": 51}),
        ("banded", GQA, {"window": 5, "causal": True}),
        ("by length", MHA, {"window": 5, "causal": True, "key_lengths": LENGTHS}),
        ("by length", GQA, {"window": 5, "key_lengths": LENGTHS, "query_lengths": torch.tensor([7, 40])}),
        ("banded", MHA, {"window": 5, "causal": True, "key_lengths": torch.tensor([90, 90])}),
        ("folded", GQA, {"key_lengths": torch.tensor([90, 90]), "query_lengths": torch.tensor([40, 40])}),
        ("whole", MHA, {"window": 5, "causal": True, "mask": coin(40, 90, seed=1)}),
        ("whole", MHA, {"window": 5, "causal": True, "bias": normal(40, 90, seed=1)}),
        ("by length", MHA, {"key_lengths": LENGTHS}),
        ("by length", GQA, {"key_lengths": LENGTHS, "causal": True}),
        ("by length", MHA, {"query_lengths": torch.tensor([7, 40])}),
        ("by length", GQA, {"query_lengths": torch.tensor([7, 40]), "key_lengths": LENGTHS, "causal": True}),
        ("by length", MHA, {"window": 5, "causal": True, "query_lengths": torch.tensor([7, 40])}),
        ("banded", Shape(1, 4, 2, 40, 90, 4, 4), {"window": 5, "causal": True, "query_lengths": torch.tensor([7])}),
        ("folded", Shape(1, 4, 2, 40, 90, 4, 4), {"query_lengths": torch.tensor([7])}),
        ("whole", MHA, {"query_lengths": torch.tensor([7, 40]), "mask": coin(40, 90, seed=1)}),
        ("whole", Shape(1, 2, 2, 40, 90, 4, 4), {"key_lengths": LENGTHS[1:]}),
        ("whole", MHA, {"key_lengths": LENGTHS, "mask": coin(40, 90, seed=1)}),
        ("whole", MHA, {"key_lengths": LENGTHS, "bias": normal(40, 90, seed=1)}),
        ("folded", Shape(2, 4, 2, 4, 90, 4, 4), {"key_lengths": LENGTHS, "mask": coin(4, 90, seed=1)}),
    ],
)
def test_which_way_is_taken(way, shape, options):
    check(way, shape, options)


@pytest.mark.parametrize("options", [{"window": 5, "causal": True}, {"key_lengths": LENGTHS}, {}], ids=str)
def test_off_the_cpu_no_way_but_the_kernel_for_the_whole(options):
    """The ways were measured on CPUs. Meta tensors have no numbers, so that lengths would not be read either."""
    assert ways.choose(validate(*inputs(GQA), **options)).way != "whole"
    away = validate(*(x.to("meta") for x in inputs(GQA)))._replace(**options)
    assert ways.choose(away).way == "whole"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"window": 5, "causal": True}, {(32, 20)}),  # 16 queries of two heads
        ({"key_lengths": torch.tensor([600, 31])}, {(600, 600)}),
        ({}, {(1200, 600)}),
    ],
    ids=str,
)
def test_compiled_bands_and_groups_are_the_eager_ones(options, sizes):
    """Their number is known from the sizes. A loop over lengths would be a graph break: their mask is built."""
    seen = set()

    def backend(graph, _):
        for node in graph.graph.nodes:
            if node.target is torch_kernel.scaled_dot_product_attention:
                q, k = (x.meta["example_value"].shape for x in node.args[:2])
                seen.add((q[2], k[2]))
        return graph.forward

    shape = Shape(2, 4, 2, 600, 600, 4, 4)
    qkv = inputs(shape)
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, v: mhalib.attention(q, k, v, **options), backend=backend, fullgraph=True)
    expected = reference(*qkv, upstream(shape, torch.float64), **options)
    assert_output(compiled(*qkv), expected, shape, torch.float64, f"compiled, {options}")
    assert sizes <= seen


# ----------------------------------------------------------------------------------------------------- bands


#: Lq beside multiples of 256, Lk that makes them worth it; queries before the first key, even a whole band of them.
BANDS = [
    (255, 530),
    (256, 530),
    (257, 530),
    (530, 530),
    (513, 600),
    (700, 530),
    (900, 530),
    (1, 20),
    (3, 31),
    (40, 600),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("lengths", BANDS, ids=str)
def test_bands(lengths, window, causal, calls):
    lq, lk = lengths
    check("banded", Shape(1, 2, 1, lq, lk, 4, 3), {"window": window, "causal": causal})
    assert all(k[2] <= 255 + (window if causal else 2 * window - 1) for _, k, _ in calls)
    # No row twice; those that see no key may be left out. Those of a group's two heads may be rows of one.
    rows = sum(q[0] * q[1] * q[2] for q, _, _ in calls)
    assert 2 * min(lq, lk) <= rows <= 2 * lq
    assert len(calls) <= 3 + max(0, lq - lk) // 256  # all whole bands in one, what is left at the two ends


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_bands_in_every_dtype(causal, heads, dtype):
    for lq, lk, window in ((300, 700, 30), (560, 600, 17), (560, 540, 7)):
        check("banded", Shape(2, *heads, lq, lk, 8, 8), {"window": window, "causal": causal}, dtype)


def test_number_of_keys_of_each_band(calls):
    """The window's 255 reach back and the band's own 32: 287 of 2048 keys, instead of all.

    The first 256 queries see all keys up to their own; the others are 56 bands, one call and one mask.
    """
    mhalib.attention(*inputs(Shape(1, 1, 1, 2048, 2048, 4, 4)), window=256, causal=True)
    assert len(calls) == 2
    (first, _, square), (query, key, banded) = calls
    assert first == (1, 1, 256, 4)
    assert (square["is_causal"], square["attn_mask"]) == (True, None)
    assert (query, key) == ((1, 56, 32, 4), (1, 56, 287, 4))
    assert banded["attn_mask"].shape == (32, 287)


def test_bands_of_a_group_are_rows_of_one_head(calls):
    """The more heads share their keys, the shorter is a band, and the fewer keys it reads in vain."""
    mhalib.attention(*inputs(Shape(3, 8, 4, 1024, 1024, 4, 4)), window=128, causal=True)
    assert [(q, k) for q, k, _ in calls[1:]] == [((4, 56, 2 * 16, 4), (4, 56, 143, 4))] * 3
    assert all(options["attn_mask"].shape == (32, 143) for _, _, options in calls[1:])


@pytest.mark.parametrize("causal", [False, True])
def test_training_takes_longer_bands_a_few_at_a_time(causal, calls, monkeypatch):
    """The gradients of keys that bands share are held for the bands of one call only."""
    monkeypatch.setattr(bands, "REPEATED", 4 * 4 * 100)
    shape = Shape(1, 2, 2, 700, 700, 4, 4)
    check("banded", shape, {"window": 10, "causal": causal})
    (span,) = {k[2] for q, k, _ in calls if q[0] == 2 and q[2] == 64}
    assert span == 64 + (9 if causal else 18)
    counts = [q[1] for q, k, _ in calls if k[2] == span]
    assert max(counts) * 2 * span * 4 <= 4 * 4 * 100 < (max(counts) + 1) * 2 * span * 4
    assert sum(counts) == (700 - 10) // 64


@pytest.mark.parametrize("window", [3, 40])
@pytest.mark.parametrize("lengths", [(600, 600), (300, 640)], ids=str)
def test_bands_let_through_no_key_outside_the_window(lengths, window):
    """Keys after a query, and those that have left its window, change no bit of its row."""
    (lq, lk), offset = lengths, lengths[1] - lengths[0]
    q, k, v = inputs(Shape(1, 2, 1, lq, lk, 4, 4))
    assert mhalib.explain_backend(q, k, v, window=window, causal=True).reason == REASONS["banded"]
    before = mhalib.attention(q, k, v, window=window, causal=True)
    for t in (1, 255, 256, 257, 400, 511, 512, 513, lk - 1):
        later_k, later_v, past_k, past_v = k.clone(), v.clone(), k.clone(), v.clone()
        later_k[:, :, t:], later_v[:, :, t:] = 5 * k[:, :, t:] + 1, v[:, :, t:] - 3
        past_k[:, :, :t], past_v[:, :, :t] = 5 * k[:, :, :t] + 1, v[:, :, :t] - 3
        places = torch.arange(lq) + offset
        for other, untouched in (((later_k, later_v), places < t), ((past_k, past_v), places - window >= t - 1)):
            changed = (mhalib.attention(q, *other, window=window, causal=True) != before).any(-1).any(1)[0]
            assert torch.equal(changed, ~untouched), t


# ------------------------------------------------------------------------------------------- groups as rows


FEW = {
    "plain": lambda s: {},
    "causal": lambda s: {"causal": True},
    "mask": lambda s: {"mask": coin(s.lq, s.lk, seed=1)},
    "mask of heads": lambda s: {"mask": coin(*s.scores, seed=2)},
    "mask of keys": lambda s: {"mask": coin(s.batch, 1, 1, s.lk, seed=3)},
    "bias": lambda s: {"bias": normal(s.lq, s.lk, seed=4)},
    "bias of heads": lambda s: {"bias": normal(1, s.heads, s.lq, s.lk, seed=5)},
    "bias of heads alone": lambda s: {"bias": normal(1, s.heads, 1, 1, seed=5)},
    "bias with holes": lambda s: {"bias": normal(*s.scores, seed=6).masked_fill(~coin(*s.scores, seed=7), -math.inf)},
    "causal and mask": lambda s: {"causal": True, "mask": coin(1, s.heads, s.lq, s.lk, seed=8)},
    "causal and bias": lambda s: {"causal": True, "bias": normal(s.batch, s.heads, 1, s.lk, seed=9)},
    "mask and bias": lambda s: {"mask": coin(s.lq, s.lk, seed=1), "bias": normal(1, s.heads, s.lq, s.lk, seed=5)},
    "window": lambda s: {"window": s.lk // 2 + 1},
    "causal window": lambda s: {"window": s.lk // 2 + 1, "causal": True},
    "lengths and bias": lambda s: {
        "key_lengths": torch.tensor([s.lk, 0])[: s.batch],
        "bias": normal(1, 1, 1, s.lk, seed=4),
    },
    "lengths and mask": lambda s: {"key_lengths": torch.tensor([3, s.lk])[: s.batch], "mask": coin(s.lq, s.lk, seed=1)},
}


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("lq", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("heads", [(8, 2), (6, 1), (6, 3)], ids=str)
def test_decoding_with_grouped_heads(heads, lq, name, calls):
    """Query heads of a group, and their rows of the mask or bias, stay together; in one band too."""
    shape = Shape(2, *heads, lq, 33, 8, 5)
    options = FEW[name](shape)
    check("banded" if "window" in options else "folded", shape, options)
    keys = min(33, options["window"] - 1 + lq) if "window" in options else 33
    for query, key, options in calls:
        assert query == (2, heads[1], heads[0] // heads[1] * lq, 8)
        assert key == (2, heads[1], keys, 8)
        assert options["enable_gqa"] is False
    if name == "plain" or (name == "causal" and lq == 1):
        assert [options["attn_mask"] for _, _, options in calls] == [None]


@pytest.mark.parametrize("name", ["plain", "causal", "mask of heads", "bias of heads", "bias with holes"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_grouped_heads_in_every_dtype(dtype, name):
    for lq, lk in ((1, 65), (4, 17), (7, 3)):
        shape = Shape(2, 8, 2, lq, lk, 16, 16)
        options = FEW[name](shape)
        if "bias" in options:
            options["bias"] = options["bias"].to(dtype)
        check("folded", shape, options, dtype)
    check("folded", Shape(2, 8, 2, 65, 33, 16, 16), {}, dtype)


# ----------------------------------------------------------------------------------------- sequence by sequence


#: (lengths, Lq, Lk): a length of 0, all of them, one that is whole; Lq at, below and above Lk.
PADDED = [
    ([17, 9, 0, 1], 17, 17),
    ([0, 0], 5, 7),
    ([7, 6], 7, 7),
    ([33, 12, 20], 1, 33),
    ([33, 12, 20], 6, 33),
    ([9, 4, 0], 33, 9),
    ([64, 63, 3], 65, 64),
]


@pytest.mark.parametrize("heads", [(3, 3), (4, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lengths", "lq", "lk"), PADDED, ids=str)
def test_padded_batches(lengths, lq, lk, causal, heads, calls):
    shape = Shape(len(lengths), *heads, lq, lk, 8, 5)
    check("by length", shape, {"causal": causal, "key_lengths": torch.tensor(lengths)})
    assert [k[2] for _, k, _ in calls] == [n for n in lengths if n]
    if not causal:
        assert all(options["attn_mask"] is None for _, _, options in calls)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_padded_batches_in_every_dtype(dtype, causal):
    for lengths, lq, lk in PADDED:
        shape = Shape(len(lengths), 4, 2, lq, lk, 16, 8)
        check("by length", shape, {"causal": causal, "key_lengths": torch.tensor(lengths)}, dtype)


@pytest.mark.parametrize("heads", [(2, 2), (4, 2)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lq", [33, 20, 45])
def test_padded_windows(lq, causal, heads):
    """Queries stand where they stand with all keys; padding takes none of them nearer to the last real key."""
    shape = Shape(3, *heads, lq, 33, 8, 5)
    options = {"window": 4, "causal": causal, "key_lengths": torch.tensor([33, 12, 5])}
    check("by length", shape, options)
    check("by length", shape, options | {"query_lengths": torch.tensor([lq, 7, 0])})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(33, 7, 0), (12, 30, 1), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("lq", [33, 40])
def test_padded_queries_are_not_computed(lq, lengths, causal, calls):
    """Each sequence is a call of its own size, even where the longest is shorter than the room for it."""
    keys = torch.tensor([33, 0, 20])
    for heads in ((2, 2), (4, 2)):
        shape = Shape(3, *heads, lq, 33, 8, 5)
        for options in ({}, {"key_lengths": keys}):
            calls.clear()
            output = check("by length", shape, {"causal": causal, "query_lengths": torch.tensor(lengths), **options})
            if heads == (2, 2):  # groups of more than one head may have their queries as rows
                real = [n for n, k in zip(lengths, keys.tolist(), strict=True) if n and (k or not options)]
                assert [q[2] for q, _, _ in calls] == real
            padding = torch.arange(lq) >= torch.tensor(lengths)[:, None]
            assert not output.masked_select(padding[:, None, :, None]).any()


@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_not_read_and_gets_no_gradient(causal):
    """Whatever finite numbers stand there, not a bit changes; their gradient is 0."""
    shape, lengths = Shape(3, 4, 2, 12, 12, 8, 8), torch.tensor([12, 5, 0])
    qkv = leaves(*inputs(shape))
    before = mhalib.attention(*qkv, causal=causal, key_lengths=lengths)
    padding = (torch.arange(12) >= lengths[:, None])[:, None, :, None]
    q, k, v = (x.detach() for x in qkv)
    after = mhalib.attention(
        q, k.masked_fill(padding, 1e6), v.masked_fill(padding, -1e6), causal=causal, key_lengths=lengths
    )
    assert torch.equal(after, before)
    gradients = torch.autograd.grad(before, qkv, upstream(shape, torch.float64))
    for gradient in gradients[1:]:
        assert not gradient[padding.expand_as(gradient)].any()
        assert gradient[0].abs().min() > 0


# ---------------------------------------------------------------------------------- gradients of the log-sum-exp


LSE = {
    "whole": (Shape(2, 2, 2, 17, 33, 8, 5), {"causal": True}),
    "folded": (Shape(2, 4, 2, 3, 21, 8, 5), {}),
    "banded": (Shape(1, 4, 2, 260, 300, 4, 6), {"window": 5, "causal": True}),
    "by length": (Shape(2, 4, 2, 9, 21, 4, 4), {"key_lengths": torch.tensor([21, 6]), "causal": True}),
}


@pytest.mark.parametrize("alone", [False, True], ids=["beside the output's", "alone"])
@pytest.mark.parametrize("way", LSE)
def test_gradients_of_the_log_sum_exp(way, alone):
    """Torch's own derivative ignores it."""
    shape, options = LSE[way]
    assert mhalib.explain_backend(*inputs(shape), **options, return_lse=True) == ("sdpa", REASONS[way])
    arriving = upstream(shape, torch.float64), normal(*shape.scores[:3], seed=23)
    results = []
    for backend in ("auto", "reference"):
        qkv = leaves(*inputs(shape))
        parts = mhalib.attention(*qkv, **options, return_lse=True, backend=backend)
        gradients = torch.autograd.grad(parts[alone:], qkv, arriving[alone:], materialize_grads=True)
        results.append((*parts, *gradients))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------------- strides, dropout


WAYS = {
    "banded": (Shape(2, 4, 2, 260, 540, 4, 4), {"window": 5, "causal": True}),
    "folded": (Shape(2, 4, 2, 3, 21, 4, 4), {"causal": True}),
    "by length": (Shape(2, 4, 2, 9, 21, 4, 4), {"key_lengths": torch.tensor([21, 6]), "causal": True}),
}
LAYOUTS = {
    "length before heads": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "channels before length": lambda x: x.mT.contiguous().mT,
    "every second": lambda x: torch.stack([x, x + 1], dim=-1).flatten(-2)[..., ::2],
    "expanded heads": lambda x: x[:, :1].expand(x.shape),
    "expanded batch": lambda x: x[:1].expand(x.shape),
    "part of a buffer": lambda x: torch.cat([x + 1, x, x + 1], dim=2)[:, :, x.shape[2] : 2 * x.shape[2]],
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_inputs_in_any_layout(way, layout, dtype):
    shape, options = WAYS[way]
    qkv = [LAYOUTS[layout](x) for x in inputs(shape, dtype)]
    assert not any(x.is_contiguous() for x in qkv)
    output = check(way, shape, options, dtype, qkv)
    assert output.shape == (*shape.scores[:3], shape.dv)


@pytest.mark.parametrize("way", WAYS)
def test_inputs_are_not_changed(way):
    shape, options = WAYS[way]
    qkv = leaves(*inputs(shape))
    copies, versions = [x.detach().clone() for x in qkv], [x._version for x in qkv]
    mhalib.attention(*qkv, **options).backward(upstream(shape, torch.float64))
    assert all(torch.equal(x, copy) for x, copy in zip(qkv, copies, strict=True))
    assert [x._version for x in qkv] == versions


@pytest.mark.parametrize("way", WAYS)
def test_dropout(way):
    """With the identity as values the output is the weights that were used: dropped, or scaled by 1 / (1 − p)."""
    shape, options = WAYS[way]
    q, k, _ = inputs(shape)
    v = torch.eye(shape.lk, dtype=torch.float64).expand(shape.batch, shape.kv_heads, -1, -1)
    formula = f"torch's formula, which forms the weights{REASONS[way].removeprefix(KERNEL)}: {DROPS_NONE}"
    assert mhalib.explain_backend(q, k, v, **options, dropout=0.4) == ("sdpa", formula)
    _, weights = mhalib.attention(q, k, v, **options, return_weights=True)
    torch.manual_seed(0)
    used = mhalib.attention(q, k, v, **options, dropout=0.4)
    kept, possible = used != 0, weights > 0
    assert not (kept & ~possible).any()
    torch.testing.assert_close(used, torch.where(kept, weights / 0.6, 0.0), rtol=0, atol=1e-14)
    count = int(possible.sum())
    # So many coins: the share that is kept has a standard deviation of √(p(1 − p) / count); five of them.
    assert abs(kept.sum() / count - 0.6) < 5 * math.sqrt(0.24 / count)
    torch.manual_seed(0)
    assert torch.equal(mhalib.attention(q, k, v, **options, dropout=0.4), used)


@pytest.mark.parametrize("options", [{"window": 9, "causal": True}, {"window": 9}], ids=str)
def test_second_derivatives_go_through_the_paths(options):
    """Where torch's kernel has none for itself, it takes its own formula; the paths add nothing that would break it."""
    shape = Shape(1, 2, 1, 3, 60, 2, 2)
    qkv = leaves(*inputs(shape))
    assert mhalib.explain_backend(*qkv, **options).reason == REASONS["banded"]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradcheck(lambda *x: mhalib.attention(*x, **options), qkv)
