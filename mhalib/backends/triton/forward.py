"""Forward pass: one program per block of queries, which walks over the keys with a running maximum and sum.

For a row of scores s and weights p = exp(s) / Σ exp(s), after each tile of keys

    m' = max(m, max s)      l' = l · exp(m − m') + Σ exp(s − m')      o' = o · exp(m − m') + exp(s − m') · V

and in the end output = o / l, lse = m + log l. Milakov and Gimelshein 2018; Dao 2023 (FlashAttention-2), Algorithm 1.
"""

# Triton types a parameter of a kernel as what it is inside, tl.constexpr, and calls give plain values.
# pyright: reportArgumentType=false, reportCallIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

from mhalib.backends.triton import configs
from mhalib.backends.triton.common import (
    LN_2,
    SIZES,
    capped,
    dot,
    keys_of_queries,
    length_of,
    load_rows,
    store_rows,
    visible,
)


# fmt: off
@triton.jit(do_not_specialize=SIZES)
def forward_kernel(
    Q, K, V, OUT, LSE, LENGTHS, QUERY_LENGTHS,
    factor, inner, cap,
    q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d,
    heads, lq, lk, window,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, PAD_D: tl.constexpr, PAD_DV: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_QUERY_LENGTHS: tl.constexpr, CAPPED: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # fmt: on
    # One axis for everything: the second and third axes of a CUDA grid end at 65535. Blocks of one head are
    # neighbours, so that its keys stay in the cache; under `causal` the last block, with most keys, goes first.
    blocks = tl.cdiv(lq, BLOCK_Q)
    program = tl.program_id(0)
    head_index = program // blocks
    block = program % blocks
    if CAUSAL:
        block = blocks - 1 - block
    batch = (head_index // heads).to(tl.int64)
    head = (head_index % heads).to(tl.int64)
    first = block * BLOCK_Q
    shift = lk - lq
    length = length_of(LENGTHS, batch, lk, HAS_LENGTHS)
    wanted = length_of(QUERY_LENGTHS, batch, lq, HAS_QUERY_LENGTHS)

    q = load_rows(Q + batch * q_b + head * q_h, first, wanted, q_l, q_d, BLOCK_Q, D, PAD_D, True, WIDE)
    k_base = K + batch * k_b + (head // GROUP) * k_h
    v_base = V + batch * v_b + (head // GROUP) * v_h
    queries = first + tl.arange(0, BLOCK_Q)
    maximum = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    output = tl.zeros([BLOCK_Q, PAD_DV], tl.float32)

    start, left, right, stop = keys_of_queries(
        first, wanted, shift, length, window, BLOCK_Q, BLOCK_K, CAUSAL, WINDOWED
    )  # fmt: skip
    if WINDOWED:
        output, total, maximum = walk(
            output, total, maximum, q, queries, k_base, v_base, start, left, shift, length, window,
            factor, inner, cap, k_l, k_d, v_l, v_d, D, DV, PAD_D, PAD_DV, BLOCK_K, CAUSAL, WINDOWED, CAPPED,
            WIDE, PRECISION, True,
        )  # fmt: skip
    output, total, maximum = walk(
        output, total, maximum, q, queries, k_base, v_base, left, right, shift, length, window,
        factor, inner, cap, k_l, k_d, v_l, v_d, D, DV, PAD_D, PAD_DV, BLOCK_K, CAUSAL, WINDOWED, CAPPED,
        WIDE, PRECISION, False,
    )  # fmt: skip
    output, total, maximum = walk(
        output, total, maximum, q, queries, k_base, v_base, right, stop, shift, length, window,
        factor, inner, cap, k_l, k_d, v_l, v_d, D, DV, PAD_D, PAD_DV, BLOCK_K, CAUSAL, WINDOWED, CAPPED,
        WIDE, PRECISION, True,
    )  # fmt: skip

    # A row that saw no key has total 0: output 0, log-sum-exp −inf. So has one that nobody wants.
    alive = (total > 0) & (queries < wanted)
    total = tl.where(alive, total, 1.0)
    lse = tl.where(alive, (maximum + tl.log2(total)) * LN_2, float("-inf"))
    row = head_index.to(tl.int64) * lq
    store_rows(OUT + row * DV, first, lq, tl.where(alive[:, None], output / total[:, None], 0.0), BLOCK_Q, DV, PAD_DV)
    tl.store(LSE + row + queries, lse, mask=queries < lq)


# fmt: off
@triton.jit
def walk(
    output, total, maximum, q, queries, k_base, v_base, begin, end, shift, length, window,
    factor, inner, cap,
    k_l, k_d, v_l, v_d,
    D: tl.constexpr, DV: tl.constexpr, PAD_D: tl.constexpr, PAD_DV: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, CAPPED: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, PARTIAL: tl.constexpr,
):
    # fmt: on
    """The tiles of keys from `begin` to `end`; PARTIAL where some query may not see some key."""
    for n in range(begin, end, BLOCK_K):
        k = load_rows(k_base, n, length, k_l, k_d, BLOCK_K, D, PAD_D, PARTIAL, WIDE)
        scores, _ = capped(dot(q, tl.trans(k), None, PRECISION), inner, cap, CAPPED)
        if PARTIAL:
            keys = n + tl.arange(0, BLOCK_K)
            seen = visible(queries[:, None], keys[None, :], shift, length, window, CAUSAL, WINDOWED)
            scores = tl.where(seen, scores, float("-inf"))
        # factor > 0, so the largest score is the largest after scaling too: the scaling is one fused multiply-add.
        new_maximum = tl.maximum(maximum, tl.max(scores, 1) * factor)
        pivot = new_maximum
        if PARTIAL:
            # While a row has seen no key its maximum is −inf, and −inf − −inf is NaN: such rows are shifted by 0.
            pivot = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        weights = tl.exp2(scores * factor - pivot[:, None])
        rescale = tl.exp2(maximum - pivot)
        total = total * rescale + tl.sum(weights, 1)
        output = output * rescale[:, None]
        v = load_rows(v_base, n, length, v_l, v_d, BLOCK_K, DV, PAD_DV, PARTIAL, WIDE)
        output = dot(weights.to(v.dtype), v, output, PRECISION)
        maximum = new_maximum
    return output, total, maximum


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_lengths: Tensor | None,
    query_lengths: Tensor | None = None,
    *,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
    config: configs.Config | None = None,
) -> tuple[Tensor, Tensor]:
    """(output (B, Hq, Lq, Dv), lse (B, Hq, Lq) float32), both contiguous. `scale` must be above 0."""
    (batch, heads, lq, dim), (_, kv_heads, lk, dv) = query.shape, value.shape
    config = config or configs.choose("forward", query, dv)
    output = query.new_empty(batch, heads, lq, dv)
    lse = query.new_empty(batch, heads, lq, dtype=torch.float32)
    grid = (batch * heads * triton.cdiv(lq, config.block_q),)
    if grid[0] == 0:
        return output, lse
    forward_kernel[grid](
        query,
        key,
        value,
        output,
        lse,
        query if key_lengths is None else key_lengths.contiguous(),
        query if query_lengths is None else query_lengths.contiguous(),
        *configs.score_factors(scale, softcap),
        *query.stride(),
        *key.stride(),
        *value.stride(),
        heads,
        lq,
        lk,
        configs.window_size(window, lq, lk),
        GROUP=heads // kv_heads,
        **configs.sizes(dim, dv),
        CAUSAL=causal,
        WINDOWED=window is not None,
        HAS_LENGTHS=key_lengths is not None,
        HAS_QUERY_LENGTHS=query_lengths is not None,
        CAPPED=softcap is not None,
        WIDE=configs.is_wide(config, query, key, value),
        PRECISION=configs.precision(query),
        **config.launch(),
    )
    return output, lse
