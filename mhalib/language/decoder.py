"""A decoder that predicts the next token: RMSNorm, rotary positions, grouped queries, SwiGLU, tied embeddings.

This is the design of Llama and its relatives, SmolLM2 among them. Sources: Touvron et al. 2023, arXiv:2302.13971, §2.2
(the norm before each part, SwiGLU, rotary positions); Ainslie et al. 2023, §2.2 (grouped queries); Press and Wolf 2017,
arXiv:1608.05859 (one table for reading and writing).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import (
    assert_on_device,
    check_flags,
    check_tensors,
    check_whole,
    probability,
    readable,
    resolve_head_dim,
)
from mhalib.cache import KVCache, RollingKVCache
from mhalib.language.parts import RMSNorm, SwiGLU
from mhalib.layers import MultiHeadAttention
from mhalib.positions import RotaryEmbedding


class DecoderBlock(nn.Module):
    """One pre-norm layer: x + attention(norm1(x)), then that + mlp(norm2(that)). The attention is causal.

    Args:
        d_model, num_heads, num_kv_heads, head_dim, rotary, window, backend: as for `MultiHeadAttention`, which has no
            biases here.
        d_ff: inner width of the `SwiGLU`; 0 leaves it out, with its norm.
        norm_eps: of both norms.
        dropout: probability of dropping a number of what attention and feed-forward bring, in training only.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        rotary: RotaryEmbedding | None = None,
        window: int | None = None,
        norm_eps: float = 1e-5,
        dropout: float = 0.0,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_whole(0, d_ff=d_ff)
        self.dropout = probability("dropout", dropout)
        self.norm1 = RMSNorm(d_model, eps=norm_eps, device=device, dtype=dtype)
        self.attention = MultiHeadAttention(
            d_model,
            num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            bias=False,
            rotary=rotary,
            window=window,
            backend=backend,
            device=device,
            dtype=dtype,
        )
        self.norm2 = RMSNorm(d_model, eps=norm_eps, device=device, dtype=dtype) if d_ff else None
        self.mlp = SwiGLU(d_model, d_ff, device=device, dtype=dtype) if d_ff else None

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_lengths: Tensor | None = None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, L, d_model) → (the same, weights (B, H, L, Lk) or None). Arguments as for `MultiHeadAttention`."""
        attended, weights = self.attention(
            self.norm1(x),
            causal=True,
            mask=mask,
            key_lengths=key_lengths,
            positions=positions,
            cache=cache,
            need_weights=need_weights,
        )
        x = x + F.dropout(attended, self.dropout, self.training)
        if self.norm2 is not None and self.mlp is not None:
            x = x + F.dropout(self.mlp(self.norm2(x)), self.dropout, self.training)
        return x, weights


class Decoder(nn.Module):
    """A language model: tokens (B, L) → scores of the next token at each position, (B, L, vocab_size).

    Args:
        vocab_size: number of different tokens.
        d_model, depth, num_heads: width, number of blocks, query heads of a block.
        num_kv_heads, head_dim, window, backend: as for `MultiHeadAttention`.
        d_ff: inner width of the feed-forward blocks; None is two thirds of 4 · d_model, rounded up to a multiple of
            8; 0 leaves them out.
        rope_base, rope_layout: of `RotaryEmbedding`.
        norm_eps: of every norm.
        tied: one table for the embedding and for the scores. It is then one parameter with one name,
            `embedding.weight`; otherwise the scores have a matrix of their own, `head.weight`.
        dropout: as for `DecoderBlock`.

    Embedding and matrices start normal with standard deviation 0.02, those that write to the residual stream (the last
    of each attention and of each feed-forward block) with 0.02 / √(2 · depth).

    Sources: see the module; the start, Radford et al. 2019 (GPT-2), §2.3.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        depth: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        d_ff: int | None = None,
        window: int | None = None,
        rope_base: float = 10000.0,
        rope_layout: str = "half",
        norm_eps: float = 1e-5,
        tied: bool = True,
        dropout: float = 0.0,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_whole(vocab_size=vocab_size, d_model=d_model, depth=depth, num_heads=num_heads)
        check_flags(tied=tied)
        d_ff = -(-d_model // 3) * 8 if d_ff is None else d_ff
        self.vocab_size, self.window = vocab_size, window
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.head_dim = resolve_head_dim(d_model, num_heads, head_dim)
        rotary = RotaryEmbedding(self.head_dim, base=rope_base, layout=rope_layout)
        self.embedding = nn.Embedding(vocab_size, d_model, device=device, dtype=dtype)
        self.blocks = nn.ModuleList(
            DecoderBlock(
                d_model,
                num_heads,
                d_ff,
                num_kv_heads=num_kv_heads,
                head_dim=self.head_dim,
                rotary=rotary,
                window=window,
                norm_eps=norm_eps,
                dropout=dropout,
                backend=backend,
                device=device,
                dtype=dtype,
            )
            for _ in range(depth)
        )
        self.norm = RMSNorm(d_model, eps=norm_eps, device=device, dtype=dtype)
        self.head = None if tied else nn.Linear(d_model, vocab_size, bias=False, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                writes = name.endswith(("out_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * len(self.blocks)) if writes else 0.02)

    def forward(
        self,
        tokens: Tensor,
        *,
        mask: Tensor | None = None,
        key_lengths: Tensor | None = None,
        positions: Tensor | None = None,
        caches: Sequence[KVCache] | None = None,
        last: int | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Score the next token.

        Args:
            tokens: integer (B, L), from 0 to vocab_size − 1.
            mask, key_lengths, positions: as for `MultiHeadAttention`; every layer gets the same.
            caches: one for each block, see `new_caches`; the tokens continue what is in them.
            last: scores of the last `last` positions only, which spares the largest matrix product of a prompt.
            need_weights: also return the attention maps of all blocks.

        Returns:
            logits (B, L or last, vocab_size), or (logits, maps (B, depth, num_heads, L, Lk)), [.., query, key].
        """
        self._check(tokens, caches, last)
        x, maps = self.embedding(tokens), []
        for index, block in enumerate(self.blocks):
            cache = None if caches is None else caches[index]
            x, weights = block(
                x, mask=mask, key_lengths=key_lengths, positions=positions, cache=cache, need_weights=need_weights
            )
            maps.append(weights)
        x = self.norm(x if last is None else x[:, x.shape[1] - last :])
        logits = F.linear(x, self.embedding.weight if self.head is None else self.head.weight)
        return (logits, torch.stack(maps, dim=1)) if need_weights else logits

    def new_caches(self, batch_size: int, max_length: int) -> list[KVCache]:
        """An empty cache for each block: for `max_length` tokens, or rolling where the model has a window."""
        weight = self.embedding.weight
        kind, room = (KVCache, max_length) if self.window is None else (RollingKVCache, self.window)
        sizes = (batch_size, self.num_kv_heads, room, self.head_dim)
        return [kind(*sizes, dtype=weight.dtype, device=weight.device) for _ in self.blocks]

    def _check(self, tokens: Tensor, caches: Sequence[KVCache] | None, last: int | None) -> None:
        check_tensors(tokens=tokens)
        if tokens.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"tokens: got {tokens.dtype}; accepted is an integer tensor, numbers of tokens")
        if tokens.dim() != 2:
            raise ValueError(f"tokens: got shape {tuple(tokens.shape)}; accepted is (B, L); one text is tokens[None]")
        accepted, values = f"accepted are numbers from 0 to {self.vocab_size - 1}", readable(tokens)
        if values is None:
            assert_on_device(tokens, self._known, f"tokens: got others; {accepted}")
        elif not self._known(values).all():
            raise ValueError(f"tokens: got {int(values.min())} to {int(values.max())}; {accepted}")
        if caches is not None and len(caches) != len(self.blocks):
            raise ValueError(f"caches: got {len(caches)}; accepted is one for each of the {len(self.blocks)} blocks")
        if last is not None:
            check_whole(last=last)
            if last > tokens.shape[1]:
                raise ValueError(f"last: got {last} for {tokens.shape[1]} tokens; accepted is at most their number")

    def _known(self, tokens: Tensor) -> Tensor:
        return (tokens >= 0) & (tokens < self.vocab_size)
