"""Exercises of chapter 14, attention maps and what they cannot tell."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mhalib import saliency
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property

# -------------------------------------------------------------------------------------------------------- 14.flow

N_TOKENS = 9


def predict_flow() -> dict[str, float]:
    """The class token's own share in a rollout of uniform attention, and a correlation."""
    own = {f"{depth} layers": 0.5**depth + (1 - 0.5**depth) / N_TOKENS for depth in (2, 12)}
    return own | {"head shuffled": 1.0}


def _near(key: str, room: float):
    return lambda case, got, want: abs(got.value[key] - want.value[key]) < room


def _guessed(**ranges: tuple[float, float]):
    """Whether the predictions lie in the given ranges: `two`, `twelve`, `head`."""
    keys = {"two": "2 layers", "twelve": "12 layers", "head": "head shuffled"}
    return lambda case, got, want: all(low <= got.value[keys[k]] <= high for k, (low, high) in ranges.items())


FLOW = Exercise(
    id="14.flow",
    points=2,
    answer="predict_flow",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_flow,
    properties=(
        Property.each(
            "two shares from 0 to 1 and a correlation from −1 to 1",
            _guessed(two=(0, 1), twelve=(0, 1), head=(-1, 1)),
            hint="Return a dict with three numbers, as the docstring shows.",
        ),
        Property.each("2 layers: within 0.01 of what is measured", _near("2 layers", 0.01)),
        Property.each("12 layers: within 0.01 of what is measured", _near("12 layers", 0.01)),
        Property.each("head shuffled: within 0.01 of what is measured", _near("head shuffled", 0.01)),
    ),
    findings=(
        Finding.any(
            "in percent", "A share is a number from 0 to 1.", lambda case, got, want: max(got.value.values()) > 1
        ),
        Finding.any(
            "the residual alone",
            "You followed what never leaves the class token. Attention brings some of it back: each token reads all "
            "nine, the class token among them.",
            _guessed(two=(0.24, 0.26), twelve=(0, 0.02)),
        ),
        Finding.any(
            "attention alone",
            "One ninth is what uniform attention gives by itself. What part of the class token does not go through "
            "attention at all in a layer?",
            _guessed(two=(0.1, 0.12)),
        ),
        Finding.any(
            "one layer",
            "That is the share after a single layer. The second one halves again what came straight through.",
            _guessed(two=(0.545, 0.565)),
        ),
        Finding.any(
            "half whatever the depth",
            "One half goes straight on in *each* layer. How much has gone straight on after two?",
            _guessed(two=(0.49, 0.51)),
        ),
        Finding.any(
            "fades to nothing",
            "Right for 2 layers. With many layers the straight path fades; a row of the rollout still sums to 1, so "
            "where has the rest gone?",
            _guessed(two=(0.32, 0.345), twelve=(0, 0.02)),
        ),
        Finding.any(
            "the head matters",
            "In which order does the model compute its attention weights and its logits? Then what can the weights of "
            "the head change?",
            _guessed(head=(-1, 0.99)),
        ),
    ),
)

# ----------------------------------------------------------------------------------------------------- 14.rollout


def rollout(maps: Tensor, fusion: str) -> Tensor:
    """(T, T) from the maps (depth, H, T, T) of one image."""
    return saliency.rollout(maps[None], fusion=fusion)[0]


def _maps(generator: torch.Generator, *shape: int) -> Tensor:
    return (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(dim=-1)


def _rollout_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)
    shared = _maps(generator, 2, 3, 4, 4)
    still = torch.eye(5, dtype=torch.float64).expand(2, 3, 5, 5).clone()
    return [
        Case("3 layers, 2 heads, mean", {"maps": _maps(generator, 3, 2, 5, 5), "fusion": "mean"}),
        Case("2 layers, 3 heads, max", {"maps": shared, "fusion": "max"}),
        Case("the same maps, min", {"maps": shared, "fusion": "min"}),
        Case("one layer, max", {"maps": _maps(generator, 1, 2, 6, 6), "fusion": "max"}),
        Case("as many layers as heads and tokens", {"maps": _maps(generator, 3, 3, 3, 3), "fusion": "mean"}),
        Case("no token reads another", {"maps": still, "fusion": "mean"}),
    ]


def _divided(mixed: Tensor) -> Tensor:
    return mixed / mixed.sum(dim=-1, keepdim=True)


def _rollout_with(residual: float = 1.0, divide=_divided, later_left: bool = True, fuse=saliency.fuse_heads):
    """A rollout with one thing different."""

    def mistaken(maps: Tensor, fusion: str) -> Tensor:
        identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
        joint = identity
        for layer in maps:
            mixed = divide((fuse(layer, fusion) + residual * identity) / (1 + residual))
            joint = mixed @ joint if later_left else joint @ mixed
        return joint

    return mistaken


def _heads_apart(maps: Tensor, fusion: str) -> Tensor:
    heads = [_rollout_with()(maps[:, h : h + 1], "mean") for h in range(maps.shape[1])]
    return saliency.fuse_heads(torch.stack(heads), fusion)


def _divided_at_the_end(maps: Tensor, fusion: str) -> Tensor:
    return _divided(_rollout_with(divide=lambda mixed: mixed)(maps, fusion))


def _everywhere(maps: Tensor, fusion: str) -> Tensor:
    joint = torch.eye(maps.shape[-1], dtype=maps.dtype)
    for layer in maps:
        joint = _divided(saliency.fuse_heads(layer, fusion) + 1) @ joint
    return joint


def _rows_sum_to_one(case: Case, got: Outcome, want: Outcome) -> bool:
    total = got.value.sum(dim=-1)
    return torch.allclose(total, torch.ones_like(total))


def _only_writes(evidence: Evidence) -> bool:
    """Every value is right, and an argument was written into."""
    right = all(evidence.same(Outcome(got.value), want) for _, got, want in evidence.rows())
    return right and any(got.changed for _, got, _ in evidence.rows())


ROLLOUT = Exercise(
    id="14.rollout",
    points=4,
    answer="rollout",
    cases=_rollout_cases,
    reference=rollout,
    properties=(
        Property.equal(),
        Property.each("each row sums to 1", _rows_sum_to_one),
        Property(
            "if no token reads another, nothing moves",
            lambda e: torch.equal(e.got("no token reads another"), torch.eye(5, dtype=torch.float64)),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "no residual",
            "You let everything pass through attention. A block also hands each token on as it is: which matrix says "
            "that, and with which share?",
            _rollout_with(residual=0.0),
        ),
        Finding.like(
            "the wrong order",
            "Take two layers: in the first, token 1 reads token 2; in the second, the class token reads token 1. Does "
            "your class token hold some of token 2?",
            _rollout_with(later_left=False),
        ),
        Finding.like(
            "rows not divided",
            "Right for the mean over heads. Sum the rows of one layer for the other two ways of fusing heads: what do "
            "they add up to before the product?",
            _rollout_with(divide=lambda mixed: mixed),
        ),
        Finding.like(
            "columns divided",
            "Sum your matrix over one axis, then over the other. The shares of which token have to make 1: of the one "
            "that reads, or of the one that is read?",
            _rollout_with(divide=lambda mixed: mixed / mixed.sum(dim=-2, keepdim=True)),
        ),
        Finding.like(
            "divided without keepdim",
            "You have the sums of the rows, and broadcasting lays them along the columns. What shape must T sums have "
            "to stand beside T rows?",
            _rollout_with(divide=lambda mixed: mixed / mixed.sum(dim=-1)),
        ),
        Finding.like(
            "divided at the end",
            "Your rows sum to 1, but only the last ones. A row that is too heavy in an early layer counts too much "
            "in all that follows: when does it have to be divided?",
            _divided_at_the_end,
        ),
        Finding.like(
            "always the mean",
            "You give the same answer whatever `fusion` says.",
            _rollout_with(fuse=lambda layer, fusion: layer.mean(dim=0)),
        ),
        Finding.like(
            "heads apart to the end",
            "You rolled out each head by itself. A token after a layer is made by all heads of that layer together: "
            "when do they have to be fused?",
            _heads_apart,
        ),
        Finding.like(
            "the last layer alone",
            "What you return knows only the last layer. What do its tokens hold already when they arrive there?",
            lambda maps, fusion: _rollout_with()(maps[-1:], fusion),
        ),
        Finding.like(
            "one half added everywhere",
            "Give your function maps in which each token reads itself alone: no token may hold anything of another. "
            "Which entries of a matrix say that a token keeps what it has?",
            _everywhere,
        ),
        Finding(
            "writes into the maps",
            "Your result is right, and the caller's maps have changed: an operation that ends in an underscore, or an "
            "assignment like +=, writes into the tensor it is given.",
            _only_writes,
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 14.repair


def repaired(attention: Tensor, count: int) -> Tensor:
    """One layer of rollout (T, T), with the `count` smallest weights outside of column 0 discarded."""
    tokens = len(attention)
    return saliency.rollout(attention[None, None, None], discard=count / (tokens * (tokens - 1)))[0]


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, tokens: int, count: int, column: float = 0.0) -> Case:
        """`column` is added to the scores of the class token."""
        scores = torch.randn(tokens, tokens, generator=generator, dtype=torch.float64)
        scores[:, 0] += column
        return Case(name, {"attention": scores.softmax(dim=-1), "count": count})

    return [
        case("5 tokens, 8 weights go", 5, 8),
        case("the class token is read least", 6, 9, column=-4.0),
        case("the class token is read most", 4, 5, column=4.0),
        case("all but one go", 5, 19),
        case("nothing goes", 6, 0),
    ]


def _pruned(attention: Tensor, count: int, spared: str, after: bool) -> Tensor:
    """`after`: chosen among all weights, those spared taken out of the choice; else chosen among the others."""
    keep = torch.zeros_like(attention, dtype=torch.bool)
    keep[{"entry": (0, 0), "row": 0, "column": (slice(None), 0)}[spared]] = True
    ranked = attention if after else attention.masked_fill(keep, math.inf)
    gone = torch.zeros(attention.numel(), dtype=torch.bool)
    gone[ranked.flatten().argsort(stable=True)[:count]] = True
    return attention.masked_fill(gone.view_as(keep) & ~keep, 0.0)


def _repaired_with(spared: str = "column", after: bool = False, divide=_divided):
    """The program of the exercise, with one choice or more still wrong."""

    def mistaken(attention: Tensor, count: int) -> Tensor:
        identity = torch.eye(len(attention), dtype=attention.dtype)
        return divide((_pruned(attention, count, spared, after) + identity) / 2)

    return mistaken


def _no_keepdim(mixed: Tensor) -> Tensor:
    return mixed / mixed.sum(dim=-1)


REPAIR = Exercise(
    id="14.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals one layer of rollout without the smallest weights"),
        Property.each("each row sums to 1", _rows_sum_to_one),
        Property.each(
            "every token still holds some of the class token", lambda case, got, want: (got.value[:, 0] > 0).all()
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two lines of it are wrong: one decides what is spared, the other "
            "which sums become 1.",
            _repaired_with("entry", after=True, divide=_no_keepdim),
        ),
        Finding.like(
            "one entry spared",
            "The rows sum to 1 now. The line that spares the class token still compares places in the *flattened* "
            "matrix with a single number: how many places there belong to column 0?",
            _repaired_with("entry", after=True),
        ),
        Finding.like(
            "the division is still wrong",
            "The class column stays now. Sum the rows of your result: T sums in one dimension are laid along the "
            "columns by broadcasting.",
            _repaired_with(divide=_no_keepdim),
        ),
        Finding.like(
            "columns divided",
            "The class column stays. Now every column sums to 1, and every row should.",
            _repaired_with(divide=lambda mixed: mixed / mixed.sum(dim=-2, keepdim=True)),
        ),
        Finding.like(
            "not divided",
            "Discarding makes rows lighter. What brings their sums back to 1?",
            _repaired_with(divide=lambda mixed: mixed),
        ),
        Finding.like(
            "fewer go",
            "The class column is spared, but after the choice: fewer weights than `count` become 0. Among which ones "
            "are the smallest to be looked for?",
            _repaired_with(after=True),
        ),
        Finding.like(
            "the row is spared",
            "Row 0 is what the class token reads. Which numbers say how much *others* read of the class token?",
            _repaired_with("row"),
        ),
        Finding(
            "writes into the attention",
            "Your result is right, and the caller's attention has lost its small weights too: `flatten` of a "
            "contiguous tensor is a view of it.",
            _only_writes,
        ),
    ),
)

# -------------------------------------------------------------------------------------------------------- 14.cdam


def last_layer(residual: Tensor, read: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor) -> Tensor:
    """Logits (classes,) of the model's last layer, as the notebook gives it."""
    return head @ (residual[0] + _class_row(read, query, key) @ read @ value)


def _class_row(read: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """(T,): what the class token reads."""
    return (read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])).softmax(dim=-1)


def _normed(tokens: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(tokens, tokens.shape[-1:])


def _cdam_with(score=lambda read, gradient, row: (read * gradient).sum(-1), of=lambda logits, target: logits[target]):
    """A map with one thing different: `score` makes it of tokens, gradient and attention, `of` is differentiated."""

    def mistaken(tokens: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor, target: int) -> Tensor:
        read = _normed(tokens).requires_grad_()
        logit = of(last_layer(tokens, read, query, key, value, head), target)
        (gradient,) = torch.autograd.grad(logit, read)
        read = read.detach()
        return score(read, gradient, _class_row(read, query, key))[1:]

    return mistaken


def _before_the_norm(tokens: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor, target: int) -> Tensor:
    tokens = tokens.clone().requires_grad_()
    logit = last_layer(tokens, _normed(tokens), query, key, value, head)[target]
    (gradient,) = torch.autograd.grad(logit, tokens)
    return (tokens.detach() * gradient).sum(-1)[1:]


def _two_places(tokens: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor, target: int) -> Tensor:
    gradient = _cdam_with(score=lambda read, gradient, row: gradient)(tokens, query, key, value, head, target)
    return (tokens[1:] * gradient).sum(-1)


cdam = _cdam_with()


def _cdam_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, tokens: int, width: int, classes: int, target: int) -> Case:
        def draw(*shape: int, size: float = 1.0) -> Tensor:
            return size * torch.randn(shape, generator=generator, dtype=torch.float64)

        matrices = {matrix: draw(width, width, size=width**-0.5) for matrix in ("query", "key", "value")}
        tensors = {"tokens": draw(tokens, width, size=2), **matrices, "head": draw(classes, width)}
        return Case(name, {**tensors, "target": target})

    plain = case("4 patches, class 0", 5, 8, 3, target=0)
    return [
        plain,
        Case("the same, class 2", {**plain.arguments, "target": 2}),
        Case("the same, every logit with its sign turned", {**plain.arguments, "head": -plain.arguments["head"]}),
        case("as many tokens as numbers", 6, 6, 4, target=1),
        case("one patch", 2, 7, 2, target=1),
    ]


def _with_class_token(case: Case, got: Outcome, want: Outcome) -> bool:
    return torch.allclose(got.value[1:], want.value) and len(got.value) == len(want.value) + 1


CDAM = Exercise(
    id="14.cdam",
    points=4,
    answer="cdam",
    cases=_cdam_cases,
    reference=cdam,
    properties=(
        Property.equal(),
        Property(
            "another class has another map",
            lambda e: not torch.allclose(e.got("4 patches, class 0"), e.got("the same, class 2")),
        ),
        Property(
            "what spoke for a class speaks against it when the logits turn their sign",
            lambda e: torch.allclose(e.got("4 patches, class 0"), -e.got("the same, every logit with its sign turned")),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "before the norm",
            "Print your scores: they are next to nothing. A layer norm does not see how long a token is. Which tokens "
            "does the attention layer read?",
            _before_the_norm,
        ),
        Finding.like(
            "tokens and gradient from two places",
            "The gradient is the right one. It belongs to the tokens behind the norm, and you multiplied it with those "
            "before it.",
            _two_places,
        ),
        Finding.like(
            "absolute scores",
            "All your scores are positive. What would a token look like that speaks *against* the class?",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).sum(-1).abs()),
        ),
        Finding.like(
            "absolute products",
            "You took the size of each product before the sum. Positive and negative entries of one token have to be "
            "weighed against each other.",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).abs().sum(-1)),
        ),
        Finding.like(
            "only what speaks for it",
            "Your map has zeros where a token speaks against the class, as in maps that end in a ReLU. What does the "
            "formula do with the sign?",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).sum(-1).clamp(min=0)),
        ),
        Finding.like(
            "times attention",
            "Attention is in the gradient already, through the chain rule. Where does the formula have an attention "
            "weight?",
            _cdam_with(score=lambda read, gradient, row: row * (read * gradient).sum(-1)),
        ),
        Finding.like(
            "a mean",
            "The order of your tokens is right, and the scores are too small by one factor. What does the formula do "
            "over the numbers of a token?",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).mean(-1)),
        ),
        Finding.like(
            "the gradient alone",
            "The length of the gradient says how much a token *could* move the logit, in some direction. In which "
            "direction does the token itself point?",
            _cdam_with(score=lambda read, gradient, row: gradient.norm(dim=-1)),
        ),
        Finding.like(
            "the probability",
            "A softmax over the classes brings the other logits in: a token that only lowers those would seem to speak "
            "for this class. What does the formula differentiate?",
            _cdam_with(of=lambda logits, target: logits.softmax(-1)[target]),
        ),
        Finding.like(
            "all classes at once",
            "Your map is the same for each target: you differentiate the sum of all logits.",
            _cdam_with(of=lambda logits, target: logits.sum()),
        ),
        Finding.like(
            "the class that wins",
            "You explain the class that the model would choose. Which one was asked for?",
            _cdam_with(of=lambda logits, target: logits.max()),
        ),
        Finding.any(
            "the class token too",
            "One score too many: the first of your scores belongs to no patch.",
            _with_class_token,
        ),
        Finding(
            "writes into the tokens",
            "Your scores are right, and the caller's tokens are normed now. Which of your lines gives the norm's "
            "result the place of its input?",
            _only_writes,
        ),
    ),
)

# ---------------------------------------------------------------------------------------------------- 14.deletion


def deletion(patches: Tensor, scores: Tensor, baseline: float) -> Tensor:
    """(N + 1, N, P): entry k is the image after the k patches (of P numbers) with the highest scores are gone."""
    return _deleted(patches, _ranks(scores), baseline)


def _ranks(scores: Tensor) -> Tensor:
    """0 for the patch that goes first."""
    return scores.argsort(descending=True).argsort()


def _deleted(patches: Tensor, rank: Tensor, baseline: float) -> Tensor:
    counts = torch.arange(len(patches) + 1)
    return patches.masked_fill((rank < counts[:, None])[..., None], baseline)


def _deletion_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, number: int, size: int, baseline: float, shift: float = 0.0) -> Case:
        """Scores of both signs, each sign at least once where there is more than one patch."""
        scores = torch.linspace(-1, 1.3, number, dtype=torch.float64)[torch.randperm(number, generator=generator)]
        patches = torch.rand(number, size, generator=generator, dtype=torch.float64)
        return Case(name, {"patches": patches, "scores": scores + shift, "baseline": baseline})

    return [
        case("8 patches, black", 8, 4, 0.0),
        case("7 patches, grey", 7, 3, 0.5),
        case("as many patches as numbers, white", 5, 5, 1.0),
        case("every score negative, grey", 6, 2, 0.25, shift=-2.0),
        case("one patch", 1, 4, 0.5),
    ]


def _one_at_a_time(patches: Tensor, scores: Tensor, baseline: float) -> Tensor:
    turns = torch.arange(-1, len(patches))[:, None]
    return patches.masked_fill((_ranks(scores) == turns)[..., None], baseline)


def _steps(case: Case, got: Outcome, want: Outcome) -> bool:
    """Whether each step changes exactly one patch."""
    changed = (got.value[1:] != got.value[:-1]).any(dim=-1)
    return bool((changed.sum(dim=-1) == 1).all())


DELETION = Exercise(
    id="14.deletion",
    points=3,
    answer="deletion",
    cases=_deletion_cases,
    reference=deletion,
    properties=(
        Property.each(
            "begins with the image as it was",
            lambda case, got, want: torch.equal(got.value[0], case.arguments["patches"]),
        ),
        Property.each(
            "ends with nothing but the baseline",
            lambda case, got, want: (got.value[-1] == case.arguments["baseline"]).all(),
        ),
        Property.each("each step takes one more patch", _steps),
        Property.equal("the patches go in the right order"),
        Property.pure(),
    ),
    findings=(
        Finding(
            "writes into the patches",
            "The images are right, and the caller's patches are gone. What did you write into?",
            _only_writes,
        ),
        Finding.like(
            "lowest first",
            "Your first patch to go is the one with the lowest score. Which way does a sort run by itself?",
            lambda patches, scores, baseline: _deleted(patches, _ranks(-scores), baseline),
        ),
        Finding.like(
            "by size",
            "You took the patches with the largest *absolute* scores. A patch that speaks strongly against the class "
            "goes last: would the logit fall without it?",
            lambda patches, scores, baseline: _deleted(patches, _ranks(scores.abs()), baseline),
        ),
        Finding.like(
            "an order taken for ranks",
            "A sort gives, for each place in the order, the patch that stands there. You read it as: for each patch, "
            "its place. For which permutations is that the same?",
            lambda patches, scores, baseline: _deleted(patches, scores.argsort(descending=True), baseline),
        ),
        Finding.like(
            "the whole image is missing",
            "One image too few: what is the curve compared with? It has a point before anything is taken away.",
            lambda patches, scores, baseline: deletion(patches, scores, baseline)[1:],
        ),
        Finding.like(
            "the last step is missing",
            "One image too few: N patches go in N steps, which makes how many images?",
            lambda patches, scores, baseline: deletion(patches, scores, baseline)[:-1],
        ),
        Finding.like(
            "one at a time",
            "In each of your images a single patch is missing. After k steps k of them are gone.",
            _one_at_a_time,
        ),
        Finding.like(
            "always black",
            "Right where the baseline is 0. What shall stand in the place of a patch otherwise?",
            lambda patches, scores, baseline: deletion(patches, scores, 0.0),
        ),
        Finding.like(
            "put back",
            "You begin with nothing and put patches back. That is insertion, the other test.",
            lambda patches, scores, baseline: patches.masked_fill(
                (_ranks(scores) >= torch.arange(len(patches) + 1)[:, None])[..., None], baseline
            ),
        ),
        Finding.like(
            "one image many times",
            "All your images are the last one. A list that holds the same tensor several times shows its last state "
            "several times.",
            lambda patches, scores, baseline: torch.full((len(patches) + 1, *patches.shape), baseline).to(patches),
        ),
    ),
)

EXERCISES = (FLOW, ROLLOUT, REPAIR, CDAM, DELETION)
