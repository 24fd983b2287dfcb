"""Modules built on the meta device, or emptied, are whole once their weights are loaded."""

import copy

import pytest
import torch

from mhalib import gates
from mhalib.vision import PatchEmbedding, VisionTransformer, VisionTransformerBlock
from mhalib.vision.positions import POSITIONS


def vit(positions, **options):
    sizes = {"num_classes": 3, "d_model": 8, "depth": 2, "num_heads": 2, **options}
    return VisionTransformer((6, 8), 2, in_channels=2, positions=positions, **sizes)


IMAGES, MAPS, TOKENS = (2, 2, 6, 8), (2, 4, 5, 6), (2, 3, 8)
MODULES = {
    **{f"ViT, {name} positions": (lambda name=name: vit(name), IMAGES) for name in POSITIONS},
    "ViT with registers": (lambda: vit("sinusoidal", num_registers=3), IMAGES),
    "ViT for another size": (lambda: vit("sinusoidal").at_size((4, 8)).at_size((6, 8)), IMAGES),
    "PatchEmbedding": (lambda: PatchEmbedding((6, 8), 2, 2, 8), IMAGES),
    "VisionTransformerBlock": (lambda: VisionTransformerBlock(8, 2, 16), TOKENS),
    "SqueezeExcitation": (lambda: gates.SqueezeExcitation(4, 2, bias=True), MAPS),
    "ChannelAttention": (lambda: gates.ChannelAttention(4, 2), MAPS),
    "SpatialAttention": (lambda: gates.SpatialAttention(3), MAPS),
    "CBAM": (lambda: gates.CBAM(4, 2, 3), MAPS),
    "ConvNet": (
        lambda: gates.ConvNet(3, in_channels=4, widths=(4, 8), gate=lambda width: gates.SpatialAttention(3)),
        MAPS,
    ),
}
each_module = pytest.mark.parametrize(("build", "shape"), MODULES.values(), ids=MODULES)


def trained(build):
    """With values in every parameter and buffer that no constructor would put there."""
    module = build()
    generator = torch.Generator().manual_seed(0)
    for value in module.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
    return module.eval()


def first(outputs):
    return outputs[0] if isinstance(outputs, tuple) else outputs


def spoil(module):
    """NaN wherever `to_empty` promises nothing."""
    for value in (*module.parameters(), *module.buffers()):
        if value.is_floating_point():
            value.data.fill_(torch.nan)
    return module


@each_module
@pytest.mark.parametrize("assign", [False, True])
def test_built_on_meta_and_loaded_it_is_the_same_module(build, shape, assign):
    module = trained(build)
    with torch.device("meta"):
        loaded = build()
    assert {x.device.type for x in (*loaded.parameters(), *loaded.buffers())} == {"meta"}
    loaded = spoil(loaded.to_empty(device="cpu")).eval()
    loaded.load_state_dict(module.state_dict(), assign=assign)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(first(loaded(x)), first(module(x)), rtol=0, atol=0)


@each_module
def test_emptied_and_loaded_it_is_the_same_module(build, shape):
    module = trained(build)
    loaded = spoil(copy.deepcopy(module).to_empty(device="cpu")).eval()
    loaded.load_state_dict(module.state_dict())
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(first(loaded(x)), first(module(x)), rtol=0, atol=0)


@each_module
def test_on_meta_it_gives_shapes(build, shape):
    with torch.device("meta"):
        module, x = build(), torch.randn(shape)
    outputs = first(module(x))
    assert outputs.device.type == "meta"
    assert outputs.shape == first(build()(torch.randn(shape))).shape


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_positions_follow_the_model_to_its_dtype(positions, dtype):
    table = vit(positions).to(dtype).position_embedding
    assert (table.dtype, table.shape) == (dtype, (1, 13, 8))
    exact = vit(positions).double().position_embedding
    if positions in ("sinusoidal", None):
        torch.testing.assert_close(table, exact.to(dtype), rtol=0, atol=0)
