"""Every backend gives the numbers of the contract, forward and backward, in every dtype, with every option."""

import importlib.util
import re

import pytest
import torch
from oracle import (
    BACKEND_NAMES,
    DTYPES,
    NOT_ON_CPU,
    OPTIONS,
    SCORE_SHAPES,
    SHAPES,
    SMALL,
    Budget,
    Shape,
    accumulator,
    assert_gradients,
    assert_output,
    assert_within,
    coin,
    gradients_of,
    inputs,
    known,
    leaves,
    normal,
    option,
    refusal,
    score_shape,
    truth,
    upstream,
)
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from mhalib.backends.request import validate
from mhalib.functional import BACKENDS

EXTRAS = ("return_weights", "return_lse")

#: What each backend refuses, and a word of its reason. A refusal that is not written here fails.
REFUSALS = {
    "reference": {},
    "tiled": {"return_weights": "never held together"},
    "sdpa": {
        "softcap": "cap the scores",
        "softcap+bias+causal": "cap the scores",
        "everything": "cap the scores",
        "bias_fine in float16": "round the torch.float32 bias to torch.float16",
        "bias_fine in bfloat16": "round the torch.float32 bias to torch.bfloat16",
        "return_weights": "never form the weights",
    },
}


def written_refusal(backend, name, dtype=torch.float64):
    """The words of `REFUSALS` for this request, or None where the backend must serve it."""
    known_here = REFUSALS.get(backend, {})
    return known_here.get(name) or known_here.get(f"{name} in {str(dtype).removeprefix('torch.')}")


def assert_refused(backend, words, qkv, **options):
    """Asked for by name it says no, why, and what to do; left to choose, `auto` takes another."""
    with pytest.raises(ValueError, match=rf"backend: '{backend}' cannot serve .*{words}.*'reference' or 'auto'"):
        mhalib.attention(*qkv, backend=backend, **options)
    choice = mhalib.explain_backend(*qkv, **options)
    assert choice.backend != backend
    assert (words if backend == "sdpa" else "the other backends never form the weights") in choice.reason


def named(dtype):
    return str(dtype).removeprefix("torch.")


# -------------------------------------------------------------------------------- against the formula's loops


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reference_in_float64_equals_the_loops_to_1e12(shape, name):
    qkv, options = inputs(shape), option(name, shape, torch.float64)
    grads = [upstream(shape, torch.float64), normal(*shape.scores, seed=22), normal(*shape.scores[:3], seed=23)]
    expected = truth(*qkv, **options, **dict(zip(("grad_output", "grad_weights", "grad_lse"), grads, strict=True)))
    *qkv, bias = leaves(*qkv, options.pop("bias", None))

    output, weights, lse = mhalib.attention(
        *qkv, bias=bias, **options, backend="reference", return_weights=True, return_lse=True
    )
    for what, actual in (("output", output), ("weights", weights), ("lse", lse)):
        assert actual.dtype == torch.float64
        assert_within(actual, getattr(expected, what), 1e-12, what)

    alive = expected.lse > -float("inf")  # an upstream gradient of a −inf must not matter; see test_dead_rows
    total = (output * grads[0]).sum() + (weights * grads[1]).sum() + (lse * grads[2])[alive].sum()
    sources = {"query": qkv[0], "key": qkv[1], "value": qkv[2], "bias": bias}
    for what, gradient in gradients_of(total, torch.ones_like(total), **sources).items():
        assert_within(gradient, expected.gradients[what], 1e-12 * max(1.0, expected.sizes[what].max()), what)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=named)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_output_and_gradients(backend, dtype, name):
    for shape in SHAPES:
        what = f"{backend}, {name}, {dtype}, {shape}"
        qkv, options = inputs(shape, dtype), option(name, shape, dtype)
        words = written_refusal(backend, name, dtype)
        if words:
            assert_refused(backend, words, qkv, **options)
            continue
        expected = known(shape, dtype, name)
        *qkv, bias = leaves(*qkv, options.pop("bias", None))
        output = mhalib.attention(*qkv, bias=bias, **options, backend=backend)
        assert_output(output, expected, shape, dtype, what)
        sources = {"query": qkv[0], "key": qkv[1], "value": qkv[2], "bias": bias}
        gradients = gradients_of(output, upstream(shape, dtype), **sources)
        for source, gradient in gradients.items():
            assert gradient.dtype == sources[source].dtype
        assert_gradients(gradients, expected, shape, dtype, what)


@pytest.mark.parametrize("name", ["plain", "mask_full", "bias_holes", "softcap+bias+causal", "everything"])
@pytest.mark.parametrize("dtype", DTYPES, ids=named)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_weights_and_log_sum_exp(backend, dtype, name):
    for shape in SHAPES:
        qkv, options = inputs(shape, dtype), option(name, shape, dtype)
        refused = written_refusal(backend, name, dtype)
        refused = [extra for extra in EXTRAS if refused or written_refusal(backend, extra)]
        for extra in refused:
            words = written_refusal(backend, extra) or written_refusal(backend, name, dtype)
            assert_refused(backend, words, qkv, **options, **{extra: True})
        served = [extra for extra in EXTRAS if extra not in refused]
        if not served:
            continue
        expected = known(shape, dtype, name)
        budget = Budget.of(shape, dtype, expected.reach)
        output, *rest = mhalib.attention(*qkv, **options, backend=backend, **dict.fromkeys(served, True))
        parts = dict(zip(served, rest, strict=True))
        assert_output(output, expected, shape, dtype, "output")
        if "return_weights" in parts:
            assert parts["return_weights"].dtype == dtype
            assert_within(parts["return_weights"], expected.weights, budget.forward, "weights")
        if "return_lse" in parts:
            assert parts["return_lse"].dtype == accumulator(dtype)
            assert_within(parts["return_lse"], expected.lse, budget.lse, "lse")


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_what_is_returned_is_what_was_asked_for_in_this_order(backend):
    qkv = inputs(SMALL)
    sizes = {"output": (2, 6, 5, 6), "return_weights": (2, 6, 5, 7), "return_lse": (2, 6, 5)}
    assert mhalib.attention(*qkv, backend=backend).shape == sizes["output"]
    for asked in (("return_weights",), ("return_lse",), EXTRAS):
        if any(written_refusal(backend, extra) for extra in asked):
            continue
        parts = mhalib.attention(*qkv, backend=backend, **dict.fromkeys(asked, True))
        assert [tuple(part.shape) for part in parts] == [sizes["output"], *(sizes[extra] for extra in asked)]


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_a_refusal_is_one_that_is_written_down(backend):
    """For a new backend, each option that it does not serve, in any dtype, needs a line in `REFUSALS`."""
    found = {}
    for dtype in DTYPES:
        for name in OPTIONS:
            request = validate(*inputs(SMALL, dtype), **option(name, SMALL, dtype))
            reason = BACKENDS[backend].refusal(request)
            words = written_refusal(backend, name, dtype)
            if reason if words is None else words not in (reason or ""):
                found[f"{name} in {named(dtype)}"] = reason
        for extra in EXTRAS:
            reason = BACKENDS[backend].refusal(validate(*inputs(SMALL, dtype), **{extra: True}))
            words = written_refusal(backend, extra, dtype)
            if reason if words is None else words not in (reason or ""):
                found[f"{extra} in {named(dtype)}"] = reason
    assert not found, f"{backend} refuses, and REFUSALS does not say so (or the other way round): {found}"
    for plain in ("plain", "scale", "causal", "mask", "key_lengths"):
        assert not written_refusal(backend, plain), f"{plain} is what every backend is for"


@pytest.mark.parametrize("dtype", DTYPES, ids=named)
def test_what_is_not_tested_here_refuses_the_cpu(dtype, monkeypatch):
    """Triton's kernels are left out of these tests because they say no to tensors on the CPU, and what to do."""
    assert {*BACKEND_NAMES, *NOT_ON_CPU} == set(BACKENDS)
    assert NOT_ON_CPU == ("triton",)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    served = {"plain", "scale", "steep", "softcap", "causal", "window", "window_past", "both_lengths"}
    for name in OPTIONS:
        options = option(name, SMALL, dtype)
        reason = refusal("triton", *inputs(SMALL, dtype), **options)
        assert reason.startswith("backend: 'triton' cannot serve this request: ")
        assert reason.endswith("; take 'reference' or 'auto'")
        if "mask" in options or "bias" in options:
            assert re.search("read no (mask|bias) from memory", reason)
        elif dtype == torch.float64:
            assert "would lose half of the digits of torch.float64" in reason
        else:
            assert name in served or "_lengths" in name
            if importlib.util.find_spec("triton") is None:
                assert "triton is not installed" in reason
            else:
                assert "the tensors are on cpu, and its kernels need an NVIDIA GPU" in reason
                assert "set TRITON_INTERPRET=1 before Python starts" in reason


# ------------------------------------------------------------------------------- every shape of mask and bias


@pytest.mark.parametrize("name", SCORE_SHAPES)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_mask_in_each_accepted_shape(backend, name):
    mask = coin(*score_shape(name, SMALL), seed=31)
    qkv = inputs(SMALL)
    expected = truth(*qkv, mask=mask, grad_output=upstream(SMALL, torch.float64))
    leaf = leaves(*qkv)
    output = mhalib.attention(*leaf, mask=mask, backend=backend)
    assert_output(output, expected, SMALL, torch.float64, name)
    gradients = gradients_of(output, upstream(SMALL, torch.float64), query=leaf[0], key=leaf[1], value=leaf[2])
    assert_gradients(gradients, expected, SMALL, torch.float64, name)


@pytest.mark.parametrize("hidden", [False, True], ids=["alone", "with mask"])
@pytest.mark.parametrize("name", SCORE_SHAPES)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_bias_in_each_accepted_shape(backend, name, hidden):
    mask = coin(*SMALL.scores, seed=32) if hidden else None
    qkv, bias = inputs(SMALL), normal(*score_shape(name, SMALL), seed=33)
    expected = truth(*qkv, bias=bias, mask=mask, grad_output=upstream(SMALL, torch.float64))
    *leaf, bias = leaves(*qkv, bias)
    output = mhalib.attention(*leaf, bias=bias, mask=mask, backend=backend)
    assert_output(output, expected, SMALL, torch.float64, name)
    sources = {"query": leaf[0], "key": leaf[1], "value": leaf[2], "bias": bias}
    gradients = gradients_of(output, upstream(SMALL, torch.float64), **sources)
    assert_gradients(gradients, expected, SMALL, torch.float64, name)


@pytest.mark.parametrize("heads", [(2, 1), (4, 2), (6, 2), (6, 3), (8, 4), (6, 1), (6, 6)], ids=str)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_grouped_heads(backend, heads):
    """O15: with one key head, or as many as query heads, repeating and tiling agree; between they do not."""
    shape = Shape(2, *heads, 5, 7, 8, 6)
    qkv, leaf = inputs(shape), leaves(*inputs(shape))
    expected = truth(*qkv, grad_output=upstream(shape, torch.float64))
    output = mhalib.attention(*leaf, backend=backend)
    assert_output(output, expected, shape, torch.float64, str(shape))
    gradients = gradients_of(output, upstream(shape, torch.float64), query=leaf[0], key=leaf[1], value=leaf[2])
    assert_gradients(gradients, expected, shape, torch.float64, str(shape))


# ------------------------------------------------------------------------------------- against torch, where right


@pytest.mark.parametrize("dtype", DTYPES, ids=named)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_torch_sdpa_where_it_is_right(backend, dtype):
    """Equal lengths for its causal flag, no row without a key for its masks, the flag for its groups."""
    square = Shape(2, 6, 2, 17, 17, 40, 40)
    q, k, v = inputs(square, dtype)
    alive = coin(17, 17, seed=41) | torch.eye(17, dtype=torch.bool)
    for options, theirs in (
        ({"causal": True}, {"is_causal": True}),
        ({"mask": alive}, {"attn_mask": alive}),
        ({"scale": 0.2}, {"scale": 0.2}),
        ({"bias": normal(17, 17, seed=42, dtype=dtype)}, {"attn_mask": normal(17, 17, seed=42, dtype=dtype)}),
    ):
        expected = truth(q, k, v, **options)
        ours = mhalib.attention(q, k, v, **options, backend=backend)
        torchs = scaled_dot_product_attention(q, k, v, **theirs, enable_gqa=True)
        # Both are within the budget of the truth, so within twice the budget of each other.
        allowance = 2 * Budget.of(square, dtype, expected.reach).forward * expected.sizes["output"]
        assert_within(ours, torchs.double(), allowance, str(list(options)))


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("direction", ["from_torch", "to_torch"])
def test_torch_multihead_attention(direction, heads, bias, training, padded):
    """O08, O12: both directions, with torch's fast path in evaluation; its weights are a mean unless asked."""
    torch.manual_seed(heads)
    if direction == "from_torch":
        theirs = nn.MultiheadAttention(12, heads, bias=bias, batch_first=True, dtype=torch.float64)
        if bias:  # torch starts them at 0, where a lost bias would not show
            nn.init.normal_(theirs.in_proj_bias)
            nn.init.normal_(theirs.out_proj.bias)
        ours = mhalib.MultiHeadAttention.from_torch(theirs)
    else:
        ours = mhalib.MultiHeadAttention(12, heads, bias=bias, dtype=torch.float64)
        if bias:
            for projection in (ours.q_proj, ours.k_proj, ours.v_proj, ours.out_proj):
                nn.init.normal_(projection.bias)
        theirs = ours.to_torch()
    theirs.train(training)
    ours.train(training)
    x = normal(3, 5, 12, seed=1)
    lengths = torch.tensor([5, 2, 4]) if padded else None
    drop = None if lengths is None else torch.arange(5) >= lengths[:, None]
    # Sums of 12 and 5 terms of size about 1 in float64, twice through projections: far below 1e-12.
    with torch.no_grad():
        for need_weights in (False, True):
            got, weights = ours(x, key_lengths=lengths, need_weights=need_weights)
            want, per_head = theirs(
                x, x, x, key_padding_mask=drop, need_weights=need_weights, average_attn_weights=False
            )
            assert_within(got, want, 1e-12, "output")
            if need_weights:
                assert_within(weights, per_head, 1e-12, "weights of each head")
                _, mean = theirs(x, x, x, key_padding_mask=drop)
                assert_within(weights.mean(1), mean, 1e-12, "torch's default, the mean over heads")
            else:
                assert weights is None


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_torch_multihead_attention_across_sequences_with_each_mask_shape(training):
    """O04, O11: (L, S), (B·H, L, S) and padding, in training and evaluation, through the converters."""
    torch.manual_seed(0)
    ours = mhalib.MultiHeadAttention(12, 3, dtype=torch.float64).train(training)
    theirs = ours.to_torch()
    x, y = normal(2, 4, 12, seed=1), normal(2, 6, 12, seed=2)
    first = torch.zeros(6, dtype=torch.bool).index_fill(0, torch.tensor(0), True)  # key 0 is seen: no dead row
    mask2, mask4 = coin(4, 6, seed=3) | first, coin(2, 3, 4, 6, seed=4) | first
    real = mhalib.masks.padding(torch.tensor([6, 3]), 6)
    with torch.no_grad():
        for mask, theirs_masks in (
            (mask2, {"attn_mask": mhalib.masks.to_torch_mha(mask2)}),
            (mask4, {"attn_mask": mhalib.masks.to_torch_mha(mask4, batch_size=2, num_heads=3)}),
            (real, {"key_padding_mask": ~real[:, 0, 0]}),
            (mask2 & real, {"attn_mask": ~mask2, "key_padding_mask": ~real[:, 0, 0]}),
        ):
            assert torch.equal(mhalib.masks.from_torch_mha(**theirs_masks, num_heads=3), mask)
            want, _ = theirs(x, y, y, **theirs_masks, need_weights=False)
            assert_within(ours(x, y, mask=mask)[0], want, 1e-12, str(list(theirs_masks)))


def test_gradients_of_a_torch_multihead_attention():
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    ours = mhalib.MultiHeadAttention.from_torch(theirs)
    x, grad = normal(2, 5, 12, seed=1), normal(2, 5, 12, seed=2)
    mine, its = leaves(x, x)
    causal = mhalib.masks.causal(5)
    ours(mine, causal=True)[0].backward(grad)
    theirs(its, its, its, attn_mask=~causal)[0].backward(grad)
    assert_within(mine.grad, its.grad, 1e-12, "input")
    parts = theirs.in_proj_weight.grad.chunk(3)
    for projection, part in zip((ours.q_proj, ours.k_proj, ours.v_proj), parts, strict=True):
        assert_within(projection.weight.grad, part, 1e-12, "projection")
    assert_within(ours.out_proj.weight.grad, theirs.out_proj.weight.grad, 1e-12, "out_proj")
