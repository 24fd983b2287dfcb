"""Weights of a Vision Transformer under the names that `transformers` and timm give them.

`transformers` has had two sets of names: the one in published files (`encoder.layer.0.attention.attention.query`), and
the one of the modules since version 5 (`layers.0.attention.q_proj`). timm keeps the three projections in one matrix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhalib.arguments import check_tensors

if TYPE_CHECKING:
    from mhalib.vision import VisionTransformer

#: Theirs → ours; `#` is the number of a block.
_TRANSFORMERS = {
    "embeddings.cls_token": "class_token",
    "embeddings.position_embeddings": "positions.table",
    "embeddings.patch_embeddings.projection": "patch_embedding.projection",
    "encoder.layer.#.attention.attention.query": "blocks.#.attention.q_proj",
    "encoder.layer.#.attention.attention.key": "blocks.#.attention.k_proj",
    "encoder.layer.#.attention.attention.value": "blocks.#.attention.v_proj",
    "encoder.layer.#.attention.output.dense": "blocks.#.attention.out_proj",
    "encoder.layer.#.layernorm_before": "blocks.#.norm1",
    "encoder.layer.#.layernorm_after": "blocks.#.norm2",
    "encoder.layer.#.intermediate.dense": "blocks.#.mlp.0",
    "encoder.layer.#.output.dense": "blocks.#.mlp.2",
    "layers.#.attention.q_proj": "blocks.#.attention.q_proj",
    "layers.#.attention.k_proj": "blocks.#.attention.k_proj",
    "layers.#.attention.v_proj": "blocks.#.attention.v_proj",
    "layers.#.attention.o_proj": "blocks.#.attention.out_proj",
    "layers.#.layernorm_before": "blocks.#.norm1",
    "layers.#.layernorm_after": "blocks.#.norm2",
    "layers.#.mlp.fc1": "blocks.#.mlp.0",
    "layers.#.mlp.fc2": "blocks.#.mlp.2",
    "layernorm": "norm",
    "classifier": "head",
}
_TIMM = {
    "cls_token": "class_token",
    "pos_embed": "positions.table",
    "patch_embed.proj": "patch_embedding.projection",
    "blocks.#.attn.q_proj": "blocks.#.attention.q_proj",
    "blocks.#.attn.k_proj": "blocks.#.attention.k_proj",
    "blocks.#.attn.v_proj": "blocks.#.attention.v_proj",
    "blocks.#.attn.proj": "blocks.#.attention.out_proj",
    "blocks.#.norm1": "blocks.#.norm1",
    "blocks.#.norm2": "blocks.#.norm2",
    "blocks.#.mlp.fc1": "blocks.#.mlp.0",
    "blocks.#.mlp.fc2": "blocks.#.mlp.2",
    "norm": "norm",
    "head": "head",
}
#: What stands behind the last norm, in any of these libraries.
_BEHIND = ("classifier.", "head.", "pooler.")


def load(model: VisionTransformer, state: Mapping[str, Tensor], *, head: bool = True) -> VisionTransformer:
    """Copy the weights of a `transformers` ViT (ViTForImageClassification, ViTModel) or a timm ViT into `model`.

    Shapes say nothing of two choices: build `model` with the `num_heads` and the `norm_eps` of theirs.

    Args:
        model: of their configuration, with learned positions and no registers.
        state: their `state_dict()`, or the content of their file.
        head: False leaves `model.head` as it is and reads no classifier and no pooler, for other classes.

    Returns:
        `model`. A weight that is missing, has no place here, comes twice or has another shape is refused, and then
        nothing is copied.
    """
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise TypeError(f"state: got {type(state).__name__}; accepted is a mapping, name → tensor, as of state_dict()")
    check_tensors(**state)
    own = {name: p for name, p in model.named_parameters() if head or not name.startswith("head.")}
    given, unknown = _translate(state, own.keys(), head)
    missing = sorted(own.keys() - given.keys())
    if missing or unknown:
        raise ValueError(
            f"state: not a ViT of this configuration; missing here {missing}; without a place {unknown}. Accepted are "
            "the names of transformers' and timm's ViT, for learned positions and no registers; head=False leaves "
            "classifier and pooler out"
        )
    for name, parameter in own.items():
        if parameter.shape != given[name].shape:
            raise ValueError(
                f"state: {name} has shape {tuple(given[name].shape)}; accepted is {tuple(parameter.shape)}. Another "
                "number of patches is another image_size: load at the size it was trained at, then take at_size"
            )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(given[name])
    return model


def _translate(state: Mapping[str, Tensor], own: Set[str], head: bool) -> tuple[dict[str, Tensor], list[str]]:
    """Our name → tensor, and the names that have no counterpart here."""
    given: dict[str, Tensor] = {}
    unknown = []
    for name, value in _parts(state).items():
        bare = name.removeprefix("vit.")
        if not head and bare.startswith(_BEHIND):
            continue
        ours = _our_name(bare)
        if ours is None or ours not in own:
            unknown.append(name)
        elif ours in given:
            raise ValueError(f"state: {name} is a second weight for {ours}; accepted are the weights of one model")
        else:
            given[ours] = value
    return given, unknown


def _parts(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same, with timm's matrix of queries, keys and values cut into three."""
    parts = {}
    for name, value in state.items():
        if ".attn.qkv." not in name:
            parts[name] = value
            continue
        if not value.dim() or value.shape[0] % 3:
            raise ValueError(f"state: {name} has shape {tuple(value.shape)}; accepted is (3 · d_model, …)")
        for letter, third in zip("qkv", value.chunk(3), strict=True):
            parts[name.replace(".qkv.", f".{letter}_proj.")] = third
    return parts


def _our_name(theirs: str) -> str | None:
    number = re.search(r"\.(\d+)\.", theirs)
    pattern = theirs.replace(number[0], ".#.", 1) if number else theirs
    module, _, kind = pattern.rpartition(".")
    for names in (_TRANSFORMERS, _TIMM):
        ours = names.get(pattern) or (f"{names[module]}.{kind}" if module in names else None)
        if ours:
            return ours.replace("#", number[1]) if number else ours
    return None
