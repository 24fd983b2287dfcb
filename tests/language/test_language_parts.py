"""RMSNorm and SwiGLU equal their formulas, by hand and as torch has them."""

import math
import re

import pytest
import torch
from torch import nn

from mhalib.language import RMSNorm, SwiGLU


def test_rms_norm_by_hand():
    norm = RMSNorm(2, eps=0.5).double()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([2.0, 10.0]))
    out = norm(torch.tensor([[3.0, -4.0], [0.0, 0.0]], dtype=torch.float64))
    size = math.sqrt((9 + 16) / 2 + 0.5)
    assert torch.allclose(out, torch.tensor([[6 / size, -40 / size], [0, 0]], dtype=torch.float64), rtol=1e-14)


def test_rms_norm_equals_torch():
    x = torch.randn(3, 5, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theirs, ours = nn.RMSNorm(24, eps=1e-3).double(), RMSNorm(24, eps=1e-3).double()
    ours.load_state_dict({"weight": torch.linspace(0.5, 2, 24)})
    theirs.load_state_dict(ours.state_dict())
    assert torch.allclose(ours(x), theirs(x), rtol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rms_norm_of_half_precision_does_not_overflow(dtype):
    """600² is more than float16 holds, the root of the mean square is not."""
    x = torch.tensor([600.0, -600.0, 600.0, 600.0], dtype=dtype)
    out = RMSNorm(4, dtype=dtype)(x)
    assert out.dtype == dtype
    assert out.tolist() == [1.0, -1.0, 1.0, 1.0]


def test_swiglu_by_hand():
    block = SwiGLU(2, 3).double()
    x = torch.tensor([0.5, -2.0], dtype=torch.float64)
    gate, up, down = (layer.weight.tolist() for layer in (block.gate_proj, block.up_proj, block.down_proj))
    inner = []
    for row_gate, row_up in zip(gate, up, strict=True):
        z = row_gate[0] * 0.5 - row_gate[1] * 2
        inner.append(z / (1 + math.exp(-z)) * (row_up[0] * 0.5 - row_up[1] * 2))
    expected = [sum(w * h for w, h in zip(row, inner, strict=True)) for row in down]
    assert torch.allclose(block(x), torch.tensor(expected, dtype=torch.float64), rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RMSNorm(4, eps=0.0), "eps: got 0.0; accepted is a finite number above 0"),
        (lambda: RMSNorm(0), "d_model: got 0; accepted is an integer of at least 1"),
        (lambda: RMSNorm(4)(torch.ones(2, 3)), "x: got shape (2, 3); accepted is (…, 4)"),
        (lambda: SwiGLU(4, 0), "d_ff: got 0; accepted is an integer of at least 1"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
