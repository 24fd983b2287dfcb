"""Attention masks. One polarity everywhere: bool, True = may attend.

Building blocks: `causal`, `window`, `padding`; combine them with `&`. Positions are aligned at the bottom
right: the last query stands at the last key, so query `i` stands at key `i + lk - lq`.

Other libraries read True, 1 or 0.0 in other ways; the `from_…` and `to_…` functions convert, and refuse what
could be read in two ways.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.arguments import assert_on_device, check_tensors, check_whole, readable


def causal(lq: int, lk: int | None = None, *, device: torch.device | str | None = None) -> Tensor:
    """No look at the future: query `i` may attend to keys `0 … i + lk - lq`.

    Args:
        lq, lk: numbers of queries and keys; `lk` defaults to `lq`.

    Returns:
        bool (lq, lk). With `lk < lq` the first `lq - lk` queries may attend to nothing.

    Source: Vaswani et al. 2017, §3.2.3; the alignment is that of decoding with a cache.
    """
    lk = lq if lk is None else lk
    check_whole(0, lq=lq, lk=lk)
    return near(*places(lq, lk, device), None, causal=True)


def window(lq: int, lk: int, width: int, *, causal: bool = True, device: torch.device | str | None = None) -> Tensor:
    """A sliding window of `width` keys, the query's own key included.

    Args:
        lq, lk: numbers of queries and keys.
        width: at least 1. With `causal` the last `width` keys up to the query's own; without it all keys
            nearer than `width`, that is `|i - j| < width` and up to `2 * width - 1` keys.

    Returns:
        bool (lq, lk).

    Source: Beltagy et al. 2020 (Longformer), §3.1; Jiang et al. 2023 (Mistral 7B), §2 for the causal form.
    Other libraries count otherwise: flash-attention's (left, right) are the keys beside the query's own.
    """
    check_whole(0, lq=lq, lk=lk)
    check_whole(width=width)
    return near(*places(lq, lk, device), width, causal=causal)


def padding(lengths: Tensor, lk: int) -> Tensor:
    """Sequences of different length in one batch: only the leading `lengths[b]` keys of sequence `b` are real.

    Args:
        lengths: integer (B,), each in `0 … lk`.

    Returns:
        bool (B, 1, 1, lk), ready to be combined with a (lq, lk) mask by `&`.
    """
    check_whole(0, lk=lk)
    check_lengths(lengths, None, lk, name="lengths")
    return leading(lengths, lk)[:, None, None, :]


def dead_rows(mask: Tensor) -> Tensor:
    """Queries that may attend to no key at all: mask bool (…, Lq, Lk) → bool (…, Lq)."""
    _check_bool(mask)
    return ~mask.any(dim=-1)


def draw(mask: Tensor) -> str:
    """The mask as text, a line per query: ■ may attend, · may not. mask: bool (Lq, Lk)."""
    _check_bool(mask)
    if mask.dim() != 2:
        raise ValueError(
            f"mask: got shape {tuple(mask.shape)}; one (Lq, Lk) mask can be drawn at a time, "
            "for example mask[0, 0] of a (B, H, Lq, Lk) one"
        )
    return "\n".join(" ".join("■" if seen else "·" for seen in row) for row in mask.tolist())


def zero_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """Set the padded positions of `x` to 0, whatever they hold, NaN included.

    A mask gives a padded value the weight 0, and 0 · NaN is NaN; so what stands behind a mask must be finite.

    Args:
        x: (B, L, d) or (B, H, L, D).
        lengths: integer (B,), each in `0 … L`.
    """
    check_tensors(x=x)
    if x.dim() not in (3, 4):
        raise ValueError(f"x: got shape {tuple(x.shape)}; accepted are (B, L, d) and (B, H, L, D)")
    check_lengths(lengths, x.shape[0], x.shape[-2], name="lengths", device=x.device)
    real = leading(lengths, x.shape[-2])
    real = real[:, :, None] if x.dim() == 3 else real[:, None, :, None]
    return torch.where(real, x, torch.zeros((), dtype=x.dtype, device=x.device))


def from_torch_mha(
    *, attn_mask: Tensor | None = None, key_padding_mask: Tensor | None = None, num_heads: int | None = None
) -> Tensor:
    """The masks of `torch.nn.MultiheadAttention`, where True = may NOT attend, in this library's polarity.

    Args:
        attn_mask: bool (L, S), or (B · num_heads, L, S), which needs `num_heads`.
        key_padding_mask: bool (B, S), True = padding.

    Returns:
        bool, True = may attend: (L, S), or (B, 1, 1, S), or (B, H, L, S), as the parts allow.

    Raises:
        TypeError: a float mask. There 1.0 does not hide a key, it raises its score; pass it as `bias`.
    """
    for name, given in (("attn_mask", attn_mask), ("key_padding_mask", key_padding_mask)):
        if given is not None:
            _check_bool(given, name)
    if num_heads is not None:
        check_whole(num_heads=num_heads)
    allowed = None
    if attn_mask is not None:
        allowed = ~attn_mask
        if allowed.dim() == 3:
            if num_heads is None or allowed.shape[0] % num_heads:
                raise ValueError(
                    f"attn_mask: got shape {tuple(attn_mask.shape)} and num_heads={num_heads}; the first of "
                    "three dimensions is batch times heads: pass num_heads, a divisor of it"
                )
            allowed = allowed.unflatten(0, (-1, num_heads))
        elif allowed.dim() != 2:
            raise ValueError(f"attn_mask: got shape {tuple(attn_mask.shape)}; accepted: (L, S), (B·H, L, S)")
    if key_padding_mask is not None:
        if key_padding_mask.dim() != 2:
            raise ValueError(f"key_padding_mask: got shape {tuple(key_padding_mask.shape)}; accepted: (B, S)")
        real = ~key_padding_mask[:, None, None, :]
        if attn_mask is not None and allowed is not None:
            _check_joint(attn_mask, key_padding_mask, allowed)
        allowed = real if allowed is None else allowed & real
    if allowed is None:
        raise ValueError("from_torch_mha: got no mask; give attn_mask, key_padding_mask or both")
    return allowed


def to_torch_mha(mask: Tensor, *, batch_size: int | None = None, num_heads: int | None = None) -> Tensor:
    """This library's mask as the `attn_mask` of `torch.nn.MultiheadAttention` (True = may NOT attend).

    Args:
        mask: bool (Lq, Lk), or (B|1, H|1, Lq, Lk), which needs `batch_size` and `num_heads`.
            Torch broadcasts no query dimension: expand a padding mask (B, 1, 1, Lk) to (B, 1, Lq, Lk) first.

    Returns:
        bool (Lq, Lk) or (B · num_heads, Lq, Lk).
    """
    _check_bool(mask)
    if mask.dim() == 2:
        return ~mask
    if mask.dim() != 4 or batch_size is None or num_heads is None:
        raise ValueError(
            f"mask: got shape {tuple(mask.shape)}, batch_size={batch_size}, num_heads={num_heads}; accepted: "
            "(Lq, Lk) alone, or (B|1, H|1, Lq, Lk) with batch_size and num_heads"
        )
    if mask.shape[0] not in (1, batch_size) or mask.shape[1] not in (1, num_heads):
        raise ValueError(
            f"mask: got shape {tuple(mask.shape)}; its first two dimensions must be 1 or "
            f"batch_size={batch_size}, and 1 or num_heads={num_heads}"
        )
    return ~mask.expand(batch_size, num_heads, -1, -1).flatten(0, 1)


def from_huggingface(attention_mask: Tensor) -> Tensor:
    """The `attention_mask` of a Hugging Face tokenizer: integer or bool (B, S), 1 = real token, 0 = padding.

    Returns:
        bool (B, 1, 1, S), True = may attend.
    """
    check_tensors(attention_mask=attention_mask)
    if attention_mask.dim() != 2:
        raise ValueError(f"attention_mask: got shape {tuple(attention_mask.shape)}; accepted: (B, S)")
    if attention_mask.is_floating_point():
        raise TypeError(
            f"attention_mask: got {attention_mask.dtype}; accepted are bool and integers of 0 and 1. "
            "An additive float mask goes through from_additive"
        )
    known = (attention_mask == 0) | (attention_mask == 1)
    if not known.all():
        other = attention_mask[~known][0].item()
        raise ValueError(f"attention_mask: holds {other}; accepted are 0 (padding) and 1 (real token)")
    return attention_mask.bool()[:, None, None, :]


def from_additive(mask: Tensor) -> Tensor:
    """An additive float mask whose entries are 0 (keep) or −inf / the dtype's minimum (hide) → bool, same shape.

    Any other value is refused: −1e9 may or may not hide a key, and 1.0 certainly does not.
    """
    check_tensors(mask=mask)
    if not mask.is_floating_point():
        raise TypeError(f"mask: got {mask.dtype}; an additive mask has a floating dtype")
    keep, hide = mask == 0, mask <= torch.finfo(mask.dtype).min
    if not (keep | hide).all():
        other = mask[~(keep | hide)][0].item()
        raise ValueError(
            f"mask: holds {other:g}; accepted are 0 (may attend) and -inf or {torch.finfo(mask.dtype).min:g} "
            "(may not). A number added to the scores is a bias: pass it as bias="
        )
    return keep


def to_additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask as numbers to add to the scores: True → 0, False → −inf. Same shape, of `dtype`."""
    _check_bool(mask)
    if not dtype.is_floating_point:
        raise TypeError(f"dtype: got {dtype}; accepted is a floating dtype")
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, float("-inf"))


def check_lengths(
    lengths: Tensor, batch: int | None, full: int, of: str = "keys", *, name: str, device: torch.device | None = None
) -> None:
    """Refuse lengths (of the "keys" or "queries") that are not an integer (B,) tensor in `0 … full`, on `device`."""
    if not isinstance(lengths, Tensor):
        raise TypeError(f"{name}: got {type(lengths).__name__}; accepted is an integer tensor of shape (B,)")
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"{name}: got {lengths.dtype}; accepted is an integer dtype: how many {of} are real")
    if lengths.dim() != 1 or (batch is not None and lengths.shape[0] != batch):
        wanted = "(B,)" if batch is None else f"({batch},)"
        raise ValueError(f"{name}: got shape {tuple(lengths.shape)}; accepted is {wanted}, one per sequence")
    if device is not None and lengths.device != device:
        raise ValueError(f"{name}: is on {lengths.device}, what it measures on {device}; move one of them with .to()")
    accepted = f"accepted are 0 to {full}, the {of} given"
    values = readable(lengths)
    if values is None:
        assert_on_device(lengths, lambda x: (x >= 0) & (x <= full), f"{name}: got other values; {accepted}")
    elif values.numel():
        low, high = (int(x) for x in values.aminmax())
        if low < 0 or high > full:
            raise ValueError(f"{name}: got values from {low} to {high}; {accepted}")


def leading(lengths: Tensor, size: int) -> Tensor:
    """bool (B, size), True at the first `lengths[b]` places of row b; lengths that have been checked."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def places(lq: int, lk: int, device: torch.device | str | None = None) -> tuple[Tensor, Tensor]:
    """Where the queries (lq,) and the keys (lk,) stand: the last query at the last key."""
    return torch.arange(lq, device=device) + (lk - lq), torch.arange(lk, device=device)


def near(queries: Tensor, keys: Tensor, width: int | None, *, causal: bool) -> Tensor:
    """Which keys stand in the window of `width` of each query, or before it where `width` is None.

    Positions are compared with positions: a matrix of distances, which are int64, would take eight bytes a pair.

    Args:
        queries, keys: positions, integer (lq,) and (lk,).
        width, causal: as for `window`; None, which needs `causal`, is no limit to the past.

    Returns:
        bool (lq, lk).
    """
    if width is None:
        return keys <= queries[:, None]
    # The last key that a query sees is its own, or that at the other end of its window.
    seen = keys <= (queries if causal else queries + (width - 1))[:, None]
    return seen & (keys > (queries - width)[:, None])


def _check_bool(mask: Tensor, name: str = "mask") -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{name}: got {got}; accepted is a bool tensor. Numbers added to the scores are a bias")


def _check_joint(attn_mask: Tensor, key_padding_mask: Tensor, allowed: Tensor) -> None:
    if attn_mask.shape[-1] != key_padding_mask.shape[-1] or (
        allowed.dim() == 4 and allowed.shape[0] != key_padding_mask.shape[0]
    ):
        raise ValueError(
            f"attn_mask {tuple(attn_mask.shape)} and key_padding_mask {tuple(key_padding_mask.shape)} "
            "do not speak of the same batch and keys"
        )
