"""Soft alignment: how well each input position fits what a decoder looks for, as weights, and their average.

Queries are decoder states, keys and values are encoder states ("annotations"). Letters: Lq queries, Lk keys, Dq, Dk, Dv
their widths, A the width of the hidden layer of additive attention; `...` stands for any dimensions in front.

Sources: Bahdanau, Cho, Bengio 2015, arXiv:1409.0473, §3.1 and appendix A.1.2 (additive); Luong, Pham, Manning 2015,
arXiv:1508.04025, §3.1 (dot, general, concat); Xu et al. 2015, arXiv:1502.03044, §4 (hard and soft).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mhalib.arguments import check_tensors


def additive_scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """v · tanh(query_i + key_j), for every pair.

    Args:
        query: (..., Lq, A), decoder states times W.
        key: (..., Lk, A), encoder states times U, with a bias or without.
        v: (..., A); its dimensions in front are those of the query, or 1, or none.

    Returns:
        (..., Lq, Lk). No score lies beyond the sum of |v|, because tanh lies between -1 and 1.

    Source: Bahdanau et al. 2015, appendix A.1.2.
    """
    _check_pair(query, key)
    check_tensors(v=v)
    if v.ndim == 0 or v.shape[-1] != query.shape[-1]:
        raise ValueError(f"v: got shape {tuple(v.shape)}; accepted is (..., {query.shape[-1]}), the width of the query")
    return (torch.tanh(query[..., :, None, :] + key[..., None, :, :]) * v[..., None, None, :]).sum(dim=-1)


def dot_scores(query: Tensor, key: Tensor) -> Tensor:
    """query_i · key_j, for query (..., Lq, D) and key (..., Lk, D): scores (..., Lq, Lk), not scaled.

    Source: Luong et al. 2015, §3.1, "dot".
    """
    _check_pair(query, key)
    return query @ key.mT


def general_scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """query_i · W · key_j, for query (..., Lq, Dq), key (..., Lk, Dk), weight (Dq, Dk): scores (..., Lq, Lk).

    Source: Luong et al. 2015, §3.1, "general".
    """
    _check_pair(query, key, same_width=False)
    _check_matrix("weight", weight, query.shape[-1], key.shape[-1])
    return (query @ weight) @ key.mT


def concat_scores(query: Tensor, key: Tensor, weight: Tensor, v: Tensor) -> Tensor:
    """v · tanh([query_i; key_j] W), with each pair concatenated: the numbers of `additive_scores` with W cut in two.

    Args:
        query, key: (..., Lq, Dq) and (..., Lk, Dk).
        weight: (Dq + Dk, A); its first Dq rows meet the query.
        v: (A,).

    Returns:
        (..., Lq, Lk).

    Source: Luong et al. 2015, §3.1, "concat".
    """
    _check_pair(query, key, same_width=False)
    check_tensors(v=v)
    _check_matrix("weight", weight, query.shape[-1] + key.shape[-1], v.shape[-1] if v.ndim == 1 else -1)
    shape = (*query.shape[:-1], key.shape[-2])
    both = (query[..., :, None, :].expand(*shape, -1), key[..., None, :, :].expand(*shape, -1))
    return torch.tanh(torch.cat(both, dim=-1) @ weight) @ v


def soft_align(scores: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Weights from scores, and the average of the values with these weights.

    Args:
        scores: (..., Lq, Lk).
        value: (..., Lk, Dv).
        mask: bool, True = may be aligned to; (..., Lq, Lk), or (..., 1, Lk) for all queries alike; None: all may.

    Returns:
        Context (..., Lq, Dv) and weights (..., Lq, Lk). The weights of a query sum to 1. Where it may be aligned to
        nothing, its weights and its context are 0.

    Source: Bahdanau et al. 2015, equations 5 and 6.
    """
    check_tensors(scores=scores, value=value)
    if scores.ndim < 2 or value.ndim != scores.ndim or value.shape[:-2] != scores.shape[:-2]:
        raise ValueError(
            f"value: got shape {tuple(value.shape)} for scores {tuple(scores.shape)}; accepted are scores "
            "(..., Lq, Lk) and value (..., Lk, Dv), with the same dimensions in front"
        )
    if value.shape[-2] != scores.shape[-1]:
        raise ValueError(f"value: got {value.shape[-2]} for {scores.shape[-1]} scores a query; accepted is one a score")
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        _check_mask(mask, scores)
        dead = ~mask.any(dim=-1, keepdim=True)  # a softmax over nothing but -inf would be NaN, and so its gradient
        weights = scores.masked_fill(~(mask | dead), -math.inf).softmax(dim=-1).masked_fill(dead, 0.0)
    return weights @ value, weights


def hard_weights(scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """All weight on one key for each query: on the largest score, or on one that is drawn by the soft weights.

    Args:
        scores: (..., Lk), -inf where no weight may lie; each query has one finite score or more.
        generator: draws, with the softmax of the scores as probabilities; it lives on the scores' device. None: the
            largest score wins, the first of equal ones.

    Returns:
        (..., Lk) of 0 and 1. No gradient passes to the scores.

    Source: Xu et al. 2015, §4.1, for the draw.
    """
    check_tensors(scores=scores)
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise ValueError(f"scores: got shape {tuple(scores.shape)}; accepted is (..., Lk), with one key or more")
    if generator is None:
        chosen = scores.argmax(dim=-1, keepdim=True)
    else:
        # The place at which the running sum of the weights passes a uniform number: the same on every processor.
        running = scores.detach().softmax(dim=-1).cumsum(dim=-1)
        drawn = torch.rand(running[..., :1].shape, generator=generator, dtype=running.dtype, device=running.device)
        chosen = (running <= drawn * running[..., -1:]).sum(dim=-1, keepdim=True).clamp(max=scores.shape[-1] - 1)
    return torch.zeros_like(scores).scatter(-1, chosen, 1.0)


def _check_pair(query: Tensor, key: Tensor, *, same_width: bool = True) -> None:
    check_tensors(query=query, key=key)
    fit = query.ndim == key.ndim >= 2 and query.shape[:-2] == key.shape[:-2]
    if not fit or (same_width and query.shape[-1] != key.shape[-1]):
        width = "of one width" if same_width else "of any widths"
        raise ValueError(
            f"key: got shape {tuple(key.shape)} for query {tuple(query.shape)}; accepted are (..., Lq, D) and "
            f"(..., Lk, D) {width}, with the same dimensions in front"
        )


def _check_matrix(name: str, weight: Tensor, rows: int, columns: int) -> None:
    check_tensors(**{name: weight})
    if weight.shape != (rows, columns):
        raise ValueError(f"{name}: got shape {tuple(weight.shape)}; accepted is ({rows}, {columns})")


def _check_mask(mask: Tensor, scores: Tensor) -> None:
    check_tensors(mask=mask)
    rows = (scores.shape, (*scores.shape[:-2], 1, scores.shape[-1]))
    if mask.dtype != torch.bool or mask.shape not in rows:
        raise ValueError(
            f"mask: got {mask.dtype} {tuple(mask.shape)} for scores {tuple(scores.shape)}; accepted is bool, True = "
            "may be aligned to, of the scores' shape or with one row for all queries"
        )
