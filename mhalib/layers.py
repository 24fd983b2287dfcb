"""`MultiHeadAttention`: project, split into heads, attend, join, project. One class for MHA, GQA and MQA."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from mhalib.arguments import check_flags, check_kv_heads, check_tensors, check_whole, probability, resolve_head_dim
from mhalib.backends.mixed_precision import autocast_dtype
from mhalib.cache import KVCache, RollingKVCache
from mhalib.functional import attention
from mhalib.positions import RotaryEmbedding, check_positions


class MultiHeadAttention(nn.Module):
    """Multi-head attention over sequences (B, L, d_model).

    Args:
        d_model: width of the inputs and of the output.
        num_heads: query heads.
        num_kv_heads: key and value heads, a divisor of `num_heads`. None: as many (MHA); fewer: grouped queries
            (GQA); 1: multi-query (MQA).
        head_dim: width of a head; None is `d_model / num_heads`, which must then be whole.
        bias: whether the four projections have biases.
        dropout: probability of dropping an attention weight, in training only.
        rotary: rotates queries and keys before the scores; needs no parameters.
        window: number of keys in the sliding window, the query's own included (see `mhalib.attention`).
        backend: as for `mhalib.attention`.

    Weights start as Glorot uniform, one matrix at a time, biases at 0.

    Sources: Vaswani et al. 2017, §3.2.2 (MHA); Shazeer 2019 (MQA); Ainslie et al. 2023 (GQA).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: RotaryEmbedding | None = None,
        window: int | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_whole(d_model=d_model, num_heads=num_heads, num_kv_heads=self.num_kv_heads)
        check_kv_heads(num_heads, self.num_kv_heads)
        self.head_dim = resolve_head_dim(d_model, num_heads, head_dim)
        check_whole(head_dim=self.head_dim)
        if rotary is not None and not isinstance(rotary, RotaryEmbedding):
            raise TypeError(f"rotary: got {type(rotary).__name__}; accepted is a mhalib.RotaryEmbedding or None")
        if rotary is not None and rotary.head_dim != self.head_dim:
            raise ValueError(f"rotary: got head_dim={rotary.head_dim}; accepted is that of the heads, {self.head_dim}")
        if window is not None:
            check_whole(window=window)
        self.dropout, self.rotary, self.window, self.backend = probability("dropout", dropout), rotary, window, backend

        width, kv_width = num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(d_model, width, bias=bias, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_width, bias=bias, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_width, bias=bias, device=device, dtype=dtype)
        self.out_proj = nn.Linear(width, d_model, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for projection in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        key_lengths: Tensor | None = None,
        query_lengths: Tensor | None = None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `key` and `value`.

        Args:
            query: (B, Lq, d_model).
            key: (B, Lk, d_model); None: `query` (self-attention).
            value: (B, Lk, d_model); None: `key`.
            mask, bias, causal, key_lengths, query_lengths: as for `mhalib.attention`, with
                (B, num_heads, Lq, Lk) as full shape. A query that may see no key
                leaves with the bias of `out_proj` alone.
            positions: of self-attention's tokens for `rotary`: integer (L,) or (B, L); None: they follow one another,
                from 0, or from the number of tokens in `cache`.
            cache: keys and values of the tokens before these, for self-attention; the new ones are added to it. `Lk`
                above is then the number of all tokens that it returns. Decoding wants `causal=True`.
            need_weights: also return the probabilities, per head and before dropout.

        Returns:
            (output (B, Lq, d_model), weights (B, num_heads, Lq, Lk) or None).
        """
        check_flags(need_weights=need_weights)
        if key is None and value is not None:
            raise ValueError("key: got None with a value; give both, or neither for self-attention")
        same = key is None or key is query
        key = query if key is None else key
        value = key if value is None else value
        for name, x in (("query", query), ("key", key), ("value", value)):
            self._check_input(name, x)

        if cache is not None:
            self._check_cache(cache, same, causal, key_lengths)

        q = split_heads(self.q_proj(query), self.num_heads)
        k = split_heads(self.k_proj(key), self.num_kv_heads)
        v = split_heads(self.v_proj(value), self.num_kv_heads)
        if self.rotary is not None:
            q, k = self._rotate(q, k, positions, same, 0 if cache is None else cache.length)
        elif positions is not None:
            raise ValueError("positions: this layer has no rotary embedding that could use them; leave them out")
        if cache is not None:
            k, v = cache.append(k, v)

        try:
            result = attention(
                q,
                k,
                v,
                mask=mask,
                bias=bias,
                causal=causal,
                window=self.window,
                key_lengths=key_lengths,
                query_lengths=query_lengths,
                dropout=self.dropout if self.training else 0.0,
                backend=self.backend,
                return_weights=need_weights,
            )
        except Exception:
            if cache is not None:
                cache.take_back(query.shape[1])
            raise
        output, weights = result if isinstance(result, tuple) else (result, None)
        return self.out_proj(join_heads(output)), weights

    def _check_input(self, name: str, x: Tensor) -> None:
        check_tensors(**{name: x})
        if x.dim() != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"{name}: got shape {tuple(x.shape)}; accepted is (B, L, {self.d_model})")
        weight = self.q_proj.weight
        if not isinstance(weight, Tensor):
            return  # a quantised projection keeps its weight packed and checks its input itself
        if x.device != weight.device:
            raise ValueError(f"{name}: is on {x.device}, the layer on {weight.device}; move one of them with .to()")
        if x.dtype != weight.dtype and autocast_dtype(x) is None:
            raise TypeError(f"{name}: got {x.dtype} where the layer is {weight.dtype}; convert one of them with .to()")

    def _check_cache(self, cache: KVCache, same: bool, causal: bool, key_lengths: Tensor | None) -> None:
        if not isinstance(cache, KVCache):
            raise TypeError(f"cache: got {type(cache).__name__}; accepted are mhalib.KVCache and RollingKVCache")
        if not same:
            raise ValueError("cache: holds the past of self-attention; query and key here are different sequences")
        if key_lengths is not None and cache.length:
            raise ValueError(
                f"key_lengths: counts leading keys, and the cache already holds {cache.length}, behind which the new "
                "ones come: short lengths would hide those. Hide the padding of the past with mask= (B, 1, 1, Lk)"
            )
        if isinstance(cache, RollingKVCache) and not (causal and self.window == cache.max_length):
            raise ValueError(
                f"cache: keeps a causal window of {cache.max_length} keys; this layer has window={self.window} and was "
                f"called with causal={causal}: build it with window={cache.max_length} and pass causal=True"
            )

    def _rotate(self, q: Tensor, k: Tensor, positions: Tensor | None, same: bool, start: int) -> tuple[Tensor, Tensor]:
        if self.rotary is None or not same:
            raise ValueError("rotary: defined for self-attention; query and key here are different sequences")
        if positions is None:
            positions = torch.arange(start, start + q.shape[2], device=q.device)
        check_positions(positions, q.shape[0], q.shape[2], q.device)
        return self.rotary(q, positions), self.rotary(k, positions)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention, *, backend: str = "auto") -> MultiHeadAttention:
        """The same layer as a `torch.nn.MultiheadAttention`: same weights (copied), same outputs.

        Torch's weights are the mean over heads by default; here they are per head. A layer built with
        `batch_first=False`, `add_bias_kv`, `add_zero_attn`, `kdim` or `vdim` is refused.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(f"module: got {type(module).__name__}; accepted is torch.nn.MultiheadAttention")
        if not module.batch_first:
            raise ValueError("module: batch_first=False reads (L, B, d); inputs here are (B, L, d): set batch_first")
        if not module._qkv_same_embed_dim or module.bias_k is not None or module.add_zero_attn:
            raise ValueError("module: kdim, vdim, add_bias_kv and add_zero_attn have no counterpart here")
        weight = module.in_proj_weight
        layer = cls(
            module.embed_dim,
            module.num_heads,
            bias=module.in_proj_bias is not None,
            dropout=module.dropout,
            backend=backend,
            device=weight.device,
            dtype=weight.dtype,
        )
        projections = (layer.q_proj, layer.k_proj, layer.v_proj)
        with torch.no_grad():
            for projection, part in zip(projections, weight.chunk(3), strict=True):
                projection.weight.copy_(part)
            layer.out_proj.weight.copy_(module.out_proj.weight)
            if module.in_proj_bias is not None:
                for projection, part in zip(projections, module.in_proj_bias.chunk(3), strict=True):
                    projection.bias.copy_(part)
                layer.out_proj.bias.copy_(module.out_proj.bias)
        return layer.train(module.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """The same layer as a `torch.nn.MultiheadAttention` with `batch_first=True`; weights are copied.

        Refused for grouped heads, a free `head_dim`, rotary embedding or a window: torch's layer has none of them.
        """
        if (
            self.num_kv_heads != self.num_heads
            or self.num_heads * self.head_dim != self.d_model
            or self.rotary is not None
            or self.window is not None
        ):
            given = f"{self.extra_repr()}, rotary={self.rotary}"
            raise ValueError(f"to_torch: torch's layer has no counterpart for {given}; accepted is plain multi-head")
        weight, bias = self.q_proj.weight, self.q_proj.bias is not None
        module = nn.MultiheadAttention(
            self.d_model,
            self.num_heads,
            dropout=self.dropout,
            bias=bias,
            batch_first=True,
            device=weight.device,
            dtype=weight.dtype,
        )
        projections = (self.q_proj, self.k_proj, self.v_proj)
        with torch.no_grad():
            module.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
            module.out_proj.weight.copy_(self.out_proj.weight)
            if bias:
                module.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
                module.out_proj.bias.copy_(self.out_proj.bias)
        return module.train(self.training)

    def to_grouped(self, num_kv_heads: int) -> MultiHeadAttention:
        """The same layer with fewer key and value heads: each new one is the mean of a group of the old.

        An approximation, to be trained on for a while ("uptraining"); exact only where a group's heads were equal.

        Source: Ainslie et al. 2023 (GQA), §2.1: mean pooling did better than keeping one head of each group.
        """
        check_whole(num_kv_heads=num_kv_heads)
        check_kv_heads(self.num_kv_heads, num_kv_heads)
        layer = copy.deepcopy(self)
        layer.num_kv_heads = num_kv_heads
        for name in ("k_proj", "v_proj"):
            old = getattr(self, name)
            new = nn.Linear(
                self.d_model,
                num_kv_heads * self.head_dim,
                bias=old.bias is not None,
                device=old.weight.device,
                dtype=old.weight.dtype,
            )
            with torch.no_grad():
                for parameter, source in zip(new.parameters(), old.parameters(), strict=True):
                    parameter.copy_(source.unflatten(0, (num_kv_heads, -1, self.head_dim)).mean(1).flatten(0, 1))
            setattr(layer, name, new)
        return layer

    def extra_repr(self) -> str:
        return (
            f"d_model={self.d_model}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, "
            f"head_dim={self.head_dim}, dropout={self.dropout}, window={self.window}, backend={self.backend!r}"
        )


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, L, H · D) → (B, H, L, D): head h of a token is its channels h · D … (h + 1) · D − 1."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, L, D) → (B, L, H · D), the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(2)
