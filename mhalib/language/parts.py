"""The two parts of a modern decoder that are not attention: a norm without mean or bias, and a gated feed-forward."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import check_tensors, check_whole, number


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then multiply by a learned vector.

    No mean is subtracted and no bias added. Half precision is computed in float32.

    Args:
        d_model: length of the vectors.
        eps: added to the mean square before the root.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467, §3, eq. 4.
    """

    def __init__(
        self,
        d_model: int,
        *,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_whole(d_model=d_model)
        self.d_model, self.eps = d_model, number("eps", eps, "a finite number above 0", lambda x: x > 0)
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """(…, d_model) → the same shape and dtype."""
        check_tensors(x=x)
        if x.dim() < 1 or x.shape[-1] != self.d_model:
            raise ValueError(f"x: got shape {tuple(x.shape)}; accepted is (…, {self.d_model})")
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        size = torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + self.eps)
        return (exact * size).to(x.dtype) * self.weight

    def extra_repr(self) -> str:
        return f"{self.d_model}, eps={self.eps:g}"


class SwiGLU(nn.Module):
    """A gated feed-forward block: down(silu(gate(x)) · up(x)), three matrices without biases; silu(z) = z · sigmoid(z).

    Args:
        d_model: width of input and output.
        d_ff: inner width. Two thirds of 4 · d_model cost as many parameters as a block with two matrices.

    Source: Shazeer 2020, arXiv:2002.05202, §2, eq. 6.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ):
        super().__init__()
        check_whole(d_model=d_model, d_ff=d_ff)
        self.gate_proj = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.up_proj = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.down_proj = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(…, d_model) → the same shape."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
