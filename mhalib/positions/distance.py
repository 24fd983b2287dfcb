"""Positions as a number for each distance that is added to the scores: ALiBi's slopes and T5's buckets."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mhalib.arguments import check_flags, check_whole


def distances(lq: int, lk: int, *, device: torch.device | None = None) -> Tensor:
    """How far each key stands from each query, `key position − query position`: below 0 the past, above 0 the future.

    The last query stands at the last key, as for `causal` masks: with a cache the queries are the newest tokens.

    Returns:
        int64 (lq, lk).
    """
    check_whole(0, lq=lq, lk=lk)
    return torch.arange(lk, device=device) - (torch.arange(lq, device=device)[:, None] + (lk - lq))


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


def alibi_bias(num_heads: int, lq: int, lk: int, *, device: torch.device | None = None) -> Tensor:
    """ALiBi's penalty, `slope[h] * (j - i)`, as a bias for a causal `attention`.

    Keys in the future get a reward; the causal mask hides them.

    Returns:
        float32 (1, num_heads, lq, lk); the last query stands at the last key.

    Source: Press et al. 2021 (ALiBi), §3.
    """
    slopes = alibi_slopes(num_heads).to(device=device)
    return slopes[None, :, None, None] * distances(lq, lk, device=device).float()


class T5Bias(nn.Module):
    """A learned number for each head and each bucket of distances, as a bias for `attention`.

    T5 does not divide its scores by √D, and shares one table over all layers: use it with `attention(scale=1.0)`, and
    hand the same module to every layer, where you want what T5 does.

    Args:
        num_heads: a column of the table each.
        num_buckets, max_distance, bidirectional: see `t5_bucket`.

    Attributes:
        table: (num_buckets, num_heads), the orientation of the released weights.

    Source: Raffel et al. 2019 (T5), §2.1.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_whole(num_heads=num_heads)
        check_flags(bidirectional=bidirectional)
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self._bucket(torch.zeros(1, dtype=torch.int64, device="cpu"))  # refuses what t5_bucket refuses
        self.table = nn.Parameter(0.02 * torch.randn(num_buckets, num_heads, device=device, dtype=dtype))

    def forward(self, lq: int, lk: int) -> Tensor:
        """The bias (1, num_heads, lq, lk); the last query stands at the last key."""
        bucket = self._bucket(distances(lq, lk, device=self.table.device))
        return self.table[bucket].permute(2, 0, 1)[None]

    def _bucket(self, distance: Tensor) -> Tensor:
        options = {"max_distance": self.max_distance, "bidirectional": self.bidirectional}
        return t5_bucket(distance, num_buckets=self.num_buckets, **options)

    def extra_repr(self) -> str:
        return f"num_heads={self.table.shape[1]}, num_buckets={self.num_buckets}, max_distance={self.max_distance}"
