"""Scores from positions alone: a table, its product of two thin ones, and row + column on a grid.

No query and no key: what a token says does not enter these weights. Three names that are easy to confuse:
*positional attention* is a learned table of scores, *factorised* positional attention the same as a product F₁F₂ᵀ
(both Luo et al. 2024), and the *axis-factorised* form is a row term plus a column term on a grid. Position *vectors*
of a grid, which are added to tokens, are in `mhalib.vision.positions`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mhalib.arguments import check_tensors, check_whole


class PositionTable(nn.Module):
    """A learned score for each pair of positions and each head: the bias of positional attention.

    Positional attention itself is `attention` with queries and keys of zeros, `attention(zeros, zeros, value,
    bias=table(L, L))`. With content, the same bias is one more kind of position term. Scores start with a standard
    deviation of 0.1.

    Args:
        num_heads: each has its own scores.
        max_length: more positions than this are refused; nothing is known about them.
        rank: None keeps the whole table, `num_heads * max_length²` numbers; k keeps its two factors,
            `2 * num_heads * max_length * k` numbers.

    Attributes:
        scores: (num_heads, max_length, max_length); None with `rank`.
        query_factors, key_factors: (num_heads, max_length, rank); None without `rank`.

    Source: Luo, He, Zhang and Xu 2024, arXiv:2407.02793 (PARec and FPARec); the same tables are called Random and
    Factorized Random Synthesizer in Tay et al. 2020, arXiv:2005.00743, §3.
    """

    def __init__(
        self,
        num_heads: int,
        max_length: int,
        *,
        rank: int | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_whole(num_heads=num_heads, max_length=max_length)
        self.num_heads, self.max_length, self.rank = num_heads, max_length, rank
        options = {"device": device, "dtype": dtype}
        self.scores = self.query_factors = self.key_factors = None
        if rank is None:
            self.scores = nn.Parameter(0.1 * torch.randn(num_heads, max_length, max_length, **options))
            return
        check_whole(rank=rank)
        size = (0.1 / rank**0.5) ** 0.5  # a sum of `rank` products of this size has a standard deviation of 0.1
        self.query_factors = nn.Parameter(size * torch.randn(num_heads, max_length, rank, **options))
        self.key_factors = nn.Parameter(size * torch.randn(num_heads, max_length, rank, **options))

    def forward(self, lq: int, lk: int) -> Tensor:
        """The bias (1, num_heads, lq, lk); keys stand at 0 … lk − 1, and the last query at the last key."""
        check_whole(0, lq=lq, lk=lk)
        if max(lq, lk) > self.max_length or lq > lk:
            raise ValueError(f"lq, lk: got {lq} and {lk}; accepted are lq ≤ lk ≤ {self.max_length}, the positions kept")
        if self.scores is not None:
            return self.scores[None, :, lk - lq : lk, :lk]
        assert self.query_factors is not None
        assert self.key_factors is not None
        return (self.query_factors[:, lk - lq : lk] @ self.key_factors[:, :lk].mT)[None]

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, max_length={self.max_length}, rank={self.rank}"


def axial_bias(rows: Tensor, columns: Tensor) -> Tensor:
    """Row + column: the score of places (y, x) and (y', x') of a grid is `rows[y, y'] + columns[x, x']`.

    Without content the softmax of such scores is that of the rows times that of the columns, and attention over the
    grid is a pass over rows and one over columns. With content, or with a causal mask over the places in reading
    order, it is not.

    Args:
        rows: (H, down, down), scores between rows.
        columns: (H, across, across), scores between columns.

    Returns:
        A bias (1, H, down · across, down · across) for `attention`; places are counted row by row.
    """
    check_tensors(rows=rows, columns=columns)
    for name, x in (("rows", rows), ("columns", columns)):
        if x.dim() != 3 or x.shape[1] != x.shape[2] or x.shape[0] != rows.shape[0]:
            raise ValueError(
                f"{name}: got shape {tuple(x.shape)}; accepted is (H, n, n), as many heads in rows and columns"
            )
    pairs = rows[:, :, None, :, None] + columns[:, None, :, None, :]  # (H, y, x, y', x')
    return pairs.flatten(3, 4).flatten(1, 2)[None]
