"""The GPU benchmark's gate: it lets the kernels through, here in the interpreter, and no wrong gradient."""

import pytest
import torch
from interpreted import in_interpreter

from bench import gate

NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


@pytest.mark.parametrize("name", gate.checks(40, 16))
@pytest.mark.parametrize("dtype", gate.DTYPES, ids=NAMES.get)
@in_interpreter
def test_the_kernels_pass_in_the_interpreter(dtype, name):
    assert gate.hold(gate.checks(40, 16)[name], dtype, "cpu") == {}


@pytest.mark.parametrize("length", [96, 1024])
@pytest.mark.parametrize("dtype", gate.DTYPES, ids=NAMES.get)
def test_it_rejects_wrong_gradients(dtype, length):
    """The gate before it accepted dQ without delta, and 0.9 dQ: its limit was absolute, 0.0625, where dQ is 0.05."""
    drawn = gate.draw(gate.checks(length, 64)["causal"], dtype, "cpu")
    right = gate.exact(*drawn)
    rounded = {name: x.to(torch.float32 if name == "lse" else dtype) for name, x in right.items()}
    assert gate.wrong(rounded, right, dtype) == {}
    tensors, grad, grad_lse, _options = drawn
    # Without delta: dS = P · dP, of which delta · P is taken away. By torch, with P = softmax of the masked scores.
    query, key, value = (x.double() for x in tensors)
    key, value = (x.repeat_interleave(2, dim=1) for x in (key, value))
    seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
    weights = torch.softmax((query @ key.mT / 8).masked_fill(~seen, -torch.inf), -1)
    no_delta = (weights * (grad.double() @ value.mT + grad_lse.double()[..., None])) @ key / 8
    mistakes = {
        "dQ without delta": {"dQ": no_delta},
        "0.9 dQ": {"dQ": 0.9 * right["dQ"]},
        "−dQ": {"dQ": -right["dQ"]},
        "0.9 dK": {"dK": 0.9 * right["dK"]},
        "dK of the other head": {"dK": right["dK"].flip(1)},
        "dV of the other head": {"dV": right["dV"].flip(1)},
        "dV without a row": {"dV": right["dV"].clone().index_fill_(2, torch.tensor([10]), 0.0)},
        "dV without the last tile": {"dV": torch.cat([right["dV"][:, :, :-16], 0 * right["dV"][:, :, -16:]], 2)},
        "0.9 output": {"output": 0.9 * right["output"]},
        "log-sum-exp in base 2": {"lse": right["lse"] / 0.6931},
        "NaN in one place": {"dK": right["dK"].clone().index_fill_(2, torch.tensor([3]), torch.nan)},
    }
    for name, mistake in mistakes.items():
        got = rounded | {key: x.to(rounded[key].dtype) for key, x in mistake.items()}
        assert gate.wrong(got, right, dtype).keys() == mistake.keys(), name


def test_it_rejects_tf32_and_dead_rows_that_are_not_0():
    check = gate.checks(200, 64)["causal, rows without keys"]
    drawn = gate.draw(check, torch.float32, "cpu")
    right = gate.exact(*drawn)
    assert torch.isneginf(right["lse"]).any()
    cut = [(x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in drawn[0]]
    assert {"output", "dQ", "dK", "dV"} <= gate.wrong(gate.exact(cut, *drawn[1:]), right, torch.float32).keys()
    dead = torch.isneginf(right["lse"])
    assert gate.wrong(right | {"lse": right["lse"].masked_fill(dead, 0.0)}, right, torch.float32).keys() == {"lse"}
    spoilt = right | {"output": right["output"].masked_fill(dead[..., None], 1.0)}
    assert gate.wrong(spoilt, right, torch.float32).keys() == {"output"}


@in_interpreter
def test_a_request_that_fails_is_reported_and_not_raised():
    check = gate.checks(40, 16)["causal"]
    assert "no dropout" in gate.hold(check._replace(options={"dropout": 0.5}), torch.float32, "cpu")["error"]
