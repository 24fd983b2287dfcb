"""What matters is the numbers, not how they lie in memory; nothing in, nothing out; nothing changed in place."""

import itertools

import pytest
import torch
from oracle import (
    BACKEND_NAMES,
    DTYPES,
    SMALL,
    Shape,
    assert_gradients,
    assert_output,
    coin,
    gradients_of,
    inputs,
    normal,
    refusal,
    truth,
)

import mhalib


def in_memory_as(x, order):
    """The same tensor, its dimensions lying in memory in another order."""
    return x.permute(order).contiguous().permute([order.index(n) for n in range(x.dim())])


def padded(x, before, step):
    """The same tensor as a slice of a larger one: `before` extra entries in front, every `step`-th entry taken."""
    size = [before + step * n for n in x.shape]
    room = torch.full(size, True if x.dtype == torch.bool else 7, dtype=x.dtype)
    view = room[tuple(slice(before, before + step * n, step) for n in x.shape)]
    return view.copy_(x)


#: Layouts that keep the numbers, and expansions, which make some of them the same.
LAYOUTS = {
    "length before heads": lambda x: in_memory_as(x, (0, 2, 1, 3)),
    "channels before length": lambda x: in_memory_as(x, (0, 1, 3, 2)),
    "batch last": lambda x: in_memory_as(x, (1, 2, 3, 0)),
    "offset": lambda x: padded(x, 1, 1),
    "every second": lambda x: padded(x, 0, 2),
    "sliced": lambda x: padded(x, 3, 2),
    "expanded batch": lambda x: x[:1].expand(x.shape),
    "expanded heads": lambda x: x[:, :1].expand(x.shape),
    "expanded length": lambda x: x[:, :, :1].expand(x.shape),
    "expanded channels": lambda x: x[..., :1].expand(x.shape),
    "one number": lambda x: x[:1, :1, :1, :1].expand(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_inputs_in_any_layout(backend, dtype, layout):
    grad = normal(*SMALL.scores[:3], SMALL.dv, seed=9, dtype=dtype)
    for options in ({}, {"causal": True}, {"key_lengths": torch.tensor([7, 3])}):
        qkv = [LAYOUTS[layout](x) for x in inputs(SMALL, dtype)]
        assert not any(x.is_contiguous() for x in qkv)
        expected = truth(*qkv, **options, grad_output=grad)
        leaf = [x.detach().requires_grad_() for x in qkv]
        assert [x.stride() for x in leaf] == [x.stride() for x in qkv]
        output = mhalib.attention(*leaf, **options, backend=backend)
        assert_output(output, expected, SMALL, dtype, layout)
        gradients = gradients_of(output, grad, query=leaf[0], key=leaf[1], value=leaf[2])
        assert_gradients(gradients, expected, SMALL, dtype, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_mask_and_bias_in_any_layout(backend, layout):
    mask = LAYOUTS[layout](coin(*SMALL.scores, seed=1))
    bias = LAYOUTS[layout](normal(*SMALL.scores, seed=2))
    grad = normal(*SMALL.scores[:3], SMALL.dv, seed=9)
    for options in ({"mask": mask}, {"bias": bias}, {"mask": mask, "bias": bias, "causal": True}):
        q, k, v = inputs(SMALL)
        expected = truth(q, k, v, **options, grad_output=grad)
        leaf = q.requires_grad_(), k.requires_grad_(), v.requires_grad_()
        sources = dict(zip(("query", "key", "value"), leaf, strict=True))
        if "bias" in options:
            options = options | {"bias": bias.detach().requires_grad_()}
            sources["bias"] = options["bias"]
        output = mhalib.attention(*leaf, **options, backend=backend)
        assert_output(output, expected, SMALL, torch.float64, layout)
        assert_gradients(gradients_of(output, grad, **sources), expected, SMALL, torch.float64, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_the_gradient_that_arrives_in_any_layout(backend, dtype, layout):
    """`output.sum().backward()` sends one number, expanded."""
    grad = LAYOUTS[layout](normal(*SMALL.scores[:3], SMALL.dv, seed=9, dtype=dtype))
    for options in ({}, {"causal": True}, {"mask": coin(*SMALL.scores, seed=1)}):
        leaf = [x.requires_grad_() for x in inputs(SMALL, dtype)]
        expected = truth(*leaf, **options, grad_output=grad)
        output = mhalib.attention(*leaf, **options, backend=backend)
        gradients = gradients_of(output, grad, query=leaf[0], key=leaf[1], value=leaf[2])
        assert_gradients(gradients, expected, SMALL, dtype, layout)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_inputs_are_never_changed(backend):
    given = {
        **dict(zip(("query", "key", "value"), inputs(SMALL), strict=True)),
        "mask": coin(*SMALL.scores, seed=1),
        "bias": normal(*SMALL.scores, seed=2),
        "key_lengths": torch.tensor([7, 3]),
    }
    for name in ("query", "key", "value", "bias"):
        given[name].requires_grad_()
    copies = {name: x.detach().clone() for name, x in given.items()}
    versions = {name: x._version for name, x in given.items()}
    grad = normal(*SMALL.scores[:3], SMALL.dv, seed=9)
    grad_copy = grad.clone()
    output = mhalib.attention(**given, causal=True, window=4, dropout=0.3, backend=backend)
    kept = output.detach().clone()
    output.backward(grad)
    for name, x in given.items():
        assert torch.equal(x, copies[name]), name
        assert x._version == versions[name], name
    assert torch.equal(grad, grad_copy)
    assert torch.equal(output, kept)


def test_the_output_shares_no_memory_with_the_inputs():
    """One key: the output is that value, but writing to it must not write to the value."""
    for backend in BACKEND_NAMES:
        q, k, v = inputs(Shape(1, 1, 1, 1, 1, 4, 4))
        copy = v.clone()
        mhalib.attention(q, k, v, backend=backend).zero_()
        assert torch.equal(v, copy)


# -------------------------------------------------------------------------------------------------------- empty


EMPTY = {
    "batch 0": Shape(0, 4, 2, 3, 5, 8, 6),
    "Lq 0": Shape(2, 4, 2, 0, 5, 8, 6),
    "Lk 0": Shape(2, 4, 2, 3, 0, 8, 6),
    "Lq 0 and Lk 0": Shape(2, 4, 2, 0, 0, 8, 6),
    "Dv 0": Shape(2, 4, 2, 3, 5, 8, 0),
    "all 0": Shape(0, 4, 2, 0, 0, 8, 0),
}


def empty_options(shape, dtype):
    batch, heads, lq, lk = shape.scores
    lengths = torch.full((batch,), lk // 2)
    every = {
        "mask": torch.ones(lq, lk, dtype=torch.bool),
        "bias": normal(batch, heads, lq, lk, seed=1, dtype=dtype),
        "causal": True,
        "window": 2,
        "key_lengths": lengths,
    }
    return [{}, *({name: value} for name, value in every.items()), every]


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", [*BACKEND_NAMES, "auto"])
def test_empty_inputs(backend, dtype, name):
    """Shapes as always; where there is no key every row is dead; where there is no channel nothing else changes."""
    shape = EMPTY[name]
    extras = {"return_weights": True, "return_lse": True}
    for options, extra in itertools.product(empty_options(shape, dtype), ({}, extras)):
        leaf = [x.requires_grad_() for x in inputs(shape, dtype)]
        if extra and backend == "tiled":  # it has no weights, see test_parity; without them it must serve
            extra = {"return_lse": True}
        reason = refusal(backend, *leaf, **options, **extra)
        if reason:
            assert backend == "sdpa"  # a backend that is not named here must serve them
            assert ("never form the weights" if extra else "not defined on empty inputs") in reason
            continue
        result = mhalib.attention(*leaf, **options, **extra, backend=backend)
        output, *rest = result if extra else (result,)
        parts = dict(zip(extra, rest, strict=True))
        expected = truth(*leaf, **options)
        assert output.dtype == dtype
        assert output.shape == (shape.batch, shape.heads, shape.lq, shape.dv)
        if shape.lk == 0:
            assert not output.any()
        budget = 100 * torch.finfo(dtype).eps  # sums of at most 8 terms of size about 1
        if "return_lse" in parts:
            lse, dead = parts["return_lse"], expected.lse == -float("inf")
            assert torch.equal(lse == -float("inf"), dead)
            assert torch.allclose(lse[~dead].double(), expected.lse[~dead], rtol=0, atol=budget)
        if "return_weights" in parts:
            assert parts["return_weights"].shape == shape.scores
            assert torch.allclose(parts["return_weights"].double(), expected.weights, rtol=0, atol=budget)
        gradients = torch.autograd.grad(output.sum(), leaf)
        for x, gradient in zip(leaf, gradients, strict=True):
            assert gradient.shape == x.shape
            assert not gradient.any()  # no output, no key, or no channel that could carry a gradient


@pytest.mark.parametrize("sizes", [(0, 5), (2, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("need_weights", [False, True])
def test_empty_inputs_in_the_layer(sizes, need_weights):
    layer = mhalib.MultiHeadAttention(12, 3, rotary=mhalib.RotaryEmbedding(4))
    x = torch.zeros(*sizes, 12, requires_grad=True)
    output, weights = layer(x, causal=True, need_weights=need_weights)
    assert output.shape == (*sizes, 12)
    assert weights is None or weights.shape == (sizes[0], 3, sizes[1], sizes[1])
    output.sum().backward()
    assert not any(parameter.grad.any() for name, parameter in layer.named_parameters() if "weight" in name)


def test_queries_without_any_key_in_the_layer():
    layer = mhalib.MultiHeadAttention(12, 3)
    output, weights = layer(torch.randn(2, 4, 12), torch.randn(2, 0, 12), need_weights=True)
    assert torch.equal(output, layer.out_proj.bias.expand(2, 4, 12))
    assert weights.shape == (2, 3, 4, 0)
