"""Weights trained elsewhere give the same logits and maps here, and every one of their names is used or refused."""

import pytest
import torch
import transformers
from test_vision import drawn, shaken

from mhalib import vision

#: Logits are of size 1 to 10 after two blocks of sums of 24 to 50 terms.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def theirs(dtype=torch.float64, implementation="sdpa", **options):
    """A tiny ViTForImageClassification of `transformers`, every weight drawn anew."""
    options = dict(image_size=12, patch_size=4, num_channels=2, num_labels=7) | options
    config = transformers.ViTConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=50,
        attn_implementation=implementation,
        **options,
    )
    return shaken(transformers.ViTForImageClassification(config), 0.3).to(dtype)


def ours(dtype=torch.float64, image_size=12, patch_size=4, **options):
    shape = dict(in_channels=2, num_classes=7, d_model=24, depth=2, num_heads=3, mlp_ratio=50 / 24, norm_eps=1e-12)
    return vision.VisionTransformer(image_size, patch_size, **(shape | options)).to(dtype).eval()


def pixels(height, width, dtype=torch.float64):
    return drawn(3, 2, height, width, seed=5).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize(("image_size", "patch_size"), [(12, 4), ((12, 20), (4, 5)), ((3, 14), (1, 7))])
@torch.no_grad()
def test_logits_are_those_of_transformers(dtype, image_size, patch_size):
    other = theirs(dtype, image_size=image_size, patch_size=patch_size)
    net = ours(dtype, image_size, patch_size).load_weights(other.state_dict())
    images = pixels(*net.patch_embedding.image_size, dtype)
    expected = other(images).logits
    assert expected.std() > 0.1, "the logits hardly differ: the comparison says nothing"
    assert (net(images) - expected).abs().max() < TOLERANCE[dtype]


@torch.no_grad()
def test_maps_are_those_of_transformers():
    other = theirs(torch.float32, "eager")
    net = ours(torch.float32).load_weights(other.state_dict())
    expected = torch.stack(other(pixels(12, 12, torch.float32), output_attentions=True).attentions, dim=1)
    maps = net(pixels(12, 12, torch.float32), need_weights=True)[1]
    assert maps.shape == (3, 2, 3, 10, 10)
    assert (maps - expected).abs().max() < TOLERANCE[torch.float32]
    assert expected.std(-1).min() > 1e-3


@pytest.mark.parametrize("size", [(12, 12), (16, 20), (20, 8), (4, 24)])
@torch.no_grad()
def test_interpolated_positions_are_those_of_transformers(size):
    other = theirs()
    net = ours().load_weights(other.state_dict()).at_size(size)
    expected = other(pixels(*size), interpolate_pos_encoding=True).logits
    assert (net(pixels(*size)) - expected).abs().max() < TOLERANCE[torch.float64]


@torch.no_grad()
def test_a_file_of_transformers_has_other_names_and_loads_too(tmp_path):
    import safetensors.torch

    other = theirs()
    other.save_pretrained(tmp_path)
    state = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert state.keys() != other.state_dict().keys(), "one set of names: then one of ours can go"
    assert "vit.encoder.layer.0.attention.attention.query.weight" in state
    assert (ours().load_weights(state)(pixels(12, 12)) - other(pixels(12, 12)).logits).abs().max() < 1e-10


def timm_names(state):
    """The weights under timm's names: queries, keys and values of a block in one matrix, one below the other."""
    renamed = {
        "vit.embeddings.cls_token": "cls_token",
        "vit.embeddings.position_embeddings": "pos_embed",
        "vit.embeddings.patch_embeddings.projection": "patch_embed.proj",
        "vit.layernorm": "norm",
        "classifier": "head",
    }
    for block in (0, 1):
        inside = {"attention.o_proj": "attn.proj", "layernorm_before": "norm1", "layernorm_after": "norm2"}
        inside |= {"mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
        renamed |= {f"vit.layers.{block}.{old}": f"blocks.{block}.{new}" for old, new in inside.items()}
    found = {}
    for old, new in renamed.items():
        found |= {name.replace(old, new): value for name, value in state.items() if name in (old, *with_kind(old))}
    for block in (0, 1):
        for kind in ("weight", "bias"):
            parts = [state[f"vit.layers.{block}.attention.{letter}_proj.{kind}"] for letter in "qkv"]
            found[f"blocks.{block}.attn.qkv.{kind}"] = torch.cat(parts)
    return found


def with_kind(name):
    return f"{name}.weight", f"{name}.bias"


@torch.no_grad()
def test_timm_names_with_queries_keys_and_values_in_one_matrix():
    other = theirs()
    state = timm_names(other.state_dict())
    assert len(state) == 2 + 2 + 2 * 12 + 2 + 2
    assert state["blocks.0.attn.qkv.weight"].shape == (72, 24)
    assert (ours().load_weights(state)(pixels(12, 12)) - other(pixels(12, 12)).logits).abs().max() < 1e-10


@torch.no_grad()
def test_without_the_head_the_own_one_stays():
    other = theirs()
    body = transformers.ViTModel(other.config, add_pooling_layer=True).double()
    body.load_state_dict(other.vit.state_dict(), strict=False)
    net = ours(num_classes=4)
    before = net.head.weight.clone()
    for state in (other.state_dict(), body.state_dict(), timm_names(other.state_dict())):
        net.load_weights(state, head=False)
        assert torch.equal(net.head.weight, before)
        hidden = other.vit(pixels(12, 12)).last_hidden_state[:, 0]
        assert (net(pixels(12, 12)) - net.head(hidden)).abs().max() < 1e-10
    with pytest.raises(ValueError, match=r"without a place \['pooler"):
        ours().load_weights(body.state_dict() | {k: v for k, v in other.state_dict().items() if "classifier" in k})


@pytest.mark.parametrize("names", ["transformers", "timm"])
def test_each_weight_is_asked_for_and_each_stranger_refused(names):
    full = theirs().state_dict()
    full = timm_names(full) if names == "timm" else full
    net = ours()
    untouched = {name: parameter.clone() for name, parameter in net.named_parameters()}
    for name in full:
        with pytest.raises(Exception, match="missing"):
            net.load_weights({k: v for k, v in full.items() if k != name})
    for stranger in ("blocks.0.ls1.gamma", "layers.7.layernorm_before.weight", "vit.embeddings.mask_token", "weight"):
        with pytest.raises(ValueError, match=f"without a place.*{stranger}"):
            net.load_weights(full | {stranger: torch.zeros(24)})
    with pytest.raises(ValueError, match="second weight"):
        net.load_weights(full | {"head.bias": torch.zeros(7), "classifier.bias": torch.zeros(7)})
    for name, parameter in net.named_parameters():
        assert torch.equal(parameter, untouched[name]), f"{name}: changed by a load that was refused"


def test_wrong_shapes_and_kinds_are_refused_with_the_cure():
    state = theirs().state_dict()
    with pytest.raises(ValueError, match=r"positions.table has shape \(1, 10, 24\).*at_size"):
        ours(image_size=16).load_weights(state)
    with pytest.raises(ValueError, match=r"head\.(weight|bias) has shape"):
        ours(num_classes=4).load_weights(state)
    with pytest.raises(ValueError, match="learned positions"):
        ours(positions="sinusoidal").load_weights(state)
    with pytest.raises(ValueError, match="no registers"):
        ours(num_registers=1).load_weights(state)
    with pytest.raises(TypeError, match="state"):
        ours().load_weights(list(state.items()))
    with pytest.raises(TypeError, match="state"):
        ours().load_weights({0: torch.zeros(1)})
    with pytest.raises(TypeError, match=r"classifier\.bias: got list"):
        ours().load_weights(state | {"classifier.bias": [0.0]})
    with pytest.raises(ValueError, match=r"3 · d_model"):
        ours().load_weights(timm_names(state) | {"blocks.0.attn.qkv.weight": torch.zeros(70, 24)})
