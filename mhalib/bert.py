"""BERT on this library's own layers: post-norm encoder layers, with the weights of a `transformers` BertModel by name.

Source: Devlin et al. 2019 (BERT, §3).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import number, whole_numbers
from mhalib.layers import MultiHeadAttention


class BertLayer(nn.Module):
    """One post-norm encoder layer: attention, add, norm; two linear maps with a GELU between them, add, norm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, norm_eps: float = 1e-12, backend: str = "auto"):
        super().__init__()
        d_model, num_heads, d_ff = whole_numbers(d_model=d_model, num_heads=num_heads, d_ff=d_ff)
        norm_eps = number("norm_eps", norm_eps, "a finite number above 0", lambda eps: eps > 0)
        self.attention = MultiHeadAttention(d_model, num_heads, backend=backend)
        self.attention_norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)

    def forward(
        self, x: Tensor, *, key_lengths: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(B, L, d_model) → (the same, weights (B, H, L, L) or None)."""
        attended, weights = self.attention(x, key_lengths=key_lengths, need_weights=need_weights)
        x = self.attention_norm(x + attended)
        return self.norm(x + self.down(F.gelu(self.up(x)))), weights


class BertEncoder(nn.Module):
    """BERT's encoder, without its pooler and without dropout: for running a trained model, not for training one.

    Args:
        vocab_size: number of token ids.
        d_model, num_layers, num_heads, d_ff: width, layers, heads of a layer, inner width of its two linear maps.
        max_positions: the longest sequence it has position embeddings for.
        type_vocab_size: number of segment embeddings; every token here is of segment 0.
        norm_eps: of every layer norm.
        backend: as for `mhalib.attention`.

    Source: Devlin et al. 2019, §3; layer norm after each sum (post-norm), exact GELU.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_positions: int = 512,
        type_vocab_size: int = 2,
        norm_eps: float = 1e-12,
        backend: str = "auto",
    ):
        super().__init__()
        d_model, num_layers = whole_numbers(d_model=d_model, num_layers=num_layers)
        vocab_size, max_positions, type_vocab_size = whole_numbers(
            vocab_size=vocab_size, max_positions=max_positions, type_vocab_size=type_vocab_size
        )
        norm_eps = number("norm_eps", norm_eps, "a finite number above 0", lambda eps: eps > 0)
        self.words = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_positions, d_model)
        self.types = nn.Embedding(type_vocab_size, d_model)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.layers = nn.ModuleList(
            BertLayer(d_model, num_heads, d_ff, norm_eps=norm_eps, backend=backend) for _ in range(num_layers)
        )

    def forward(
        self, ids: Tensor, *, key_lengths: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Hidden states of every token, and the attention maps of every head if asked for.

        Args:
            ids: token ids (B, L), int64.
            key_lengths: (B,) real tokens of each sentence; None: all L. What stands behind them changes nothing
                before them; the hidden states of padded positions mean nothing.
            need_weights: also return the maps.

        Returns:
            hidden (B, L, d_model), or (hidden, maps (B, num_layers, num_heads, L, L)).
        """
        x = self.embeddings(ids)
        maps = []
        for layer in self.layers:
            x, weights = layer(x, key_lengths=key_lengths, need_weights=need_weights)
            maps.append(weights)
        return (x, torch.stack(maps, dim=1)) if need_weights else x

    def embeddings(self, ids: Tensor) -> Tensor:
        """What enters the first layer, (B, L, d_model): words, positions and segment 0, added and normalised."""
        self._check_ids(ids)
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.norm(self.words(ids) + self.positions(places) + self.types.weight[0])

    def _check_ids(self, ids: Tensor) -> None:
        if not isinstance(ids, Tensor) or ids.dtype != torch.int64 or ids.dim() != 2:
            what = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
            raise TypeError(f"ids: got {what}; accepted is an int64 tensor (B, L) of token ids")
        if ids.shape[1] > self.positions.num_embeddings:
            raise ValueError(
                f"ids: got {ids.shape[1]} tokens; accepted are up to {self.positions.num_embeddings}, the positions "
                "that this model has learned; cut the text into shorter pieces"
            )
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.words.num_embeddings:
            raise ValueError(
                f"ids: got {int(ids.min())} … {int(ids.max())}; accepted is 0 … {self.words.num_embeddings - 1}, "
                "the model's vocabulary"
            )

    def load_bert(self, state: Mapping[str, Tensor]) -> BertEncoder:
        """Copy in the weights of a `transformers` BertModel, by name. Its pooler, unused here, is left out.

        A weight that is missing, has no place here, or has another shape is refused.
        """
        own = {_bert_name(name): name for name, _ in self.named_parameters()}
        given = {name.removeprefix("bert."): value for name, value in state.items()}
        given = {k: v for k, v in given.items() if not k.startswith("pooler.") and not k.endswith("position_ids")}
        missing, unknown = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
        if missing or unknown:
            raise ValueError(f"state: not a BERT of this configuration; missing {missing}; without a place {unknown}")
        parameters = dict(self.named_parameters())
        for theirs, ours in own.items():
            if parameters[ours].shape != given[theirs].shape:
                raise ValueError(
                    f"state: {theirs} has shape {tuple(given[theirs].shape)}; accepted is "
                    f"{tuple(parameters[ours].shape)}"
                )
        with torch.no_grad():
            for theirs, ours in own.items():
                parameters[ours].copy_(given[theirs])
        return self


def random_twin(model: BertEncoder, seed: int = 0) -> BertEncoder:
    """A copy of `model` that has learned nothing: each weight is drawn from a normal distribution.

    Every weight and bias keeps the mean and the standard deviation that it has in `model`, so that the copy differs
    from it by what training arranged, not by the size of its numbers.
    """
    (seed,) = whole_numbers(0, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            parameter.copy_(parameter.mean() + parameter.std() * noise)
    return twin


def _bert_name(own: str) -> str:
    """The name in a `transformers` BertModel of the parameter that is called `own` here."""
    embeddings = {
        "words": "word_embeddings",
        "positions": "position_embeddings",
        "types": "token_type_embeddings",
        "norm": "LayerNorm",
    }
    in_layer = {
        "attention.q_proj": "attention.self.query",
        "attention.k_proj": "attention.self.key",
        "attention.v_proj": "attention.self.value",
        "attention.out_proj": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm": "output.LayerNorm",
    }
    module, kind = own.rsplit(".", 1)
    if module in embeddings:
        return f"embeddings.{embeddings[module]}.{kind}"
    _, number, inner = module.split(".", 2)
    return f"encoder.layer.{number}.{in_layer[inner]}.{kind}"
