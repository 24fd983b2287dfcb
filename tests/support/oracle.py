"""The contract of attention, written a second time: float64, a row at a time, no line shared with `mhalib`.

Also the awkward sizes and options that every test takes, and how far off each dtype may be, and why.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import settings
from torch import Tensor

import mhalib
from mhalib.functional import BACKENDS

#: Those that serve tensors on the CPU, which is where these tests run. Triton's kernels need a GPU, or its interpreter
#: in a process of its own (test_triton_*.py); that it refuses here, and why, is held to in test_parity.py.
NOT_ON_CPU = ("triton",)
BACKEND_NAMES = tuple(name for name in BACKENDS if name not in NOT_ON_CPU)
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INFINITY = float("inf")

#: For the property tests: the same examples in every run where CI is set, new ones elsewhere; no clock.
PROPERTY = settings(max_examples=25, deadline=None, derandomize="CI" in os.environ, database=None)


@dataclass(frozen=True)
class Shape:
    """Sizes of one request."""

    batch: int
    heads: int
    kv_heads: int
    lq: int
    lk: int
    dim: int
    dv: int

    def __str__(self) -> str:
        return f"B{self.batch}-H{self.heads}:{self.kv_heads}-L{self.lq}x{self.lk}-D{self.dim}:{self.dv}"

    @property
    def scores(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.lq, self.lk


#: Lengths 1, 17, 33, 63, 65; Lq below, at and above Lk; D of 8, 40, 64, 80, 128; Dv at and beside D;
#: one key head for each query head (MHA), for a group of them (1 < Hkv < Hq), for all (MQA).
SHAPES = (
    Shape(2, 3, 3, 17, 17, 8, 8),
    Shape(1, 6, 2, 17, 33, 40, 24),
    Shape(2, 4, 1, 65, 17, 64, 64),
    Shape(2, 4, 2, 1, 63, 80, 80),
    Shape(1, 2, 1, 63, 1, 128, 16),
    Shape(1, 4, 2, 33, 65, 8, 40),
)
SMALL = Shape(2, 6, 2, 5, 7, 8, 6)
TALL = Shape(2, 6, 2, 7, 5, 8, 6)


def inputs(shape: Shape, dtype: torch.dtype = torch.float64, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value: standard normal, drawn in float64 and rounded to `dtype`."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (
        (shape.batch, shape.heads, shape.lq, shape.dim),
        (shape.batch, shape.kv_heads, shape.lk, shape.dim),
        (shape.batch, shape.kv_heads, shape.lk, shape.dv),
    )
    return tuple(torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes)


def normal(*size: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=generator, dtype=torch.float64).to(dtype)


def coin(*size: int, seed: int, heads: float = 0.6) -> Tensor:
    """A bool tensor, True with probability `heads`."""
    return torch.rand(*size, generator=torch.Generator().manual_seed(seed)) < heads


# ------------------------------------------------------------------------------------------------- options


def _lengths(shape: Shape) -> Tensor:
    """Sequence 0 is whole, the others lose about half of their keys."""
    return torch.tensor([shape.lk if b == 0 else shape.lk // 2 for b in range(shape.batch)])


def _wanted(shape: Shape) -> Tensor:
    """Sequence 0 loses its last query, the others about two thirds of theirs."""
    return torch.tensor([shape.lq - 1 if b == 0 else shape.lq // 3 for b in range(shape.batch)])


def _bias(*size: int, dtype: torch.dtype) -> Tensor:
    return normal(*size, seed=11, dtype=dtype)


def _holes(shape: Shape, dtype: torch.dtype) -> Tensor:
    """A bias in which −inf hides keys, and whole rows."""
    return _bias(*shape.scores, dtype=dtype).masked_fill(~coin(*shape.scores, seed=12), -INFINITY)


def option(name: str, shape: Shape, dtype: torch.dtype) -> dict:
    """The keyword arguments that belong to a name of `OPTIONS`."""
    return OPTIONS[name](shape, dtype)


#: Each option alone, then together. Masks are random, so that rows with no key at all occur.
OPTIONS = {
    "plain": lambda s, dtype: {},
    "scale": lambda s, dtype: {"scale": 0.31},
    # Scores of some tens: rounding a score to half precision would show here.
    "steep": lambda s, dtype: {"scale": 4.0 / math.sqrt(s.dim)},
    "softcap": lambda s, dtype: {"softcap": 1.5},
    "causal": lambda s, dtype: {"causal": True},
    "window": lambda s, dtype: {"window": 4},
    "window_past": lambda s, dtype: {"window": 4, "causal": True},
    "key_lengths": lambda s, dtype: {"key_lengths": _lengths(s)},
    "query_lengths": lambda s, dtype: {"query_lengths": _wanted(s)},
    "query_lengths+causal": lambda s, dtype: {"query_lengths": _wanted(s), "causal": True},
    "query_lengths+window_past": lambda s, dtype: {"query_lengths": _wanted(s), "window": 4, "causal": True},
    "both_lengths": lambda s, dtype: {"query_lengths": _wanted(s), "key_lengths": _lengths(s)},
    "mask": lambda s, dtype: {"mask": coin(s.lq, s.lk, seed=1)},
    "mask_full": lambda s, dtype: {"mask": coin(*s.scores, seed=2)},
    "mask_heads": lambda s, dtype: {"mask": coin(1, s.heads, s.lq, s.lk, seed=3)},
    "mask_keys": lambda s, dtype: {"mask": coin(s.batch, 1, 1, s.lk, seed=4)},
    "bias": lambda s, dtype: {"bias": _bias(s.lq, s.lk, dtype=dtype)},
    "bias_full": lambda s, dtype: {"bias": _bias(*s.scores, dtype=dtype)},
    "bias_heads": lambda s, dtype: {"bias": _bias(1, s.heads, s.lq, s.lk, dtype=dtype)},
    "bias_holes": lambda s, dtype: {"bias": _holes(s, dtype)},
    # In half precision the numbers around 64 are 1/16 (float16) and 1/2 (bfloat16) apart.
    "bias_fine": lambda s, dtype: {"bias": 64 + _bias(1, 1, s.lq, s.lk, dtype=accumulator(dtype))},
    "causal+key_lengths": lambda s, dtype: {"causal": True, "key_lengths": _lengths(s)},
    "mask+bias+causal": lambda s, dtype: {
        "mask": coin(s.batch, 1, s.lq, s.lk, seed=5),
        "bias": _bias(1, s.heads, 1, s.lk, dtype=dtype),
        "causal": True,
    },
    "window+key_lengths+bias": lambda s, dtype: {
        "window": 6,
        "key_lengths": _lengths(s),
        "bias": _bias(s.batch, 1, 1, s.lk, dtype=dtype),
    },
    "softcap+bias+causal": lambda s, dtype: {"softcap": 1.5, "bias": _bias(s.lq, s.lk, dtype=dtype), "causal": True},
    "everything": lambda s, dtype: {
        "mask": coin(s.batch, 1, s.lq, s.lk, seed=6, heads=0.9),
        "bias": _bias(1, s.heads, s.lq, s.lk, dtype=dtype),
        "causal": True,
        "window": 9,
        "key_lengths": _lengths(s),
        "query_lengths": _wanted(s),
        "scale": 0.4,
        "softcap": 3.0,
    },
}

#: The seventeen shapes in which a mask or a bias is accepted, for given sizes.
SCORE_SHAPES = ("Lq,Lk", *("".join(parts) for parts in product("B1", "H1", "Q1", "K1")))


def score_shape(name: str, shape: Shape) -> tuple[int, ...]:
    if name == "Lq,Lk":
        return shape.lq, shape.lk
    return tuple(1 if letter == "1" else size for letter, size in zip(name, shape.scores, strict=True))


# -------------------------------------------------------------------------------------------------- truth


class Truth(NamedTuple):
    """Results and gradients in float64, and `sizes`: the same sums over absolute values, which rounding scales with."""

    output: Tensor
    weights: Tensor
    lse: Tensor
    gradients: dict[str, Tensor]
    sizes: dict[str, Tensor]
    reach: float


def may_see(i: int, j: int, lq: int, lk: int, *, causal: bool, window: int | None, length: int | None) -> bool:
    """The contract's words for one query and one key: the last query stands at the last key."""
    here = i + lk - lq
    if causal and j > here:
        return False
    if window is not None and abs(j - here) >= window:
        return False
    return length is None or j < length


def truth(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    key_lengths: Tensor | None = None,
    query_lengths: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    grad_output: Tensor | None = None,
    grad_weights: Tensor | None = None,
    grad_lse: Tensor | None = None,
) -> Truth:
    """Attention and its gradient, one query of one head of one sequence at a time."""
    q, k, v = (x.detach().double().numpy() for x in (query, key, value))
    (batch, heads, lq, dim), (_, kv_heads, lk, dv) = q.shape, v.shape
    full = (batch, heads, lq, lk)
    allow = np.broadcast_to(True if mask is None else mask.numpy(), full)
    extra = np.broadcast_to(0.0 if bias is None else bias.detach().double().numpy(), full)
    lengths = [None] * batch if key_lengths is None else key_lengths.tolist()
    wanted = [lq] * batch if query_lengths is None else query_lengths.tolist()
    factor = 1 / math.sqrt(dim) if scale is None else scale

    def upstream(x: Tensor | None, *size: int) -> np.ndarray:
        return np.zeros(size) if x is None else x.detach().double().numpy()

    g_out = upstream(grad_output, batch, heads, lq, dv)
    g_weights = upstream(grad_weights, *full)
    g_lse = upstream(grad_lse, batch, heads, lq)

    output, weights, lse = np.zeros((batch, heads, lq, dv)), np.zeros(full), np.full((batch, heads, lq), -np.inf)
    grad = {"query": np.zeros(q.shape), "key": np.zeros(k.shape), "value": np.zeros(v.shape), "bias": np.zeros(full)}
    size = {name: np.zeros(x.shape) for name, x in grad.items()} | {"output": np.zeros(output.shape)}
    reach = 0.0

    for b, h, i in product(range(batch), range(heads), range(lq)):
        kv = h // (heads // kv_heads)
        seen = [
            j
            for j in range(lk)
            if i < wanted[b]
            and may_see(i, j, lq, lk, causal=causal, window=window, length=lengths[b])
            and allow[b, h, i, j]
            and extra[b, h, i, j] > -np.inf
        ]
        if not seen:
            continue
        keys, values = k[b, kv, seen], v[b, kv, seen]
        raw = factor * (keys @ q[b, h, i])
        bent = raw if softcap is None else softcap * np.tanh(raw / softcap)
        score = bent + extra[b, h, i, seen]
        p = np.exp(score - score.max())
        total = p.sum()
        p = p / total
        output[b, h, i], weights[b, h, i, seen] = p @ values, p
        lse[b, h, i] = score.max() + math.log(total)

        g_p = values @ g_out[b, h, i] + g_weights[b, h, i, seen]
        g_score = p * (g_p - p @ g_p) + p * g_lse[b, h, i]
        g_raw = factor * g_score * (1.0 if softcap is None else 1 - np.tanh(raw / softcap) ** 2)
        grad["query"][b, h, i] = g_raw @ keys
        grad["key"][b, kv, seen] += np.outer(g_raw, q[b, h, i])
        grad["value"][b, kv, seen] += np.outer(p, g_out[b, h, i])
        grad["bias"][b, h, i, seen] = g_score

        a_p = np.abs(values) @ np.abs(g_out[b, h, i]) + np.abs(g_weights[b, h, i, seen])
        a_score = p * (a_p + p @ a_p) + p * np.abs(g_lse[b, h, i])
        size["output"][b, h, i] = p @ np.abs(values)
        size["query"][b, h, i] = np.abs(factor) * a_score @ np.abs(keys)
        size["key"][b, kv, seen] += np.outer(np.abs(factor) * a_score, np.abs(q[b, h, i]))
        size["value"][b, kv, seen] += np.outer(p, np.abs(g_out[b, h, i]))
        size["bias"][b, h, i, seen] = a_score
        reached = np.abs(factor) * (np.abs(keys) @ np.abs(q[b, h, i])) + np.abs(extra[b, h, i, seen])
        reach = max(reach, float(reached.max()))

    if bias is None:
        del grad["bias"], size["bias"]
    else:
        grad["bias"], size["bias"] = (_sum_to(x, tuple(bias.shape)) for x in (grad["bias"], size["bias"]))
    as_tensors = ({name: torch.from_numpy(x) for name, x in group.items()} for group in (grad, size))
    return Truth(*(torch.from_numpy(x) for x in (output, weights, lse)), *as_tensors, reach)


def _sum_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of an expanded tensor is the sum over what it was expanded along."""
    target = (1,) * (x.ndim - len(shape)) + shape
    axes = tuple(axis for axis, n in enumerate(target) if n == 1 and x.shape[axis] != 1)
    return x.sum(axis=axes, keepdims=True).reshape(shape)


@cache
def known(shape: Shape, dtype: torch.dtype, name: str) -> Truth:
    """The truth about `inputs(shape, dtype)` with `option(name, …)`, and about the gradients of `upstream`."""
    return truth(*inputs(shape, dtype), **option(name, shape, dtype), grad_output=upstream(shape, dtype))


def upstream(shape: Shape, dtype: torch.dtype) -> Tensor:
    """The gradient that arrives at the output."""
    return normal(shape.batch, shape.heads, shape.lq, shape.dv, seed=21, dtype=dtype)


# ------------------------------------------------------------------------------------------------- budgets


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Half precision accumulates in float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class Budget:
    """How far from the truth a result may be: factors of `Truth.sizes`, from the dtype and the number of terms.

    u = eps / 2 is the error of one rounding. A sum of n products is off by at most n · u times the sum of absolute
    values (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., §3.1).

    - A score is a sum of D products, scaled, capped and biased (4 roundings): off by (D + 4) · u · reach, where
      `reach` is the largest such sum of absolute values. A weight, exp(score) / Σ exp(score), is then off by twice
      that, relatively, and by the roundings of Lk terms in the sum; the fused kernels' exp may be off by 20 ulp,
      above and below the fraction line (80 · u).
    - The output is a sum of Lk products more. In half precision the weights may be rounded to the dtype before they
      meet the values, and the result is: 2 roundings, one eps.
    - A gradient goes through the weights twice (p and p · Δ), then sums over Dv, Lk, and over the queries of a
      group. In half precision p, dS, the output inside Δ, a gradient per query head, and the result may each be
      rounded to the dtype: at most 6 roundings, 3 eps.
    """

    forward: float
    backward: float
    lse: float

    @classmethod
    def of(cls, shape: Shape, dtype: torch.dtype, reach: float) -> Budget:
        u = torch.finfo(accumulator(dtype)).eps / 2
        eps = torch.finfo(dtype).eps
        score = u * (shape.dim + 4) * reach
        softmax = 2 * score + u * (shape.lk + 80)
        terms = shape.batch * shape.heads * shape.lq  # at most so many queries share a key, or an expanded bias
        return cls(
            forward=softmax + u * shape.lk + eps,
            backward=2 * softmax + u * (shape.dv + shape.lk + terms) + 3 * eps,
            lse=score + u * (shape.lk + 40) + u * (reach + math.log(shape.lk + 1)),
        )


def assert_within(actual: Tensor, expected: Tensor, budget: Tensor | float, what: str) -> None:
    """|actual − expected| ≤ budget, element by element; infinite where `expected` is, and nowhere NaN."""
    assert actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    actual, expected = actual.detach().double(), expected.detach().double()
    allowance = torch.as_tensor(budget, dtype=torch.float64).expand(expected.shape)
    wrong = ~((actual == expected) | ((actual - expected).abs() <= allowance))
    if wrong.any():
        place = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.numel()} differ, first at {place}: got {actual[place].item():.9g}, "
            f"expected {expected[place].item():.9g} ± {allowance[place].item():.3g}"
        )


def assert_output(actual: Tensor, expected: Truth, shape: Shape, dtype: torch.dtype, what: str) -> None:
    assert actual.dtype == dtype, f"{what}: the output is {actual.dtype}, the inputs are {dtype}"
    budget = Budget.of(shape, dtype, expected.reach)
    assert_within(actual, expected.output, budget.forward * expected.sizes["output"] + floor(dtype), what)


def assert_gradients(actual: dict[str, Tensor], expected: Truth, shape: Shape, dtype: torch.dtype, what: str) -> None:
    budget = Budget.of(shape, dtype, expected.reach)
    assert actual.keys() == expected.gradients.keys()
    for name, gradient in actual.items():
        allowance = budget.backward * expected.sizes[name] + floor(dtype)
        assert_within(gradient, expected.gradients[name], allowance, f"{what}, gradient of {name}")


def floor(dtype: torch.dtype) -> float:
    """What is lost below the smallest normal number: weights that small are flushed or rounded to few bits."""
    return 64 * torch.finfo(dtype).tiny * torch.finfo(dtype).eps


# ------------------------------------------------------------------------------------------------ backends


def refusal(backend: str, *qkv: Tensor, **options: object) -> str | None:
    """What the backend says when it is asked by name for what it cannot serve; None where it serves it."""
    try:
        mhalib.explain_backend(*qkv, backend=backend, **options)
    except ValueError as error:
        if "cannot serve this request" not in str(error):
            raise
        return str(error)
    return None


def leaves(*tensors: Tensor | None) -> list[Tensor | None]:
    """Copies of the tensors that collect gradients."""
    return [None if x is None else x.detach().clone().requires_grad_() for x in tensors]


def gradients_of(result: Tensor, grad: Tensor, **sources: Tensor | None) -> dict[str, Tensor]:
    """The gradient of each source that is there."""
    present = {name: x for name, x in sources.items() if x is not None}
    return dict(zip(present, torch.autograd.grad(result, list(present.values()), grad), strict=True))
