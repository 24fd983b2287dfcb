"""Telling attention where a token stands: sinusoidal, rotary, ALiBi and T5's buckets."""

from __future__ import annotations

import math

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


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Fixed position vectors: channel 2i is sin(position / 10000^(2i / d_model)), channel 2i + 1 its cosine.

    Returns:
        float32 (length, d_model); `d_model` is even.

    Source: Vaswani et al. 2017, §3.5.
    """
    check_whole(0, length=length)
    check_whole(d_model=d_model)
    if d_model % 2:
        raise ValueError(f"d_model: got {d_model}; accepted is an even number, a sine and a cosine share a pair")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position * 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def alibi_slopes(num_heads: int) -> Tensor:
    """The slope of each head's penalty on distance: add `slope[h] * (j - i)` to the score of query i and key j.

    2^(−8h / H) for h = 1 … H when H is a power of two; otherwise the slopes of the power of two p below it, then
    every other slope of 2p.

    Returns:
        float32 (num_heads,).

    Source: Press et al. 2021 (ALiBi), §3, and the authors' code for other numbers of heads.
    """
    check_whole(num_heads=num_heads)
    power = 2 ** int(math.log2(num_heads))
    slopes = [2.0 ** (-8.0 * head / power) for head in range(1, power + 1)]
    between = [2.0 ** (-4.0 * head / power) for head in range(1, 2 * power + 1, 2)]
    return torch.tensor((slopes + between)[:num_heads])


def t5_bucket(
    distance: Tensor, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Tensor:
    """The bucket of a relative position `key − query`: exact when near, logarithmic when far.

    Args:
        distance: integer tensor of any shape, key position minus query position.
        num_buckets: in all; even. Half of them are for keys after the query when `bidirectional`.
        max_distance: from here on every distance falls into the last bucket.

    Returns:
        int64, same shape, values in `0 … num_buckets - 1`; without `bidirectional` the future is bucket 0.

    Source: Raffel et al. 2019 (T5), §2.1.
    """
    if distance.is_floating_point() or distance.dtype == torch.bool:
        raise TypeError(f"distance: got {distance.dtype}; accepted is an integer tensor")
    check_whole(num_buckets=num_buckets)
    side = num_buckets // 2 if bidirectional else num_buckets
    exact = side // 2
    if num_buckets % 4 or max_distance <= exact:
        raise ValueError(
            f"num_buckets, max_distance: got {num_buckets} and {max_distance}; accepted are a multiple of 4, and a "
            f"distance beyond the {exact} that get a bucket each"
        )
    distance = distance.long()
    offset = torch.where(distance > 0, side, 0) if bidirectional else torch.zeros_like(distance)
    size = distance.abs() if bidirectional else (-distance).clamp(min=0)
    far = torch.log(size.clamp(min=1).double() / exact) / math.log(max_distance / exact) * (side - exact)
    return offset + torch.where(size < exact, size, (exact + far.long()).clamp(max=side - 1))


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
