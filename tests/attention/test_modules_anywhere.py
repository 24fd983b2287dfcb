"""Every module of the package is made on the meta device, filled from a state, copied and pickled: nothing is lost.

A buffer that only `__init__` fills, outside the state, would hold rubbish after `to_empty`.
"""

import copy
import pickle

import pytest
import torch
from torch import nn

import mhalib
from mhalib import gates, language, vision
from mhalib.latent import MultiHeadLatentAttention
from mhalib.vision.positions import POSITIONS

SEQUENCE, IMAGES = torch.linspace(-1, 1, 2 * 6 * 32).view(2, 6, 32), torch.linspace(-1, 1, 2 * 3 * 64).view(2, 3, 8, 8)


def vit(**options):
    sizes = {"num_classes": 5, "d_model": 32, "depth": 2, "num_heads": 4}
    return vision.VisionTransformer(8, 4, **sizes, **options)


class OnSequence(nn.Module):
    """A bias for the positions of a sequence."""

    def __init__(self, positions):
        super().__init__()
        self.positions = positions

    def forward(self, x):
        return self.positions(x.shape[1], x.shape[1])


MAPS = torch.linspace(-1, 1, 2 * 16 * 8 * 8).view(2, 16, 8, 8)
TOKENS = torch.arange(12).view(2, 6)
MODULES = {
    "attention": (lambda: mhalib.MultiHeadAttention(32, 4), SEQUENCE),
    "grouped, rotary, window": (
        lambda: mhalib.MultiHeadAttention(32, 4, num_kv_heads=2, rotary=mhalib.RotaryEmbedding(8), window=3),
        SEQUENCE,
    ),
    "latent": (lambda: MultiHeadLatentAttention(32, 4, head_dim=8, kv_rank=16, rope_dim=4), SEQUENCE),
    "latent, q_rank": (lambda: MultiHeadLatentAttention(32, 4, head_dim=8, kv_rank=16, rope_dim=4, q_rank=8), SEQUENCE),
    "T5's bias": (lambda: OnSequence(mhalib.positions.T5Bias(4)), SEQUENCE),
    "table of positions": (lambda: OnSequence(mhalib.positions.PositionTable(4, 8)), SEQUENCE),
    "factors of positions": (lambda: OnSequence(mhalib.positions.PositionTable(4, 8, rank=2)), SEQUENCE),
    "decoder": (lambda: language.Decoder(12, d_model=32, depth=2, num_heads=4, num_kv_heads=2), TOKENS),
    "patches": (lambda: vision.PatchEmbedding(8, 4, 3, 32), IMAGES),
    **{f"vision transformer, {kind}": (lambda kind=kind: vit(positions=kind), IMAGES) for kind in POSITIONS},
    "squeeze and excitation": (lambda: gates.SqueezeExcitation(16, reduction=4), MAPS),
    "channel attention": (lambda: gates.ChannelAttention(16, reduction=4), MAPS),
    "spatial attention": (lambda: gates.SpatialAttention(), MAPS),
    "network": (lambda: gates.ConvNet(4, in_channels=3, gate=gates.CBAM), IMAGES),
    "cbam": (lambda: gates.CBAM(16, reduction=4), MAPS),
}


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", MODULES)
def test_a_module_survives_every_way_of_moving_it(name):
    build, x = MODULES[name]
    torch.manual_seed(0)
    module = build().eval()
    expected = first(module(x))
    with torch.device("meta"):
        emptied, assigned = build().eval(), build().eval()
    assert first(emptied(x.to("meta"))).shape == expected.shape
    emptied.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*emptied.parameters(), *emptied.buffers()):
            tensor.fill_(float("nan") if tensor.is_floating_point() else 0)
    emptied.load_state_dict(module.state_dict())
    assigned.load_state_dict(module.state_dict(), assign=True)
    for other in (emptied, assigned, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(first(other(x)), expected)


def test_every_module_of_the_package_is_here():
    made = {type(part) for build, _ in MODULES.values() for part in build().modules()}
    for place in (mhalib, gates, language, vision, mhalib.positions, mhalib.layers, mhalib.latent):
        for name, kind in vars(place).items():
            if isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__.startswith("mhalib"):
                assert any(issubclass(row, kind) for row in made), f"{name} is in no row of the table"


@pytest.mark.skipif(torch.backends.quantized.engine == "none", reason="this build of torch quantises nothing")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_dynamically_quantised_layer_runs():
    torch.manual_seed(0)
    layer = mhalib.MultiHeadAttention(32, 4).eval()
    small = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear})
    assert isinstance(small.q_proj, torch.ao.nn.quantized.dynamic.Linear)
    torch.testing.assert_close(small(SEQUENCE)[0], layer(SEQUENCE)[0], rtol=0, atol=0.05)
