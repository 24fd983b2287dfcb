"""gates: the equations of the papers in plain loops, transformers' own layers, what a gate is and what it is not."""

import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mhalib import gates

SHAPES = [(1, 4, 1, 1), (2, 8, 5, 7), (3, 6, 17, 3), (0, 4, 3, 3)]
# float64: sums of at most 2 · 7² or 17 · 3 products of numbers of about 1, each rounded by 1.1e-16.
TOLERANCE = 1e-13


def feature_map(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sigmoid(number):
    return 1 / (1 + math.exp(-number))


def mlp(vector, down, up):
    """up · ReLU(down · vector), with indices."""
    hidden = [max(0.0, sum(row[c] * vector[c] for c in range(len(vector)))) for row in down]
    return [sum(row[k] * hidden[k] for k in range(len(hidden))) for row in up]


def channel_gates(x, module, use_max):
    """(B, C) from the equations, number by number."""
    down, up = module.down.weight.tolist(), module.up.weight.tolist()
    result = []
    for image in x.tolist():
        pixels = [[value for row in channel for value in row] for channel in image]
        total = mlp([sum(p) / len(p) for p in pixels], down, up)
        if use_max:
            total = [a + b for a, b in zip(total, mlp([max(p) for p in pixels], down, up), strict=True)]
        result.append([sigmoid(value) for value in total])
    return torch.tensor(result, dtype=torch.float64).reshape(x.shape[:2])


def position_gates(x, module):
    """(B, H, W) from the equation: a window around each pixel of the two pooled maps, zeros outside."""
    kernel = module.conv.weight[0].detach().numpy()  # (2, k, k)
    reach = kernel.shape[-1] // 2
    batch, _, height, width = x.shape
    result = np.zeros((batch, height, width))
    for b in range(batch):
        image = x[b].numpy()
        pooled = (image.mean(0), image.max(0))
        for y in range(height):
            for z in range(width):
                total = 0.0
                for p in range(2):
                    for dy in range(-reach, reach + 1):
                        for dz in range(-reach, reach + 1):
                            if 0 <= y + dy < height and 0 <= z + dz < width:
                                total += kernel[p, dy + reach, dz + reach] * pooled[p][y + dy, z + dz]
                result[b, y, z] = sigmoid(total)
    return torch.tensor(result)


def made(kind, channels, **arguments):
    torch.manual_seed(1)
    return kind(channels, reduction=2, **arguments).double().requires_grad_(False)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "use_max"), [(gates.SqueezeExcitation, False), (gates.ChannelAttention, True)])
def test_channel_gates_are_the_equation(kind, use_max, shape):
    module, x = made(kind, shape[1]), feature_map(shape)
    expected = channel_gates(x, module, use_max)
    assert module.gate(x).shape == (*shape[:2], 1, 1)
    assert torch.allclose(module.gate(x)[:, :, 0, 0], expected, atol=TOLERANCE, rtol=0)
    assert torch.allclose(module(x), x * expected[:, :, None, None], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel_size", [1, 3, 7])
def test_position_gates_are_the_equation(kernel_size, shape):
    torch.manual_seed(1)
    module, x = gates.SpatialAttention(kernel_size).double().requires_grad_(False), feature_map(shape)
    expected = position_gates(x, module)
    assert module.gate(x).shape == (shape[0], 1, *shape[2:])
    assert torch.allclose(module.gate(x)[:, 0], expected, atol=TOLERANCE, rtol=0)
    assert torch.allclose(module(x), x * expected[:, None], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_cbam_is_channel_first_then_spatial(shape):
    module, x = made(gates.CBAM, shape[1], kernel_size=3), feature_map(shape)
    once = x * channel_gates(x, module.channel, use_max=True)[:, :, None, None]
    assert torch.allclose(module(x), once * position_gates(once, module.spatial)[:, None], atol=TOLERANCE, rtol=0)


def test_the_order_of_cbam_matters():
    module, x = made(gates.CBAM, 8), feature_map((2, 8, 5, 7))
    assert (module(x) - module.channel(module.spatial(x))).abs().max() > 1e-3


def test_squeeze_excitation_equals_transformers():
    """RegNet's layer in transformers: 1 × 1 convolutions, with biases."""
    from transformers.models.regnet.modeling_regnet import RegNetSELayer

    torch.manual_seed(0)
    theirs = RegNetSELayer(12, 3).double()
    ours = gates.SqueezeExcitation(12, reduction=4, bias=True).double()
    down, up = theirs.attention[0], theirs.attention[2]
    ours.load_state_dict(
        {
            "down.weight": down.weight.flatten(1),
            "down.bias": down.bias,
            "up.weight": up.weight.flatten(1),
            "up.bias": up.bias,
        }
    )
    x = feature_map((3, 12, 6, 5))
    assert (ours(x) - theirs(x)).abs().max() < 1e-14


# What a gate is.


@settings(max_examples=30, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.sampled_from([2, 4, 6]), st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 1000),
)
def test_gates_lie_between_0_and_1_and_only_shrink(shape, seed):
    x = feature_map(shape, seed)
    for kind in (gates.SqueezeExcitation, gates.ChannelAttention, gates.CBAM):
        module = made(kind, shape[1])
        assert (module(x).abs() <= x.abs()).all()
        assert (module(x) * x >= 0).all()
    for module in (made(gates.SqueezeExcitation, shape[1]), gates.SpatialAttention(3).double()):
        gate = module.gate(x)
        assert (gate > 0).all()
        assert (gate < 1).all()


@pytest.mark.parametrize("kind", [gates.SqueezeExcitation, gates.ChannelAttention])
def test_channel_gates_are_independent_sigmoids(kind):
    """All may be open at once, all may be closed: a softmax could do neither."""
    module, x = made(kind, 8), feature_map((2, 8, 4, 4)).abs() + 1
    module.down.weight.fill_(1.0)
    module.up.weight.fill_(10.0)
    assert module.gate(x).min() > 0.99
    module.up.weight.fill_(-10.0)
    assert module.gate(x).max() < 0.01
    module.up.weight.zero_()
    assert torch.equal(module.gate(x), torch.full((2, 8, 1, 1), 0.5, dtype=torch.float64))


def test_position_gates_are_independent_sigmoids():
    module, x = gates.SpatialAttention(3).double().requires_grad_(False), feature_map((2, 8, 4, 4)).abs() + 1
    for weight, low, high in ((50.0, 0.99, 1.0), (-50.0, 0.0, 0.01)):
        module.conv.weight.fill_(weight)
        assert low <= module.gate(x).min() <= module.gate(x).max() <= high


@pytest.mark.parametrize("kind", [gates.SqueezeExcitation, gates.ChannelAttention])
def test_channel_gates_do_not_see_where_and_position_gates_do_not_see_which(kind):
    module, x = made(kind, 8), feature_map((2, 8, 4, 5))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    shuffled = x.flatten(2)[:, :, order].reshape(x.shape)
    assert torch.allclose(module.gate(shuffled), module.gate(x), atol=TOLERANCE, rtol=0)
    spatial = gates.SpatialAttention(3).double()
    channels = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(spatial.gate(x[:, channels]), spatial.gate(x), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", [gates.SqueezeExcitation, gates.ChannelAttention, gates.CBAM])
def test_one_image_does_not_depend_on_the_others(kind):
    module, x = made(kind, 8), feature_map((4, 8, 3, 5))
    assert torch.allclose(module(x)[1:2], module(x[1:2]), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", [gates.SqueezeExcitation, gates.ChannelAttention, gates.CBAM])
def test_gradients_pass_through_the_gate_too(kind):
    """d(x · g(x)) = g + x · g': against differences of the whole function."""
    torch.manual_seed(1)
    module = kind(4, reduction=2).double()
    x = feature_map((2, 4, 3, 3)).requires_grad_()
    assert torch.autograd.gradcheck(module, x, raise_exception=False)


# What it costs.


@pytest.mark.parametrize(("channels", "reduction"), [(64, 16), (512, 16), (32, 2), (24, 8)])
def test_parameters_are_those_of_the_papers(channels, reduction):
    def count(module):
        return sum(p.numel() for p in module.parameters())

    weights = 2 * channels**2 // reduction
    assert count(gates.SqueezeExcitation(channels, reduction)) == weights
    assert count(gates.SqueezeExcitation(channels, reduction, bias=True)) == weights + channels // reduction + channels
    assert count(gates.ChannelAttention(channels, reduction)) == weights
    assert count(gates.SpatialAttention()) == 2 * 7 * 7
    assert count(gates.CBAM(channels, reduction)) == weights + 98


# The network.

MAKERS = {
    "none": None,
    "squeeze-excitation": functools.partial(gates.SqueezeExcitation, reduction=2),
    "channel": functools.partial(gates.ChannelAttention, reduction=2),
    "spatial": lambda width: gates.SpatialAttention(3),
    "cbam": functools.partial(gates.CBAM, reduction=2, kernel_size=3),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_network_is_the_blocks_written_out(maker):
    torch.manual_seed(0)
    net = gates.ConvNet(5, in_channels=2, widths=(4, 6), gate=MAKERS[maker]).double().eval()
    assert [hasattr(block, "gate") for block in net.blocks] == [maker != "none"] * 2
    for block in net.blocks:
        block.norm.running_mean.normal_()
        block.norm.running_var.uniform_(0.5, 2)
        block.norm.weight.data.normal_()
        block.norm.bias.data.normal_()
    images = feature_map((3, 2, 8, 6))
    x = images
    for number, block in enumerate(net.blocks):
        if number:
            x = x.unfold(2, 2, 2).unfold(3, 2, 2).amax((-1, -2))
        x = nn.functional.conv2d(x, block.conv.weight, padding=1)
        norm = block.norm
        mean, deviation = norm.running_mean[:, None, None], (norm.running_var[:, None, None] + norm.eps).sqrt()
        x = ((x - mean) / deviation * norm.weight[:, None, None] + norm.bias[:, None, None]).clamp(min=0)
        if maker != "none":
            x = x * block.gate.gate(x) if maker != "cbam" else block.gate.spatial(block.gate.channel(x))
    expected = x.flatten(2).mean(2) @ net.head.weight.T + net.head.bias
    assert (net(images) - expected).abs().max() < 1e-12


def test_a_network_with_open_gates_is_the_network_without():
    torch.manual_seed(0)
    plain = gates.ConvNet(10, widths=(8, 8))
    torch.manual_seed(0)
    gated = gates.ConvNet(10, widths=(8, 8), gate=lambda width: nn.Identity())
    images = torch.rand(4, 1, 8, 8)
    assert torch.equal(plain(images), gated(images))


# Refused.


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: gates.SqueezeExcitation(10, 4),
            ValueError,
            r"reduction: got 4 for 10 channels; accepted are \[1, 2, 5",
        ),
        (lambda: gates.ChannelAttention(8), ValueError, "reduction: got 16 for 8 channels"),
        (lambda: gates.CBAM(8.0), TypeError, "channels: got 8.0"),
        (lambda: gates.CBAM(8, 0), ValueError, "reduction: got 0"),
        (lambda: gates.SpatialAttention(4), ValueError, "kernel_size: got 4; accepted is an odd one"),
        (lambda: gates.SpatialAttention(True), TypeError, "kernel_size: got True"),
        (lambda: gates.SpatialAttention()(torch.zeros(2, 3, 4)), ValueError, r"x: got shape \(2, 3, 4\)"),
        (lambda: gates.SpatialAttention()(torch.zeros(2, 0, 4, 4)), ValueError, "x: got shape"),
        (lambda: gates.SpatialAttention()([1]), TypeError, "x: got list"),
        (
            lambda: gates.SqueezeExcitation(8, 2)(torch.zeros(2, 4, 3, 3)),
            ValueError,
            r"x: got shape \(2, 4, 3, 3\); accepted is \(B, 8, H, W\)",
        ),
        (lambda: gates.ChannelAttention(8, 2)(torch.zeros(2, 8, 0, 3)), ValueError, "none of C, H and W being 0"),
        (lambda: gates.ConvNet(10)(torch.zeros(2, 3, 8, 8)), ValueError, r"images: got shape .* \(B, 1, H, W\)"),
        (
            lambda: gates.ConvNet(10)(torch.zeros(2, 1, 3, 8)),
            ValueError,
            "images: got 3 × 8 pixels; accepted is at least 4",
        ),
        (lambda: gates.ConvNet(10, widths=()), TypeError, "widths: got"),
        (lambda: gates.ConvNet(10, widths=16), TypeError, "widths: got 16"),
        (lambda: gates.ConvNet(10, widths=(16, 0)), ValueError, r"widths\[1\]: got 0"),
        (lambda: gates.ConvNet(0), ValueError, "num_classes: got 0"),
        (lambda: gates.ConvNet(10, gate="SE"), TypeError, "gate: got 'SE'"),
    ],
)
def test_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()
