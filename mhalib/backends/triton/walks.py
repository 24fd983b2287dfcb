"""The inner loops of the backward pass: over the queries that see a block of keys, and over the keys of a block of
queries. The formulas are those of `backward`."""

# Triton types a parameter of a kernel as what it is inside, tl.constexpr, and calls give plain values.
# pyright: reportArgumentType=false, reportCallIssue=false

import triton
import triton.language as tl

from mhalib.backends.triton.common import capped, dot, load_lse, load_rows, visible


# fmt: off
@triton.jit
def walk_queries(
    dk, dv, k, v, keys, q_base, do_base,
    LSE, DELTA,
    row, begin, end, wanted, shift, length, window,
    factor, inner, cap,
    q_l, q_d, do_l, do_d,
    D: tl.constexpr, DV: tl.constexpr, PAD_D: tl.constexpr, PAD_DV: tl.constexpr, BLOCK_Q: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, CAPPED: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, PARTIAL: tl.constexpr,
):
    # fmt: on
    """The tiles of queries from `begin` to `end`. Scores stand as (keys, queries): so P and dS enter their products
    as they are, and only what comes from memory is transposed. Queries from `wanted` on have lse = inf,
    weights 0."""
    for m in range(begin, end, BLOCK_Q):
        queries = m + tl.arange(0, BLOCK_Q)
        q = load_rows(q_base, m, wanted, q_l, q_d, BLOCK_Q, D, PAD_D, True, WIDE)
        lse = load_lse(LSE, row, queries, wanted)
        scores, slope = capped(dot(k, tl.trans(q), None, PRECISION), inner, cap, CAPPED)
        weights = tl.exp2(scores * factor - lse[None, :])
        if PARTIAL:
            seen = visible(queries[None, :], keys[:, None], shift, length, window, CAUSAL, WINDOWED)
            weights = tl.where(seen, weights, 0.0)
        do = load_rows(do_base, m, wanted, do_l, do_d, BLOCK_Q, DV, PAD_DV, True, WIDE)
        dv = dot(weights.to(do.dtype), do, dv, PRECISION)
        delta = tl.load(DELTA + row + queries, mask=queries < wanted, other=0.0)
        grad = weights * (dot(v, tl.trans(do), None, PRECISION) - delta[None, :])
        if CAPPED:
            grad = grad * slope
        dk = dot(grad.to(q.dtype), q, dk, PRECISION)
    return dk, dv


# fmt: off
@triton.jit
def walk_keys(
    dq, q, do, lse, delta, queries, k_base, v_base, begin, end, shift, length, window,
    factor, inner, cap,
    k_l, k_d, v_l, v_d,
    D: tl.constexpr, DV: tl.constexpr, PAD_D: tl.constexpr, PAD_DV: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, CAPPED: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, PARTIAL: tl.constexpr,
):
    # fmt: on
    """The tiles of keys from `begin` to `end`; scores stand as (queries, keys)."""
    for n in range(begin, end, BLOCK_K):
        k = load_rows(k_base, n, length, k_l, k_d, BLOCK_K, D, PAD_D, PARTIAL, WIDE)
        v = load_rows(v_base, n, length, v_l, v_d, BLOCK_K, DV, PAD_DV, PARTIAL, WIDE)
        scores, slope = capped(dot(q, tl.trans(k), None, PRECISION), inner, cap, CAPPED)
        weights = tl.exp2(scores * factor - lse[:, None])
        if PARTIAL:
            keys = n + tl.arange(0, BLOCK_K)
            seen = visible(queries[:, None], keys[None, :], shift, length, window, CAUSAL, WINDOWED)
            weights = tl.where(seen, weights, 0.0)
        grad = weights * (dot(do, tl.trans(v), None, PRECISION) - delta[:, None])
        if CAPPED:
            grad = grad * slope
        dq = dot(grad.to(k.dtype), k, dq, PRECISION)
    return dq
