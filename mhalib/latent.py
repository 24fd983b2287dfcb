"""Multi-head latent attention: keys and values are unpacked from one small vector per token, and only that is cached.

DeepSeek-AI 2024 (DeepSeek-V2), §2.1, without the norms on the small vectors and for teaching: two ways to compute the
same numbers stand side by side.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mhalib.arguments import check_tensors, check_whole
from mhalib.functional import attention
from mhalib.layers import join_heads, split_heads
from mhalib.positions import RotaryEmbedding


class MultiHeadLatentAttention(nn.Module):
    """Attention whose cache is `kv_rank + rope_dim` numbers per token, whatever the number of heads.

    Each head's query and key have two parts: one of `head_dim` without positions, unpacked from the latent vector,
    and one of `rope_dim` that is rotated; the rotated key is shared by all heads. Scores are scaled by
    1/√(head_dim + rope_dim). The value of a head has `head_dim` channels.

    Args:
        d_model: width of the inputs and of the output.
        num_heads, head_dim: heads, and the size of their parts without positions.
        kv_rank: size of the latent vector of keys and values.
        rope_dim: size of the rotated part, even.
        q_rank: size of the latent vector of queries; None: queries are projected in one step.
    """

    def __init__(
        self, d_model: int, num_heads: int, *, head_dim: int, kv_rank: int, rope_dim: int, q_rank: int | None = None
    ):
        super().__init__()
        check_whole(d_model=d_model, num_heads=num_heads, head_dim=head_dim, kv_rank=kv_rank, rope_dim=rope_dim)
        self.d_model, self.num_heads, self.head_dim, self.kv_rank = d_model, num_heads, head_dim, kv_rank
        self.rotary = RotaryEmbedding(rope_dim, layout="interleaved")
        width = num_heads * (head_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            check_whole(q_rank=q_rank)
            self.q_proj = nn.Sequential(nn.Linear(d_model, q_rank, bias=False), nn.Linear(q_rank, width, bias=False))
        self.kv_down = nn.Linear(d_model, kv_rank, bias=False)
        self.rope_key = nn.Linear(d_model, rope_dim, bias=False)
        self.k_up = nn.Linear(kv_rank, num_heads * head_dim, bias=False)
        self.v_up = nn.Linear(kv_rank, num_heads * head_dim, bias=False)
        self.out_proj = nn.Linear(num_heads * head_dim, d_model, bias=False)

    def compress(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """What is cached of the tokens x (B, L, d_model): latent and rotated key, (B, L, kv_rank + rope_dim)."""
        self._check(x)
        key = self.rotary(self.rope_key(x)[:, None], self._positions(x, positions))[:, 0]
        return torch.cat((self.kv_down(x), key), dim=-1)

    def forward(
        self,
        x: Tensor,
        cached: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        causal: bool = False,
        absorbed: bool = False,
    ) -> Tensor:
        """Attend from the tokens `x` to the tokens of `cached`.

        Args:
            x: (B, Lq, d_model).
            cached: (B, Lk, kv_rank + rope_dim) from `compress`, these tokens included; None: of `x` itself.
            positions: of `x`, integer (Lq,) or (B, Lq); None: they are the last of the cached tokens.
            causal: aligned at the bottom right.
            absorbed: False unpacks keys and values of every head. True moves the two unpacking matrices to the side
                of the query and of the output, so that all heads read the latent vectors themselves, as one key head.
                The numbers are the same; which is cheaper depends on Lq.

        Returns:
            (B, Lq, d_model).
        """
        self._check(x)
        cached = self.compress(x, positions) if cached is None else cached
        if cached.dim() != 3 or cached.shape[0] != x.shape[0] or cached.shape[2] != self.kv_rank + self.rotary.head_dim:
            raise ValueError(
                f"cached: got shape {tuple(cached.shape)}; accepted is ({x.shape[0]}, Lk, "
                f"{self.kv_rank + self.rotary.head_dim}), as compress() gives it"
            )
        if cached.shape[1] < x.shape[1]:
            raise ValueError(
                f"cached: got {cached.shape[1]} tokens for the {x.shape[1]} of x; accepted are its own and all before"
            )
        if positions is None:
            positions = torch.arange(cached.shape[1] - x.shape[1], cached.shape[1], device=x.device)
        content, rotated = split_heads(self.q_proj(x), self.num_heads).split(
            (self.head_dim, self.rotary.head_dim), dim=-1
        )
        query = content, self.rotary(rotated, positions)
        heads = (self._absorbed if absorbed else self._plain)(*query, cached, causal)
        return self.out_proj(join_heads(heads))

    def _plain(self, content: Tensor, rotated: Tensor, cached: Tensor, causal: bool) -> Tensor:
        latent, rope_key = cached.split((self.kv_rank, self.rotary.head_dim), dim=-1)
        shared = rope_key[:, None].expand(-1, self.num_heads, -1, -1)
        key = torch.cat((split_heads(self.k_up(latent), self.num_heads), shared), dim=-1)
        value = split_heads(self.v_up(latent), self.num_heads)
        return attention(torch.cat((content, rotated), dim=-1), key, value, causal=causal)

    def _absorbed(self, content: Tensor, rotated: Tensor, cached: Tensor, causal: bool) -> Tensor:
        # q · (W c) = (Wᵀ q) · c, and Σ_j a_j (W c_j) = W Σ_j a_j c_j: neither needs a key or a value of its own.
        k_up = self.k_up.weight.unflatten(0, (self.num_heads, self.head_dim))
        v_up = self.v_up.weight.unflatten(0, (self.num_heads, self.head_dim))
        query = torch.cat((torch.einsum("bhqd,hdr->bhqr", content, k_up), rotated), dim=-1)
        latent = cached[:, None, :, : self.kv_rank]
        scale = (self.head_dim + self.rotary.head_dim) ** -0.5
        mixed = attention(query, cached[:, None], latent, causal=causal, scale=scale)
        return torch.einsum("bhqr,hdr->bhqd", mixed, v_up)

    def _positions(self, x: Tensor, positions: Tensor | None) -> Tensor:
        return torch.arange(x.shape[1], device=x.device) if positions is None else positions

    def _check(self, x: Tensor) -> None:
        check_tensors(x=x)
        if x.dim() != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x: got shape {tuple(x.shape)}; accepted is (B, L, {self.d_model})")
