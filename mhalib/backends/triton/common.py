"""What all kernels share: the product, the tile of rows in memory, and who may see whom.

Conventions of the kernels. Tensors have capitals (`Q`, `K`), sizes known to the compiler too (`D`, `BLOCK_Q`); numbers
known only at launch are small (`lq`, `window`). Strides are `q_b, q_h, q_l, q_d` for Q[b, h, l, d], and so on.
A tile has BLOCK_Q queries by BLOCK_K keys, and head sizes are padded with zeros to the next power of two, `PAD_D`.
Exponentials are to the base 2, which the hardware has: exp(x) = 2^(x · log2 e), with log2 e folded into `factor`.
"""

import triton
import triton.language as tl

#: Does this process interpret kernels on the CPU? Triton settled it when it was imported, for its own functions too.
INTERPRETED = type(tl.sum).__name__ == "InterpretedFunction"

IN_INTERPRETER = tl.constexpr(INTERPRETED)
#: Sizes that a kernel is not compiled for anew: whether one of them is 1 or a multiple of 16 gains nothing.
SIZES = ("heads", "kv_heads", "lq", "lk", "window", "splits", "part")

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def dot(a, b, accumulator, PRECISION: tl.constexpr):
    """a · b + accumulator, accumulated in float32. PRECISION is always given: triton's own default, TF32, keeps
    10 bits of the 23 of float32."""
    if IN_INTERPRETER:
        # The interpreter keeps bfloat16 as its bits, and would multiply those as integers. Products of half
        # precision numbers are exact in float32, so nothing is gained or lost by this.
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, accumulator, input_precision=PRECISION)


@triton.jit
def load_rows(
    base,
    first,
    end,
    stride_row,
    stride_column,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    PAD_D: tl.constexpr,
    CHECK: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Rows first … first + ROWS − 1 of a head, (ROWS, PAD_D); zeros from row `end` on and from column D on.

    Without CHECK all rows are known to lie before `end`. The way to the first row is counted in 64 bits; inside the
    tile 32 bits do, unless the host found that a tile spans 2^31 elements (WIDE).
    """
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, PAD_D)
    inside = (first + rows) < end
    if WIDE:
        rows = rows.to(tl.int64)
        columns = columns.to(tl.int64)
    start = base + tl.cast(first, tl.int64) * stride_row
    places = start + rows[:, None] * stride_row + columns[None, :] * stride_column
    if CHECK:
        if D < PAD_D:
            return tl.load(places, mask=inside[:, None] & (columns < D)[None, :], other=0.0)
        else:
            return tl.load(places, mask=inside[:, None], other=0.0)
    elif D < PAD_D:
        return tl.load(places, mask=(columns < D)[None, :], other=0.0)
    else:
        return tl.load(places)


@triton.jit
def store_rows(base, first, end, tile, ROWS: tl.constexpr, D: tl.constexpr, PAD_D: tl.constexpr):
    """Write a tile (ROWS, PAD_D) to rows first … of a head whose rows lie one after the other, D numbers each."""
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, PAD_D)
    places = base + tl.cast(first, tl.int64) * D + rows[:, None] * D + columns[None, :]
    inside = ((first + rows) < end)[:, None] & (columns < D)[None, :]
    tl.store(places, tile.to(base.dtype.element_ty), mask=inside)


@triton.jit
def load_lse(LSE, row, queries, wanted):
    """The log-sum-exp in base 2; +inf for a row past the last that is wanted, since exp(s − inf) is 0.

    A row without keys has −inf and infinite exponentials, but only in tiles where they are all replaced by 0: where
    nothing is checked, every row sees every key.
    """
    return tl.load(LSE + row + queries, mask=queries < wanted, other=float("inf")) * LOG2_E


@triton.jit
def length_of(LENGTHS, batch, most, HAS_LENGTHS: tl.constexpr):
    """How many keys (or queries) of this sequence are real; the lengths lie one after the other. Never more than
    `most`, as many as there are: compiled code cannot refuse such a length."""
    if HAS_LENGTHS:
        return tl.minimum(tl.load(LENGTHS + batch).to(tl.int32), most)
    else:
        return most


@triton.jit
def visible(queries, keys, shift, length, window, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr):
    """May these queries see these keys? Query i stands at key i + shift with shift = Lk − Lq: the last at the last."""
    here = queries + shift
    seen = keys < length
    if CAUSAL:
        seen = seen & (keys <= here)
    if WINDOWED:
        seen = seen & (keys > here - window)
        if not CAUSAL:
            seen = seen & (keys < here + window)
    return seen


@triton.jit
def keys_of_queries(
    first,
    wanted,
    shift,
    length,
    window,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOWED: tl.constexpr,
):
    """The tiles of keys for queries first … first + BLOCK_Q − 1, of which those below `wanted` are real, in three
    phases: in [left, right) every query sees every key and nothing has to be checked; in [start, left) and
    [right, stop) some do not. Without a window the first phase is empty; without a real query all three are.

    Nothing is divided while it could be negative: the compiler rounds towards 0, the interpreter down.
    """
    here = first + shift
    last = tl.minimum(first + BLOCK_Q, wanted) - 1 + shift
    start = 0
    left = 0
    stop = length
    whole = length
    if CAUSAL:
        stop = tl.minimum(length, last + 1)
        whole = tl.minimum(length, here + 1)
    elif WINDOWED:
        stop = tl.minimum(length, last + window)
        whole = tl.minimum(length, here + window)
    if WINDOWED:
        start = tl.maximum(0, here - window + 1) // BLOCK_K * BLOCK_K
        left = (tl.maximum(0, last - window + 1) + BLOCK_K - 1) // BLOCK_K * BLOCK_K
    stop = tl.where(first < wanted, tl.maximum(start, stop), start)
    left = tl.minimum(tl.maximum(start, left), stop)
    right = tl.minimum(tl.maximum(left, tl.maximum(0, whole) // BLOCK_K * BLOCK_K), stop)
    return start, left, right, stop


@triton.jit
def queries_of_keys(
    first,
    wanted,
    shift,
    length,
    window,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOWED: tl.constexpr,
):
    """The other way round: the tiles of queries that see keys first … first + BLOCK_K − 1, of which those below
    `length` are real, in the same three phases. Queries from `wanted` on weigh nothing and need no check."""
    last = tl.minimum(first + BLOCK_K, length) - 1
    start = 0
    left = 0
    right = wanted
    stop = wanted
    if CAUSAL:
        start = tl.maximum(0, first - shift) // BLOCK_Q * BLOCK_Q
        left = (tl.maximum(0, last - shift) + BLOCK_Q - 1) // BLOCK_Q * BLOCK_Q
    elif WINDOWED:
        start = tl.maximum(0, first - shift - window + 1) // BLOCK_Q * BLOCK_Q
        left = (tl.maximum(0, last - shift - window + 1) + BLOCK_Q - 1) // BLOCK_Q * BLOCK_Q
    if WINDOWED:
        until = first - shift + window  # the first query that no longer sees all of these keys
        right = tl.where(until >= wanted, wanted, tl.maximum(0, until) // BLOCK_Q * BLOCK_Q)
        stop = tl.minimum(wanted, last - shift + window)
    stop = tl.where(first < length, tl.maximum(start, stop), start)
    left = tl.minimum(tl.maximum(start, left), stop)
    right = tl.minimum(tl.maximum(left, right), stop)
    return start, left, right, stop


@triton.jit
def capped(scores, inner, cap, CAPPED: tl.constexpr):
    """(cap · tanh(q·k · scale / cap), its slope), with inner = scale / cap; without a cap (q·k, 1)."""
    if CAPPED:
        # tanh x = 1 − 2 / (e^2x + 1): exact at both ends, where e^2x is 0 and infinite.
        bent = 1.0 - 2.0 / (tl.exp2(scores * (2.0 * inner * LOG2_E)) + 1.0)
        return cap * bent, 1.0 - bent * bent
    else:
        return scores, 1.0
