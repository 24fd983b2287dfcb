"""Exercise 03.multi_head: a layer of many heads from its matrices."""

from __future__ import annotations

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_03._shared import (
    drawer,
    join_heads,
    join_without_transpose,
    split_heads,
    split_without_transpose,
)


def multi_head(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    """Output (B, L, d_model) and weights (B, H, L, L) of a layer of many heads."""
    query, key, value = (split_heads(x @ w, num_heads) for w in (w_q, w_k, w_v))
    heads, weights = mhalib.attention(query, key, value, backend="reference", return_weights=True)
    return join_heads(heads) @ w_o, weights


COMPANY, REVERSED = "2 sequences, 3 heads", "the same tokens, in reverse order"


def _multi_head_cases(seed: int) -> list[Case]:
    draw = drawer(seed)

    def case(
        name: str, batch: int, length: int, d_model: int, num_heads: int, head_dim: int, gradients: bool = False
    ) -> Case:
        width = num_heads * head_dim
        tensors = {"x": 2 * draw(batch, length, d_model)}
        tensors |= {w: draw(d_model, width) / d_model**0.5 for w in ("w_q", "w_k", "w_v")}
        tensors["w_o"] = draw(width, d_model) / width**0.5
        return Case(name, {**tensors, "num_heads": num_heads}, tuple(tensors) if gradients else ())

    company = case(COMPANY, 2, 5, 12, 3, 4, gradients=True)
    return [
        company,
        Case(REVERSED, {**company.arguments, "x": company.arguments["x"].flip(1)}),
        case("one head", 2, 4, 6, 1, 6),
        case("one token", 1, 1, 8, 2, 4),
        case("as many heads as tokens", 1, 4, 8, 4, 2),
        case("3 heads of 2 on 12 channels", 2, 6, 12, 3, 2),
        case("2 heads of 5 on 6 channels", 1, 3, 6, 2, 5),
    ]


def _layer_with(split=split_heads, join=join_heads, inputs=lambda w, h: w, scaled_by=None, dim=-1):
    """A layer of many heads with one thing different or more."""

    def mistaken(x, w_q, w_k, w_v, w_o, num_heads):
        query, key, value = (split(x @ inputs(w, num_heads), num_heads) for w in (w_q, w_k, w_v))
        width = scaled_by(x.shape[-1], w_q.shape[1], num_heads) if scaled_by else query.shape[-1]
        weights = (query @ key.mT / width**0.5).softmax(dim)
        return join(weights @ value) @ w_o, weights

    return mistaken


def _own_slice(w: Tensor, num_heads: int) -> Tensor:
    """The matrix left where head h may read only the h-th part of x."""
    rows, columns = w.shape[0] // num_heads, w.shape[1] // num_heads
    return w * torch.block_diag(*[torch.ones(rows, columns, dtype=w.dtype)] * num_heads)


def _reversed(evidence: Evidence) -> bool:
    (output, weights), (backward, _) = evidence.got(COMPANY), evidence.got(REVERSED)
    return weights.ndim == 4 and torch.allclose(output.flip(1), backward)


def _rows_sum_to_one(case: Case, got: Outcome, want: Outcome) -> bool:
    total = got.value[1].sum(dim=-1)
    return got.value[1].ndim == 4 and torch.allclose(total, torch.ones_like(total))


def _averaged(case: Case, got: Outcome, want: Outcome) -> bool:
    mean = want.value[1].mean(dim=1)
    return got.value[1].shape == mean.shape and torch.allclose(got.value[1], mean)


def _unprojected(case: Case, got: Outcome, want: Outcome) -> bool:
    arguments = {**case.arguments, "w_o": torch.eye(case.arguments["w_q"].shape[1], dtype=torch.float64)}
    return torch.allclose(got.value[0], multi_head(**arguments)[0])


MULTI_HEAD = Exercise(
    id="03.multi_head",
    points=4,
    answer="multi_head",
    cases=_multi_head_cases,
    reference=multi_head,
    properties=(
        Property.equal("equals a loop over the heads"),
        Property.each("the weights of each query in each head sum to 1", _rows_sum_to_one),
        Property("tokens in reverse order give outputs in reverse order", _reversed),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.any(
            "weights averaged",
            "One row of weights for each head is asked for. You returned their mean over the heads, in which no head "
            "can be recognised.",
            _averaged,
        ),
        Finding.any(
            "no output projection",
            "The heads stand side by side in your output. One matrix has not been used yet.",
            _unprojected,
        ),
        Finding.like(
            "scraps in and out",
            "Reverse the order of the tokens: your outputs do not follow. A view from (B, L, H · D) to (B, H, L, D) "
            "cuts the sentence in pieces, and the way back hides it. What has to happen between view and attention?",
            _layer_with(split=split_without_transpose, join=join_without_transpose),
        ),
        Finding.like(
            "split without the transpose",
            "Write each token's number into all of its channels and split that: which token does row 1 of head 0 come "
            "from in your split?",
            _layer_with(split=split_without_transpose),
        ),
        Finding.like(
            "join without the transpose",
            "Your weights are right and your output is not. On the way out the axes are (B, H, L, D), and row t of the "
            "result has to hold what *token* t has in all heads.",
            _layer_with(join=join_without_transpose),
        ),
        Finding.like(
            "heads interleaved",
            "Your head 0 takes every H-th column of a projection. Which columns belong to head 0 when the matrices of "
            "the heads stand side by side?",
            _layer_with(split=lambda wide, h: wide.unflatten(-1, (-1, h)).permute(0, 3, 1, 2)),
        ),
        Finding.like(
            "x is sliced",
            "Your head h reads only the h-th part of x. Which channels of x does a head of the chapter read, and what "
            "is it that is cut into pieces?",
            _layer_with(inputs=_own_slice),
        ),
        Finding.like(
            "scale of all heads together",
            "Your scale is that of all heads side by side. How many products are summed in one score of one head?",
            _layer_with(scaled_by=lambda d_model, width, h: width),
        ),
        Finding.like(
            "head_dim by division",
            "Right where the heads times their size make d_model. Nobody promised that: which shape tells the size of "
            "a head in every case?",
            _layer_with(scaled_by=lambda d_model, width, h: d_model / h),
        ),
        Finding.like(
            "softmax over the heads",
            "For each query your weights sum to 1 over the heads. Over which axis of (B, H, query, key) should they?",
            _layer_with(dim=1),
        ),
    ),
)
