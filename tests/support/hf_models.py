"""Tiny random models of `transformers`, their attention layers, and the same layers as `mhalib.MultiHeadAttention`.

Nothing is downloaded: each model is made from a configuration. Every parameter is drawn anew, biases included: the
library starts biases at 0 and weights at 0.02, where a lost bias or a wrong scale would hardly show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import transformers
from torch import Tensor, nn

import mhalib

HIDDEN, HEADS, LAYERS, LENGTH, VOCABULARY = 32, 4, 2, 9, 40
#: Not the default of 10,000, so that a base which is not handed on shows.
ROPE_BASE = 5000.0
WINDOW = 3


@dataclass
class Seen:
    """What the hooks caught in one attention layer."""

    hidden: Tensor | None = None
    weights: Tensor | None = None
    output: Tensor | None = None


@dataclass
class Case:
    """A model, and for each of its layers the module that computes the attention and the one that projects it."""

    model: nn.Module
    attentions: list[nn.Module]
    projections: list[nn.Module]
    ours: list[mhalib.MultiHeadAttention] = field(default_factory=list)


def build(name: str, dtype: torch.dtype, implementation: str) -> Case:
    """The model `name` in evaluation, and the same attention layers here."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        case = BUILDERS[name](implementation)
        # So that the weights of a row are far from equal and the outputs are of size about 1.
        for module in case.model.modules():
            if isinstance(module, nn.Linear | transformers.pytorch_utils.Conv1D):
                nn.init.normal_(module.weight, std=0.7 * HIDDEN**-0.5)
                if module.bias is not None:
                    nn.init.normal_(module.bias, std=0.2)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight)
    case.model.to(dtype).eval()
    case.ours = [_same_layer(name, *pair, dtype) for pair in zip(case.attentions, case.projections, strict=True)]
    return case


def _bert(implementation: str) -> Case:
    model = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=48,
            max_position_embeddings=64,
            attn_implementation=implementation,
        ),
        add_pooling_layer=False,
    )
    layers = [layer.attention for layer in model.encoder.layer]
    return Case(model, [layer.self for layer in layers], [layer.output.dense for layer in layers])


def _gpt2(implementation: str) -> Case:
    model = transformers.GPT2Model(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=HIDDEN,
            n_layer=LAYERS,
            n_head=HEADS,
            n_positions=64,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation=implementation,
        )
    )
    layers = [block.attn for block in model.h]
    return Case(model, layers, [layer.c_proj for layer in layers])


def _decoder(model: nn.Module) -> Case:
    layers = [layer.self_attn for layer in model.layers]
    return Case(model, layers, [layer.o_proj for layer in layers])


def _llama(implementation: str) -> Case:
    """Grouped heads, wider in all than the model: 4 · 12 = 48 channels for 32."""
    return _decoder(transformers.LlamaModel(transformers.LlamaConfig(**_decoder_sizes(implementation, 2), head_dim=12)))


def _mistral(implementation: str) -> Case:
    config = transformers.MistralConfig(**_decoder_sizes(implementation, 1), sliding_window=WINDOW)
    return _decoder(transformers.MistralModel(config))


def _decoder_sizes(implementation: str, num_kv_heads: int) -> dict:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": num_kv_heads,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_BASE},
        "attn_implementation": implementation,
    }


def _vit(implementation: str) -> Case:
    model = transformers.ViTModel(
        transformers.ViTConfig(
            image_size=8,
            patch_size=4,
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=48,
            attn_implementation=implementation,
        ),
        add_pooling_layer=False,
    )
    layers = [module for module in model.modules() if type(module).__name__ == "ViTAttention"]
    assert len(layers) == LAYERS
    return Case(model, layers, [layer.o_proj for layer in layers])


BUILDERS = {"bert": _bert, "gpt2": _gpt2, "llama": _llama, "mistral": _mistral, "vit": _vit}


def _same_layer(
    name: str, attention: nn.Module, projection: nn.Module, dtype: torch.dtype
) -> mhalib.MultiHeadAttention:
    """`mhalib`'s layer with the weights of one of theirs."""
    if name == "gpt2":
        # Conv1D keeps its weight as (in, out), a Linear as (out, in); query, key and value stand side by side in it.
        weights, biases = attention.c_attn.weight.T.chunk(3), attention.c_attn.bias.chunk(3)
        sources = [*zip(weights, biases, strict=True), (projection.weight.T, projection.bias)]
    else:
        names = ("query", "key", "value") if name == "bert" else ("q_proj", "k_proj", "v_proj")
        parts = [*(getattr(attention, part) for part in names), projection]
        sources = [(part.weight, part.bias) for part in parts]
    rotary = None
    kv_heads, head_dim = HEADS, HIDDEN // HEADS
    if name in ("llama", "mistral"):
        kv_heads = attention.config.num_key_value_heads
        head_dim = attention.head_dim
        rotary = mhalib.RotaryEmbedding(head_dim, base=ROPE_BASE, layout="half")
    layer = mhalib.MultiHeadAttention(
        HIDDEN,
        HEADS,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        bias=sources[0][1] is not None,
        rotary=rotary,
        window=WINDOW if name == "mistral" else None,
        dtype=dtype,
    )
    with torch.no_grad():
        for target, (weight, bias) in zip(
            (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj), sources, strict=True
        ):
            assert target.weight.shape == weight.shape
            target.weight.copy_(weight)
            if bias is not None:
                target.bias.copy_(bias)
    return layer.eval()


@contextmanager
def watched(case: Case) -> Iterator[list[Seen]]:
    """Run the model inside this block: each layer's input, weights per head and projected output are kept."""
    caught = [Seen() for _ in case.attentions]
    handles = []
    for seen, attention, projection in zip(caught, case.attentions, case.projections, strict=True):

        def keep_attention(_module, args, kwargs, result, seen=seen):
            seen.hidden = args[0] if args else kwargs["hidden_states"]
            seen.weights = result[1]

        def keep_output(_module, _args, result, seen=seen):
            seen.output = result

        handles.append(attention.register_forward_hook(keep_attention, with_kwargs=True))
        handles.append(projection.register_forward_hook(keep_output))
    try:
        yield caught
    finally:
        for handle in handles:
            handle.remove()


class ExactRotary(nn.Module):
    """cos and sin of the angles in the dtype of the hidden states; `transformers` always takes float32 for them."""

    def __init__(self, head_dim: int):
        super().__init__()
        self.head_dim = head_dim

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        pairs = torch.arange(self.head_dim // 2, dtype=torch.float64)
        angles = position_ids[..., None].double() / ROPE_BASE ** (2 * pairs / self.head_dim)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)
