"""Decoding: few queries, many keys. The keys are split over programs, and the parts joined by their log-sum-exp.

One program takes all query heads that share a key head, so that a key is read once: row r of its tile is query r // G
of head r % G in the group of G. Parts (o_p, lse_p) over disjoint keys join as

    lse = log Σ_p exp(lse_p)        output = Σ_p exp(lse_p − lse) · o_p

Dao et al. 2023 (Flash-Decoding). A split that saw no key has lse −inf and counts for nothing.
"""

# Triton types a parameter of a kernel as what it is inside, tl.constexpr, and calls give plain values.
# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

from mhalib.backends.triton import configs
from mhalib.backends.triton.common import LN_2, SIZES, capped, dot, keys_of_queries, length_of, load_rows, visible


# fmt: off
@triton.jit(do_not_specialize=SIZES)
def decode_kernel(
    Q, K, V, OUT, LSE, LENGTHS, QUERY_LENGTHS,
    factor, inner, cap,
    q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d,
    kv_heads, lq, lk, window, splits, part,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, PAD_D: tl.constexpr, PAD_DV: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_QUERY_LENGTHS: tl.constexpr, CAPPED: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # fmt: on
    """OUT is (splits, B, Hq, Lq, Dv) and LSE (splits, B, Hq, Lq); `part` is B · Hq · Lq, the rows of one split."""
    program = tl.program_id(0)
    split = program % splits
    head_index = program // splits
    batch = (head_index // kv_heads).to(tl.int64)
    kv_head = (head_index % kv_heads).to(tl.int64)
    shift = lk - lq
    length = length_of(LENGTHS, batch, lk, HAS_LENGTHS)
    wanted = length_of(QUERY_LENGTHS, batch, lq, HAS_QUERY_LENGTHS)

    rows = tl.arange(0, BLOCK_Q)
    queries = rows // GROUP
    heads = kv_head * GROUP + rows % GROUP
    real = queries < lq
    columns = tl.arange(0, PAD_D)
    places = heads * q_h + queries.to(tl.int64) * q_l
    q = tl.load(
        Q + batch * q_b + places[:, None] + columns[None, :].to(tl.int64) * q_d,
        mask=(queries < wanted)[:, None] & (columns < D)[None, :],
        other=0.0,
    )
    k_base = K + batch * k_b + kv_head * k_h
    v_base = V + batch * v_b + kv_head * v_h

    # What this split reads: an equal share of the keys that some wanted query may see, in whole tiles.
    start, _left, _right, stop = keys_of_queries(
        0, wanted, shift, length, window, BLOCK_Q, BLOCK_K, CAUSAL, WINDOWED
    )  # fmt: skip
    share = tl.cdiv(tl.cdiv(stop - start, splits), BLOCK_K) * BLOCK_K
    begin = start + split * share
    end = tl.minimum(stop, begin + share)

    maximum = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    output = tl.zeros([BLOCK_Q, PAD_DV], tl.float32)
    for n in range(begin, end, BLOCK_K):
        k = load_rows(k_base, n, length, k_l, k_d, BLOCK_K, D, PAD_D, True, WIDE)
        scores, _ = capped(dot(q, tl.trans(k), None, PRECISION), inner, cap, CAPPED)
        keys = n + tl.arange(0, BLOCK_K)
        seen = visible(queries[:, None], keys[None, :], shift, length, window, CAUSAL, WINDOWED)
        scores = tl.where(seen, scores, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, 1) * factor)
        pivot = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        weights = tl.exp2(scores * factor - pivot[:, None])
        rescale = tl.exp2(maximum - pivot)
        total = total * rescale + tl.sum(weights, 1)
        v = load_rows(v_base, n, length, v_l, v_d, BLOCK_K, DV, PAD_DV, True, WIDE)
        output = dot(weights.to(v.dtype), v, output * rescale[:, None], PRECISION)
        maximum = new_maximum

    alive = (total > 0) & (queries < wanted)
    total = tl.where(alive, total, 1.0)
    lse = tl.where(alive, (maximum + tl.log2(total)) * LN_2, float("-inf"))
    row = split.to(tl.int64) * part + (batch * kv_heads * GROUP + heads) * lq + queries
    tl.store(LSE + row, lse, mask=real)
    columns = tl.arange(0, PAD_DV)
    tl.store(
        OUT + row[:, None] * DV + columns[None, :],
        tl.where(alive[:, None], output / total[:, None], 0.0).to(OUT.dtype.element_ty),
        mask=real[:, None] & (columns < DV)[None, :],
    )


@triton.jit(do_not_specialize=SIZES)
def combine_kernel(
    PARTS,
    LSES,
    OUT,
    LSE,
    part,
    splits,
    PAD_SPLITS: tl.constexpr,
    CHUNK: tl.constexpr,
    DV: tl.constexpr,
    PAD_DV: tl.constexpr,
):
    """One program per row: join its parts, `splits` of them and at most PAD_SPLITS. CHUNK of them are read at a time:
    one after the other each would wait for memory. `splits` is no constant, so that a growing cache compiles once."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, PAD_SPLITS)
    lses = tl.load(LSES + split.to(tl.int64) * part + row, mask=split < splits, other=float("-inf"))
    maximum = tl.max(lses, 0)
    pivot = tl.where(maximum == float("-inf"), 0.0, maximum)
    total = tl.sum(tl.exp(lses - pivot), 0)
    columns = tl.arange(0, PAD_DV)
    output = tl.zeros([PAD_DV], tl.float32)
    for first in range(0, splits, CHUNK):
        chunk = first + tl.arange(0, CHUNK)
        places = row + chunk.to(tl.int64) * part
        shares = tl.exp(tl.load(LSES + places, mask=chunk < splits, other=float("-inf")) - pivot)
        tile = tl.load(
            PARTS + places[:, None] * DV + columns[None, :],
            mask=(chunk < splits)[:, None] & (columns < DV)[None, :],
            other=0.0,
        )
        output += tl.sum(shares[:, None] * tile, 0)
    alive = total > 0
    total = tl.where(alive, total, 1.0)
    tl.store(OUT + row * DV + columns, (output / total).to(OUT.dtype.element_ty), mask=columns < DV)
    tl.store(LSE + row, tl.where(alive, pivot + tl.log(total), float("-inf")))


def suits(query: Tensor, key: Tensor) -> bool:
    """Are all queries of a group of heads so few that they fill one tile? Then each key is read once."""
    return 0 < query.shape[2] * (query.shape[1] // key.shape[1]) <= configs.DECODE_ROWS


def decode(
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
    splits: int | None = None,
) -> tuple[Tensor, Tensor]:
    """As `forward`, for requests that `suits` accepts; `splits` is how many programs share the keys of a head."""
    (batch, heads, lq, dim), (_, kv_heads, lk, dv) = query.shape, value.shape
    group, rows = heads // kv_heads, batch * heads * lq
    config = config or configs.choose("decode", query, dv)
    config = config._replace(block_q=max(16, triton.next_power_of_2(lq * group)))
    if splits is None:
        seen = configs.keys_seen(window, lq, lk)
        splits = configs.splits(batch * kv_heads, seen, config.block_k, configs.processors(query.device))
    output = query.new_empty(batch, heads, lq, dv)
    lse = query.new_empty(batch, heads, lq, dtype=torch.float32)
    if rows == 0:
        return output, lse
    # With one split its part is the result.
    parts = output if splits == 1 else query.new_empty(splits, *output.shape, dtype=torch.float32)
    lses = lse if splits == 1 else query.new_empty(splits, *lse.shape, dtype=torch.float32)
    sizes = configs.sizes(dim, dv)
    decode_kernel[(batch * kv_heads * splits,)](
        query,
        key,
        value,
        parts,
        lses,
        query if key_lengths is None else key_lengths.contiguous(),
        query if query_lengths is None else query_lengths.contiguous(),
        *configs.score_factors(scale, softcap),
        *query.stride(),
        *key.stride(),
        *value.stride(),
        kv_heads,
        lq,
        lk,
        configs.window_size(window, lq, lk),
        splits,
        rows,
        GROUP=group,
        **sizes,
        CAUSAL=causal,
        WINDOWED=window is not None,
        HAS_LENGTHS=key_lengths is not None,
        HAS_QUERY_LENGTHS=query_lengths is not None,
        CAPPED=softcap is not None,
        WIDE=configs.is_wide(config, key, value),
        PRECISION=configs.precision(query),
        **config.launch(),
    )
    if splits > 1:
        combine_kernel[(rows,)](
            parts,
            lses,
            output,
            lse,
            rows,
            splits,
            PAD_SPLITS=triton.next_power_of_2(max(splits, configs.MAX_SPLITS)),
            CHUNK=configs.CHUNK,
            DV=dv,
            PAD_DV=sizes["PAD_DV"],
            num_warps=configs.look_up("combine", 0, query.dtype, dv).warps,
            enable_fp_fusion=True,
        )
    return output, lse
