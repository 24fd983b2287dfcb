"""Exercises of chapter 09, GPU kernels. They need no triton: addresses, masks and tiles are arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property
from mhalib.checks.compare import difference


def _pick(generator: torch.Generator, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    return int(torch.randint(low, high + 1, (), generator=generator))


# -------------------------------------------------------------------------------------------------------- 09.tile


def tile(
    batch_head: Tensor,
    number: Tensor,
    strides: Tensor,
    num_heads: int,
    num_kv_heads: int,
    length: int,
    head_dim: int,
    block: int,
    block_d: int,
) -> tuple[Tensor, Tensor]:
    """Offsets, int64, and mask, both (block, block_d), of tile `number` of the keys that a query head reads."""
    return _tile_with()(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d)


def _rows_and_channels(rows: Tensor, channels: Tensor, length: int, head_dim: int) -> Tensor:
    return (rows < length) & (channels < head_dim)


def _by_group(head: int, num_heads: int, num_kv_heads: int) -> int:
    return head // (num_heads // num_kv_heads)


def _tile_with(
    key_head: Callable = _by_group,
    split: Callable = lambda bh, h, kv: divmod(bh, h),
    mask: Callable = _rows_and_channels,
    first: Callable = lambda number, block: number * block,
    steps: Callable = lambda strides, kv, length, dims: strides,
    wrap: Callable = lambda offset: offset,
):
    """The addresses with one thing different; `wrap` is what the arithmetic does to a product."""

    def mistaken(
        batch_head: Tensor,
        number: Tensor,
        strides: Tensor,
        num_heads: int,
        num_kv_heads: int,
        length: int,
        head_dim: int,
        block: int,
        block_d: int,
    ) -> tuple[Tensor, Tensor]:
        batch, head = split(int(batch_head), num_heads, num_kv_heads)
        rows = first(int(number), block) + torch.arange(block)[:, None]
        channels = torch.arange(block_d)
        of_batch, of_head, of_row, of_channel = steps(strides.tolist(), num_kv_heads, length, head_dim)
        start = wrap(torch.tensor(batch * of_batch + key_head(head, num_heads, num_kv_heads) * of_head))
        inside = mask(rows, channels, length, head_dim).expand(block, block_d)
        return start + rows * of_row + channels * of_channel, inside

    return mistaken


def _in_32_bits(offset: Tensor) -> Tensor:
    return (offset + 2**31) % 2**32 - 2**31


def _all_in_32_bits(*arguments: object, **named: object) -> tuple[Tensor, Tensor]:
    offsets, mask = tile(*arguments, **named)
    return _in_32_bits(offsets), mask


def _tile_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, batch_head: int, number: int, strides: list[int], heads: tuple[int, int], **sizes: int) -> Case:
        ids = {"batch_head": batch_head, "number": number, "strides": strides}
        arguments = {n: torch.tensor(x, dtype=torch.int32) for n, x in ids.items()}
        return Case(name, {**arguments, "num_heads": heads[0], "num_kv_heads": heads[1], **sizes})

    length, dims = _pick(generator, 41, 47), _pick(generator, 9, 15)
    small = {"length": length, "head_dim": dims, "block": 16, "block_d": 16}
    plain = [2 * length * dims, length * dims, dims, 1]  # (B, 2, L, D), one number after another
    behind = [2 * length * dims, dims, 2 * dims, 1]  # a view of (B, L, 2, D)
    whole = {"length": 32, "head_dim": 16, "block": 8, "block_d": 16}
    long = {"length": 70000, "head_dim": 128, "block": 64, "block_d": 128}
    return [
        case("the first tile", 0, 0, plain, (4, 2), **small),
        case("the last tile, 4 heads on 2", 6, 2, plain, (4, 2), **small),
        case("heads behind the rows", 5, 1, behind, (4, 2), **small),
        case("channels far apart", 11, 1, [1, 3, 640, 6], (6, 3), **whole),
        case("as many key heads as heads", 7, 3, [1600, 520, 16, 1], (3, 3), **whole),
        case("one key head", 9, 0, [512, 512, 16, 1], (4, 1), **whole),
        case("batch 30, far out in memory", 30 * 8 + 5, 9, [8 * 70000 * 128, 70000 * 128, 128, 1], (8, 8), **long),
        case("row 69,952 of rows far apart", 3, 1093, [0, 0, 65536, 1], (4, 2), **long),
    ]


def _dtypes(outcome: Outcome) -> list[torch.dtype]:
    return [x.dtype for x in outcome.value]


def _right_addresses(case: Case, got: Outcome, want: Outcome) -> bool:
    """Where nothing is loaded, any address will do."""
    offsets, (expected, mask) = got.value[0], want.value
    return offsets.dtype == torch.int64 and offsets.shape == mask.shape and torch.equal(offsets[mask], expected[mask])


TILE = Exercise(
    id="09.tile",
    points=4,
    answer="tile",
    cases=_tile_cases,
    reference=tile,
    properties=(
        Property.each("two tensors, of int64 and of bool", lambda case, got, want: _dtypes(got) == _dtypes(want)),
        Property.each("the addresses of what exists are right", _right_addresses),
        Property.each(
            "the mask is true of what exists, and of nothing else",
            lambda case, got, want: not difference(got.value[1], want.value[1]),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "one number after another",
            "Right for a tensor that lies in memory in the order of its axes. For a view of another one, what do the "
            "strides say that the sizes do not?",
            _tile_with(steps=lambda strides, kv, length, dims: (kv * length * dims, length * dims, dims, 1)),
        ),
        Finding.like(
            "32 bits",
            "Right near the beginning of memory. Ids and strides have 32 bits, and so has the product of two of them. "
            "What is the largest number that fits, and which of the products here are larger?",
            _tile_with(wrap=_in_32_bits),
            _all_in_32_bits,
        ),
        Finding.like(
            "key heads by modulo",
            "With one key head, or as many as query heads, this is right. Which query heads share a key head: "
            "neighbours, or every second one?",
            _tile_with(key_head=lambda head, heads, kv: head % kv),
        ),
        Finding.like(
            "a key head for every query head",
            "There are fewer key heads than query heads: the last of your heads lie behind the tensor. Which key head "
            "does a query head read?",
            _tile_with(key_head=lambda head, heads, kv: head),
        ),
        Finding.like(
            "split by the key heads",
            "The second program id counts *query* heads, all heads of a sequence before the next sequence. By which "
            "number is it divided, then?",
            _tile_with(
                split=lambda bh, h, kv: divmod(bh, kv),
                key_head=lambda head, heads, kv: head,
            ),
        ),
        Finding.like(
            "sequence and head exchanged",
            "Program 5 of 4 heads is head 1 of sequence 1. Quotient or remainder: which of them is the head?",
            _tile_with(split=lambda bh, h, kv: divmod(bh, h)[::-1]),
        ),
        Finding.like(
            "tile for row",
            "Tile 2 of 16 rows does not begin at row 2.",
            _tile_with(first=lambda number, block: number),
        ),
        Finding.like(
            "channels unmasked",
            "The rows are fenced. A head of 9 numbers in a block of 16: what stands in the other seven places?",
            _tile_with(mask=lambda rows, channels, length, dims: rows < length),
        ),
        Finding.like(
            "rows unmasked",
            "The channels are fenced. 41 rows in tiles of 16: which rows of the last tile do not exist?",
            _tile_with(mask=lambda rows, channels, length, dims: channels < dims),
        ),
        Finding.like(
            "one row too many",
            "Rows are counted from 0. Which is the last one of 41?",
            _tile_with(mask=lambda rows, channels, length, dims: (rows <= length) & (channels <= dims)),
        ),
    ),
)


# ------------------------------------------------------------------------------------------------------ 09.visits


def visits(lq: int, lk: int, block_q: int, block_k: int, causal: bool, window: int | None) -> list[tuple[int, int]]:
    """For each block of queries the first tile of keys that it needs, and the one behind the last; (0, 0) for none."""
    position, keys = torch.arange(lq)[:, None] + lk - lq, torch.arange(lk)
    visible = torch.ones(lq, lk, dtype=torch.bool)
    if causal:
        visible &= keys <= position
    if window is not None:
        visible &= keys > position - window
    seen = [block.any(dim=0).nonzero() for block in visible.split(block_q)]
    return [(int(k.min()) // block_k, int(k.max()) // block_k + 1) if len(k) else (0, 0) for k in seen]


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _visits_with(
    programs: Callable = _up,
    tiles: Callable = _up,
    shift: Callable = lambda lq, lk: lk - lq,
    last: Callable = lambda begin, end: end - 1,
    first: Callable = lambda begin, end: begin,
    stop: bool = True,
    skip: bool = True,
    width: Callable = lambda window: window,
    floor: Callable = lambda number: max(0, number),
):
    """The same from the ends of each block, with one thing different."""

    def mistaken(lq: int, lk: int, block_q: int, block_k: int, causal: bool, window: int | None) -> list:
        rows = []
        for program in range(programs(lq, block_q)):
            begin, end = program * block_q, min((program + 1) * block_q, lq)
            stops = min(lk, last(begin, end) + shift(lq, lk) + 1) if causal and stop else lk
            starts = 0
            if window is not None and skip:
                starts = max(0, first(begin, end) + shift(lq, lk) - width(window) + 1)
            rows.append((starts // block_k, tiles(floor(stops), block_k)))
        return rows

    return mistaken


def _visits_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, lq: int, lk: int, block_q: int, block_k: int, causal: bool = True, window: int | None = None):
        sizes = {"lq": lq, "lk": lk, "block_q": block_q, "block_k": block_k}
        return Case(name, {**sizes, "causal": causal, "window": window})

    more, fewer = _pick(generator, 90, 120), _pick(generator, 61, 79)
    return [
        case("19 queries, 19 keys, everything visible", 19, 19, 8, 8, causal=False),
        case("19 queries, 19 keys, causal", 19, 19, 8, 8),
        case("more keys than queries, causal", fewer, more, 16, 8),
        case("7 queries at the end of 40 keys", 7, 40, 16, 8),
        case("more queries than keys", 45, 21, 8, 8),
        case("a window of 17 in tiles of 16", 64, 64, 16, 16, window=17),
        case("a window of 5, more keys than queries", fewer, more, 16, 4, window=5),
        case("a window wider than the text", 33, 33, 16, 8, window=100),
        case("a window, more queries than keys", 50, 30, 8, 4, window=3),
    ]


def _rows(outcome: Outcome) -> list[tuple[int, int]]:
    value = outcome.value.tolist() if isinstance(outcome.value, Tensor) else outcome.value
    return [(int(first), int(stop)) for first, stop in value]


def _missing(case: Case, got: Outcome, want: Outcome) -> bool:
    pairs = zip(_rows(got), _rows(want), strict=True)
    return all(set(range(*wanted)) <= set(range(*had)) for had, wanted in pairs)


VISITS = Exercise(
    id="09.visits",
    points=4,
    answer="visits",
    cases=_visits_cases,
    reference=visits,
    properties=(
        Property.each("one row for each program", lambda case, got, want: len(_rows(got)) == len(_rows(want))),
        Property.each("no tile that is needed is left out", _missing),
        Property.each("no tile is visited in vain", lambda case, got, want: _rows(got) == _rows(want)),
    ),
    findings=(
        Finding.like(
            "programs rounded down",
            "Take 19 queries in blocks of 8: which program owns query 16?",
            _visits_with(programs=lambda a, b: a // b),
        ),
        Finding.like(
            "tiles rounded down",
            "Take 19 keys in tiles of 8: who visits key 16?",
            _visits_with(tiles=lambda a, b: a // b),
        ),
        Finding.like(
            "top left corner",
            "Right for as many queries as keys. 7 queries at the end of 40 keys: at which key does the first of them "
            "stand?",
            _visits_with(shift=lambda lq, lk: 0),
        ),
        Finding.like(
            "the first query decides the end",
            "Some queries lose keys that they may see. All queries of a block walk together: which of them sees "
            "furthest to the right?",
            _visits_with(last=lambda begin, end: begin),
        ),
        Finding.like(
            "all tiles to the right",
            "No result would be wrong with this, and a causal kernel would do twice the work. Which tiles lie wholly "
            "in the future of a block?",
            _visits_with(stop=False),
        ),
        Finding.like(
            "the last query decides the beginning",
            "With a window, some queries lose keys that they may see. Which query of the block looks back furthest?",
            _visits_with(first=lambda begin, end: end - 1),
        ),
        Finding.like(
            "all tiles to the left",
            "No result would be wrong with this, and a window would save nothing on the left. Which tiles lie behind "
            "the window of every query of a block?",
            _visits_with(skip=False),
        ),
        Finding.like(
            "a window one too wide",
            "A window of 17 counts the query's own key. A query at position 32: which is the first of its 17 keys?",
            _visits_with(width=lambda window: window + 1),
        ),
        Finding.any(
            "less than nothing",
            "There are numbers below 0 in yours. With more queries than keys the first blocks see nothing at all: how "
            "is that to be said?",
            lambda case, got, want: min(min(row) for row in _rows(got)) < 0,
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------- 09.stall


def predict_stall() -> dict[str, int]:
    """Where a sum of ones stops growing, by the dtype of the sum."""
    return {"float16": 2048, "bfloat16": 256, "float32": 16777216}


def _is(**numbers: float):
    return lambda case, got, want: all(got.value[name] == number for name, number in numbers.items())


STALL = Exercise(
    id="09.stall",
    points=2,
    answer="predict_stall",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_stall,
    properties=(
        Property.each(
            "three numbers above 0",
            lambda case, got, want: set(got.value) == set(want.value) and min(got.value.values()) > 0,
            hint="Return a dict with three numbers, as the docstring shows.",
        ),
        *(
            Property.each(
                f"{name}: stops there", lambda case, got, want, name=name: got.value[name] == want.value[name]
            )
            for name in predict_stall()
        ),
    ),
    findings=(
        Finding.any(
            "the largest number",
            "That is how far the format reaches, before infinity. The sum stops long before that: how far apart are "
            "neighbouring numbers there, and how far apart may they be for a 1 to make a difference?",
            lambda case, got, want: got.value["float16"] >= 60000,
        ),
        Finding.any(
            "bfloat16 for float32",
            "In reach bfloat16 equals float32, and it has far fewer digits. How many bits has its mantissa?",
            lambda case, got, want: got.value["bfloat16"] > 1e6,
        ),
        Finding.any(
            "the hidden bit",
            "Half of it. The first 1 of a number is not stored: with 10 stored bits, how many does float16 have?",
            _is(float16=1024, bfloat16=128),
        ),
        Finding.any(
            "the first that cannot be held",
            "That number does not exist in the format, which is why the sum stops. Where does it stand, then?",
            _is(float16=2049, bfloat16=257),
        ),
        Finding.any(
            "twice as far",
            "Numbers there are already 2 apart, so that a 1 lies in the middle. A tie goes to the even neighbour: does "
            "that move the sum?",
            _is(float16=4096, bfloat16=512),
        ),
        Finding.any(
            "the two halves exchanged",
            "Both have 16 bits. Which of them spends more on the exponent, and has less for digits?",
            _is(float16=256, bfloat16=2048),
        ),
        Finding.any(
            "float32 never stops",
            "Large as it is, float32 has such a number too: 23 stored bits of mantissa.",
            lambda case, got, want: got.value["float32"] > 2**25,
        ),
    ),
)

# -------------------------------------------------------------------------------------------------------- 09.gate

ROUNDINGS = 8


def passes(got: Tensor, exact: Tensor) -> bool:
    """Whether `got` is `exact` (float64) up to 8 roundings of its dtype, against the largest number."""
    return _passes_with()(got, exact)


def _passes_with(
    bound: Callable = lambda got, exact: ROUNDINGS * torch.finfo(got.dtype).eps,
    size: Callable = lambda exact: exact.abs().max(),
    worst: Callable = lambda error: error.max(),
    holds: Callable = lambda error, bound: bool(error <= bound),
    shapes: bool = True,
    cast: Callable = lambda got, exact: (got.double(), exact),
):
    """The gate with one thing different."""

    def mistaken(got: Tensor, exact: Tensor) -> bool:
        if shapes and got.shape != exact.shape:
            return False
        allowed = bound(got, exact)
        got, exact = cast(got, exact)
        return holds(worst((got - exact).abs() / size(exact)), allowed)

    return mistaken


def _gate_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    def case(name: str, exact: Tensor, dtype: torch.dtype = torch.float32, change: Callable = lambda x: x) -> Case:
        return Case(name, {"got": change(exact.clone()).to(dtype), "exact": exact})

    def put(number: Callable, row: int = 3):
        def change(x: Tensor) -> Tensor:
            x[row, 2] = number(x)
            return x

        return change

    tiny, large, row = normal(40, 16), normal(40, 16, scale=3000.0), normal(1, 16)
    tiny[5, 5] = 1e-12
    far = normal(40, 16).clamp(-3, 3)
    far[0, 0] = 70000.0
    return [
        case("right, float32", normal(40, 16)),
        case("right, float16", normal(40, 16), torch.float16),
        case("right, bfloat16", normal(40, 16), torch.bfloat16),
        case("right, float32, in the thousands", large, change=lambda x: x + 1e-3 * x.sign()),
        case("right, float32, one number near 0", tiny, change=lambda x: x + 1e-7),
        case("wrong, float32 that was float16 on the way", normal(40, 16), change=lambda x: x.half()),
        case("wrong, float32 that was bfloat16 on the way", normal(40, 16), change=lambda x: x.bfloat16()),
        case("wrong, float16, 2 % off", normal(40, 16), torch.float16, lambda x: 1.02 * x),
        case("wrong, one number of 16,000", normal(1000, 16), change=put(lambda x: x[3, 2] + 0.005)),
        case("wrong, zeros where numbers are small", normal(40, 16, scale=1e-7), change=torch.zeros_like),
        case("wrong, NaN in one place", normal(40, 16), change=put(lambda x: math.nan)),
        case("wrong, NaN everywhere", normal(40, 16), change=lambda x: x * math.nan),
        case("wrong, float16 that overflowed", far, torch.float16),
        case("wrong, one row for all rows", row.expand(6, 16).clone(), change=lambda x: x[:1]),
    ]


def _decides(*names: str):
    """Right about all cases whose name begins so."""

    def test(evidence: Evidence) -> bool:
        rows = [(case, got, want) for case, got, want in evidence.rows() if case.name.startswith(names)]
        return all(_answer(got) == want.value for _, got, want in rows)

    return test


def _answer(outcome: Outcome) -> bool:
    """True or False; a tensor of one of them will do."""
    value = outcome.value
    if isinstance(value, Tensor) and value.dtype == torch.bool and value.ndim == 0:
        return bool(value)
    if not isinstance(value, bool):
        raise TypeError("neither True nor False")
    return value


def _refuses_right(evidence: Evidence) -> bool:
    return not any(_answer(got) for case, got, _ in evidence.rows() if case.name.startswith("right"))


GATE = Exercise(
    id="09.gate",
    points=3,
    answer="passes",
    cases=_gate_cases,
    reference=passes,
    properties=(
        Property("lets pass what is right, in each dtype", _decides("right")),
        Property(
            "stops what is wrong", _decides("wrong, float32", "wrong, float16, 2", "wrong, one number", "wrong, z")
        ),
        Property("stops NaN", _decides("wrong, NaN")),
        Property("stops infinity", _decides("wrong, float16 that overflowed")),
        Property("stops another shape", _decides("wrong, one row")),
        Property.pure(),
    ),
    findings=(
        Finding(
            "more than the dtype has",
            "You stop every result, the right ones too. How many digits has a float32, and with what precision did "
            "you compare?",
            _refuses_right,
        ),
        Finding.like(
            "one tolerance for all",
            "Yours allows the same error in every dtype. A float32 result with the error of a float16 is wrong, and a "
            "bfloat16 result with it is good: from which property of the dtype does the tolerance follow?",
            *(_passes_with(bound=lambda got, exact, one=one: one) for one in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)),
        ),
        Finding.like(
            "NaN passes",
            "Finite results are judged rightly. Is NaN larger than your bound? Is it smaller? Ask so that the answer "
            "*no* stops it.",
            _passes_with(holds=lambda error, bound: not bool(error > bound)),
        ),
        Finding.like(
            "the mean hides it",
            "One wrong number among 16,000 moves a mean by next to nothing. Which number of all errors does it move?",
            _passes_with(worst=lambda error: error.mean()),
        ),
        Finding.like(
            "without a size",
            "An error of 0.001 is nothing where the numbers are in the thousands, and everything where they are in "
            "the millionths. What does your error have to be compared with?",
            _passes_with(size=lambda exact: 1.0),
        ),
        Finding.like(
            "each number by itself",
            "You compare each error with its own number. Where large terms cancel and leave nearly 0, the rounding of "
            "the large terms stays: with what should it be compared?",
            _passes_with(size=lambda exact: exact.abs()),
        ),
        Finding.like(
            "broadcasting",
            "A result with one row, where six are expected, passes: subtraction stretches it. What has to be looked at "
            "before subtracting?",
            _passes_with(shapes=False),
        ),
        Finding.like(
            "in the dtype of the result",
            "You round what is exact to the dtype of the result first. 70,000 becomes infinity in float16, and "
            "infinity equals infinity: which of the two has to be converted, and to what?",
            lambda got, exact: (
                got.shape == exact.shape
                and torch.allclose(
                    got,
                    exact.to(got.dtype),
                    rtol=0,
                    atol=ROUNDINGS * torch.finfo(got.dtype).eps * float(exact.abs().max()),
                )
            ),
        ),
    ),
)

# -------------------------------------------------------------------------------------------------- 09.least_time


def least_time(
    batch: int,
    queries: int,
    keys: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    number_bytes: int,
    tflops: float,
    tbps: float,
) -> tuple[float, str]:
    """Microseconds that attention takes at least on a chip, and what the limit is: "memory" or "arithmetic"."""
    return _time_with()(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps)


def _all_bytes(b: int, lq: int, lk: int, h: int, kv: int, d: int, size: int) -> int:
    return size * (2 * b * h * lq * d + 2 * b * kv * lk * d)


def _time_with(
    flops: Callable = lambda b, lq, lk, h, kv, d: 4 * b * h * lq * lk * d,
    moved: Callable = _all_bytes,
    join: Callable = max,
    name: Callable = lambda memory, arithmetic, flops, moved: "memory" if memory > arithmetic else "arithmetic",
):
    """The roofline with one thing different."""

    def mistaken(
        batch: int,
        queries: int,
        keys: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        number_bytes: int,
        tflops: float,
        tbps: float,
    ) -> tuple[float, str]:
        operations = flops(batch, queries, keys, num_heads, num_kv_heads, head_dim)
        read = moved(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes)
        memory, arithmetic = read / (tbps * 1e6), operations / (tflops * 1e6)
        return join(memory, arithmetic), name(memory, arithmetic, operations, read)

    return mistaken


CHIPS = {"A100": (312.0, 2.039), "L4": (121.0, 0.300), "H100": (989.0, 3.35)}


def _time_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, chip: str, batch: int, queries: int, keys: int, heads: tuple[int, int, int], size: int = 2):
        sizes = {"batch": batch, "queries": queries, "keys": keys, "number_bytes": size}
        sizes |= {"num_heads": heads[0], "num_kv_heads": heads[1], "head_dim": heads[2]}
        return Case(f"{name}, {chip}", {**sizes, "tflops": CHIPS[chip][0], "tbps": CHIPS[chip][1]})

    n = 64 * _pick(generator, 40, 100)
    return [
        case("a prompt", "L4", 2, n, n, (32, 8, 128)),
        case("a prompt", "H100", 3, n, n, (32, 32, 64)),
        case("one token, all heads", "A100", 8, 1, n, (32, 32, 128)),
        case("one token, groups of 8", "H100", 16, 1, n, (64, 8, 128)),
        case("one token, one key head, 1 byte a number", "L4", 4, 1, n, (48, 1, 256), size=1),
        case("17 tokens, groups of 4", "H100", 4, 17, n, (32, 8, 128)),
        case("a short prompt", "A100", 5, 48, 48, (12, 12, 64)),
    ]


LEAST_TIME = Exercise(
    id="09.least_time",
    points=3,
    answer="least_time",
    cases=_time_cases,
    reference=least_time,
    properties=(
        Property.each(
            "the microseconds",
            lambda case, got, want: not difference(got.value[0], want.value[0]) and len(got.value) == 2,
        ),
        Property.each("what the limit is", lambda case, got, want: got.value[1] == want.value[1]),
    ),
    findings=(
        Finding.like(
            "one after the other",
            "You add the two times. A kernel reads the next tile while it works on this one: which of the two is left "
            "as a limit, if both go on side by side?",
            _time_with(join=lambda memory, arithmetic: memory + arithmetic),
        ),
        Finding.like(
            "the shorter time",
            "Both jobs have to be done. Is the kernel finished when the first of them is?",
            _time_with(join=min),
        ),
        Finding.like(
            "half of the operations",
            "There are two matrix products, scores and weighted sum, and a multiply-add counts as two operations. "
            "Which of the two have you counted?",
            _time_with(flops=lambda b, lq, lk, h, kv, d: 2 * b * h * lq * lk * d),
        ),
        Finding.like(
            "keys once for each query head",
            "Right without groups. The query heads of a group read the same keys: how often do those have to come "
            "from memory?",
            _time_with(moved=lambda b, lq, lk, h, kv, d, size: _all_bytes(b, lq, lk, h, h, d, size)),
        ),
        Finding.like(
            "operations by key heads",
            "Right without groups. Each *query* head meets every key: grouping saves bytes. Does it save products?",
            _time_with(flops=lambda b, lq, lk, h, kv, d: 4 * b * kv * lq * lk * d),
        ),
        Finding.like(
            "keys without values",
            "Half of what has to be read of the past is missing. What is multiplied by the weights?",
            _time_with(moved=lambda b, lq, lk, h, kv, d, size: size * (2 * b * h * lq * d + b * kv * lk * d)),
        ),
        Finding.like(
            "keys and values alone",
            "Nearly right where there is one query. In a prompt, what else is read, and what is written?",
            _time_with(moved=lambda b, lq, lk, h, kv, d, size: size * 2 * b * kv * lk * d),
        ),
        Finding.like(
            "one sequence's bytes",
            "The operations are those of the whole batch. Whose keys and values did you read?",
            _time_with(moved=lambda b, *others: _all_bytes(1, *others)),
        ),
        Finding.like(
            "the limit by its name",
            "The time is right. The limit is what takes *longer*.",
            _time_with(name=lambda memory, arithmetic, *_: "memory" if memory < arithmetic else "arithmetic"),
        ),
        Finding.like(
            "operations against bytes",
            "The time is right. More operations than bytes does not yet mean that arithmetic is the limit: how many "
            "operations for each byte does the chip want?",
            _time_with(name=lambda m, a, flops, moved: "memory" if flops < moved else "arithmetic"),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 09.repair


def repaired(query: Tensor, key: Tensor, value: Tensor, begin: int, end: int, block: int) -> tuple[Tensor, Tensor]:
    """Output (n, Dv) and log-sum-exp (n,) over the keys from `begin` to before `end`, those that exist."""
    scores = query @ key[begin:end].T / math.sqrt(query.shape[1])
    lse = scores.logsumexp(dim=1) if scores.shape[1] else scores.new_full(scores.shape[:1], -math.inf)
    weights = (scores - lse[:, None]).exp()
    return weights @ value[begin:end], lse


def _load(x: Tensor, rows: Tensor) -> Tensor:
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def _behind_split_or_text(keys: Tensor, length: int, end: int) -> Tensor:
    return (keys >= end) | (keys >= length)


def _split_with(
    hidden: Callable = _behind_split_or_text,
    pivot: Callable = lambda maximum: maximum.masked_fill(maximum == -math.inf, 0.0),
    divide: Callable = lambda output, total: output / total.masked_fill(total == 0, 1.0)[:, None],
    finish: Callable = lambda output, lse: (output, lse),
):
    """The kernel of the exercise, with one choice or more still wrong."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor, begin: int, end: int, block: int) -> tuple[Tensor, Tensor]:
        maximum = query.new_full((len(query),), -math.inf)
        total, output = query.new_zeros(len(query)), query.new_zeros(len(query), value.shape[1])
        for start in range(begin, end, block):
            keys = start + torch.arange(block)
            scores = query @ _load(key, keys).T / math.sqrt(query.shape[1])
            scores = scores.masked_fill(hidden(keys, len(key), end), -math.inf)
            new_maximum = torch.maximum(maximum, scores.amax(dim=1))
            shift = pivot(new_maximum)
            weights, rescale = (scores - shift[:, None]).exp(), (maximum - shift).exp()
            total = total * rescale + weights.sum(dim=1)
            output = output * rescale[:, None] + weights @ _load(value, keys)
            maximum = new_maximum
        return finish(divide(output, total), pivot(maximum) + total.log())

    return mistaken


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def tensors(n: int, lk: int) -> dict[str, Tensor]:
        shapes = {"query": (n, 8), "key": (lk, 8), "value": (lk, 5)}
        return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}

    shared = tensors(3, 45)
    splits = [
        Case(f"keys {begin} to {begin + 19} of 45", {**shared, "begin": begin, "end": begin + 20, "block": 8})
        for begin in (0, 20, 40, 60)
    ]
    whole = {**tensors(2, 32), "begin": 0, "end": 32, "block": 8}
    return [*splits, Case("one split, whole tiles", whole), Case("one query", {**tensors(1, 21), **SPLIT})]


SPLIT = {"begin": 8, "end": 18, "block": 4}


def _merged(evidence: Evidence) -> bool:
    """The four splits, weighted by their shares of the sum, are attention to all 45 keys."""
    rows = [(case, got.value) for case, got, _ in evidence.rows() if case.name.endswith("of 45")]
    lse = torch.stack([value[1] for _, value in rows])
    output = torch.stack([value[0] for _, value in rows])
    shares = (lse - lse.logsumexp(dim=0)).exp()
    case = rows[0][0].arguments
    want, _ = repaired(case["query"], case["key"], case["value"], 0, 45, 8)
    return torch.allclose((shares[..., None] * output).sum(dim=0), want)


def _painted(output: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    return output.nan_to_num(nan=0.0), lse.nan_to_num(nan=0.0, neginf=-math.inf)


def _empty_lse(case: Case, got: Outcome) -> Tensor:
    """The log-sum-exp of a split that lies behind the text."""
    if case.arguments["begin"] < len(case.arguments["key"]):
        raise ValueError("has keys")
    return got.value[1]


def _same(x: Tensor) -> Tensor:
    return x


def _bare(output: Tensor, total: Tensor) -> Tensor:
    return output / total[:, None]


REPAIR = Exercise(
    id="09.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals attention to the keys of the split"),
        Property("the splits of a text, merged, give attention to the whole", _merged),
        Property.each("no NaN", lambda case, got, want: not any(x.isnan().any() for x in got.value)),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Add up the keys that each split counts. And compute by hand what "
            "the first tile of a split does that lies behind the text.",
            _split_with(hidden=lambda keys, lk, end: keys >= lk, pivot=_same, divide=_bare),
        ),
        Finding.like(
            "into the next split",
            "No NaN any more. A split of 20 keys in tiles of 8: to which split do the last four keys of its third tile "
            "belong?",
            _split_with(hidden=lambda keys, lk, end: keys >= lk),
        ),
        Finding.like(
            "still NaN",
            "Each key is counted once now. In a tile without any key all scores are −∞, and so is their maximum: what "
            "is the one minus the other?",
            _split_with(pivot=_same, divide=_bare),
        ),
        Finding.like(
            "nothing divided by nothing",
            "The exponentials are right now. What is the output of a split whose sum is 0 divided by?",
            _split_with(divide=_bare),
        ),
        Finding.like(
            "NaN painted over",
            "The output is right. But a log-sum-exp of 0 says that the empty split weighs as much as one key with "
            "score 0: what is the logarithm of a sum of nothing?",
            _split_with(pivot=_same, divide=_bare, finish=_painted),
            _split_with(finish=lambda output, lse: (output, lse.masked_fill(lse == -math.inf, 0.0))),
        ),
        Finding.like(
            "missing keys count",
            "Splits that end before the text are right. A key behind the text is loaded as zeros: is its score "
            "nothing, or is it 0?",
            _split_with(hidden=lambda keys, lk, end: keys >= end),
        ),
        Finding.any(
            "plus infinity",
            "An empty split with a log-sum-exp of +∞ wins against all others when they are merged. Which sign has the "
            "logarithm of a very small sum?",
            lambda case, got, want: bool((_empty_lse(case, got) == math.inf).all()),
        ),
        Finding.any(
            "a large number for infinity",
            "With a large negative number in the place of −∞ all hidden keys of an empty split get equal weights, and "
            "its log-sum-exp is a number. What would two such splits, and nothing else, give when merged?",
            lambda case, got, want: bool(
                (_empty_lse(case, got) < -1e3).all() and _empty_lse(case, got).isfinite().all()
            ),
        ),
    ),
)

EXERCISES = (TILE, VISITS, STALL, GATE, LEAST_TIME, REPAIR)
