"""Exercises of chapter 03, many heads."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn

import mhalib
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property


def _split(wide: Tensor, num_heads: int) -> Tensor:
    """(B, L, H · D) → (B, H, L, D)."""
    return wide.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _join(heads: Tensor) -> Tensor:
    """(B, H, L, D) → (B, L, H · D)."""
    return heads.transpose(1, 2).flatten(2)


def _scraps(wide: Tensor, num_heads: int) -> Tensor:
    """The shape of `_split` without its transpose."""
    return wide.reshape(len(wide), num_heads, wide.shape[1], -1)


def _blind(heads: Tensor) -> Tensor:
    """The shape of `_join` without its transpose."""
    return heads.reshape(len(heads), heads.shape[2], -1)


def _drawer(seed: int) -> Callable[..., Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)


# -------------------------------------------------------------------------------------------------- 03.multi_head


def multi_head(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    """Output (B, L, d_model) and weights (B, H, L, L) of a layer of many heads."""
    query, key, value = (_split(x @ w, num_heads) for w in (w_q, w_k, w_v))
    heads, weights = mhalib.attention(query, key, value, backend="reference", return_weights=True)
    return _join(heads) @ w_o, weights


COMPANY, REVERSED = "2 sequences, 3 heads", "the same tokens, in reverse order"


def _multi_head_cases(seed: int) -> list[Case]:
    draw = _drawer(seed)

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


def _layer_with(split=_split, join=_join, inputs=lambda w, h: w, scaled_by=None, dim=-1):
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
            _layer_with(split=_scraps, join=_blind),
        ),
        Finding.like(
            "split without the transpose",
            "Write each token's number into all of its channels and split that: which token does row 1 of head 0 come "
            "from in your split?",
            _layer_with(split=_scraps),
        ),
        Finding.like(
            "join without the transpose",
            "Your weights are right and your output is not. On the way out the axes are (B, H, L, D), and row t of the "
            "result has to hold what *token* t has in all heads.",
            _layer_with(join=_blind),
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

# ----------------------------------------------------------------------------------------------- 03.without_heads


def without_heads(heads: Tensor, w_o: Tensor, b_o: Tensor, off: list[int]) -> Tensor:
    """Output (B, L, d_model) of a layer whose heads `off` are switched off; heads (B, H, L, D)."""
    keep = torch.ones(heads.shape[1], dtype=heads.dtype).index_fill(0, torch.tensor(off, dtype=torch.int64), 0)
    return torch.einsum("bhld,hdm,h->blm", heads, w_o.unflatten(0, (heads.shape[1], -1)), keep) + b_o


def _without_cases(seed: int) -> list[Case]:
    draw = _drawer(seed)

    def case(name: str, off: list[int], *shape: int, d_model: int, gradients: tuple[str, ...] = ()) -> Case:
        """`shape` is that of the heads, (B, H, L, D)."""
        tensors = {"heads": draw(*shape), "w_o": draw(shape[1] * shape[3], d_model), "b_o": draw(d_model)}
        return Case(name, {**tensors, "off": off}, gradients)

    return [
        case("one of 3 heads off", [1], 2, 3, 5, 4, d_model=12, gradients=("heads", "w_o", "b_o")),
        case("two of 4 heads off", [3, 0], 1, 4, 4, 2, d_model=8),
        case("none off", [], 2, 2, 3, 4, d_model=8),
        case("all off", [0, 1, 2], 1, 3, 5, 2, d_model=6),
        case("4 heads of 5 for 7 channels", [2], 2, 4, 3, 5, d_model=7),
    ]


def _silenced(heads: Tensor, off: list[int]) -> Tensor:
    return heads * torch.tensor([float(h not in off) for h in range(heads.shape[1])]).to(heads)[:, None, None]


def _columns_silenced(heads, w_o, b_o, off):
    output, size = _join(heads) @ w_o + b_o, heads.shape[3]
    return output * torch.tensor([float(c // size not in off) for c in range(len(b_o))]).to(output)


def _every_nth_row(heads, w_o, b_o, off):
    count = heads.shape[1]
    keep = torch.tensor([float(row % count not in off) for row in range(len(w_o))]).to(heads)
    return (_join(heads) * keep) @ w_o + b_o


def _scaled_up(heads, w_o, b_o, off):
    count = heads.shape[1]
    return (_join(_silenced(heads, off)) @ w_o) * (count / max(count - len(off), 1)) + b_o


def _shared_bias(heads, w_o, b_o, off):
    return _join(_silenced(heads, off)) @ w_o + b_o * (1 - len(off) / heads.shape[1])


def _inverted(heads, w_o, b_o, off):
    return _join(heads - _silenced(heads, off)) @ w_o + b_o


def _written_into(evidence: Evidence) -> bool:
    return all(evidence.same(got, want) for _, got, want in evidence.rows()) and any(
        outcome.changed for outcome in evidence.outcomes
    )


WITHOUT_HEADS = Exercise(
    id="03.without_heads",
    points=3,
    answer="without_heads",
    cases=_without_cases,
    reference=without_heads,
    properties=(
        Property.equal("equals the sum of the remaining terms, and the bias"),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding(
            "written into the input",
            "The numbers are right, and the caller's heads are gone: a second call would start from what the first one "
            "left. Work on something of your own.",
            _written_into,
        ),
        Finding.like(
            "output channels",
            "You cleared channels of the *output*. After W_O a head has no channels of its own: on which side of W_O "
            "does it have some?",
            _columns_silenced,
        ),
        Finding.like(
            "every H-th row",
            "You cleared every H-th channel of the concatenation. Which channels of it does head 1 fill?",
            _every_nth_row,
        ),
        Finding.like(
            "scaled up",
            "You made up for the missing heads, as dropout does. The task is the plain sum without their terms: how "
            "large is it?",
            _scaled_up,
        ),
        Finding.like(
            "bias shared out",
            "You took away a part of the bias for each head. How often is b_o added in the formula, and by which head?",
            _shared_bias,
        ),
        Finding.like(
            "no bias",
            "With all heads off something is left. What?",
            lambda heads, w_o, b_o, off: _join(_silenced(heads, off)) @ w_o,
        ),
        Finding.like(
            "the others switched off",
            "With no head off your output is the bias alone. Which heads does `off` name?",
            _inverted,
        ),
        Finding.like(
            "join without the transpose",
            "With no head off the output has to be that of the whole layer, and yours is not. In which order do the "
            "axes of (B, H, L, D) have to stand when they are laid side by side?",
            lambda heads, w_o, b_o, off: _blind(_silenced(heads, off)) @ w_o + b_o,
        ),
    ),
)

# ---------------------------------------------------------------------------------------------- 03.torch_weights


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o) -> dict[str, Tensor]:
    """The state of `nn.MultiheadAttention` from matrices of single heads: (H, d_model, D) and (H, D, d_model)."""
    return {
        "in_proj_weight": torch.cat([w.mT.flatten(0, 1) for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b.flatten() for b in (b_q, b_k, b_v)]),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }


def _torch_cases(seed: int) -> list[Case]:
    draw = _drawer(seed)

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

# ----------------------------------------------------------------------------------------------------- 03.repair


def repaired(query: Tensor, key: Tensor, value: Tensor, num_heads: int, num_kv_heads: int) -> Tensor:
    """Grouped attention (B, Lq, H · D) of heads side by side: query (B, Lq, H · D), key, value (B, Lk, Hkv · D)."""
    key, value = _split(key, num_kv_heads), _split(value, num_kv_heads)
    return _join(mhalib.attention(_split(query, num_heads), key, value, backend="reference"))


TWO_GROUPS, ALONE = "4 query heads, 2 key heads", "its first query alone"


def _repair_cases(seed: int) -> list[Case]:
    draw = _drawer(seed)

    def case(name: str, batch: int, lq: int, lk: int, num_heads: int, num_kv_heads: int, head_dim: int) -> Case:
        query = draw(batch, lq, num_heads * head_dim)
        key, value = (draw(batch, lk, num_kv_heads * head_dim) for _ in range(2))
        sizes = {"num_heads": num_heads, "num_kv_heads": num_kv_heads}
        return Case(name, {"query": query, "key": key, "value": value, **sizes})

    company = case(TWO_GROUPS, 2, 5, 7, 4, 2, 3)
    return [
        company,
        Case(ALONE, {**company.arguments, "query": company.arguments["query"][:, :1]}),
        case("as many queries as heads, 3 key heads", 1, 6, 4, 6, 3, 4),
        case("one key head for all", 2, 3, 5, 4, 1, 2),
        case("a key head for each", 1, 4, 6, 3, 3, 5),
    ]


def _grouped_with(split=_split, join=_blind, tiled: str = "kv"):
    """The program of the exercise, with one choice or more changed; `tiled` says whose partners are wrong."""

    def mistaken(query, key, value, num_heads, num_kv_heads):
        def spread(x: Tensor, name: str) -> Tensor:
            groups, x = num_heads // num_kv_heads, _split(x, num_kv_heads)
            return x.repeat(1, groups, 1, 1) if name in tiled else x.repeat_interleave(groups, dim=1)

        query, key, value = split(query, num_heads), spread(key, "k"), spread(value, "v")
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
        return join(weights @ value)

    return mistaken


def _alone(evidence: Evidence) -> bool:
    return torch.allclose(evidence.got(TWO_GROUPS)[:, :1], evidence.got(ALONE))


REPAIR = Exercise(
    id="03.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals a loop over the query heads"),
        Property("a query alone gets the same answer as in company", _alone),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. It has two mistakes: one decides with whom a query head speaks, "
            "the other to which token an output belongs.",
            _grouped_with(),
        ),
        Finding.like(
            "the join is still wrong",
            "The partners are right now. Ask one query alone, then in company: what becomes of its answer on the way "
            "out?",
            _grouped_with(tiled=""),
        ),
        Finding.like(
            "the partners are still wrong",
            "The way out is right now. With 4 query heads and 2 key heads, which key head should query head 1 read, "
            "and which one does it read?",
            _grouped_with(join=_join),
        ),
        Finding.like(
            "values still tiled",
            "The keys are cured. A query head has to read the values of the head whose keys it was compared with.",
            _grouped_with(join=_join, tiled="v"),
        ),
        Finding.like(
            "keys still tiled",
            "The values are cured. The scores still compare a query head with the keys of another group.",
            _grouped_with(join=_join, tiled="k"),
        ),
        Finding.like(
            "queries cut to fit",
            "You changed the way in to suit the way out. Now the queries of a head are pieces of other tokens, as in "
            "section 5 of the chapter.",
            _grouped_with(split=_scraps, tiled=""),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 03.ranks

RANK_KEYS = ("scores", "weights", "one term", "all terms")


def predict_ranks() -> dict[str, int]:
    """Ranks with 20 random tokens of 32 numbers and 4 heads of 8."""
    return {"scores": 8, "weights": 20, "one term": 8, "all terms": 20}


def _ranks(got: Outcome) -> list[int]:
    ranks = [got.value[key] for key in RANK_KEYS]
    if set(got.value) != set(RANK_KEYS) or not all(type(rank) is int and rank >= 0 for rank in ranks):
        raise ValueError("not four ranks")
    return ranks


def _right_rank(key: str):
    return lambda case, got, want: _ranks(got) and got.value[key] == want.value[key]


def _guessed(key: str, *ranks: int):
    return lambda case, got, want: _ranks(got) and got.value[key] in ranks


RANKS = Exercise(
    id="03.ranks",
    points=2,
    answer="predict_ranks",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_ranks,
    properties=(
        Property.each(
            "four whole numbers",
            lambda case, got, want: _ranks(got),
            hint="Return a dict with four whole numbers, as the docstring shows.",
        ),
        *(Property.each(f"{key}: as measured", _right_rank(key)) for key in RANK_KEYS),
    ),
    findings=(
        Finding.any(
            "more than there are rows",
            "All four matrices have 20 rows. Can the rank of one be larger than that?",
            lambda case, got, want: max(_ranks(got)) > 20,
        ),
        Finding.any(
            "scores of full rank",
            "The scores are a product of a 20 × 8 and an 8 × 20 matrix. How large can the rank of such a product be?",
            _guessed("scores", 20),
        ),
        Finding.any(
            "a softmax keeps the rank",
            "A softmax is no matrix product: it acts on each number by itself. Take the exponential of each entry of "
            "a matrix of rank 1: does the rank stay?",
            _guessed("weights", 8),
        ),
        Finding.any(
            "rows that sum to 1",
            "That each row sums to 1 ties the *columns* to a constant; no row becomes a sum of others by it. The unit "
            "matrix has such rows too: what is its rank?",
            _guessed("weights", 1, 19),
        ),
        Finding.any(
            "a term of full rank",
            "One term is a 20 × 8 matrix, times a matrix 8 × 32. Through how many numbers does a token have to pass?",
            _guessed("one term", 20),
        ),
        Finding.any(
            "heads share their space",
            "Each head has rows of W_O of its own, so the heads write into different directions. What is the rank of a "
            "sum then, at most?",
            _guessed("all terms", 8),
        ),
    ),
)

EXERCISES = (MULTI_HEAD, WITHOUT_HEADS, TORCH_WEIGHTS, REPAIR, RANKS)
