"""Parameters, FLOPs and bytes of attention, in whole numbers.

Every function takes whole numbers above 0, does exact integer arithmetic and refuses anything else. Conventions:
one multiply-add is 2 FLOPs; softmax, scaling, masks and biases are not counted as FLOPs (they grow as N², not N²·d);
bytes are bytes, not MiB.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import nn
from torch.nn.parameter import is_lazy

from mhalib.arguments import check_flags, check_kv_heads, resolve_head_dim, whole_numbers


class AttentionFlops(NamedTuple):
    """FLOPs of one attention layer, by part. One multiply-add is 2 FLOPs."""

    projections: int  #: query, key, value and output matrices
    scores: int  #: query · keyᵀ
    weighted_sum: int  #: weights · value

    @property
    def attention(self) -> int:
        """The part that grows as N²: scores + weighted sum."""
        return self.scores + self.weighted_sum

    @property
    def total(self) -> int:
        """projections + scores + weighted sum."""
        return self.projections + self.attention


def attention_parameters(
    d_model: int,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    bias: bool | str = False,
) -> int:
    """Number of parameters of one attention layer (query, key, value and output projection).

        weights   2 · d_model · num_heads · head_dim  +  2 · d_model · num_kv_heads · head_dim
        biases    (num_heads + 2 · num_kv_heads) · head_dim   with bias="qkv",   + d_model   with bias=True

    With all heads (num_kv_heads = num_heads) and head_dim = d_model / num_heads that is 4 · d_model² (+ 4 · d_model),
    whatever the number of heads.

    Args:
        d_model: width of the residual stream.
        num_heads: query heads.
        num_kv_heads: key/value heads; None is `num_heads`, 1 is multi-query, between is grouped-query.
        head_dim: size of a head; None is d_model / num_heads, which must then be whole.
        bias: False; True for query, key, value and output; "qkv" for the first three (as in Qwen2.5).

    Source: Vaswani et al. 2017, §3.2.2; Shazeer 2019, §3; Ainslie et al. 2023, §2.2.
    """
    d_model, inner, inner_kv = _heads(d_model, num_heads, num_kv_heads, head_dim)
    weights = 2 * d_model * inner + 2 * d_model * inner_kv
    if bias is False:
        return weights
    if bias is True:
        return weights + inner + 2 * inner_kv + d_model
    if bias == "qkv":
        return weights + inner + 2 * inner_kv
    raise ValueError(f'bias: got {bias!r}; accepted are False, True (query, key, value, output) and "qkv" (no output)')


def latent_attention_parameters(
    d_model: int, num_heads: int, *, q_rank: int, kv_rank: int, head_dim: int, rope_dim: int
) -> int:
    """Number of weights of one layer of multi-head latent attention, norms left out.

        query     d_model · q_rank  +  q_rank · num_heads · (head_dim + rope_dim)
        key/value d_model · (kv_rank + rope_dim)  +  kv_rank · num_heads · 2 · head_dim
        output    num_heads · head_dim · d_model

    `head_dim` is the size of the part of a head without position, and of the value (128 in DeepSeek-V2 and V3);
    `rope_dim` is the size of the rotary part, whose key is shared by all heads.

    Source: DeepSeek-AI 2024 (DeepSeek-V2), §2.1 and appendix C.
    """
    d_model, num_heads, q_rank = whole_numbers(d_model=d_model, num_heads=num_heads, q_rank=q_rank)
    kv_rank, head_dim, rope_dim = whole_numbers(kv_rank=kv_rank, head_dim=head_dim, rope_dim=rope_dim)
    query = d_model * q_rank + q_rank * num_heads * (head_dim + rope_dim)
    key_value = d_model * (kv_rank + rope_dim) + kv_rank * num_heads * 2 * head_dim
    return query + key_value + num_heads * head_dim * d_model


def mlp_parameters(d_model: int, d_ff: int, *, gated: bool = False, bias: bool = False) -> int:
    """Number of parameters of one feed-forward block: d_model → d_ff → d_model.

    2 · d_model · d_ff weights, or 3 · d_model · d_ff with a gate (SwiGLU, GeGLU); biases d_ff (2 · d_ff) + d_model.

    Source: Vaswani et al. 2017, §3.3; Shazeer 2020, §2 (gated).
    """
    d_model, d_ff = whole_numbers(d_model=d_model, d_ff=d_ff)
    check_flags(gated=gated, bias=bias)
    inward = 2 if gated else 1
    return (inward + 1) * d_model * d_ff + (inward * d_ff + d_model if bias else 0)


def module_parameters(module: nn.Module) -> int:
    """Number of parameters of a module, each parameter once, however many names it has.

    A weight tied to another (an output layer that is the embedding table) is one parameter with two names;
    `state_dict()` lists it under both, so adding up a state dict or a checkpoint counts it twice.
    Buffers (masks, position tables, running means) are not parameters.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module: got {type(module).__name__}; accepted is a torch.nn.Module")
    lazy = [name for name, parameter in module.named_parameters() if is_lazy(parameter)]
    if lazy:
        raise ValueError(
            f"module: {', '.join(lazy)} has no size before the first call; run the module once, then count"
        )
    return sum(parameter.numel() for parameter in module.parameters())


def visible_pairs(lq: int, lk: int | None = None, *, causal: bool = False, window: int | None = None) -> int:
    """Number of (query, key) pairs that may attend, as `mhalib.attention` aligns them (bottom right).

    Query i stands at key position p = i + lk − lq. causal: keys 0 … p. window=w: the last w keys with `causal`,
    |p − j| < w without. Square and causal: N·(N + 1)/2; with a window w ≤ N: N·w − w·(w − 1)/2.

    Args:
        lq: number of queries.
        lk: number of keys; None is `lq`.
        causal: no query sees a key after its own position.
        window: width of the window, the query's own key included; None is no window.

    Source: counting; Beltagy et al. 2020, §3.1 (windows).
    """
    lk = lq if lk is None else lk
    lq, lk = whole_numbers(lq=lq, lk=lk)
    check_flags(causal=causal)
    if window is not None:
        (window,) = whole_numbers(window=window)
    first = lk - lq
    ahead = 1 if causal else window  # keys j < p + ahead
    below = lq * lk if ahead is None else _sum_of_clamped(first + ahead, lq, lk)
    hidden = 0 if window is None else _sum_of_clamped(first - window + 1, lq, lk)  # keys j < p − window + 1
    return below - hidden


def attention_flops(
    length: int,
    d_model: int,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    *,
    key_length: int | None = None,
    projected_keys: int | None = None,
    causal: bool = False,
    window: int | None = None,
    batch_size: int = 1,
    training: bool = False,
    recompute: bool = False,
) -> AttentionFlops:
    """FLOPs of one attention layer, matrix products only, one multiply-add = 2 FLOPs.

        projections   2 · length · d_model · 2 · num_heads · head_dim
                    + 2 · projected_keys · d_model · 2 · num_kv_heads · head_dim
        scores        2 · pairs · num_heads · head_dim
        weighted sum  the same again

    With all heads, head_dim = d_model / num_heads and N = length = keys: 8·N·d² + 4·N²·d.
    Grouped heads shrink only the key and value projections: every query head still meets every key.

    Args:
        length: queries per sequence.
        d_model, num_heads, num_kv_heads, head_dim: as for `attention_parameters`.
        key_length: keys per sequence; None is `length`.
        projected_keys: keys and values computed in this call; None is `key_length`. A decoding step that finds
            the rest in a cache has length=1, key_length=T, projected_keys=1.
        causal, window: count only the visible pairs, so 2·N·(N + 1)·d instead of 4·N²·d when causal. That is the
            work of a kernel that skips what is masked. One that computes all scores and masks them afterwards does
            the work without these arguments: leave them out for it.
        batch_size: sequences.
        training: forward and backward. The backward pass of a matrix product is two products of the same size: × 3.
        recompute: the backward pass computes the scores again (FlashAttention): scores × 4, weighted sum × 3, which is
            backward = 2.5 × forward on this part. Only with `training`.

    Source: Kaplan et al. 2020, §2.1 (forward, backward); Dao et al. 2022, §3.1 and appendix B (recomputation).
    """
    d_model, inner, inner_kv = _heads(d_model, num_heads, num_kv_heads, head_dim)
    key_length = length if key_length is None else key_length
    projected_keys = key_length if projected_keys is None else projected_keys
    length, key_length, projected_keys, batch_size = whole_numbers(
        length=length, key_length=key_length, projected_keys=projected_keys, batch_size=batch_size
    )
    check_flags(training=training, recompute=recompute)
    if projected_keys > key_length:
        raise ValueError(f"projected_keys: got {projected_keys}; accepted is up to key_length={key_length}")
    if recompute and not training:
        raise ValueError("recompute: got True with training=False; only a backward pass computes scores again")
    projections = 2 * batch_size * d_model * (2 * length * inner + 2 * projected_keys * inner_kv)
    product = 2 * batch_size * inner * visible_pairs(length, key_length, causal=causal, window=window)
    times = 3 if training else 1
    return AttentionFlops(times * projections, (times + bool(recompute)) * product, times * product)


def crossover_length(d_model: int, num_heads: int = 1, num_kv_heads: int | None = None, *, causal: bool = False) -> int:
    """The length from which scores and weighted sum cost at least as many FLOPs as the four projections.

    All heads: 4·N²·d = 8·N·d², so N = 2 · d_model; neither the number of heads nor their size enters.
    Grouped heads make the projections cheaper and leave the scores: N = d_model · (1 + num_kv_heads / num_heads),
    rounded up. A kernel that skips what is causally masked moves it to about twice that: N + 1 = 4 · d_model.
    The feed-forward block is not counted here; one of 8 · d_model² weights moves N from 2 to 6 · d_model.

    Source: derived from `attention_flops`.
    """
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    d_model, num_heads, num_kv_heads = whole_numbers(d_model=d_model, num_heads=num_heads, num_kv_heads=num_kv_heads)
    check_kv_heads(num_heads, num_kv_heads)
    check_flags(causal=causal)
    both = d_model * (num_heads + num_kv_heads)
    return -(-2 * both // num_heads) - 1 if causal else -(-both // num_heads)  # −(−a // b) rounds up


def score_matrix_bytes(batch_size: int, num_heads: int, lq: int, lk: int, bytes_per_value: int) -> int:
    """Bytes of the scores (B, H, Lq, Lk) of one layer: batch_size · num_heads · lq · lk · bytes_per_value.

    A kernel that writes them out needs this once for the scores and once more for the probabilities if both are
    kept; a tiled kernel keeps only (B, H, Lq) numbers. `num_heads` counts query heads: grouping does not shrink it.

    Source: Dao et al. 2022, §2.2.
    """
    batch_size, num_heads, lq, lk, bytes_per_value = whole_numbers(
        batch_size=batch_size, num_heads=num_heads, lq=lq, lk=lk, bytes_per_value=bytes_per_value
    )
    return batch_size * num_heads * lq * lk * bytes_per_value


def kv_cache_bytes(
    layers: int,
    num_kv_heads: int,
    head_dim: int,
    tokens: int,
    bytes_per_value: int = 2,
    batch_size: int = 1,
    window: int | None = None,
) -> int:
    """Bytes of the key/value cache: 2 · layers · num_kv_heads · head_dim · bytes_per_value · tokens · batch_size.

    The 2 is one key and one value. With a sliding window only the last `window` tokens are kept: min(tokens, window).

    Source: Shazeer 2019, §2.4.1 and §3; Ainslie et al. 2023, §2.2; Jiang et al. 2023 (Mistral 7B), §2 (rolling buffer).
    """
    layers, num_kv_heads, head_dim, tokens = whole_numbers(
        layers=layers, num_kv_heads=num_kv_heads, head_dim=head_dim, tokens=tokens
    )
    bytes_per_value, batch_size = whole_numbers(bytes_per_value=bytes_per_value, batch_size=batch_size)
    if window is not None:
        tokens = min(tokens, *whole_numbers(window=window))
    return 2 * layers * num_kv_heads * head_dim * tokens * bytes_per_value * batch_size


def latent_cache_bytes(
    layers: int, kv_rank: int, rope_dim: int, tokens: int, bytes_per_value: int = 2, batch_size: int = 1
) -> int:
    """Bytes of the cache of multi-head latent attention: layers · (kv_rank + rope_dim) · bytes · tokens · batch_size.

    One vector for key and value together, shared by all heads, and one rotary key; no factor 2, no heads.

    Source: DeepSeek-AI 2024 (DeepSeek-V2), §2.1.4 and table 1.
    """
    layers, kv_rank, rope_dim, tokens = whole_numbers(layers=layers, kv_rank=kv_rank, rope_dim=rope_dim, tokens=tokens)
    bytes_per_value, batch_size = whole_numbers(bytes_per_value=bytes_per_value, batch_size=batch_size)
    return layers * (kv_rank + rope_dim) * tokens * bytes_per_value * batch_size


def _heads(d_model: int, num_heads: int, num_kv_heads: int | None, head_dim: int | None) -> tuple[int, int, int]:
    """d_model, num_heads · head_dim and num_kv_heads · head_dim; the sizes checked and the defaults filled in."""
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    d_model, num_heads, num_kv_heads = whole_numbers(d_model=d_model, num_heads=num_heads, num_kv_heads=num_kv_heads)
    check_kv_heads(num_heads, num_kv_heads)
    (head_dim,) = whole_numbers(head_dim=resolve_head_dim(d_model, num_heads, head_dim))
    return d_model, num_heads * head_dim, num_kv_heads * head_dim


def _sum_of_clamped(start: int, count: int, most: int) -> int:
    """Sum of min(max(x, 0), most) over the `count` whole numbers x from `start` on."""

    def up_to(last: int) -> int:
        rising = min(max(last, 0), most)
        return rising * (rising + 1) // 2 + max(last - most, 0) * most

    return up_to(start + count - 1) - up_to(start - 1)
