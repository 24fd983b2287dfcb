"""Rotary positions: queries and keys are turned, and their scores depend on distances only."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mhalib.arguments import check_tensors, check_whole, number

LAYOUTS = ("half", "interleaved")


class RotaryEmbedding(nn.Module):
    """Rotate pairs of channels of queries and keys by an angle that grows with the position.

    The score of a rotated query and a rotated key depends on the distance of their positions only. Values are not
    rotated. Angles are computed in float64 whatever the input's dtype: in bfloat16 positions 256 and 257 are the same
    number, and in float32 an angle around 10^6 is off by 0.03. A rotation of float32 is right to 1e-6 of the length of
    `x` up to position 10^6. (Apple's mps has no float64: there the error grows with the position, by about 1e-7 each.)

    Args:
        head_dim: even.
        base: the slowest pair turns once in 2π · base^(1 − 2 / head_dim) positions.
        layout: which channels form pair `i`. "half": `i` and `i + head_dim / 2` (GPT-NeoX, Hugging Face's Llama);
            "interleaved": `2i` and `2i + 1` (the paper, Meta's Llama). Weights trained in one layout are wrong in
            the other until the rows of their query and key projections are permuted.

    Source: Su et al. 2021 (RoFormer), §3.2.2 and §3.4.2.
    """

    def __init__(self, head_dim: int, *, base: float = 10000.0, layout: str = "half"):
        super().__init__()
        check_whole(head_dim=head_dim)
        if head_dim % 2:
            raise ValueError(f"head_dim: got {head_dim}; accepted is an even number, channels turn in pairs")
        if layout not in LAYOUTS:
            raise ValueError(f"layout: got {layout!r}; accepted are {LAYOUTS}")
        base = number("base", base, "a finite number above 1", lambda x: x > 1)
        self.head_dim, self.base, self.layout = int(head_dim), base, layout

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate `x` (B, H, L, head_dim) by `positions`, an integer tensor (L,) or (B, L); same shape and dtype."""
        check_tensors(x=x)
        if x.dim() != 4 or x.shape[-1] != self.head_dim:
            raise ValueError(f"x: got shape {tuple(x.shape)}; accepted is (B, H, L, {self.head_dim})")
        check_positions(positions, x.shape[0], x.shape[2], x.device)
        dtype = torch.promote_types(x.dtype, torch.float32)
        exact = torch.float32 if x.device.type == "mps" else torch.float64
        pair = torch.arange(0, self.head_dim, 2, device=x.device, dtype=exact)
        angle = positions.to(exact)[..., None] * self.base ** (-pair / self.head_dim)
        angle = angle[:, None] if positions.dim() == 2 else angle
        cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
        first, second = self._pairs(x.to(dtype))
        turned = (first * cos - second * sin, first * sin + second * cos)
        joined = torch.cat(turned, -1) if self.layout == "half" else torch.stack(turned, -1).flatten(-2)
        return joined.to(x.dtype)

    def _pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.layout == "interleaved":
            return x[..., 0::2], x[..., 1::2]
        first, second = x.chunk(2, dim=-1)
        return first, second

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}, base={self.base:g}, layout={self.layout!r}"


def check_positions(positions: Tensor, batch: int, length: int, device: torch.device | None = None) -> None:
    """Refuse positions that are not an integer tensor (L,) or (B, L), on `device`."""
    if not isinstance(positions, Tensor) or positions.is_floating_point() or positions.dtype == torch.bool:
        got = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
        raise TypeError(f"positions: got {got}; accepted is an integer tensor")
    if tuple(positions.shape) not in ((length,), (batch, length)):
        raise ValueError(
            f"positions: got shape {tuple(positions.shape)}; accepted are ({length},) and ({batch}, {length})"
        )
    if device is not None and positions.device != device:
        raise ValueError(f"positions: is on {positions.device}, the tokens on {device}; move one of them with .to()")
