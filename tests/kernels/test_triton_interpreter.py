"""The Triton kernels, interpreted on the CPU, give the numbers of the contract: output, log-sum-exp and gradients.

The truth is float64, computed row by row in `oracle`. Sizes are small, since the interpreter takes about 5 ms a tile.
"""

import math
from dataclasses import replace
from unittest import mock

import pytest
import torch
from interpreted import in_interpreter
from oracle import Budget, Shape, assert_within, floor, inputs, leaves, normal, truth

import mhalib
from mhalib.backends.triton import configs

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

#: Lengths beside the tile's 32; Lq below, at and above Lk; D and Dv from 8 to 128, equal and not; groups of 1, 2, 3, 4.
FORWARD = {
    "one_tile": (Shape(2, 2, 2, 17, 17, 8, 8), {}),
    "exact_tiles": (Shape(1, 2, 2, 64, 64, 16, 16), {}),
    "odd_lengths": (Shape(1, 2, 1, 65, 63, 40, 24), {}),
    "one_query": (Shape(2, 4, 2, 1, 33, 24, 24), {}),
    "one_key": (Shape(1, 2, 1, 33, 1, 16, 16), {}),
    "wide_head": (Shape(1, 1, 1, 33, 40, 128, 128), {}),
    "wide_value": (Shape(1, 2, 1, 20, 40, 8, 80), {"causal": True}),
    "causal": (Shape(1, 2, 2, 65, 65, 64, 64), {"causal": True}),
    "causal_fewer_queries": (Shape(1, 4, 2, 33, 65, 16, 8), {"causal": True}),
    "causal_more_queries": (Shape(1, 4, 2, 70, 35, 8, 16), {"causal": True}),
    "window_past": (Shape(1, 3, 1, 65, 65, 16, 16), {"causal": True, "window": 11}),
    "window_past_of_tile": (Shape(1, 2, 2, 96, 96, 8, 8), {"causal": True, "window": 32}),
    "window_both_sides": (Shape(1, 2, 2, 65, 70, 16, 16), {"window": 9}),
    "window_fewer_keys": (Shape(1, 2, 1, 90, 40, 8, 8), {"window": 20}),
    "window_wider_than_all": (Shape(1, 2, 1, 17, 33, 8, 8), {"window": 2**40, "causal": True}),
    "lengths": (Shape(3, 2, 2, 33, 70, 16, 16), {"key_lengths": (70, 0, 33)}),
    "lengths_causal": (Shape(2, 4, 2, 40, 65, 24, 8), {"key_lengths": (64, 13), "causal": True}),
    "lengths_window": (Shape(2, 2, 1, 65, 65, 8, 8), {"key_lengths": (65, 30), "window": 17, "causal": True}),
    "padded": (
        Shape(3, 4, 2, 40, 40, 16, 8),
        {"key_lengths": (40, 0, 13), "query_lengths": (33, 40, 0), "causal": True},
    ),
    "group_of_three": (Shape(2, 6, 2, 34, 34, 16, 16), {"causal": True}),
    "group_of_four": (Shape(1, 8, 2, 33, 35, 8, 8), {}),
    "scale_negative": (Shape(1, 2, 1, 33, 33, 16, 16), {"scale": -0.4, "causal": True}),
    "scale_zero": (Shape(1, 2, 1, 17, 33, 16, 16), {"scale": 0.0}),
    "steep": (Shape(1, 2, 1, 33, 40, 32, 32), {"scale": 2.0, "causal": True}),
    "softcap": (Shape(1, 2, 1, 33, 40, 16, 16), {"softcap": 1.5, "causal": True}),
}

#: Few queries: the keys are split over programs.
DECODE = {
    "one_query": (Shape(2, 4, 4, 1, 100, 16, 16), {}, 3),
    "group_of_eight": (Shape(1, 16, 2, 1, 65, 24, 40), {"causal": True}, 2),
    "three_queries": (Shape(1, 6, 2, 3, 70, 64, 64), {"causal": True}, 4),
    "lengths": (Shape(3, 4, 2, 1, 90, 16, 16), {"key_lengths": (90, 0, 17)}, 5),
    "padded": (Shape(2, 4, 2, 3, 60, 16, 16), {"key_lengths": (60, 31), "query_lengths": (1, 3)}, 2),
    "window": (Shape(1, 4, 2, 5, 96, 8, 8), {"causal": True, "window": 20}, 3),
    "window_across_splits": (Shape(1, 4, 2, 5, 99, 8, 8), {"causal": True, "window": 3}, 3),
    # Of the last queries' keys none is in the first tile that the split reads, of the first ones' all are.
    "window_across_tiles": (Shape(1, 2, 2, 24, 99, 8, 8), {"causal": True, "window": 3}, 1),
    "window_both_sides": (Shape(1, 4, 2, 5, 60, 8, 8), {"window": 10}, 2),
    "more_splits_than_tiles": (Shape(1, 2, 1, 2, 17, 128, 16), {"softcap": 2.0}, 7),
    "one_split": (Shape(2, 4, 2, 2, 40, 40, 8), {"causal": True}, 1),
}


def options_of(options):
    return options | {name: torch.tensor(options[name]) for name in options if name.endswith("_lengths")}


def check(shape, dtype, options, *, arrange=lambda x: x, grad=None):
    """Output, lse and the three gradients of one request against the truth."""
    query, key, value = (arrange(x) for x in inputs(shape, dtype))
    options = options_of(options)
    grad = normal(shape.batch, shape.heads, shape.lq, shape.dv, seed=21, dtype=dtype) if grad is None else grad
    grad_lse = normal(shape.batch, shape.heads, shape.lq, seed=23, dtype=torch.float32)
    expected = truth(query, key, value, **options, grad_output=grad, grad_lse=grad_lse)
    sources = [x.detach().requires_grad_() for x in (query, key, value)]
    output, lse = mhalib.attention(*sources, **options, backend="triton", return_lse=True)
    grads = torch.autograd.grad([output, lse], sources, [grad, grad_lse])

    budget = Budget.of(shape, dtype, expected.reach)
    # The interpreter cuts bfloat16 off where a GPU rounds: each of the roundings to the dtype in the budget counts
    # twice. A softcap written with exp is off by some units of float32 times the cap, where reach may be smaller.
    cut = torch.finfo(dtype).eps if dtype == torch.bfloat16 else 0.0
    bent = 8 * torch.finfo(torch.float32).eps * (options.get("softcap") or 0.0)
    # lse goes through base 2 and back: three roundings of a number below reach + log Lk.
    base = 2 * torch.finfo(torch.float32).eps * (expected.reach + math.log(shape.lk + 1))
    assert output.dtype == dtype
    assert_within(lse, expected.lse, budget.lse + base + bent, "lse")
    forward = budget.forward + cut + 2 * (base + bent)
    assert_within(output, expected.output, forward * expected.sizes["output"] + floor(dtype), "output")
    backward = budget.backward + 3 * cut + 4 * (base + bent)
    for name, gradient in zip(("query", "key", "value"), grads, strict=True):
        assert gradient.dtype == dtype
        allowance = backward * expected.sizes[name] + floor(dtype)
        assert_within(gradient, expected.gradients[name], allowance, f"gradient of {name}")


def tiles(block_q, block_k):
    return mock.patch.object(configs, "INTERPRETER", configs.Config(block_q, block_k, 4, 1))


def undivided():
    """Send every request to the kernel for many queries."""
    return mock.patch.object(configs, "DECODE_ROWS", 0)


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
@in_interpreter
def test_many_queries(dtype, name):
    shape, options = FORWARD[name]
    with undivided(), tiles(32, 32):
        check(shape, dtype, options)


@pytest.mark.parametrize("name", DECODE)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
@in_interpreter
def test_few_queries_split_the_keys(dtype, name):
    shape, options, splits = DECODE[name]
    with tiles(32, 16), mock.patch.object(configs, "splits", return_value=splits):
        check(shape, dtype, options)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 21}, {"window": 21}], ids=str)
@pytest.mark.parametrize("blocks", [(16, 64), (64, 16), (16, 16), (64, 64)], ids=str)
@in_interpreter
def test_tiles_of_any_shape(blocks, options):
    with undivided(), tiles(*blocks):
        check(Shape(1, 2, 1, 75, 90, 8, 8), torch.float32, options)


#: Ways in which the same numbers may lie in memory.
LAYOUTS = {
    "heads inside tokens": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "head size outermost": lambda x: x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0),
    "every second token": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "part of a wider row": lambda x: torch.cat([x, x, x], dim=3)[..., x.shape[3] : 2 * x.shape[3]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("few", [False, True], ids=["many queries", "few queries"])
@in_interpreter
def test_strides_are_taken_as_given(few, layout):
    shape = Shape(2, 4, 2, 3 if few else 40, 50, 16, 24)
    with tiles(32, 32):
        check(shape, torch.float32, {"causal": True}, arrange=LAYOUTS[layout])


@pytest.mark.parametrize("empty", ["batch", "lq", "lk"])
@in_interpreter
def test_empty_inputs(empty):
    shape = replace(Shape(2, 4, 2, 3, 5, 8, 8), **{empty: 0})
    query, key, value = leaves(*inputs(shape, torch.float32))
    output, lse = mhalib.attention(query, key, value, backend="triton", return_lse=True)
    assert output.shape == (shape.batch, 4, shape.lq, 8)
    assert torch.equal(output, torch.zeros_like(output))
    assert torch.equal(lse, torch.full_like(lse, -torch.inf))
    for gradient in torch.autograd.grad(output.sum(), [query, key, value]):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@in_interpreter
def test_the_split_of_the_keys_that_is_chosen():
    """Enough programs for the chip, none with less than four tiles to read, and never more than 64 parts to join."""
    assert configs.splits(programs=1, lk=16384, block_k=64, processors=132) == 64
    assert configs.splits(programs=8, lk=16384, block_k=64, processors=132) == 33
    assert configs.splits(programs=8, lk=1024, block_k=64, processors=132) == 4
    assert configs.splits(programs=12 * 8, lk=16384, block_k=64, processors=132) == 2
    assert configs.splits(programs=300, lk=16384, block_k=64, processors=132) == 1
    assert configs.splits(programs=1, lk=0, block_k=64, processors=132) == 1
