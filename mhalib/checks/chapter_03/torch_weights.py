"""Exercise 03.torch_weights: the weights of single heads as PyTorch's layer wants them."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_03._shared import drawer


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o) -> dict[str, Tensor]:
    """The state of `nn.MultiheadAttention` from matrices of single heads: (H, d_model, D) and (H, D, d_model)."""
    return {
        "in_proj_weight": torch.cat([w.mT.flatten(0, 1) for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b.flatten() for b in (b_q, b_k, b_v)]),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }


def _torch_cases(seed: int) -> list[Case]:
    draw = drawer(seed)

    def case(name: str, num_heads: int, head_dim: int) -> Case:
        d_model = num_heads * head_dim
        matrices = {w: draw(num_heads, d_model, head_dim) for w in ("w_q", "w_k", "w_v")}
        biases = {b: draw(num_heads, head_dim) for b in ("b_q", "b_k", "b_v")}
        return Case(name, {**matrices, **biases, "w_o": draw(num_heads, head_dim, d_model), "b_o": draw(d_model)})

    return [case("3 heads of 4", 3, 4), case("4 heads of 4", 4, 4), case("one head of 5", 1, 5)]


def _stored(order=(0, 1, 2), matrix=lambda w: w.mT.flatten(0, 1), out=lambda w: w.flatten(0, 1).T):
    def mistaken(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
        weights, biases = [w_q, w_k, w_v], [b_q, b_k, b_v]
        return {
            "in_proj_weight": torch.cat([matrix(weights[i]) for i in order]),
            "in_proj_bias": torch.cat([biases[i].flatten() for i in order]),
            "out_proj.weight": out(w_o),
            "out_proj.bias": b_o,
        }

    return mistaken


def _head_by_head(weights: bool = True):
    """q, k, v of head 0, then q, k, v of head 1, …: in the weights and the biases, or in the biases alone."""

    def mistaken(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
        right = torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o)
        right["in_proj_bias"] = torch.stack([b_q, b_k, b_v], dim=1).flatten()
        if weights:
            right["in_proj_weight"] = torch.stack([w.mT for w in (w_q, w_k, w_v)], dim=1).flatten(0, 2)
        return right

    return mistaken


def _behaves(case: Case, got: Outcome, want: Outcome) -> bool:
    """Whether torch's layer with these weights gives what the heads give, one by one."""
    a = case.arguments
    num_heads, d_model, head_dim = a["w_q"].shape
    layer = nn.MultiheadAttention(d_model, num_heads, batch_first=True, dtype=torch.float64)
    layer.load_state_dict(got.value)
    x = torch.arange(1.0, 4 * d_model + 1, dtype=torch.float64).mul(1.3).sin().reshape(1, 4, d_model)
    query, key, value = (x @ a[f"w_{n}"] + a[f"b_{n}"][:, None] for n in "qkv")  # (H, L, D)
    weights = (query @ key.mT / head_dim**0.5).softmax(dim=-1)
    output = (weights @ value @ a["w_o"]).sum(dim=0) + a["b_o"]
    with torch.no_grad():
        theirs, their_weights = layer(x, x, x, average_attn_weights=False)
    return torch.allclose(theirs[0], output) and torch.allclose(their_weights[0], weights)


_WRONG_ORDERS = [
    Finding.like("", "", _stored(order)) for order in itertools.permutations(range(3)) if order != (0, 1, 2)
]

TORCH_WEIGHTS = Exercise(
    id="03.torch_weights",
    points=3,
    answer="torch_weights",
    cases=_torch_cases,
    reference=torch_weights,
    properties=(
        Property.equal("the numbers stand where torch looks for them"),
        Property.each("torch's layer gives what the heads give, one by one", _behaves),
        Property.pure(),
    ),
    findings=(
        Finding(
            "another order of the three",
            "Each third of your in_proj_weight is right, and they stand in another order than query, key, value.",
            lambda evidence: any(finding.test(evidence) for finding in _WRONG_ORDERS),
        ),
        Finding.like(
            "head by head",
            "You store query, key and value of head 0, then those of head 1, as some checkpoints do. Torch wants all "
            "heads of the query before any of the key.",
            _head_by_head(),
        ),
        Finding.like(
            "biases head by head",
            "The weights are right. Look at in_proj_bias: its numbers have to follow the rows of in_proj_weight.",
            _head_by_head(weights=False),
        ),
        Finding.like(
            "reshaped, not turned",
            "The shape is right. Compare one row of your in_proj_weight with the matrix of a head: a row has to hold "
            "the numbers that make *one* channel of a query from all of x.",
            _stored(matrix=lambda w: w.reshape(-1, w.shape[1])),
        ),
        Finding.like(
            "stored as in × out",
            "You laid the matrices side by side for x @ W. Torch computes with the transpose of what it stores: what "
            "is the shape (out, in) of a third?",
            _stored(matrix=lambda w: w.transpose(0, 1).flatten(1)),
        ),
        Finding.like(
            "heads interleaved",
            "The rows are right and stand in the wrong order: row 1 should be channel 1 of head 0, and yours is "
            "channel 0 of head 1.",
            _stored(matrix=lambda w: w.permute(2, 0, 1).flatten(0, 1)),
        ),
        Finding.like(
            "out_proj not turned",
            "All of in_proj is right. out_proj is a Linear too: which of its axes comes first, out or in?",
            _stored(out=lambda w: w.flatten(0, 1)),
        ),
    ),
)
