"""Positions that queries and keys ask for: relative vectors after Shaw, and disentangled ones after DeBERTa.

Each function makes a bias (B, H, Lq, Lk) for `attention` from products with one vector a distance, and gathers them:
no (Lq, Lk, D) tensor is made. The last query stands at the last key, as for `causal` masks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.arguments import check_tensors, check_whole, number
from mhalib.positions.distance import distances


def clipped_distances(lq: int, lk: int, reach: int, *, device: torch.device | None = None) -> Tensor:
    """The row of a table of `2 * reach + 1` distances, −reach … reach, for each pair: farther ones share the last row.

    Returns:
        int64 (lq, lk), `clip(j − i, −reach, reach) + reach`.

    Source: Shaw et al. 2018, §3.2.
    """
    check_whole(reach=reach)
    return distances(lq, lk, device=device).clamp(-reach, reach) + reach


def shaw_scores(query: Tensor, table: Tensor, lk: int, *, scale: float | None = None) -> Tensor:
    """What relative vectors add to the scores: `scale * query_i · table[clip(j − i)]`.

    Args:
        query: (B, H, Lq, D).
        table: (2 * reach + 1, D), shared by the heads, one vector for each distance −reach … reach.
        lk: number of keys.
        scale: that of `attention`; None is 1/√D.

    Returns:
        A bias (B, H, Lq, lk).

    Source: Shaw et al. 2018, §3.1 to §3.3.
    """
    _check_four(query=query)
    _check_table(table, query.shape[-1], "D")
    factor = query.shape[-1] ** -0.5 if scale is None else number("scale", scale, "a finite number")
    row = clipped_distances(query.shape[2], lk, table.shape[0] // 2, device=query.device)
    products = factor * (query @ table.mT)  # (B, H, Lq, 2 reach + 1): each query with each distance, once
    return products.gather(-1, row.expand(*query.shape[:2], -1, -1))


def shaw_values(weights: Tensor, table: Tensor) -> Tensor:
    """What relative vectors add to the output: the sum over keys of `weights_ij * table[clip(j − i)]`.

    Args:
        weights: (B, H, Lq, Lk).
        table: (2 * reach + 1, Dv), shared by the heads.

    Returns:
        (B, H, Lq, Dv), to be added to the output of `attention`.

    Source: Shaw et al. 2018, §3.1, equation 3.
    """
    _check_four(weights=weights)
    _check_table(table, None, "Dv")
    row = clipped_distances(weights.shape[2], weights.shape[3], table.shape[0] // 2, device=weights.device)
    by_distance = weights.new_zeros(*weights.shape[:3], table.shape[0])
    return by_distance.scatter_add(-1, row.expand_as(weights), weights) @ table


def disentangled_scores(
    query: Tensor, key: Tensor, relative_query: Tensor, relative_key: Tensor, *, scale: float | None = None
) -> Tensor:
    """Content with position and position with content, as DeBERTa adds them to content with content.

    `scale * (query_i · relative_key[δ] + relative_query[δ] · key_j)` where `δ = clip(i − j + reach, 0, 2 reach − 1)`.
    The paper prints δ(j, i) for the second term. Its released code, and that of `transformers`, use δ(i, j) in both,
    and so does this function. Give `attention` the same scale: `attention(…, bias=…, scale=(3 * D) ** -0.5)`.

    Args:
        query, key: (B, H, Lq, D) and (B, H, Lk, D).
        relative_query, relative_key: (H, 2 * reach, D), the projected vectors of the distances.
        scale: None is 1/√(3D), for a sum of three terms.

    Returns:
        A bias (B, H, Lq, Lk).

    Source: He et al. 2021 (DeBERTa), §3.1, equations 3 and 4; microsoft/DeBERTa, disentangled_attention.py.
    """
    _check_four(query=query, key=key)
    check_tensors(relative_query=relative_query, relative_key=relative_key)
    batch, heads, lq, dim = query.shape
    if key.shape[:2] != (batch, heads) or key.shape[-1] != dim:
        raise ValueError(f"key: got shape {tuple(key.shape)}; accepted is ({batch}, {heads}, Lk, {dim})")
    rows = relative_key.shape[1] if relative_key.dim() == 3 else 0
    for name, table in (("relative_query", relative_query), ("relative_key", relative_key)):
        if rows < 2 or rows % 2 or tuple(table.shape) != (heads, rows, dim):
            raise ValueError(
                f"{name}: got shape {tuple(table.shape)}; accepted is ({heads}, 2 * reach, {dim}), the same number "
                "of rows for relative_query and relative_key"
            )
    factor = (3 * dim) ** -0.5 if scale is None else number("scale", scale, "a finite number")
    lk = key.shape[2]
    row = (rows // 2 - distances(lq, lk, device=query.device)).clamp(0, rows - 1).expand(batch, heads, lq, lk)
    content_to_position = (query @ relative_key.mT).gather(-1, row)
    position_to_content = (relative_query @ key.mT).gather(-2, row)
    return factor * (content_to_position + position_to_content)


def _check_four(**tensors: Tensor) -> None:
    check_tensors(**tensors)
    for name, x in tensors.items():
        if x.dim() != 4:
            raise ValueError(f"{name}: got shape {tuple(x.shape)}; accepted are four dimensions, (B, H, L, …)")


def _check_table(table: Tensor, dim: int | None, letter: str) -> None:
    """Refuse all but (2 * reach + 1, dim) with a reach of at least 1."""
    check_tensors(table=table)
    if table.dim() != 2 or table.shape[0] < 3 or table.shape[0] % 2 == 0 or dim not in (None, table.shape[1]):
        raise ValueError(
            f"table: got shape {tuple(table.shape)}; accepted is (2 * reach + 1, {letter if dim is None else dim}), "
            "an odd number of rows, one for each distance"
        )
