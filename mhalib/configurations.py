"""Real model configurations, each with its source, and the parameter totals rebuilt from them.

`configurations.csv` holds one row per model: the sizes that its parameters follow from, and what was printed or counted
elsewhere (`attention_parameters`, `kv_bytes_per_token`, `total`) to compare with. A row is there only because its total
can be rebuilt from its sizes.
"""

from __future__ import annotations

import csv
import difflib
import functools
import pathlib
from dataclasses import dataclass, fields

from mhalib import counting

TABLE = pathlib.Path(__file__).with_name("configurations.csv")


@dataclass(frozen=True)
class Model:
    """One row of `configurations.csv`. Sizes that a model does not have are 0, properties it does not have False."""

    name: str
    family: str  #: "decoder", "encoder", "encoder-decoder" or "vision"
    layers: int  #: of the decoder, or of the only stack
    encoder_layers: int  #: of the encoder, in an encoder-decoder
    d_model: int
    num_heads: int
    num_kv_heads: int
    head_dim: int  #: with latent attention the part of a head without position
    attention_bias: str  #: "none", "qkv" or "all"
    qk_norm: bool  #: norms on query and key, head_dim weights each, shared by the heads
    q_rank: int  #: latent attention: size of the query latent
    kv_rank: int  #: latent attention: size of the key/value latent
    rope_dim: int  #: latent attention: size of the rotary part of a head
    d_ff: int  #: inner width of a dense feed-forward block
    gated: bool  #: three matrices a feed-forward block instead of two
    mlp_bias: bool
    experts: int  #: routed experts a layer
    shared_experts: int  #: experts every token goes through
    expert_d_ff: int  #: inner width of one expert
    dense_layers: int  #: layers without experts, in a model with experts
    vocab: int  #: rows of the token embedding
    head: str  #: output layer: "tied" (it is the token embedding), "untied" or "none"
    head_bias: bool
    position: str  #: "learned", "rotary", "relative buckets" or "ALiBi"
    position_rows: int  #: rows of the learned position table
    position_buckets: int  #: rows of the relative position table, num_heads numbers each, one table a stack
    segments: int  #: rows of the segment table
    pooler: bool  #: a d_model × d_model layer on the first token
    patch_size: int  #: vision: side of a patch in pixels
    channels: int  #: vision: colour channels
    classes: int  #: vision: outputs of the classifier
    norm_bias: bool  #: a norm has weight and bias (LayerNorm) instead of weight only (RMSNorm)
    norms_per_layer: int  #: norms of width d_model in a layer (one more in a decoder that attends to an encoder)
    outer_norms: int  #: norms of width d_model outside the layers, a stack
    context: int  #: tokens it was made for
    window: int  #: width of the sliding window
    windowed_layers: int  #: how many layers have that window
    attention_parameters: int  #: of one attention layer, norms left out
    kv_bytes_per_token: int  #: cache growth per token, 2 bytes a value, before a window is full; 0 without a cache
    total: int  #: parameters, as counted or printed elsewhere
    total_kind: str  #: "exact", or the print is "rounded" or "truncated" to `total_unit`
    total_unit: int
    total_source: str  #: the transformers class that has this many, or the paper that prints it
    source: str  #: of the configuration
    note: str

    @property
    def latent(self) -> bool:
        """Multi-head latent attention instead of (grouped) heads."""
        return self.kv_rank > 0

    @property
    def moe_layers(self) -> int:
        """Layers whose feed-forward block is a mixture of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def attention_layers(self) -> int:
        """Attention layers: one a layer, two in a decoder layer that also attends to an encoder."""
        return self.layers + 2 * self.encoder_layers if self.encoder_layers else self.layers


def load() -> list[Model]:
    """All models of `configurations.csv`, in its order."""
    return list(_rows())


def get(name: str) -> Model:
    """The model of that name, for example "Llama 3 8B". Unknown names are refused with the nearest ones."""
    by_name = {model.name: model for model in _rows()}
    if name in by_name:
        return by_name[name]
    if not isinstance(name, str):
        raise TypeError(f"name: got {type(name).__name__}; accepted is a model's name, for example 'Llama 3 8B'")
    folded = {known.casefold(): known for known in by_name}
    close = difflib.get_close_matches(name.casefold(), folded, n=5, cutoff=0.5)
    close += [known for known in folded if name.strip() and name.casefold() in known and known not in close]
    near = ", ".join(folded[known] for known in close) or ", ".join(by_name)
    raise ValueError(f"name: got {name!r}, which is not in configurations.csv; near it are {near}")


def attention_parameters(model: Model) -> int:
    """Parameters of one attention layer, rebuilt; norms on queries, keys or latents left out."""
    if model.latent:
        return counting.latent_attention_parameters(
            model.d_model,
            model.num_heads,
            q_rank=model.q_rank,
            kv_rank=model.kv_rank,
            head_dim=model.head_dim,
            rope_dim=model.rope_dim,
        )
    bias = {"none": False, "qkv": "qkv", "all": True}[model.attention_bias]
    return counting.attention_parameters(model.d_model, model.num_heads, model.num_kv_heads, model.head_dim, bias=bias)


def parts(model: Model) -> dict[str, int]:
    """Parameters by part, rebuilt from the configuration: embedding, attention, mlp, norms, head. Tied tables once."""
    d = model.d_model
    stacks = 2 if model.encoder_layers else 1
    embedding = (model.vocab + model.position_rows + model.segments) * d
    embedding += stacks * model.position_buckets * model.num_heads
    if model.patch_size:
        embedding += model.patch_size**2 * model.channels * d + d + d  # patch projection, its bias, class token

    dense = counting.mlp_parameters(d, model.d_ff, gated=model.gated, bias=model.mlp_bias)
    mlp = (model.layers + model.encoder_layers - model.moe_layers) * dense
    if model.experts:
        expert = counting.mlp_parameters(d, model.expert_d_ff, gated=model.gated, bias=model.mlp_bias)
        router = d * model.experts
        mlp += model.moe_layers * ((model.experts + model.shared_experts) * expert + router)

    norms = (model.layers + model.encoder_layers) * model.norms_per_layer + stacks * model.outer_norms
    norms += model.layers if model.encoder_layers else 0  # the norm before attention to the encoder
    norm_weights = norms * d * (2 if model.norm_bias else 1)
    norm_weights += model.layers * (2 * model.head_dim if model.qk_norm else 0)
    norm_weights += model.layers * (model.q_rank + model.kv_rank)

    head = model.vocab * d if model.head == "untied" else 0
    head += model.vocab if model.head_bias else 0
    head += d * d + d if model.pooler else 0
    head += (d + 1) * model.classes
    return {
        "embedding": embedding,
        "attention": model.attention_layers * attention_parameters(model),
        "mlp": mlp,
        "norms": norm_weights,
        "head": head,
    }


def parameters(model: Model) -> int:
    """Parameters of the whole model, rebuilt from the configuration."""
    return sum(parts(model).values())


def agrees(model: Model, count: int) -> bool:
    """Whether `count` is the model's printed total: to the digit if that is exact, else to its last printed digit."""
    if model.total_kind == "exact":
        return count == model.total
    if model.total_kind == "rounded":
        return 2 * abs(count - model.total) <= model.total_unit
    return model.total <= count < model.total + model.total_unit


def kv_bytes_per_token(model: Model, bytes_per_value: int = 2) -> int:
    """Bytes by which the cache grows with one token while no window is full; 0 for a model without a cache."""
    if model.family in ("encoder", "vision"):
        return 0
    if model.latent:
        return counting.latent_cache_bytes(model.layers, model.kv_rank, model.rope_dim, 1, bytes_per_value)
    return counting.kv_cache_bytes(model.layers, model.num_kv_heads, model.head_dim, 1, bytes_per_value)


def cache_bytes(model: Model, tokens: int, bytes_per_value: int = 2, batch_size: int = 1) -> int:
    """Bytes of the cache of `tokens` tokens; layers with a window keep at most the window's width.

    In an encoder-decoder this is the decoder's self-attention alone.
    """
    if model.family in ("encoder", "vision"):
        raise ValueError(f"model: got {model.name!r}, which keeps no cache; accepted is a model with a decoder")
    shared = {"bytes_per_value": bytes_per_value, "batch_size": batch_size}
    if model.latent:
        return counting.latent_cache_bytes(model.layers, model.kv_rank, model.rope_dim, tokens, **shared)
    kinds = ((model.layers - model.windowed_layers, None), (model.windowed_layers, model.window))
    return sum(
        counting.kv_cache_bytes(layers, model.num_kv_heads, model.head_dim, tokens, window=window, **shared)
        for layers, window in kinds
        if layers
    )


@functools.cache
def _rows() -> tuple[Model, ...]:
    with TABLE.open(encoding="utf-8", newline="") as table:
        return tuple(_model(row) for row in csv.DictReader(table))


def _model(row: dict[str, str]) -> Model:
    values = {}
    for field in fields(Model):
        text = row[field.name]
        if field.type == "int":
            values[field.name] = int(text or 0)
        elif field.type == "bool":
            if text not in ("", "yes"):
                where = f"configurations.csv, {row['name']}"
                raise ValueError(f"{where}: {field.name} is {text!r}; accepted is yes or nothing")
            values[field.name] = text == "yes"
        else:
            values[field.name] = text
    return Model(**values)
