"""Exercises of chapter 04, counting."""

from __future__ import annotations

import random

from mhalib import configurations, counting
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property


def _equal(got: Outcome, want: Outcome) -> bool:
    return got.value == want.value


# --------------------------------------------------------------------------------------------- 04.decoder_parameters


def decoder_parameters(
    vocab: int,
    layers: int,
    d_model: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    d_ff: int,
    qkv_bias: bool,
    tied: bool,
) -> int:
    """Parameters of a decoder of the Llama family: gated feed-forward, two norms a layer and one at the end."""
    bias = "qkv" if qkv_bias else False
    attention = counting.attention_parameters(d_model, num_heads, num_kv_heads, head_dim, bias=bias)
    layer = attention + counting.mlp_parameters(d_model, d_ff, gated=True) + 2 * d_model
    return layers * layer + d_model + (1 if tied else 2) * vocab * d_model


REAL = ("Llama 2 7B", "Llama 3 8B", "Qwen2.5 7B", "DeepSeek 67B", "SmolLM2 135M")
UNTIED, TIED = "a made-up one", "the same with one table"


def _decoder_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)

    def real(name: str) -> Case:
        m = configurations.get(name)
        sizes = {n: getattr(m, n) for n in ("vocab", "layers", "d_model", "num_heads", "num_kv_heads", "head_dim")}
        return Case(name, {**sizes, "d_ff": m.d_ff, "qkv_bias": m.attention_bias == "qkv", "tied": m.head == "tied"})

    num_kv_heads, head_dim = draw.choice([2, 3, 5]), draw.choice([24, 40, 48])
    made_up = {
        "vocab": draw.randrange(1000, 5000),
        "layers": draw.randrange(3, 9),
        "d_model": 8 * draw.randrange(20, 40),
        "num_heads": 4 * num_kv_heads,
        "num_kv_heads": num_kv_heads,
        "head_dim": head_dim,
        "d_ff": draw.randrange(500, 900),
        "qkv_bias": True,
        "tied": False,
    }
    every = {**made_up, "num_kv_heads": made_up["num_heads"], "qkv_bias": False, "layers": 1}
    return [
        *map(real, REAL),
        Case(UNTIED, made_up),
        Case(TIED, {**made_up, "tied": True}),
        Case("one layer with a key head for each", every),
    ]


def _decoder_with(
    tables=lambda tied: 1 if tied else 2,
    matrices: int = 3,
    output: bool = True,
    kv=lambda heads, kv_heads: kv_heads,
    size=lambda d_model, heads, head_dim: head_dim,
    norms=lambda layers: 2 * layers + 1,
    biases=lambda inner, inner_kv, d_model: inner + 2 * inner_kv,
):
    """The count with one thing different."""

    def mistaken(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
        head_dim = size(d_model, num_heads, head_dim)
        inner, inner_kv = num_heads * head_dim, kv(num_heads, num_kv_heads) * head_dim
        attention = d_model * ((2 if output else 1) * inner + 2 * inner_kv)
        attention += biases(inner, inner_kv, d_model) if qkv_bias else 0
        layer = attention + matrices * d_model * d_ff
        return layers * layer + norms(layers) * d_model + tables(tied) * vocab * d_model

    return mistaken


def _tying(evidence: Evidence) -> bool:
    case = next(case for case in evidence.cases if case.name == TIED)
    return evidence.got(UNTIED) - evidence.got(TIED) == case.arguments["vocab"] * case.arguments["d_model"]


DECODER_PARAMETERS = Exercise(
    id="04.decoder_parameters",
    points=4,
    answer="decoder_parameters",
    cases=_decoder_cases,
    reference=decoder_parameters,
    properties=(
        Property.each(
            "the totals of five real models, to the last parameter",
            lambda case, got, want: case.name not in REAL or got.value == configurations.get(case.name).total,
        ),
        Property.equal("the totals of made-up models too"),
        Property("a model with one table in the place of two has a table less", _tying),
    ),
    findings=(
        Finding.like(
            "tied table counted twice",
            "Right for models with two tables. Where embedding and output layer are one parameter with two names, how "
            "often does it count?",
            _decoder_with(tables=lambda tied: 2),
        ),
        Finding.like(
            "output layer forgotten",
            "Right for tied models. The others have a second matrix of the size of the embedding: what turns the last "
            "vector into scores for all words?",
            _decoder_with(tables=lambda tied: 1),
        ),
        Finding.like(
            "feed-forward of two matrices",
            "You counted two matrices in a feed-forward block. A gated one has two on the way in and one on the way "
            "out.",
            _decoder_with(matrices=2),
        ),
        Finding.like(
            "no output matrix",
            "You counted query, key and value. What mixes the heads?",
            _decoder_with(output=False),
        ),
        Finding.like(
            "no groups",
            "Right where each query head has a key head of its own. Which of the four matrices get narrower when "
            "several query heads share one?",
            _decoder_with(kv=lambda heads, kv_heads: heads),
        ),
        Finding.like(
            "head_dim by division",
            "Right for the real models, which all have d_model / num_heads numbers in a head. The made-up one has not: "
            "which argument of yours has not been used?",
            _decoder_with(size=lambda d_model, heads, head_dim: d_model // heads),
        ),
        Finding.like(
            "no norms",
            "You are missing (2 · layers + 1) · d_model numbers. What has one weight for each channel?",
            _decoder_with(norms=lambda layers: 0),
        ),
        Finding.like(
            "the last norm",
            "You are missing d_model numbers, once for the whole model. What stands between the last layer and the "
            "output layer?",
            _decoder_with(norms=lambda layers: 2 * layers),
        ),
        Finding.like(
            "a bias on the output matrix",
            "Right without biases. The text says which matrices have one: not all four.",
            _decoder_with(biases=lambda inner, inner_kv, d_model: inner + 2 * inner_kv + d_model),
        ),
        Finding.like(
            "biases as wide as the input",
            "Right without biases. A bias has one number for each *output* of its matrix: how many outputs has that of "
            "the keys?",
            _decoder_with(biases=lambda inner, inner_kv, d_model: 3 * d_model),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------ 04.training_flops


def training_flops(length: int, d_model: int, num_heads: int, num_kv_heads: int, head_dim: int, skips: bool) -> int:
    """FLOPs of one causal attention layer, forward and backward, for one sequence."""
    flops = counting.attention_flops(length, d_model, num_heads, num_kv_heads, head_dim, causal=skips, training=True)
    return flops.total


def _flops_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)

    def pair(name: str, *sizes: int) -> list[Case]:
        arguments = dict(zip(("length", "d_model", "num_heads", "num_kv_heads", "head_dim"), sizes, strict=True))
        plain = Case(f"{name}, all scores computed", {**arguments, "skips": False})
        return [plain, Case(f"{name}, hidden ones skipped", {**arguments, "skips": True})]

    length, d_model, num_kv_heads = 2 * draw.randrange(40, 90), draw.randrange(100, 300), draw.choice([2, 3])
    return [
        *pair("8 heads of 64", 1024, 512, 8, 8, 64),
        *pair("Llama 3 8B", 8192, 4096, 32, 8, 128),
        *pair("T5-11B", 512, 1024, 128, 128, 128),
        *pair("made up", length, d_model, 4 * num_kv_heads, num_kv_heads, 8 * draw.randrange(3, 9)),
    ]


def _flops_with(
    per_multiply: float = 2,
    times: float = 3,
    pairs=lambda n, skips: n * (n + 1) / 2 if skips else n * n,
    matrices: int = 2,
    projected_kv=lambda heads, kv_heads: kv_heads,
    scored=lambda d_model, heads, kv_heads, head_dim: heads * head_dim,
):
    """The bill with one thing different. `matrices`: query and output."""

    def mistaken(length, d_model, num_heads, num_kv_heads, head_dim, skips):
        columns = (matrices * num_heads + 2 * projected_kv(num_heads, num_kv_heads)) * head_dim
        projections = length * d_model * columns
        products = 2 * pairs(length, skips) * scored(d_model, num_heads, num_kv_heads, head_dim)
        return times * per_multiply * (projections + products)

    return mistaken


TRAINING_FLOPS = Exercise(
    id="04.training_flops",
    points=3,
    answer="training_flops",
    cases=_flops_cases,
    reference=training_flops,
    properties=(
        Property.each(
            "right for programs that compute all scores", lambda c, g, w: c.arguments["skips"] or _equal(g, w)
        ),
        Property.each("right for kernels that skip", lambda c, g, w: not c.arguments["skips"] or _equal(g, w)),
    ),
    findings=(
        Finding.like(
            "multiply-adds",
            "You counted multiplications and not the additions: exactly half of the FLOPs.",
            _flops_with(per_multiply=1),
        ),
        Finding.like(
            "forward only",
            "A third of the right number: this is the forward pass. What does backpropagation through a product need?",
            _flops_with(times=1),
        ),
        Finding.like(
            "backward as dear as forward",
            "Two thirds of the right number. A product has two factors: how many products of that size does its "
            "backward pass take?",
            _flops_with(times=2),
        ),
        Finding.like(
            "the half that was not earned",
            "Right for kernels that skip. A program that computes all scores and hides half of them afterwards: which "
            "multiplications has it saved?",
            _flops_with(pairs=lambda n, skips: n * (n + 1) / 2),
        ),
        Finding.like(
            "no causal saving",
            "Right for programs that compute all scores. A kernel that skips the hidden ones multiplies for visible "
            "pairs only.",
            _flops_with(pairs=lambda n, skips: n * n),
        ),
        Finding.like(
            "half to the last pair",
            "Nearly: you took half of the N² pairs. A token sees itself too: how many pairs are there for 2 tokens, "
            "and for 3?",
            _flops_with(pairs=lambda n, skips: n * n / 2 if skips else n * n),
        ),
        Finding.like(
            "groups in the scores",
            "Right where nothing is shared. Each *query* head computes scores of its own: how many are there?",
            _flops_with(scored=lambda d_model, heads, kv_heads, head_dim: kv_heads * head_dim),
        ),
        Finding.like(
            "no groups",
            "Right where nothing is shared. With fewer key heads, two of the four projections have fewer columns.",
            _flops_with(projected_kv=lambda heads, kv_heads: heads),
        ),
        Finding.like(
            "no output matrix",
            "One projection is missing: query, key, value, and which?",
            _flops_with(matrices=1),
        ),
        Finding.like(
            "scores by d_model",
            "Right where heads times head_dim make d_model. How many products are summed in all scores of one pair of "
            "tokens, over all heads?",
            _flops_with(scored=lambda d_model, heads, kv_heads, head_dim: d_model),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------- 04.crossover

LAYER = "Llama 3 8B"


def predict_crossover() -> dict[str, int]:
    """The length at which the quadratic part of a layer of Llama 3 8B costs as much as the rest."""
    m = configurations.get(LAYER)
    attention = m.d_model * (m.num_heads + m.num_kv_heads) // m.num_heads
    return {"attention": attention, "layer": attention + 3 * m.d_ff // 2}


def _lengths(got: Outcome) -> tuple[float, float]:
    if set(got.value) != {"attention", "layer"}:
        raise ValueError("not two lengths")
    attention, layer = (float(got.value[key]) for key in ("attention", "layer"))
    if not (0 < attention < 1e9 and 0 < layer < 1e9):
        raise ValueError("not two lengths")
    return attention, layer


def _about(index: int, *lengths: float, room: float = 0.02):
    """Whether a prediction is one of these lengths: 0 is that of the attention, 1 that of the whole layer."""
    return lambda case, got, want: any(abs(_lengths(got)[index] / n - 1) < room for n in lengths)


def _alike(case: Case, got: Outcome, want: Outcome) -> bool:
    attention, layer = _lengths(got)
    return abs(layer / attention - 1) < 0.02


CROSSOVER = Exercise(
    id="04.crossover",
    points=2,
    answer="predict_crossover",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_crossover,
    properties=(
        Property.each(
            "two lengths above 0",
            lambda case, got, want: _lengths(got),
            hint="Return a dict with two numbers of tokens, as the docstring shows.",
        ),
        Property.each("attention: within 2 % of what is measured", _about(0, 5120)),
        Property.each("layer: within 2 % of what is measured", _about(1, 26_624)),
    ),
    findings=(
        Finding.any(
            "2 · d_model",
            "N = 2 · d_model holds where each query head has a key head of its own. This model groups them: which "
            "side of the balance gets lighter?",
            _about(0, 8192),
        ),
        Finding.any(
            "half of the quadratic part",
            "Your first length is twice the right one. Either you counted one of the two quadratic products, or half "
            "of each; here both are there, and all pairs are computed.",
            _about(0, 10_240),
        ),
        Finding.any(
            "heads counted again",
            "A head is num_heads times narrower than all of them together. Your scores cost num_heads times too much.",
            _about(0, 160),
        ),
        Finding.any(
            "feed-forward forgotten",
            "Both lengths are the same. The feed-forward block is linear in N too: on which side of the balance does "
            "it stand?",
            _alike,
        ),
        Finding.any(
            "the other way round",
            "The feed-forward block adds to what is linear in N. Does the quadratic part then overtake earlier or "
            "later?",
            lambda case, got, want: _lengths(got)[0] > _lengths(got)[1],
        ),
        Finding.any(
            "two matrices",
            "Your feed-forward block has two matrices. A gated one has three, of d_model by d_ff each.",
            _about(1, 19_456),
        ),
        Finding.any(
            "the block of a textbook",
            "That is a feed-forward block of 8 · d_model² weights. Look at d_ff in the configuration, and at the gate.",
            _about(1, 21_504, 24_576),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------- 04.repair


def repaired(config: dict[str, int], memory: int, sequences: int) -> int:
    """Tokens of each of `sequences` sequences whose cache fits into `memory` bytes beside the weights."""
    per_token = counting.kv_cache_bytes(config["layers"], config["num_kv_heads"], config["head_dim"], 1)
    return max(memory - 2 * config["parameters"], 0) // (per_token * sequences)


def _repair_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    names = ("layers", "d_model", "num_heads", "num_kv_heads", "head_dim")

    def real(name: str, gib: int, sequences: int) -> Case:
        m = configurations.get(name)
        config = {n: getattr(m, n) for n in names} | {"parameters": configurations.parameters(m)}
        title = f"{name}, {sequences} sequences, {gib} GiB"
        return Case(title, {"config": config, "memory": gib * 2**30, "sequences": sequences})

    made_up = {"layers": draw.randrange(3, 30), "d_model": 512, "num_heads": 8, "num_kv_heads": 8, "head_dim": 80}
    made_up["parameters"] = draw.randrange(10**6, 10**7)
    return [
        real("Llama 2 7B", 24, 4),
        real("Llama 3 8B", 24, 4),
        real("Qwen3 30B-A3B", 80, 16),
        real("PaLM 540B", 1280, 64),
        real("PaLM 540B", 80, 1),
        Case(
            "made up, each head for itself",
            {"config": made_up, "memory": draw.randrange(10**9, 10**10), "sequences": 3},
        ),
    ]


def _repaired_with(division: bool = False, all_heads: bool = False, negative: bool = False):
    """The program of the exercise with one mistake or more left in."""

    def mistaken(config, memory, sequences):
        head_dim = config["d_model"] // config["num_heads"] if division else config["head_dim"]
        heads = config["num_heads"] if all_heads else config["num_kv_heads"]
        room = memory - 2 * config["parameters"]
        return (room if negative else max(room, 0)) // (4 * config["layers"] * heads * head_dim * sequences)

    return mistaken


REPAIR = Exercise(
    id="04.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("tokens that fit, to the last one"),
        Property.each("never fewer than 0", lambda case, got, want: got.value >= 0),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Three things are wrong: two sizes that it takes for a token, and "
            "what it says where the weights alone do not fit.",
            _repaired_with(division=True, all_heads=True, negative=True),
        ),
        Finding.like(
            "only 0 is right",
            "Where nothing fits you are right now. A token still costs what d_model says; which two sizes make it?",
            _repaired_with(division=True, all_heads=True),
        ),
        Finding.like(
            "query heads, and below 0",
            "The size of a head is read now. Which heads leave something in the cache? And what should a reader make "
            "of fewer than 0 tokens?",
            _repaired_with(all_heads=True, negative=True),
        ),
        Finding.like(
            "head_dim by division, and below 0",
            "The heads are right now. Does a head of every model have d_model / num_heads numbers? And what should a "
            "reader make of fewer than 0 tokens?",
            _repaired_with(division=True, negative=True),
        ),
        Finding.like(
            "query heads",
            "One thing is left. Query heads leave nothing behind for later tokens: which heads do?",
            _repaired_with(all_heads=True),
        ),
        Finding.like(
            "head_dim by division",
            "One thing is left. For PaLM 540B and Qwen3 30B-A3B, compare d_model / num_heads with the head_dim that "
            "the configuration states.",
            _repaired_with(division=True),
        ),
        Finding.like(
            "below 0",
            "One thing is left. How many tokens fit beside weights that do not fit themselves?",
            _repaired_with(negative=True),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------ 04.training_bytes


def training_bytes(
    parameters: int, layers: int, num_heads: int, num_kv_heads: int, sequences: int, length: int, tiled: bool
) -> int:
    """Bytes of weights, gradients, Adam's state, and of what attention keeps for the backward pass."""
    kept = 4 * sequences * num_heads * length
    if not tiled:
        kept = counting.score_matrix_bytes(sequences, num_heads, length, length, bytes_per_value=2)
    return 16 * parameters + layers * kept


def _bytes_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    m = configurations.get("Llama 3 8B")
    llama = {n: getattr(m, n) for n in ("layers", "num_heads", "num_kv_heads")}
    llama["parameters"] = configurations.parameters(m)
    made_up = {
        "parameters": draw.randrange(10**6, 10**7),
        "layers": draw.randrange(3, 20),
        "num_heads": 12,
        "num_kv_heads": draw.choice([2, 3, 4, 6]),
        "sequences": draw.randrange(5, 20),
        "length": draw.randrange(100, 1000),
    }
    every = {**made_up, "num_kv_heads": 12, "sequences": 1}
    sizes = {
        "Llama 3 8B, 2 sequences of 8,192": {**llama, "sequences": 2, "length": 8192},
        "made up": made_up,
        "one sequence, a key head for each": every,
    }
    kinds = {"all kept": False, "tiled": True}
    return [
        Case(f"{name}, {kind}", {**a, "tiled": tiled}) for name, a in sizes.items() for kind, tiled in kinds.items()
    ]


def _bytes_with(
    per_parameter: int = 16,
    layered: bool = True,
    heads=lambda heads, kv_heads: heads,
    batched: bool = True,
    plain=lambda n: 2 * n * n,
    tiles=lambda n: 4 * n,
):
    """The bill with one thing different."""

    def mistaken(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
        kept = (tiles if tiled else plain)(length) * heads(num_heads, num_kv_heads) * (sequences if batched else 1)
        return per_parameter * parameters + (layers if layered else 1) * kept

    return mistaken


TRAINING_BYTES = Exercise(
    id="04.training_bytes",
    points=3,
    answer="training_bytes",
    cases=_bytes_cases,
    reference=training_bytes,
    properties=(
        Property.each(
            "right where all weights of attention are kept", lambda c, g, w: c.arguments["tiled"] or _equal(g, w)
        ),
        Property.each("right for a tiled kernel", lambda c, g, w: not c.arguments["tiled"] or _equal(g, w)),
    ),
    findings=(
        Finding.like(
            "the weights alone",
            "Of each parameter you counted the 2 bytes of the weight. What else does the list name?",
            _bytes_with(per_parameter=2),
        ),
        Finding.like(
            "all in 2 bytes",
            "That is 8 bytes a parameter: you took 2 for everything. The list says which numbers are held in 4.",
            _bytes_with(per_parameter=8),
        ),
        Finding.like(
            "one of the five forgotten",
            "That is 12 bytes a parameter: 4 are missing. How many numbers of 4 bytes does the list name for each "
            "parameter?",
            _bytes_with(per_parameter=12),
        ),
        Finding.like(
            "one layer",
            "You counted what one layer keeps. The backward pass begins at the last layer: from which of them is "
            "something still needed by then?",
            _bytes_with(layered=False),
        ),
        Finding.like(
            "key heads",
            "Right where nothing is shared. Which heads have rows of weights of their own?",
            _bytes_with(heads=lambda heads, kv_heads: kv_heads),
        ),
        Finding.like(
            "one sequence",
            "Right for one sequence. Each of them has its own weights of attention.",
            _bytes_with(batched=False),
        ),
        Finding.like(
            "a tiled kernel keeps nothing",
            "Right where everything is kept. A tiled kernel keeps little, not nothing: one number for each row.",
            _bytes_with(tiles=lambda n: 0),
        ),
        Finding.like(
            "tiles make no difference",
            "Right where everything is kept. What does a tiled kernel write down in the place of N² numbers?",
            _bytes_with(tiles=lambda n: 2 * n * n),
        ),
        Finding.like(
            "scores kept in 4 bytes",
            "Right for tiles. The weights of attention are held in as many bytes as the layer computes with: look at "
            "the text.",
            _bytes_with(plain=lambda n: 4 * n * n),
        ),
    ),
)

EXERCISES = (DECODER_PARAMETERS, TRAINING_FLOPS, CROSSOVER, REPAIR, TRAINING_BYTES)
