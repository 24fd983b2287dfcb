"""What a kernel has to pass before it is timed: output, log-sum-exp and all three gradients against float64.

Errors are relative to the size of what is right (the norm of the error over the norm of the truth), twice: over the
whole tensor, and over the worst block of rows of a head, since under a causal mask the last rows of dV are a hundred
times smaller than the first ones. An absolute limit would accept dQ without its delta: among thousands of keys the
numbers of dQ are smaller than the rounding of an output.
"""

from __future__ import annotations

import traceback
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

import mhalib

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
#: Over the whole tensor, and over a block. Half precision: 8 and 16 units of rounding. float32: TF32 alone, off by some
#: 5e-4, must fail, and three TF32 products for each, off by some 1e-6, must pass.
LIMITS = {
    torch.float16: (8 * 2**-11, 16 * 2**-11),
    torch.bfloat16: (8 * 2**-8, 16 * 2**-8),
    torch.float32: (2e-5, 1e-4),
}
#: Rows of a block. The first row alone would be too few: with one key its dQ is 0, up to the rounding of the output.
BLOCK = 64
#: The log-sum-exp is held in float32 whatever the dtype of the inputs.
LSE_LIMITS = LIMITS[torch.float32]


class Sizes(NamedTuple):
    batch: int
    heads: int
    kv_heads: int
    lq: int
    lk: int
    dim: int
    dv: int


class Check(NamedTuple):
    """One request. `strided`: heads lie inside the tokens, and the gradient that arrives is one expanded row."""

    sizes: Sizes
    options: dict[str, object]
    strided: bool = False


def checks(length: int, dim: int) -> dict[str, Check]:
    """Requests round a length and a head size, by name; the first ones matter most."""
    odd, half, third = length - 3, length // 2, length // 3
    equal = Sizes(2, 4, 2, odd, odd, dim, dim)
    few = Sizes(2, 8, 2, 2, length, dim, dim)
    return {
        "causal": Check(equal, {"causal": True}),
        "full, fewer keys": Check(equal._replace(lk=third), {}),
        "causal, more keys": Check(equal._replace(lq=half), {"causal": True}),
        "causal, rows without keys": Check(equal._replace(lk=half), {"causal": True}),
        "window": Check(equal, {"causal": True, "window": third}),
        "window to both sides": Check(equal, {"window": third}),
        "lengths": Check(equal, {"causal": True, "key_lengths": (odd, third), "query_lengths": (odd, half)}),
        "softcap": Check(equal, {"causal": True, "softcap": 3.0}),
        "strides": Check(equal, {"causal": True}, strided=True),
        "decode": Check(few, {"causal": True}),
        "decode, window": Check(few, {"causal": True, "window": third}),
        "decode, lengths": Check(few, {"key_lengths": (half, length), "query_lengths": (2, 1)}),
        "unequal head sizes": Check(equal._replace(dim=dim + dim // 2, dv=dim - 8), {"causal": True}),
    }


def draw(check: Check, dtype: torch.dtype, device: str) -> tuple[list[Tensor], Tensor, Tensor, dict[str, object]]:
    """(query, key, value), the gradients that arrive at output and log-sum-exp, and the options."""
    size = check.sizes
    generator = torch.Generator(device).manual_seed(0)

    def normal(*shape: int, kind: torch.dtype = dtype) -> Tensor:
        if check.strided and len(shape) == 4:
            batch, heads, tokens, numbers = shape
            return normal(batch * tokens, heads * numbers).view(batch, tokens, heads, numbers).transpose(1, 2)
        return torch.randn(shape, generator=generator, device=device).to(kind)

    tensors = [
        normal(size.batch, size.heads, size.lq, size.dim),
        normal(size.batch, size.kv_heads, size.lk, size.dim),
        normal(size.batch, size.kv_heads, size.lk, size.dv),
    ]
    grad = normal(size.batch, size.heads, size.lq, size.dv)
    grad = grad[:, :, :1].expand(grad.shape) if check.strided else grad
    grad_lse = normal(size.batch, size.heads, size.lq, kind=torch.float32)
    options = {name: torch.tensor(x, device=device) if isinstance(x, tuple) else x for name, x in check.options.items()}
    return tensors, grad, grad_lse, options


def answers(
    tensors: list[Tensor], grad: Tensor, grad_lse: Tensor, options: dict[str, object], backend: str
) -> dict[str, Tensor]:
    """Output, log-sum-exp and gradients by a backend of this library."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    results = mhalib.attention(*leaves, **options, backend=backend, return_lse=True)
    gradients = torch.autograd.grad(results, leaves, [grad, grad_lse.to(results[1].dtype)])
    return dict(zip(("output", "lse", "dQ", "dK", "dV"), [*results, *gradients], strict=True))


def exact(tensors: list[Tensor], grad: Tensor, grad_lse: Tensor, options: dict[str, object]) -> dict[str, Tensor]:
    """The same in float64, with the weights written out."""
    return answers([x.double() for x in tensors], grad.double(), grad_lse.double(), options, "reference")


def errors(got: Tensor, want: Tensor) -> tuple[float, float]:
    """(over the whole tensor, over the worst block), relative, of (B, H, L, D) or (B, H, L); −inf has to be −inf, and
    NaN is wrong."""
    got, want = got.double(), want.double()
    dead = torch.isneginf(want)
    if got.shape != want.shape or not torch.equal(torch.isneginf(got), dead):
        return float("inf"), float("inf")
    difference = (got - want).masked_fill(dead, 0.0)
    want = want.masked_fill(dead, 0.0)
    if not want.any():
        worst = difference.abs().max().item() if want.numel() else 0.0
        return worst, worst
    of_blocks, sizes = _norms(difference), _norms(want)
    worst = (of_blocks / (sizes + 1e-3 * sizes.mean())).max()  # a block of padding is 0, and not divided by
    return (difference.norm() / want.norm()).item(), worst.item()


def _norms(x: Tensor) -> Tensor:
    """The norm of each block of rows, (B, H, blocks)."""
    x = x if x.dim() == 4 else x[..., None]
    rows = x.square().sum(-1)
    return pad(rows, (0, -rows.shape[2] % BLOCK)).unflatten(2, (-1, BLOCK)).sum(-1).sqrt()


def wrong(got: dict[str, Tensor], want: dict[str, Tensor], dtype: torch.dtype) -> dict[str, str]:
    """Those of the results that are too far off, and how far; empty where all pass."""
    found = {}
    for name, right in want.items():
        whole, worst = errors(got[name], right)
        most = LSE_LIMITS if name == "lse" else LIMITS[dtype]
        if not (whole <= most[0] and worst <= most[1]):  # also refuses NaN
            found[name] = f"off by {whole:.1e} of its norm and {worst:.1e} of that of a block of rows"
    return found


def hold(check: Check, dtype: torch.dtype, device: str, backend: str = "triton") -> dict[str, str]:
    """What is wrong with the kernels' answer to one request: nothing, some results, or the error that was raised."""
    try:
        drawn = draw(check, dtype, device)
        return wrong(answers(*drawn, backend), exact(*drawn), dtype)
    except Exception as error:  # whatever it is, the others are still to be tried
        return {"error": "".join(traceback.format_exception_only(error)).strip()}
