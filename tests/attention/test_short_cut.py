"""The short cut of `attention` for plain requests: the bits of the long way, and taken for nothing that it refuses."""

import contextlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import DTYPES, PROPERTY, Shape, inputs

import mhalib
from mhalib import functional
from mhalib.backends.request import fit_each_other, validate

SIZES = st.integers(0, 3)
PLAIN = Shape(2, 3, 3, 17, 33, 8, 8)


def long_way(*qkv, **options):
    return functional.BACKENDS["sdpa"].run(validate(*qkv, **options)).output


@pytest.fixture
def taken(monkeypatch):
    """How often the short cut reached torch's kernel."""
    calls, kernel = [], functional.scaled_dot_product_attention
    monkeypatch.setattr(
        functional, "scaled_dot_product_attention", lambda *qkv, **options: calls.append(1) or kernel(*qkv, **options)
    )
    return calls


ANY_LENGTHS = PLAIN, Shape(1, 1, 1, 1, 1, 1, 1), Shape(2, 2, 2, 65, 64, 40, 40)
SQUARE_OR_ONE = Shape(2, 3, 3, 17, 17, 8, 8), Shape(1, 1, 1, 1, 1, 1, 1), Shape(2, 2, 2, 1, 64, 40, 40)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_the_same_bits_as_the_long_way(causal, dtype, taken):
    for shape in SQUARE_OR_ONE if causal else ANY_LENGTHS:
        leaves = [x.requires_grad_() for x in inputs(shape, dtype)]
        short, long = mhalib.attention(*leaves, causal=causal), long_way(*leaves, causal=causal)
        assert torch.equal(short, long)
        grads = (torch.autograd.grad(output.sum(), leaves) for output in (short, long))
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    assert len(taken) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"causal": True},
        {"causal": 0},
        {"return_weights": True},
        {"return_lse": True},
        {"backend": "sdpa"},
        {"scale": 0.3},
        {"softcap": 1.0},
        {"window": 3},
        {"dropout": 0.5},
        {"dropout": 0},
        {"dropout": False},
        {"dropout": torch.tensor(0.0)},
        {"dropout": float("nan")},
        {"key_lengths": torch.tensor([1, 2])},
        {"query_lengths": torch.tensor([1, 2])},
        {"mask": torch.ones(17, 33, dtype=torch.bool)},
        {"mask": False},
        {"bias": torch.zeros(17, 33)},
        {"bias": 0},
    ],
    ids=str,
)
def test_any_option_goes_the_long_way(options, taken):
    try:
        mhalib.attention(*inputs(PLAIN), **options)
    except (TypeError, ValueError):
        with pytest.raises((TypeError, ValueError)):
            validate(*inputs(PLAIN), **{name: x for name, x in options.items() if name != "backend"})
    assert not taken


def test_forward_mode_goes_the_long_way(taken):
    q, k, v = inputs(PLAIN)
    with contextlib.suppress(NotImplementedError):  # torch's kernel has no such derivative
        torch.func.jvp(lambda x: mhalib.attention(x, k, v), (q,), (q,))
    assert not taken


@PROPERTY
@given(st.lists(st.lists(SIZES, min_size=3, max_size=5), min_size=3, max_size=3))
def test_what_is_refused_never_fits(shapes):
    qkv = [torch.ones(shape) for shape in shapes]
    if fit_each_other(*qkv):
        assert torch.equal(mhalib.attention(*qkv), long_way(*qkv))
        assert qkv[0].shape[1] == qkv[1].shape[1]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("axis", range(4))
def test_one_size_that_differs(which, axis):
    """Only the number of queries is free: values of another size are padded on the long way."""
    shapes = [[2, 3, 4, 5] for _ in range(3)]
    shapes[which][axis] = 1
    assert fit_each_other(*map(torch.ones, shapes)) == ((which, axis) == (0, 2))


@PROPERTY
@given(st.lists(st.sampled_from([*DTYPES, torch.int64, torch.bool, torch.complex64]), min_size=3, max_size=3))
def test_other_or_mixed_dtypes_never_fit(dtypes):
    assert fit_each_other(*(torch.ones(1, 1, 2, 2, dtype=dtype) for dtype in dtypes)) == (
        len(set(dtypes)) == 1 and dtypes[0] in DTYPES
    )


def test_other_kinds_and_devices_never_fit():
    x = torch.ones(1, 1, 2, 2)
    assert fit_each_other(x, x, x)
    for other in (x.numpy(), [[1.0]], None, x.to("meta"), np.float32(1)):
        assert not fit_each_other(other, x, x)
        assert not fit_each_other(x, other, x)
        assert not fit_each_other(x, x, other)
