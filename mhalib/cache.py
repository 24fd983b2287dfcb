"""Keys and values of the tokens so far, kept between the steps of decoding; never repeated per query head."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.arguments import assert_on_device, check_whole, readable


class KVCache:
    """A buffer for the keys and values of up to `max_length` tokens, (B, Hkv, L, D) each.

    Args:
        batch_size, num_kv_heads, max_length, head_dim: sizes of the buffer; bytes: `counting.kv_cache_bytes`.
        value_dim: size of a value where it differs from `head_dim`.
        dtype, device: as for `torch.empty`.

    For inference: `append` refuses tensors that autograd is following.
    """

    def __init__(
        self,
        batch_size: int,
        num_kv_heads: int,
        max_length: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        value_dim = head_dim if value_dim is None else value_dim
        check_whole(batch_size=batch_size, num_kv_heads=num_kv_heads, max_length=max_length)
        check_whole(head_dim=head_dim, value_dim=value_dim)
        self.max_length, self._start, self._stop, self.length = max_length, 0, 0, 0
        room = self._room()
        self._key = torch.empty(batch_size, num_kv_heads, room, head_dim, dtype=dtype, device=device)
        self._value = torch.empty(batch_size, num_kv_heads, room, value_dim, dtype=dtype, device=device)

    def _room(self) -> int:
        return self.max_length

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of `n` new tokens, (B, Hkv, n, D) each; returns those of all tokens so far.

        The tensors returned are views of the buffer: read them before the next `append`.
        """
        self._check(key, value)
        self._make_room(key.shape[2])
        stop = self._stop + key.shape[2]
        self._key[:, :, self._stop : stop] = key
        self._value[:, :, self._stop : stop] = value
        self._stop = stop
        self.length += key.shape[2]
        return self._key[:, :, self._start : stop], self._value[:, :, self._start : stop]

    def _make_room(self, new: int) -> None:
        if self.length + new > self.max_length:
            raise ValueError(
                f"cache: full: {self.length} of max_length={self.max_length} tokens are taken and {new} more came; "
                "build it with a larger max_length, start anew with reset(), or keep a window with RollingKVCache"
            )

    def take_back(self, tokens: int) -> None:
        """Forget the last `tokens` tokens, which came with the last `append`: what was computed with them failed."""
        check_whole(0, tokens=tokens)
        if tokens > self._stop - self._start:
            raise ValueError(f"tokens: got {tokens}; accepted are 0 to {self._stop - self._start}, those that are held")
        self._stop -= tokens
        self.length -= tokens

    def reset(self) -> None:
        """Forget all tokens; the buffer stays."""
        self._start = self._stop = self.length = 0

    def reorder(self, index: Tensor) -> None:
        """Continue sequence `b` from what sequence `index[b]` has so far (beam search). index: integer (B,)."""
        batch = self._key.shape[0]
        if not isinstance(index, Tensor) or index.dtype not in (torch.int32, torch.int64):
            raise TypeError(
                f"index: got {getattr(index, 'dtype', type(index).__name__)}; accepted is an integer tensor"
            )
        accepted = f"accepted are {batch} numbers from 0 to {batch - 1}"
        values = readable(index)
        if tuple(index.shape) != (batch,):
            got = f"shape {tuple(index.shape)}" if values is None else values.tolist()
            raise ValueError(f"index: got {got}; {accepted}")
        if values is None:
            assert_on_device(index, lambda x: (x >= 0) & (x < batch), f"index: got other values; {accepted}")
        elif not all(0 <= b < batch for b in values.tolist()):
            raise ValueError(f"index: got {values.tolist()}; {accepted}")
        kept = slice(self._start, self._stop)
        for buffer in (self._key, self._value):
            buffer[:, :, kept] = buffer[index, :, kept]

    def _check(self, key: Tensor, value: Tensor) -> None:
        for name, x, buffer in (("key", key, self._key), ("value", value, self._value)):
            batch, heads, _, size = buffer.shape
            if x.dim() != 4 or (x.shape[0], x.shape[1], x.shape[3]) != (batch, heads, size):
                raise ValueError(f"{name}: got shape {tuple(x.shape)}; accepted is ({batch}, {heads}, n, {size})")
            if x.dtype != buffer.dtype or x.device != buffer.device:
                raise TypeError(
                    f"{name}: got {x.dtype} on {x.device}; this cache holds {buffer.dtype} on {buffer.device}: "
                    "build it with the same dtype and device"
                )
            if x.requires_grad and torch.is_grad_enabled():
                raise ValueError(f"{name}: autograd is following it; a cache is for inference: use torch.no_grad()")
        if key.shape[2] != value.shape[2]:
            raise ValueError(f"key, value: {key.shape[2]} and {value.shape[2]} tokens; accepted is the same number")


class RollingKVCache(KVCache):
    """A cache that keeps what a causal window of `window` keys can still see; any number of tokens may pass.

    `append` returns the last `window - 1` tokens before the new ones, then the new ones. `length` counts all tokens
    that have passed, so it is also the position of the next one.

    Args:
        batch_size, num_kv_heads, window, head_dim, value_dim, dtype, device: as for `KVCache`; `window` as for
            `mhalib.attention`.
    """

    def __init__(self, batch_size: int, num_kv_heads: int, window: int, head_dim: int, **options):
        super().__init__(batch_size, num_kv_heads, window, head_dim, **options)

    def _room(self) -> int:
        # Twice the window: the tokens to keep are moved to the front once per `window` steps, not at each step.
        return 2 * self.max_length

    def _make_room(self, new: int) -> None:
        keep = min(self._stop - self._start, self.max_length - 1)
        self._start = self._stop - keep
        if self._stop + new <= self._key.shape[2]:
            return
        room = max(self._room(), keep + new)
        for name in ("_key", "_value"):
            old = getattr(self, name)
            fresh = old.new_empty(*old.shape[:2], room, old.shape[3])
            fresh[:, :, :keep] = old[:, :, self._start : self._stop]
            setattr(self, name, fresh)
        self._start, self._stop = 0, keep
