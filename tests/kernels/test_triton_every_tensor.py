"""Every tensor that reaches a kernel, lying in memory in every way: strided, expanded, offset; forward and backward."""

from unittest import mock

import pytest
import torch
from interpreted import in_interpreter
from oracle import Shape, inputs, normal

import mhalib
from mhalib.backends.triton import configs

SHAPES = {"many queries": Shape(3, 2, 1, 20, 40, 16, 8), "few queries": Shape(3, 2, 1, 3, 40, 16, 8)}
TENSORS = ("query", "key", "value", "key_lengths", "query_lengths", "grad_output", "grad_lse")


def short_sequences_are_many_queries():
    """Twenty queries of two heads would be few, and the kernel for many would not be tried."""
    return mock.patch.object(configs, "DECODE_ROWS", 16)


def strided(x):
    """The same numbers, every second place of a tensor with others between."""
    return torch.cat([x[..., None], torch.ones_like(x)[..., None]], dim=-1).flatten(-2)[..., ::2]


def offset(x):
    """The same numbers behind others, from an address that is no multiple of 16 bytes."""
    return torch.cat([torch.ones(3, dtype=x.dtype), x.flatten()])[3:].view(x.shape)


def expanded(x):
    """The first sequence's numbers for all of them, with a stride of 0."""
    return x[:1].expand(x.shape)


def swapped(x):
    """The same numbers, the axes in memory the other way round."""
    axes = tuple(reversed(range(x.dim())))
    return x.permute(axes).contiguous().permute(axes)


LAYOUTS = {"strided": strided, "offset": offset, "expanded": expanded, "swapped": swapped}


def arguments_of(shape):
    query, key, value = inputs(shape, torch.float32)
    return {
        "query": query,
        "key": key,
        "value": value,
        "key_lengths": torch.tensor([40, 7, 23]),
        "query_lengths": torch.tensor([shape.lq, shape.lq - 1, 1]),
        "grad_output": normal(shape.batch, shape.heads, shape.lq, shape.dv, seed=3, dtype=torch.float32),
        "grad_lse": normal(shape.batch, shape.heads, shape.lq, seed=4, dtype=torch.float32),
    }


def answers(backend, arguments, dtype=torch.float32):
    """Output, log-sum-exp, and the gradients of query, key and value."""
    lengths = {name: arguments[name] for name in ("key_lengths", "query_lengths")}
    sources = [arguments[name].to(dtype).detach().requires_grad_() for name in ("query", "key", "value")]
    results = mhalib.attention(*sources, **lengths, causal=True, return_lse=True, backend=backend)
    grads = [arguments[name].to(dtype) for name in ("grad_output", "grad_lse")]
    return [*results, *torch.autograd.grad(results, sources, grads)]


def agree(arguments):
    """Nothing depends on where the numbers lie, and they are right."""
    plain = {name: x.clone(memory_format=torch.contiguous_format) for name, x in arguments.items()}
    exact = answers("reference", plain, torch.float64)
    with short_sequences_are_many_queries():
        mine, same_numbers = answers("triton", arguments), answers("triton", plain)
    for got, same, right in zip(mine, same_numbers, exact, strict=True):
        assert torch.equal(got, same)
        torch.testing.assert_close(got.double(), right, rtol=1e-5, atol=1e-5)


@in_interpreter
def test_both_kernels_are_tried():
    from mhalib.backends.triton import decode

    for name, shape in SHAPES.items():
        query, key, _ = inputs(shape, torch.float32)
        with short_sequences_are_many_queries():
            assert decode.suits(query, key) == (name == "few queries")


@pytest.mark.parametrize("few", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", TENSORS)
@in_interpreter
def test_it_may_lie_in_memory_in_any_way(name, layout, few):
    arguments = arguments_of(SHAPES[few])
    arguments[name] = LAYOUTS[layout](arguments[name])
    assert layout == "swapped" or arguments[name].storage_offset() or not arguments[name].is_contiguous()
    agree(arguments)


@in_interpreter
def test_all_of_them_at_once():
    for few in SHAPES:
        agree({name: strided(x) for name, x in arguments_of(SHAPES[few]).items()})


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@in_interpreter
def test_lengths_of_any_whole_dtype(dtype):
    for few in SHAPES:
        arguments = arguments_of(SHAPES[few])
        for name in ("key_lengths", "query_lengths"):
            arguments[name] = strided(arguments[name].to(dtype))
        with mock.patch.object(configs, "splits", return_value=3):
            agree(arguments)
