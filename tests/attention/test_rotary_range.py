"""The promise of `RotaryEmbedding` at the end of its range, in the dtypes people use, against Python's own numbers."""

import math

import pytest
import torch

import mhalib


def turned(x, positions, base, dim):
    """The rotation of the layout "half", with angles reduced in Python's float64."""
    result = torch.empty(x.shape, dtype=torch.float64)
    for row, position in enumerate(positions.tolist()):
        for i in range(dim // 2):
            angle = math.fmod(position * base ** (-2 * i / dim), 2 * math.pi)
            a, b = x[0, 0, row, i].item(), x[0, 0, row, i + dim // 2].item()
            result[0, 0, row, i] = a * math.cos(angle) - b * math.sin(angle)
            result[0, 0, row, i + dim // 2] = a * math.sin(angle) + b * math.cos(angle)
    return result


@pytest.mark.parametrize("last", [1, 1_000, 65_536, 10**6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_rotation_is_right_up_to_position_a_million(dtype, last):
    dim, base = 64, 10000.0
    torch.manual_seed(0)
    positions = torch.arange(max(0, last - 7), last + 1)
    x = torch.randn(1, 1, len(positions), dim).to(dtype)
    got = mhalib.RotaryEmbedding(dim, base=base)(x, positions)
    expected = turned(x.double(), positions, base, dim)
    length = x.double().norm(dim=-1, keepdim=True)
    off = (got.double() - expected).abs()
    assert got.dtype == dtype
    rounding = torch.finfo(dtype).eps / 2 * expected.abs() if dtype != torch.float32 else 0
    assert (off <= 1e-6 * length + rounding).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_scores_depend_on_the_distance_alone_up_to_position_a_million(dtype):
    rotary = mhalib.RotaryEmbedding(64)
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 64).to(dtype).float()

    def score(at):
        return (rotary(q, torch.tensor([at])) * rotary(k, torch.tensor([at - 5]))).sum()

    size = q.norm() * k.norm()
    assert max(abs(score(at) - score(5)) for at in (100, 10_000, 10**6)) <= 2e-6 * size
