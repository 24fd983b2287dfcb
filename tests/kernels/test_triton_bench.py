"""The GPU script, as far as a machine without a GPU can run it: its checks, its stages, and who is timed."""

import json
import time

import pytest
import torch
from interpreted import in_interpreter

import mhalib
from bench import gpu, gpu_cases, measure
from bench.gate import Sizes


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    return gpu.Record("Some GPU")


def race(peers, backward):
    """A small request on the CPU, answered by `peers` of query, key and value."""
    size = Sizes(2, 4, 2, 12, 12, 8, 8)
    generator = torch.Generator().manual_seed(0)
    shapes = (size.batch, size.heads, 12, 8), (size.batch, size.kv_heads, 12, 8), (size.batch, size.kv_heads, 12, 8)
    tensors = [torch.randn(shape, generator=generator).requires_grad_(backward) for shape in shapes]
    calls = {name: (lambda peer=peer: peer(*tensors)) for name, peer in peers.items()}
    return gpu_cases.Race("small", tensors, {"causal": True}, calls, [measure.Goal("torch", 1e-9)], backward)


def reference(*qkv):
    return mhalib.attention(*qkv, causal=True, backend="reference")


def refuses(*qkv):
    raise RuntimeError("no kernel for this\nand more")


class TenPercentOff(torch.autograd.Function):
    """A right output with a wrong gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return 0.9 * grad


@pytest.mark.parametrize("backward", [False, True])
def test_only_who_is_right_is_timed(backward):
    peers = {
        "mhalib": reference,
        "torch": reference,
        "refuses": refuses,
        "wrong": lambda *qkv: 0.9 * reference(*qkv),
        "wrong dQ": lambda query, key, value: reference(TenPercentOff.apply(query), key, value),
    }
    outcome, refused = gpu_cases.run(race(peers, backward), rounds=1, wait=lambda: None)
    assert outcome.medians.keys() == {"mhalib", "torch"} | (set() if backward else {"wrong dQ"})
    assert refused["refuses"] == "RuntimeError: no kernel for this"
    assert refused["wrong"].startswith("output: off by 1.0e-01 of its norm")
    assert not backward or refused["wrong dQ"].startswith("dQ: off by 1.0e-01 of its norm")
    assert gpu_cases.run(race({"mhalib": peers["wrong"]}, backward), 1, lambda: None)[0] is None


@in_interpreter
def test_the_kernels_run_a_race_in_the_interpreter():
    kernels = {"mhalib": lambda *qkv: mhalib.attention(*qkv, causal=True, backend="triton"), "torch": reference}
    outcome, refused = gpu_cases.run(race(kernels, True), rounds=1, wait=lambda: None)
    assert refused == {}
    assert outcome.medians["mhalib"] > 0


def test_results_are_written_as_they_come_and_what_was_left_out_is_said(record, tmp_path):
    def written():
        return json.loads((tmp_path / "some-gpu.json").read_text("utf-8"))

    def second(record):
        assert written()["stages"]["first"].startswith("done")
        raise RuntimeError("out of memory")

    deadline = time.monotonic() + 10
    peers = {"mhalib": reference, "torch": reference, "refuses": refuses}
    stages = {
        "first": gpu.timing(lambda: race(peers, False), rounds=1, wait=lambda: None),
        "second": second,
        "third": lambda record: time.sleep(max(0.0, deadline - time.monotonic()) + 0.01),
        "late": lambda record: True,
    }
    assert not gpu.run(stages, record, deadline)
    found = written()
    assert found["stages"]["second"].startswith("FAILED: RuntimeError: out of memory")
    assert found["stages"]["third"].startswith("FAILED")
    assert found["stages"]["late"] == "left out: the time was up"
    assert found["refused"] == {"small: refuses": "RuntimeError: no kernel for this"}
    assert [outcome["name"] for outcome in found["outcomes"]] == ["small"]


@in_interpreter
def test_correctness_says_of_each_check_whether_it_passed():
    record = gpu.Record("Some GPU")
    sizes = ((18, 16),)
    assert gpu.correctness(record, 0.0, sizes, "cpu", workers=0)
    assert set(record.notes["gate"].values()) == {"passed"}
    assert len(record.notes["gate"]) == 3 * len(gpu.gate.checks(18, 16))
