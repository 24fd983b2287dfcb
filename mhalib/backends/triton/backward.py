"""Backward pass from the inputs, the output and the log-sum-exp: the weights are computed a second time, tile by tile.

With P = exp(S − lse), S the scores, dO and dlse the gradients that arrive, rows i and keys j
(Dao et al. 2022, Algorithm 4):

    delta_i = Σ_d dO_id · O_id − dlse_i          (this equals Σ_j P_ij dP_ij, without P)
    dV_j  = Σ_i P_ij dO_i                        dP_ij = dO_i · V_j
    dS_ij = P_ij (dP_ij − delta_i)
    dQ_i  = scale Σ_j dS_ij K_j                  dK_j  = scale Σ_i dS_ij Q_i

Three kernels: delta; dK and dV, a program per block of keys; dQ, a program per block of queries. No two programs write
to the same place, so nothing is added atomically and every run gives the same bits. Query heads that share a key head
are summed inside the program that owns the key.
"""

# Triton types a parameter of a kernel as what it is inside, tl.constexpr, and calls give plain values.
# pyright: reportArgumentType=false, reportCallIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

from mhalib.backends.triton import configs
from mhalib.backends.triton.common import (
    SIZES,
    keys_of_queries,
    length_of,
    load_lse,
    load_rows,
    queries_of_keys,
    store_rows,
)
from mhalib.backends.triton.walks import walk_keys, walk_queries


# fmt: off
@triton.jit(do_not_specialize=SIZES)
def delta_kernel(
    OUT, GRAD_OUT, LSE, GRAD_LSE, DELTA, QUERY_LENGTHS,
    do_b, do_h, do_l, do_d, dlse_b, dlse_h, dlse_l,
    heads, lq,
    DV: tl.constexpr, PAD_DV: tl.constexpr, BLOCK_Q: tl.constexpr, HAS_QUERY_LENGTHS: tl.constexpr,
    WIDE: tl.constexpr,
):
    # fmt: on
    blocks = tl.cdiv(lq, BLOCK_Q)
    program = tl.program_id(0)
    head_index = program // blocks
    first = program % blocks * BLOCK_Q
    batch = (head_index // heads).to(tl.int64)
    head = (head_index % heads).to(tl.int64)
    row = head_index.to(tl.int64) * lq
    queries = first + tl.arange(0, BLOCK_Q)
    wanted = length_of(QUERY_LENGTHS, batch, lq, HAS_QUERY_LENGTHS)

    output = load_rows(OUT + row * DV, first, wanted, DV, 1, BLOCK_Q, DV, PAD_DV, True, False).to(tl.float32)
    grad = load_rows(GRAD_OUT + batch * do_b + head * do_h, first, wanted, do_l, do_d, BLOCK_Q, DV, PAD_DV, True, WIDE)
    delta = tl.sum(output * grad.to(tl.float32), 1)
    grad_lse = GRAD_LSE + batch * dlse_b + head * dlse_h + queries.to(tl.int64) * dlse_l
    delta -= tl.load(grad_lse, mask=queries < wanted, other=0.0)
    # The log-sum-exp of a row without keys, and of one that nobody wants, is the constant −inf: whatever gradient
    # arrives there, NaN included, ends.
    lse = tl.load(LSE + row + queries, mask=queries < wanted, other=float("-inf"))
    tl.store(DELTA + row + queries, tl.where(lse == float("-inf"), 0.0, delta), mask=queries < lq)


# fmt: off
@triton.jit(do_not_specialize=SIZES)
def key_value_kernel(
    Q, K, V, GRAD_OUT, LSE, DELTA, GRAD_K, GRAD_V, LENGTHS, QUERY_LENGTHS,
    factor, inner, cap, scale,
    q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, do_b, do_h, do_l, do_d,
    kv_heads, lq, lk, window,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, PAD_D: tl.constexpr, PAD_DV: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_QUERY_LENGTHS: tl.constexpr, CAPPED: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # fmt: on
    blocks = tl.cdiv(lk, BLOCK_K)
    program = tl.program_id(0)
    head_index = program // blocks
    first = program % blocks * BLOCK_K
    batch = (head_index // kv_heads).to(tl.int64)
    kv_head = (head_index % kv_heads).to(tl.int64)
    shift = lk - lq
    length = length_of(LENGTHS, batch, lk, HAS_LENGTHS)
    wanted = length_of(QUERY_LENGTHS, batch, lq, HAS_QUERY_LENGTHS)

    k = load_rows(K + batch * k_b + kv_head * k_h, first, length, k_l, k_d, BLOCK_K, D, PAD_D, True, WIDE)
    v = load_rows(V + batch * v_b + kv_head * v_h, first, length, v_l, v_d, BLOCK_K, DV, PAD_DV, True, WIDE)
    keys = first + tl.arange(0, BLOCK_K)
    dk = tl.zeros([BLOCK_K, PAD_D], tl.float32)
    dv = tl.zeros([BLOCK_K, PAD_DV], tl.float32)
    start, left, right, stop = queries_of_keys(
        first, wanted, shift, length, window, BLOCK_Q, BLOCK_K, CAUSAL, WINDOWED
    )  # fmt: skip
    for member in range(GROUP):
        head = kv_head * GROUP + member
        row = (batch * kv_heads * GROUP + head) * lq
        q_base = Q + batch * q_b + head * q_h
        do_base = GRAD_OUT + batch * do_b + head * do_h
        if CAUSAL or WINDOWED:
            dk, dv = walk_queries(
                dk, dv, k, v, keys, q_base, do_base, LSE, DELTA, row, start, left, wanted, shift,
                length, window, factor, inner, cap, q_l, q_d, do_l, do_d, D, DV, PAD_D, PAD_DV, BLOCK_Q, CAUSAL,
                WINDOWED, CAPPED, WIDE, PRECISION, True,
            )  # fmt: skip
        dk, dv = walk_queries(
            dk, dv, k, v, keys, q_base, do_base, LSE, DELTA, row, left, right, wanted, shift,
            length, window, factor, inner, cap, q_l, q_d, do_l, do_d, D, DV, PAD_D, PAD_DV, BLOCK_Q, CAUSAL,
            WINDOWED, CAPPED, WIDE, PRECISION, False,
        )  # fmt: skip
        if WINDOWED:
            dk, dv = walk_queries(
                dk, dv, k, v, keys, q_base, do_base, LSE, DELTA, row, right, stop, wanted, shift,
                length, window, factor, inner, cap, q_l, q_d, do_l, do_d, D, DV, PAD_D, PAD_DV, BLOCK_Q, CAUSAL,
                WINDOWED, CAPPED, WIDE, PRECISION, True,
            )  # fmt: skip
    # Keys past the length were walked along with the others, as zeros; their gradient is 0.
    real = (keys < length)[:, None]
    row = head_index.to(tl.int64) * lk
    store_rows(GRAD_K + row * D, first, lk, tl.where(real, dk * scale, 0.0), BLOCK_K, D, PAD_D)
    store_rows(GRAD_V + row * DV, first, lk, tl.where(real, dv, 0.0), BLOCK_K, DV, PAD_DV)


# fmt: off
@triton.jit(do_not_specialize=SIZES)
def query_kernel(
    Q, K, V, GRAD_OUT, LSE, DELTA, GRAD_Q, LENGTHS, QUERY_LENGTHS,
    factor, inner, cap, scale,
    q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, do_b, do_h, do_l, do_d,
    heads, lq, lk, window,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, PAD_D: tl.constexpr, PAD_DV: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_QUERY_LENGTHS: tl.constexpr, CAPPED: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # fmt: on
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

    row = head_index.to(tl.int64) * lq
    queries = first + tl.arange(0, BLOCK_Q)
    q = load_rows(Q + batch * q_b + head * q_h, first, wanted, q_l, q_d, BLOCK_Q, D, PAD_D, True, WIDE)
    do = load_rows(GRAD_OUT + batch * do_b + head * do_h, first, wanted, do_l, do_d, BLOCK_Q, DV, PAD_DV, True, WIDE)
    lse = load_lse(LSE, row, queries, wanted)
    delta = tl.load(DELTA + row + queries, mask=queries < wanted, other=0.0)
    k_base = K + batch * k_b + (head // GROUP) * k_h
    v_base = V + batch * v_b + (head // GROUP) * v_h
    dq = tl.zeros([BLOCK_Q, PAD_D], tl.float32)

    start, left, right, stop = keys_of_queries(
        first, wanted, shift, length, window, BLOCK_Q, BLOCK_K, CAUSAL, WINDOWED
    )  # fmt: skip
    if WINDOWED:
        dq = walk_keys(
            dq, q, do, lse, delta, queries, k_base, v_base, start, left, shift, length, window,
            factor, inner, cap, k_l, k_d, v_l, v_d, D, DV, PAD_D, PAD_DV, BLOCK_K, CAUSAL, WINDOWED, CAPPED,
            WIDE, PRECISION, True,
        )  # fmt: skip
    dq = walk_keys(
        dq, q, do, lse, delta, queries, k_base, v_base, left, right, shift, length, window,
        factor, inner, cap, k_l, k_d, v_l, v_d, D, DV, PAD_D, PAD_DV, BLOCK_K, CAUSAL, WINDOWED, CAPPED,
        WIDE, PRECISION, False,
    )  # fmt: skip
    dq = walk_keys(
        dq, q, do, lse, delta, queries, k_base, v_base, right, stop, shift, length, window,
        factor, inner, cap, k_l, k_d, v_l, v_d, D, DV, PAD_D, PAD_DV, BLOCK_K, CAUSAL, WINDOWED, CAPPED,
        WIDE, PRECISION, True,
    )  # fmt: skip
    dq = tl.where((queries < wanted)[:, None], dq * scale, 0.0)
    store_rows(GRAD_Q + row * D, first, lq, dq, BLOCK_Q, D, PAD_D)


def backward(
    grad_output: Tensor,
    grad_lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    key_lengths: Tensor | None,
    query_lengths: Tensor | None = None,
    *,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
    config: configs.Config | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, contiguous. `output` and `lse` are those of `forward`; the incoming gradients
    may have any strides, 0 included: that of `output.sum()` is one number, expanded."""
    output, lse = output.contiguous(), lse.contiguous()
    if _among_others(query.shape[2], key.shape[2], key_lengths, causal=causal, window=window):
        # Their output is the constant 0. In a tile that others see, weight 0 times the NaN that arrives would be NaN.
        grad_output = grad_output.masked_fill((lse == float("-inf"))[..., None], 0.0)
    lengths = query if key_lengths is None else key_lengths.contiguous()
    wanted = query if query_lengths is None else query_lengths.contiguous()
    (batch, heads, lq, dim), (_, kv_heads, lk, dv) = query.shape, value.shape
    grad_query, grad_key, grad_value = (x.new_empty(x.shape) for x in (query, key, value))
    delta = torch.empty_like(lse)
    sizes = configs.sizes(dim, dv)
    for_delta = configs.choose("delta", query, dv)
    if lse.numel():
        delta_kernel[(batch * heads * triton.cdiv(lq, for_delta.block_q),)](
            output,
            grad_output,
            lse,
            grad_lse,
            delta,
            wanted,
            *grad_output.stride(),
            *grad_lse.stride(),
            heads,
            lq,
            DV=dv,
            PAD_DV=sizes["PAD_DV"],
            HAS_QUERY_LENGTHS=query_lengths is not None,
            WIDE=configs.is_wide(for_delta, grad_output),
            **{name: x for name, x in for_delta.launch().items() if name != "BLOCK_K"},
        )
    inputs = (query, key, value, grad_output, lse, delta)
    strides = (*query.stride(), *key.stride(), *value.stride(), *grad_output.stride())
    scalars = (*configs.score_factors(scale, softcap), scale)

    def launch(kernel, name, results, own_heads, own_length, own_block):
        chosen = config or configs.choose(name, query, dv)
        programs = batch * own_heads * triton.cdiv(own_length, getattr(chosen, own_block))
        if programs == 0:
            return
        kernel[(programs,)](
            *inputs,
            *results,
            lengths,
            wanted,
            *scalars,
            *strides,
            own_heads,
            lq,
            lk,
            configs.window_size(window, lq, lk),
            GROUP=heads // kv_heads,
            **sizes,
            CAUSAL=causal,
            WINDOWED=window is not None,
            HAS_LENGTHS=key_lengths is not None,
            HAS_QUERY_LENGTHS=query_lengths is not None,
            CAPPED=softcap is not None,
            WIDE=configs.is_wide(chosen, query, key, value, grad_output),
            PRECISION=configs.precision(query),
            **chosen.launch(),
        )

    launch(key_value_kernel, "key_value", (grad_key, grad_value), kv_heads, lk, "block_k")
    launch(query_kernel, "query", (grad_query,), heads, lq, "block_q")
    return grad_query, grad_key, grad_value


def _among_others(lq: int, lk: int, key_lengths: Tensor | None, *, causal: bool, window: int | None) -> bool:
    """Can a row without keys share a tile with rows that have some?

    The first queries, where there are fewer keys and each query has its place; and the last, where the keys in a
    query's window lie past the length. A sequence without any keys has no such tile.
    """
    return (lq > lk and (causal or window is not None)) or (window is not None and key_lengths is not None)
