"""The table of real models: each total, attention layer and cache rebuilt, and compared with transformers' modules.

transformers' classes are built on the meta device, whole, from configurations written by hand below. Where its default
configuration is the published model (BERT base, GPT-2 small, Llama 2 7B, Mistral, Mixtral, Falcon 7B, Phi-3,
DeepSeek-V3), nothing is written and the default is taken.
"""

import dataclasses
import functools
import re

import pytest
import torch

from mhalib import configurations, counting

transformers = pytest.importorskip("transformers", reason="the extra `test` brings it: pip install 'mhalib[test]'")

LLAMA_3 = {"vocab_size": 128256, "num_key_value_heads": 8, "max_position_embeddings": 8192}
QWEN_3 = {"vocab_size": 151936, "head_dim": 128, "tie_word_embeddings": False, "max_position_embeddings": 40960}
IMAGES = {"num_labels": 1000}

BUILT = {
    "BERT base": ("BertModel", {}),
    "BERT large": (
        "BertModel",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "MiniLM-L6": ("BertModel", {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}),
    "GPT-2 small": ("GPT2LMHeadModel", {}),
    "GPT-2 medium": ("GPT2LMHeadModel", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "GPT-2 large": ("GPT2LMHeadModel", {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    "GPT-2 XL": ("GPT2LMHeadModel", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    # GPT-3's parameters are those of a GPT-2 of its size: banded attention changes no weight (Brown et al. 2020, §2.1).
    "GPT-3 175B": ("GPT2LMHeadModel", {"n_embd": 12288, "n_layer": 96, "n_head": 96, "n_positions": 2048}),
    "T5-11B": (
        "T5ForConditionalGeneration",
        {"d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128},
    ),
    "Llama 2 7B": ("LlamaForCausalLM", {"max_position_embeddings": 4096}),
    "Llama 2 13B": (
        "LlamaForCausalLM",
        {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40}
        | {"max_position_embeddings": 4096},
    ),
    "Llama 2 70B": (
        "LlamaForCausalLM",
        {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64}
        | {"num_key_value_heads": 8, "max_position_embeddings": 4096},
    ),
    "Llama 3 8B": ("LlamaForCausalLM", LLAMA_3 | {"intermediate_size": 14336}),
    "Llama 3 70B": (
        "LlamaForCausalLM",
        LLAMA_3 | {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64},
    ),
    "Llama 3.1 405B": (
        "LlamaForCausalLM",
        LLAMA_3
        | {"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128}
        | {"max_position_embeddings": 131072},
    ),
    "Mistral 7B v0.1": ("MistralForCausalLM", {}),
    "Mixtral 8x7B": ("MixtralForCausalLM", {}),
    "Qwen2.5 7B": (
        "Qwen2ForCausalLM",
        {"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28}
        | {"num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False},
    ),
    "Qwen3 8B": (
        "Qwen3ForCausalLM",
        QWEN_3
        | {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32}
        | {"num_key_value_heads": 8},
    ),
    "Qwen3 30B-A3B": (
        "Qwen3MoeForCausalLM",
        QWEN_3
        | {"hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4}
        | {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144},
    ),
    "Gemma 2 9B": (
        "Gemma2ForCausalLM",
        {"hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16}
        | {"num_key_value_heads": 8, "head_dim": 256},
    ),
    "Gemma 2 27B": (
        "Gemma2ForCausalLM",
        {"hidden_size": 4608, "intermediate_size": 36864, "num_hidden_layers": 46, "num_attention_heads": 32}
        | {"num_key_value_heads": 16, "head_dim": 128},
    ),
    "Gemma 3 27B": (
        "Gemma3ForCausalLM",
        {"vocab_size": 262208, "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62}
        | {"num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024},
    ),
    "DeepSeek 67B": (
        "LlamaForCausalLM",
        {"vocab_size": 102400, "hidden_size": 8192, "intermediate_size": 22016, "num_hidden_layers": 95}
        | {"num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 4096},
    ),
    "DeepSeek-V2": (
        "DeepseekV2ForCausalLM",
        {"vocab_size": 102400, "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 60}
        | {"num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512}
        | {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "first_k_dense_replace": 1}
        | {"n_routed_experts": 160, "n_shared_experts": 2, "moe_intermediate_size": 1536, "num_experts_per_tok": 6},
    ),
    "DeepSeek-V3": ("DeepseekV3ForCausalLM", {}),
    "Falcon 7B": ("FalconForCausalLM", {}),
    "Falcon 40B": (
        "FalconForCausalLM",
        {"hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8}
        | {"new_decoder_architecture": True, "multi_query": True},
    ),
    "BLOOM 176B": (
        "BloomForCausalLM",
        {"vocab_size": 250880, "hidden_size": 14336, "n_layer": 70, "n_head": 112},
    ),
    "Phi-2": (
        "PhiForCausalLM",
        {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32},
    ),
    "Phi-3-mini": ("Phi3ForCausalLM", {}),
    "SmolLM2 135M": (
        "LlamaForCausalLM",
        {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
        | {"num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True},
    ),
    "ViT-B/16": ("ViTForImageClassification", IMAGES),
    "ViT-L/16": (
        "ViTForImageClassification",
        IMAGES | {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16},
    ),
    "DeiT-tiny/16": (
        "ViTForImageClassification",
        IMAGES | {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 3},
    ),
    "DeiT-small/16": (
        "ViTForImageClassification",
        IMAGES | {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 6},
    ),
}
ALL = [model.name for model in configurations.load()]
#: transformers caches more than the model needs for one of them: see the test that names it.
CACHED = [m.name for m in configurations.load() if m.name in BUILT and m.family == "decoder" and m.name != "Falcon 40B"]
#: No public class and no checkpoint: the paper's printed total is all there is to compare with.
ONLY_PRINTED = {"PaLM 8B", "PaLM 62B", "PaLM 540B"}


@functools.cache
def built(name):
    """The model as transformers makes it, on the meta device: all shapes, no memory."""
    kind, changes = BUILT[name]
    model_class = getattr(transformers, kind)
    with torch.device("meta"):
        return model_class(model_class.config_class(**changes)).eval().bfloat16()


def cached_bytes(name, tokens, batch_size):
    """Bytes that transformers' cache holds in bfloat16 after one call."""
    ids = torch.zeros(batch_size, tokens, dtype=torch.long, device="meta")
    with torch.no_grad():
        cache = built(name)(input_ids=ids, use_cache=True).past_key_values
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


def test_how_many_and_that_each_is_checked():
    assert len(ALL) == len(set(ALL)) == 39
    assert set(BUILT) | ONLY_PRINTED == set(ALL)
    exact = {model.name for model in configurations.load() if model.total_kind == "exact"}
    assert exact == set(BUILT) - {"GPT-3 175B"}


@pytest.mark.parametrize("name", ALL)
def test_total_attention_and_cache_are_rebuilt_from_the_configuration(name):
    model = configurations.get(name)
    assert configurations.agrees(model, configurations.parameters(model))
    assert configurations.attention_parameters(model) == model.attention_parameters
    assert configurations.kv_bytes_per_token(model) == model.kv_bytes_per_token
    assert model.source
    assert model.total_source


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_total_equals_transformers_module(name):
    assert configurations.parameters(configurations.get(name)) == counting.module_parameters(built(name))


@pytest.mark.parametrize("name", BUILT)
def test_the_source_named_is_the_class_compared_with(name):
    model = configurations.get(name)
    if model.total_kind == "exact":
        assert model.total_source == BUILT[name][0]


@pytest.mark.parametrize("name", BUILT)
def test_one_attention_layer_equals_transformers_module(name):
    first_layer = re.compile(r"(?!decoder)\D+\.0\..*(attn|attention)", re.IGNORECASE)  # T5: the encoder's
    left_out = re.compile(r"norm|\bln_|relative", re.IGNORECASE)
    count = sum(
        parameter.numel()
        for path, parameter in built(name).named_parameters()
        if first_layer.match(path) and not left_out.search(path)
    )
    assert count == configurations.attention_parameters(configurations.get(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", CACHED)
def test_cache_bytes_equal_transformers_cache(name):
    assert configurations.cache_bytes(configurations.get(name), 5, batch_size=3) == cached_bytes(name, 5, 3)


def test_what_transformers_caches_for_falcon_40b_is_all_its_heads():
    """The class repeats the 8 key heads to 128 before it caches: 16 times what the model needs."""
    falcon = configurations.get("Falcon 40B")
    assert cached_bytes("Falcon 40B", 5, 3) == 16 * configurations.cache_bytes(falcon, 5, batch_size=3)


def test_decoder_layers_with_a_window_are_those_of_transformers():
    for name, width in (("Gemma 2 9B", 4096), ("Gemma 2 27B", 4096), ("Gemma 3 27B", 1024)):
        config, model = built(name).config, configurations.get(name)
        assert config.layer_types.count("sliding_attention") == model.windowed_layers
        assert config.sliding_window == model.window == width
    mistral = configurations.get("Mistral 7B v0.1")
    assert built("Mistral 7B v0.1").config.sliding_window == mistral.window == 4096
    assert mistral.windowed_layers == mistral.layers


# the claims of the course


def test_grouped_heads_cut_the_cache_by_their_own_ratio():
    ratio = {name: configurations.get(name).num_heads // configurations.get(name).num_kv_heads for name in ALL}
    assert ratio["Llama 3 70B"] == 8
    assert ratio["Llama 3 8B"] == 4
    assert ratio["Llama 3.1 405B"] == 16
    assert ratio["Llama 2 7B"] == ratio["Llama 2 13B"] == 1
    for name in ("Llama 3 70B", "Llama 3 8B", "Llama 3.1 405B", "Llama 2 7B"):
        model = configurations.get(name)
        every_head = dataclasses.replace(model, num_kv_heads=model.num_heads)
        assert configurations.kv_bytes_per_token(every_head) == ratio[name] * configurations.kv_bytes_per_token(model)


def test_heads_whose_width_is_not_d_model():
    unequal = {m.name: m.num_heads * m.head_dim for m in configurations.load() if m.num_heads * m.head_dim != m.d_model}
    assert unequal == {
        "T5-11B": 16_384,
        "PaLM 540B": 12_288,
        "Qwen3 30B-A3B": 4096,
        "Gemma 2 9B": 4096,
        "Gemma 2 27B": 4096,
        "Gemma 3 27B": 4096,
        "DeepSeek-V2": 16_384,
        "DeepSeek-V3": 16_384,
    }


def test_palm_has_48_heads():
    """128 heads is a printed mistake: the attention layer would be over twice as large, and so the total too large."""
    palm = configurations.get("PaLM 540B")
    assert palm.num_heads == 48
    wrong = dataclasses.replace(palm, num_heads=128)
    assert not configurations.agrees(palm, configurations.parameters(wrong))
    assert configurations.parameters(wrong) == 629_443_491_840


def test_deepseek_v2_cache_is_cut_by_82_2_percent_and_by_93_3_with_6_bits():
    models = map(configurations.get, ("DeepSeek 67B", "DeepSeek-V2"))
    before, after = map(configurations.kv_bytes_per_token, models)
    assert (before, after) == (389_120, 69_120)
    assert round(100 * (1 - after / before), 1) == 82.2
    assert after * 6 % 16 == 0
    assert after * 6 // 16 == 25_920
    assert round(100 * (1 - 25_920 / before), 1) == 93.3


def test_mistrals_cache_stops_at_its_window():
    mistral = configurations.get("Mistral 7B v0.1")
    assert configurations.cache_bytes(mistral, 4096) == configurations.cache_bytes(mistral, 100_000) == 512 * 2**20
    assert configurations.cache_bytes(mistral, 4095) == 4095 * 131_072


def test_gemma_3_keeps_all_tokens_in_10_of_62_layers():
    gemma = configurations.get("Gemma 3 27B")
    per_layer = configurations.kv_bytes_per_token(gemma) // 62
    assert configurations.cache_bytes(gemma, 131_072) == per_layer * (10 * 131_072 + 52 * 1024)


def test_falcons_checkpoint_holds_the_tied_table_twice():
    falcon = configurations.get("Falcon 7B")
    assert configurations.parameters(falcon) == 6_921_720_704
    assert configurations.parameters(dataclasses.replace(falcon, head="untied")) == 7_217_189_760


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Llama 3 8B", {"num_kv_heads": 4}),
        ("Llama 3 8B", {"head": "tied"}),
        ("Llama 3 8B", {"outer_norms": 0}),
        ("Qwen2.5 7B", {"attention_bias": "none"}),
        ("Qwen3 8B", {"qk_norm": False}),
        ("GPT-3 175B", {"position_rows": 2048 * 8}),
        ("PaLM 62B", {"num_kv_heads": 32}),
        ("PaLM 540B", {"outer_norms": 1000}),
        ("DeepSeek-V3", {"shared_experts": 0}),
    ],
)
def test_a_wrong_configuration_does_not_agree(name, change):
    model = configurations.get(name)
    assert not configurations.agrees(model, configurations.parameters(dataclasses.replace(model, **change)))


# looking models up


def test_get_names_near_matches():
    assert configurations.get("GPT-2 XL").num_heads == 25
    with pytest.raises(
        ValueError, match=r"name: got 'llama 3 8b', which is not in configurations.csv; near it are Llama 3 8B,"
    ):
        configurations.get("llama 3 8b")
    with pytest.raises(ValueError, match=r"near it are DeepSeek-V3, DeepSeek-V2, DeepSeek 67B"):
        configurations.get("deepseek")
    with pytest.raises(ValueError, match=r"near it are BERT base, .*DeiT-small/16"):
        configurations.get("")
    with pytest.raises(TypeError, match="name: got int; accepted is a model's name"):
        configurations.get(3)


def test_rows_cannot_be_changed_and_load_gives_a_fresh_list():
    rows = configurations.load()
    with pytest.raises(dataclasses.FrozenInstanceError):
        rows[0].layers = 3
    rows.clear()
    assert len(configurations.load()) == len(ALL)


def test_a_model_without_a_cache_is_refused():
    with pytest.raises(ValueError, match="model: got 'BERT base', which keeps no cache"):
        configurations.cache_bytes(configurations.get("BERT base"), 5)
    assert configurations.kv_bytes_per_token(configurations.get("ViT-B/16")) == 0
