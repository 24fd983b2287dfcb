"""Exercises of chapter 10, grouped queries and the KV cache."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from mhalib import configurations, counting
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property
from mhalib.checks.compare import difference


def _random(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


# ------------------------------------------------------------------------------------------------------ 10.groups


def grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention (B, H, Lq, Dv) of H query heads that share Hkv key heads, aligned at the last key."""
    return mhalib.attention(query, key, value, causal=True, backend="reference")


def _groups_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, batch: int, heads: tuple[int, int], lq: int, lk: int, gradients: tuple[str, ...] = ()) -> Case:
        shapes = {"query": (heads[0], lq, 8), "key": (heads[1], lk, 8), "value": (heads[1], lk, 5)}
        return Case(name, {n: _random(generator, batch, *shape) for n, shape in shapes.items()}, gradients)

    return [
        case("6 query heads on 3 key heads", 2, (6, 3), 5, 5, gradients=("query", "key", "value")),
        case("6 query heads on 2 key heads, 4 queries, 9 keys", 1, (6, 2), 4, 9),
        case("one query, 7 keys", 3, (4, 2), 1, 7),
        case("one key head", 1, (4, 1), 3, 6),
        case("as many key heads as query heads", 2, (3, 3), 4, 4),
        case("6 query heads, 4 key heads", 1, (6, 4), 3, 3),
    ]


def _lower(rows: int, columns: int, shift: int) -> Tensor:
    """True where column ≤ row + shift."""
    return torch.arange(columns) <= torch.arange(rows)[:, None] + shift


def _grouped_with(repeat: Callable | None = None, seen: Callable | None = None, join: Callable = lambda x, group: x):
    """The formula with one thing different."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        group, lq, lk = query.shape[1] // key.shape[1], query.shape[2], key.shape[2]
        for_all = repeat or (lambda x, group: x.repeat_interleave(group, dim=1))
        scores = query @ for_all(key, group).mT / math.sqrt(query.shape[-1])
        mask = seen(lq, lk, group) if seen else _lower(lq, lk, lk - lq)
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        return join(weights @ for_all(value, group), group)

    return mistaken


def _numbered_through(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Queries of a group side by side as rows, and the mask of that many rows."""
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    scores = rows @ key.mT / math.sqrt(query.shape[-1])
    mask = _lower(rows.shape[2], key.shape[2], key.shape[2] - query.shape[2])
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return (weights @ value).unflatten(2, (-1, query.shape[2])).flatten(1, 2)


def _numbered_back(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same, aligned at the last row of the group."""
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    return mhalib.attention(rows, key, value, causal=True).unflatten(2, (-1, query.shape[2])).flatten(1, 2)


def _right_where_it_divides(evidence: Evidence, refused: Callable[[Outcome, Outcome], bool]) -> bool:
    values = [evidence.same(got, want) for _, got, want in evidence.rows() if want.error is None]
    return all(values) and all(refused(got, want) for _, got, want in evidence.rows() if want.error is not None)


GROUPS = Exercise(
    id="10.groups",
    points=3,
    answer="grouped",
    cases=_groups_cases,
    reference=grouped,
    properties=(
        Property.equal("equals causal attention with each key head used by its group"),
        Property.same_gradients(),
        Property.refuses("refuses, with a ValueError, key heads that do not divide the query heads"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "tile",
            "With one key head, or as many as query heads, this is right. In between: write down which key head each "
            "query head reads. Are the heads of a group neighbours?",
            _grouped_with(repeat=lambda x, group: x.repeat(1, group, 1, 1)),
        ),
        Finding.like(
            "top left corner",
            "Right for as many queries as keys. With 4 queries and 9 keys, 5 keys were there before the first query: "
            "how many does it see in yours?",
            _grouped_with(seen=lambda lq, lk, group: _lower(lq, lk, 0)),
        ),
        Finding.like(
            "no mask",
            "Right for one query at the end. Change the last key: for which queries may the output change?",
            _grouped_with(seen=lambda lq, lk, group: _lower(lq, lk, lk)),
        ),
        Finding.like(
            "rows numbered through",
            "The queries of a group are rows of one product now, G times Lq of them. Row Lq is the first query of "
            "another head, not a later one. What position does it have?",
            _numbered_through,
            _numbered_back,
        ),
        Finding.like(
            "heads come back in another order",
            "Each head's numbers are right, and they stand in the place of another head. Look at the step that joins "
            "key heads and members of a group into one axis: which of them has to vary fastest?",
            _grouped_with(join=lambda x, group: x.unflatten(1, (-1, group)).transpose(1, 2).flatten(1, 2)),
        ),
        Finding(
            "no refusal",
            "Right wherever the key heads divide the query heads. 6 query heads on 4 key heads have no equal groups, "
            "and yours gives numbers for them. What should happen instead?",
            lambda e: _right_where_it_divides(e, lambda got, want: got.error is None),
        ),
        Finding(
            "another kind of error",
            "It stops where the heads do not divide, with an error that an operation on the way happens to raise. The "
            "caller needs a ValueError that says what is wrong: look at the sizes before you compute.",
            lambda e: _right_where_it_divides(e, lambda got, want: got.error is not None),
        ),
    ),
)

# --------------------------------------------------------------------------------------------------- 10.rolling


def rolling_step(query: Tensor, key: Tensor, value: Tensor, past: tuple, window: int) -> tuple[Tensor, tuple]:
    """Output (B, H, n, D) of n new tokens, and (keys, values, count): what the next token can still see."""
    return _rolling_with()(query, key, value, past, window)


def _last(keys: Tensor, window: int) -> Tensor:
    return keys[:, :, max(0, keys.shape[2] - (window - 1)) :]


def _rolling_with(
    first: Callable = lambda count, kept: count,
    attend: Callable = lambda q, k, v, window: mhalib.attention(q, k, v, causal=True, window=window),
    before: Callable = lambda x, window: x,
    keep: Callable = _last,
    turn_values: bool = False,
    counted: Callable = lambda count, kept, new: count + new,
):
    """The step, with one choice or more different."""

    def step(query: Tensor, key: Tensor, value: Tensor, past: tuple, window: int) -> tuple[Tensor, tuple]:
        keys, values, count = past
        new = query.shape[2]
        rotary = mhalib.RotaryEmbedding(query.shape[-1])
        at = first(count, keys.shape[2]) + torch.arange(new)
        value = rotary(value, at) if turn_values else value
        keys = before(torch.cat((keys, rotary(key, at)), dim=2), window)
        values = before(torch.cat((values, value), dim=2), window)
        output = attend(rotary(query, at), keys, values, window)
        keys, values = keep(keys, window), keep(values, window)
        return output, (keys, values, counted(count, keys.shape[2], new))

    return step


def _rolling_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, window: int, before: int, new: int, batch: int = 1) -> Case:
        def three(length: int) -> dict[str, Tensor]:
            return {n: _random(generator, batch, 2, length, 8) for n in ("query", "key", "value")}

        empty = (torch.zeros(batch, 2, 0, 8, dtype=torch.float64),) * 2
        past = (*empty, 0)
        if before:
            past = rolling_step(**three(before), past=past, window=window)[1]
        return Case(name, {**three(new), "past": past, "window": window})

    return [
        case("a prompt of 3, window 6", window=6, before=0, new=3, batch=2),
        case("a prompt of 9, window 4", window=4, before=0, new=9),
        case("one token after 2, window 6", window=6, before=2, new=1),
        case("one token after 20, window 4", window=4, before=20, new=1, batch=2),
        case("3 tokens after 20, window 4", window=4, before=20, new=3),
        case("7 tokens after 20, window 4", window=4, before=20, new=7),
        case("2 tokens after 7, window 1", window=1, before=7, new=2),
    ]


def _part(index: int, number: int | None = None):
    """Whether one part of the answer is right: the output, or a number of the state."""

    def test(case: Case, got: Outcome, want: Outcome) -> bool:
        output, (keys, values, count) = got.value
        parts = (output, (keys, values), count)
        expected = (want.value[0], want.value[1][:2], want.value[1][2])
        return not difference(parts[index], expected[index])

    return test


def _first_key_only(case: Case, got: Outcome, want: Outcome) -> bool:
    """One query, and it saw the oldest key alone."""
    one = case.arguments["query"].shape[2] == 1 and case.arguments["past"][0].shape[2] > 0
    return one and torch.allclose(got.value[0], case.arguments["past"][1][:, :, :1])


ROLLING = Exercise(
    id="10.rolling",
    points=5,
    answer="rolling_step",
    cases=_rolling_cases,
    reference=rolling_step,
    properties=(
        Property.each("the output is that of a window over the whole text", _part(0)),
        Property.each("keeps the last window − 1 keys and values, oldest first", _part(1)),
        Property.each("counts all tokens that have passed", _part(2)),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "numbers from 0",
            "Prompts are right, and every step after them is turned as if it began a text. Which number in `past` says "
            "where this step continues?",
            _rolling_with(first=lambda count, kept: 0),
        ),
        Finding.like(
            "numbered by what is kept",
            "Right until the window is full. From then on the number of kept keys stands still, and time does not: "
            "after 20 tokens, what is the position of the next one?",
            _rolling_with(first=lambda count, kept: kept),
        ),
        Finding.any(
            "the corner",
            "A single new token sees the oldest kept key and nothing else in yours. At which corner of the scores is "
            "your mask anchored, and where does the newest token stand?",
            _first_key_only,
        ),
        Finding.like(
            "no window in the mask",
            "Right for one token at a time. With several new tokens the last of them sees more kept keys than its "
            "window holds: the cache alone does not make the window.",
            _rolling_with(attend=lambda q, k, v, window: mhalib.attention(q, k, v, causal=True)),
        ),
        Finding.like(
            "no mask",
            "Right for one token at a time, where everything kept may be seen. With several, the first new token must "
            "not see the last, and the last not the oldest.",
            _rolling_with(attend=lambda q, k, v, window: mhalib.attention(q, k, v)),
        ),
        Finding.like(
            "cut before attending",
            "In a step of 7 tokens with a window of 4, the first new token still needs the kept keys, and the last one "
            "does not. When may the old ones be thrown away?",
            _rolling_with(before=lambda x, window: x[:, :, -window:]),
            _rolling_with(before=_last),
        ),
        Finding.like(
            "keeps the first",
            "The output is right, and what you keep is the beginning of the text. Which keys can the next token see?",
            _rolling_with(keep=lambda x, window: x[:, :, : window - 1]),
        ),
        Finding.like(
            "keeps everything",
            "The output is right. Count what is kept after a long text: it should stop growing.",
            _rolling_with(keep=lambda x, window: x),
        ),
        Finding.like(
            "keeps one too many",
            "The output is right. The window counts the token itself: of a window of 4, how many keys must come from "
            "the past?",
            _rolling_with(keep=lambda x, window: x[:, :, -window:]),
        ),
        Finding.like(
            "minus nought",
            "Right for every window but 1. There nothing is to be kept, and yours keeps everything: what does Python "
            "make of a slice that begins at minus nought?",
            _rolling_with(keep=lambda x, window: x[:, :, -(window - 1) :]),
        ),
        Finding.like(
            "values turned",
            "Only scores should know about positions. Which two of the three tensors meet in a score?",
            _rolling_with(turn_values=True),
        ),
        Finding.like(
            "counts what is kept",
            "Output and cache are right in this step. The count that you return is that of the kept keys: where will "
            "the next token believe itself to be?",
            _rolling_with(counted=lambda count, kept, new: kept),
        ),
    ),
)

# ----------------------------------------------------------------------------------------------- 10.cache_bytes

NAMES = (
    "Llama 2 7B",
    "Llama 3 8B",
    "Llama 3.1 405B",
    "Mistral 7B v0.1",
    "Gemma 3 27B",
    "PaLM 540B",
    "DeepSeek-V2",
    "DeepSeek-V3",
)
SIZES = (
    *("layers", "windowed_layers", "window", "d_model", "num_heads", "num_kv_heads", "head_dim"),
    *("kv_rank", "rope_dim"),
)


def cache_bytes(config: dict[str, int], tokens: int, users: int, bits: int) -> int:
    """Bytes of the KV cache of `users` texts of `tokens` tokens, `bits` bits a number."""
    if config["kv_rank"]:
        sizes = (config["layers"], config["kv_rank"], config["rope_dim"])
        return counting.latent_cache_bytes(*sizes, tokens, 1, users) * bits // 8
    heads, windowed = (config["num_kv_heads"], config["head_dim"]), config["windowed_layers"]
    kinds = ((config["layers"] - windowed, None), (windowed, config["window"]))
    numbers = [counting.kv_cache_bytes(n, *heads, tokens, 1, users, window) for n, window in kinds if n]
    return sum(numbers) * bits // 8


def _bytes_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, low: int, high: int, bits: int) -> Case:
        model = configurations.get(name)
        tokens = int(torch.randint(low, high, (), generator=generator))
        users = int(torch.randint(2, 40, (), generator=generator))
        config = {size: getattr(model, size) for size in SIZES}
        return Case(
            f"{name}, {bits} bits{', short' if high < 1000 else ''}",
            {"config": config, "tokens": tokens, "users": users, "bits": bits},
        )

    long = [case(name, 5000, 30000, 16) for name in NAMES]
    return [*long, case("Gemma 3 27B", 10, 999, 16), case("Llama 3 8B", 1000, 9000, 4), case("DeepSeek-V2", 10, 999, 8)]


def _bytes_with(
    heads: str = "num_kv_heads",
    both: int = 2,
    size: Callable = lambda c: c["head_dim"],
    windowed: Callable = lambda c: c["windowed_layers"],
    latent: Callable = lambda c: c["kv_rank"] + c["rope_dim"],
    unit: Callable = lambda numbers, bits: numbers * bits // 8,
):
    """The count with one thing different; `latent` gives 0 where latents are not known."""

    def mistaken(config: dict[str, int], tokens: int, users: int, bits: int) -> int:
        numbers = both * config[heads] * size(config)
        inside, layers = windowed(config) if config["window"] else 0, config["layers"]
        kept = inside * min(tokens, config["window"]) + (layers - inside) * tokens
        if config["kv_rank"] and latent(config):
            numbers, kept = latent(config), layers * tokens
        return unit(numbers * kept * users, bits)

    return mistaken


CACHE_BYTES = Exercise(
    id="10.cache_bytes",
    points=3,
    answer="cache_bytes",
    cases=_bytes_cases,
    reference=cache_bytes,
    properties=(Property.equal("equals the count of bytes, to the byte"), Property.pure()),
    findings=(
        Finding.like(
            "query heads",
            "Right for Llama 2 7B. Whose heads are in the cache: those that ask, or those that are asked?",
            _bytes_with(heads="num_heads"),
        ),
        Finding.like(
            "keys alone",
            "Half of what is there. A key says whether a token is looked at: what else is needed of it?",
            _bytes_with(both=1),
        ),
        Finding.like(
            "head size from the width",
            "Right for the Llamas. The size of a head is a number of its own: compare num_heads · head_dim with "
            "d_model for Gemma 3 and PaLM.",
            _bytes_with(size=lambda c: c["d_model"] // c["num_heads"]),
        ),
        Finding.like(
            "windows forgotten",
            "Right for short texts. In a layer with a window, how many tokens can still be seen, however long the "
            "text has become?",
            _bytes_with(windowed=lambda c: 0),
        ),
        Finding.like(
            "a window in every layer",
            "Right for Mistral. Gemma 3 has 62 layers and 52 of them have a window: what do the other ten keep?",
            _bytes_with(windowed=lambda c: c["layers"]),
        ),
        Finding.like(
            "heads in the place of latents",
            "Right for all but the DeepSeeks. They do not keep keys and values of heads, but one vector for each "
            "token from which all are unpacked. What size does it have?",
            _bytes_with(latent=lambda c: 0),
        ),
        Finding.like(
            "latents twice",
            "Twice too much for the DeepSeeks. Are there two vectors for each token, one for the keys and one for the "
            "values, or are both unpacked from the same?",
            _bytes_with(latent=lambda c: 2 * (c["kv_rank"] + c["rope_dim"])),
        ),
        Finding.like(
            "the rotary part forgotten",
            "A little too small for the DeepSeeks. The latent knows no positions: which other small key is kept?",
            _bytes_with(latent=lambda c: c["kv_rank"]),
        ),
        Finding.like(
            "latents in every head",
            "Far too much for the DeepSeeks. How many heads read the same latent?",
            _bytes_with(latent=lambda c: c["num_kv_heads"] * (c["kv_rank"] + c["rope_dim"])),
        ),
        Finding.like(
            "bits taken for bytes",
            "Eight times too much. What is the unit of `bits`, and what is asked for?",
            _bytes_with(unit=lambda numbers, bits: numbers * bits),
        ),
    ),
)

# --------------------------------------------------------------------------------------------------- 10.factors

ROOM = 0.05


def predict_factors() -> dict[str, float]:
    """What is left of each, of 1, when Llama 3 8B has 8 key heads in the place of 32."""
    return {"cache": 0.25, "projections": 0.625, "scores": 1.0, "step": 0.884}


def _near(key: str):
    return lambda case, got, want: abs(got.value[key] - want.value[key]) <= ROOM


def _between(key: str, low: float, high: float):
    return lambda case, got, want: low <= got.value[key] <= high


FACTORS = Exercise(
    id="10.factors",
    points=2,
    answer="predict_factors",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_factors,
    properties=(
        Property.each(
            "four shares, above 0 and at most 1",
            lambda case, got, want: (
                set(got.value) == set(want.value) and all(0 < share <= 1 for share in got.value.values())
            ),
            hint="Return a dict with four numbers above 0 and up to 1, as the docstring shows.",
        ),
        Property.each("cache: within 0.05", _near("cache")),
        Property.each("projections: within 0.05", _near("projections")),
        Property.each("scores: within 0.05", _near("scores")),
        Property.each("step: within 0.05", _near("step")),
    ),
    findings=(
        Finding.any(
            "how many times less",
            "What is asked for is what is *left*, new over old: a number of at most 1.",
            lambda case, got, want: max(got.value.values()) > 1,
        ),
        Finding.any(
            "always an eighth",
            "An eighth is what another model got. How many key heads were there before, and how many are there now?",
            _between("cache", 0.12, 0.13),
        ),
        Finding.any(
            "cheaper scores",
            "Grouped or not: how many query heads are there, and with how many keys does each of them make a product?",
            _between("scores", 0, 0.9),
        ),
        Finding.any(
            "all projections shrink",
            "A layer has four projections. Which of them make keys and values, and which do not?",
            _between("projections", 0.2, 0.4),
        ),
        Finding.any(
            "projections stay",
            "Keys and values are made by matrices of d_model by key heads · head_dim numbers. Fewer heads, fewer rows.",
            _between("projections", 0.9, 1),
        ),
        Finding.any(
            "the cache is all that is read",
            "One user with 1,000 tokens: compare the bytes of the cache with the bytes of the weights, which a step "
            "reads too.",
            _between("step", 0, 0.7),
        ),
        Finding.any(
            "the weights stay as they were",
            "Next to nothing comes from so small a cache, that is right. But the weights that are read are fewer too: "
            "how many numbers have the key and value matrices of 32 layers lost?",
            _between("step", 0.95, 1),
        ),
    ),
)

# ---------------------------------------------------------------------------------------------------- 10.absorb


def absorbed(query: Tensor, latent: Tensor, k_up: Tensor, v_up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Absorbed queries and mixed latents, both (B, H, Lq, R), and the output (B, H, Lq, D)."""
    return _absorbed_with()(query, latent, k_up, v_up)


def _absorbed_with(
    scale: Callable = lambda d, r: 1 / math.sqrt(d),
    absorb: str = "bhqd,hdr->bhqr",
    last: Callable = lambda k_up, v_up: v_up,
    shown: Callable = lambda asked, scale: asked,
    pool: Callable = lambda scores: scores,
):
    """The absorbed form with one thing different."""

    def mistaken(query: Tensor, latent: Tensor, k_up: Tensor, v_up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        by = scale(*k_up.shape[1:])
        asked = torch.einsum(absorb, query, k_up)
        weights = pool(asked @ latent[:, None].mT * by).softmax(dim=-1)
        mixed = weights @ latent[:, None]
        return shown(asked, by), mixed, torch.einsum("bhqr,hdr->bhqd", mixed, last(k_up, v_up))

    return mistaken


def _absorb_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, batch: int, heads: int, lq: int, lk: int, dims: int, rank: int) -> Case:
        shapes = {"query": (batch, heads, lq, dims), "latent": (batch, lk, rank)}
        shapes |= {"k_up": (heads, dims, rank), "v_up": (heads, dims, rank)}
        return Case(name, {n: _random(generator, *shape) for n, shape in shapes.items()})

    return [
        case("3 heads of 4, latents of 10", 2, 3, 5, 7, 4, 10),
        case("one query", 1, 4, 1, 6, 8, 5),
        case("heads as large as the latents", 2, 2, 3, 5, 6, 6),
        case("one head", 1, 1, 4, 9, 2, 7),
    ]


def _unpacked(case: Case, got: Outcome, want: Outcome) -> bool:
    """Something of the first two has D numbers where R are asked for."""
    sizes = {x.shape[-1] for x in got.value[:2]}
    dims, rank = case.arguments["k_up"].shape[1:]
    return dims != rank and dims in sizes and torch.allclose(got.value[2], want.value[2])


def _only_output(case: Case, got: Outcome, want: Outcome) -> bool:
    return isinstance(got.value, Tensor) and torch.allclose(got.value, want.value[2])


ABSORB = Exercise(
    id="10.absorb",
    points=3,
    answer="absorbed",
    cases=_absorb_cases,
    reference=absorbed,
    properties=(
        Property.each(
            "absorbed query · latent = query · key", lambda case, got, want: not difference(got.value[0], want.value[0])
        ),
        Property.each(
            "the mixed latents are the weighted sums",
            lambda case, got, want: not difference(got.value[1], want.value[1]),
        ),
        Property.each(
            "the output equals unpacking keys and values first",
            lambda case, got, want: len(got.value) == 3 and not difference(got.value[2], want.value[2]),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "scaled by the rank",
            "The scores have not changed by absorbing: they are still those of queries and keys with D numbers. Whose "
            "size belongs under the root?",
            _absorbed_with(scale=lambda d, r: 1 / math.sqrt(r)),
        ),
        Finding.like(
            "no scale",
            "The absorbed queries are right. What happens to a score before the softmax, in every form of attention?",
            _absorbed_with(scale=lambda d, r: 1.0),
        ),
        Finding.like(
            "not transposed",
            "It runs only where heads are as large as latents, and is wrong there. On the side of the query the matrix "
            "stands transposed: over which of its axes is the sum?",
            _absorbed_with(absorb="bhqd,hrd->bhqr"),
        ),
        Finding.like(
            "keys unpacked at the end",
            "Queries and weights are right. The sum of latents is unpacked to a *value*: with which matrix?",
            _absorbed_with(last=lambda k_up, v_up: k_up),
        ),
        Finding.like(
            "the scale is in the query",
            "Weights and output are right. Asked for was a query whose products with the latents are the scores "
            "*before* the scale.",
            _absorbed_with(shown=lambda asked, scale: asked * scale),
        ),
        Finding.like(
            "one set of weights for all heads",
            "All heads read the same latents, but each asks them with a query of its own. How many sets of weights "
            "are there?",
            _absorbed_with(pool=lambda scores: scores.mean(1, keepdim=True).expand_as(scores)),
        ),
        Finding.any(
            "unpacks",
            "The output is right, but something with D numbers is left among the first two: you unpacked keys or "
            "values of every token. Both should have the size of a latent.",
            _unpacked,
        ),
        Finding.any(
            "only the output", "Three things are asked for: absorbed queries, mixed latents, output.", _only_output
        ),
    ),
)

# ---------------------------------------------------------------------------------------------------- 10.repair


def repaired(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, parents: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of beam search: output, keys, values; beam k of sequence b continues its beam parents[b, k]."""
    return _repaired_with()(query, key, value, keys, values, parents)


def _own_rows(parents: Tensor) -> Tensor:
    return (parents + parents.shape[1] * torch.arange(parents.shape[0])[:, None]).flatten()


def _first_rows(parents: Tensor) -> Tensor:
    return parents.flatten()


def _no_rows(parents: Tensor) -> Tensor:
    return torch.arange(parents.numel())


def _scattered(x: Tensor, rows: Tensor) -> Tensor:
    moved = x.clone()
    for row, parent in enumerate(rows.tolist()):
        moved[parent] = x[row]
    return moved


def _one_after_another(x: Tensor, rows: Tensor) -> Tensor:
    moved = x.clone()
    for row, parent in enumerate(rows.tolist()):
        moved[row] = moved[parent]
    return moved


def _repaired_with(
    key_rows: Callable = _own_rows,
    value_rows: Callable = _own_rows,
    move: Callable = lambda x, rows: x[rows],
    after: bool = False,
):
    """The step of the exercise, with one choice or more still wrong."""

    def mistaken(
        query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, parents: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if after:
            keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
        keys, values = move(keys, key_rows(parents)), move(values, value_rows(parents))
        if not after:
            keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
        return scaled_dot_product_attention(query, keys, values), keys, values

    return mistaken


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, parents: list[list[int]], heads: int = 2, seen: int = 5) -> Case:
        rows = len(parents) * len(parents[0])
        new = {n: _random(generator, rows, heads, 1, 4) for n in ("query", "key", "value")}
        old = {n: _random(generator, rows, heads, seen, 4) for n in ("keys", "values")}
        return Case(name, {**new, **old, "parents": torch.tensor(parents)})

    drawn = torch.randint(4, (3, 4), generator=generator).tolist()
    return [
        case("one sequence, 3 beams", [[2, 0, 2]]),
        case("2 sequences, 3 beams", [[1, 2, 0], [2, 2, 1]], heads=3),
        case("3 sequences, 4 beams", drawn, seen=2),
        case("every beam goes on", [[0, 1], [0, 1]]),
    ]


REPAIR = Exercise(
    id="10.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("each beam continues its parent, with the new token behind it"),
        Property.pure("leaves the caches that it was given alone"),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Take two sequences and write down, for each row of the new cache, "
            "which row of the old one its keys come from, and its values.",
            _repaired_with(key_rows=_first_rows, value_rows=_no_rows),
        ),
        Finding.like(
            "always the first sequence",
            "Right for one sequence. With two, whose beams do the rows of the second one continue? A parent is counted "
            "within its own sequence.",
            _repaired_with(key_rows=_first_rows, value_rows=_first_rows),
        ),
        Finding.like(
            "values stay behind",
            "The keys are right. A beam that looks for its tokens with its own keys should find its own values.",
            _repaired_with(value_rows=_no_rows),
        ),
        Finding.like(
            "the new token moves too",
            "The past is right. The new token of a row was computed for the beam that *now* stands there: has it any "
            "reason to move?",
            _repaired_with(after=True),
        ),
        Finding.like(
            "children for parents",
            "Your rows were *sent* to where they should have been *fetched* from. If two beams have the same parent, "
            "how many copies of it do you have?",
            _repaired_with(move=_scattered),
        ),
        Finding.like(
            "one row after another",
            "Some parents were overwritten before their children had fetched them. What has to be there until the last "
            "row is copied?",
            _repaired_with(move=_one_after_another),
        ),
        Finding.like(
            "beams before sequences",
            "Right for one sequence. Row b · K + k is beam k of sequence b: by how many rows does a sequence differ "
            "from the next?",
            _repaired_with(
                *[lambda p: (p * p.shape[0] + torch.arange(p.shape[0])[:, None]).flatten()] * 2,
            ),
        ),
    ),
)

EXERCISES = (GROUPS, ROLLING, CACHE_BYTES, FACTORS, ABSORB, REPAIR)
