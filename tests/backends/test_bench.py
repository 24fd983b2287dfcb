"""The benchmarks check before they time, and say when a goal is missed; each case of the CPU answers correctly."""

import json
import time

import pytest
import torch

from bench import cpu, measure, memory
from bench.measure import Case, Goal


def test_a_peer_with_another_answer_is_not_timed():
    right = torch.ones(3)
    case = Case("sum", {"mhalib": lambda: right, "wrong": lambda: right + 1e-3}, right)
    with pytest.raises(AssertionError, match=r"wrong is off by 0\.001"):
        measure.measure(case, rounds=1)
    assert measure.measure(Case("sum", case.peers, right, other=("wrong",)), rounds=1).medians.keys() == {
        "mhalib",
        "wrong",
    }


def test_goals_compare_medians_both_ways():
    case = Case(
        "sleep",
        {"mhalib": lambda: time.sleep(0.01) or torch.zeros(1), "slow": lambda: time.sleep(0.05) or torch.zeros(1)},
        torch.zeros(1),
        [Goal("slow", faster=2), Goal("slow", faster=100), Goal("slow", microseconds=30)],
    )
    outcome = measure.measure(case, rounds=3)
    assert list(outcome.goals.values()) == [True, False, True]
    text = measure.table(outcome)
    assert "goal ≥ 100× slow: NOT MET" in text
    assert "goal ≥ 2× slow: met" in text
    assert not Goal("slow", microseconds=30).met({"mhalib": [2e-3], "slow": [1e-3]})
    drifting = {"mhalib": [1.0, 10.0, 2.0], "slow": [3.0, 30.0, 3.0]}
    assert Goal("slow", faster=3).met(drifting)
    assert not Goal("slow", faster=3.1).met(drifting)


def test_results_say_what_they_ran_on(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    path = measure.write([measure.Outcome("a", {"mhalib": 1.0}, {}, {"mhalib": 1.0})], "Some CPU (2)")
    record = json.loads(path.read_text("utf-8"))
    assert path.name == "some-cpu--2.json"
    assert record["torch"] == torch.__version__
    assert {"device", "threads", "commit", "date", "outcomes"} <= record.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decode", "padded", "dense-64", "dense-512", "layer-inference", "layer-training"])
def test_every_peer_of_a_case_gives_the_same_answer(name):
    torch.manual_seed(0)
    with torch.set_grad_enabled(name == "layer-training"):
        outcome = measure.measure(cpu.CASES[name](False), rounds=1)
    assert outcome.medians["mhalib"] > 0
    assert len(outcome.medians) >= 2


@pytest.mark.slow
def test_tiles_take_little_memory_where_plain_attention_takes_gibibytes():
    """Plain attention over 8,192 tokens holds scores and weights: 2 · 8 · 8192² · 4 bytes = 4 GiB."""
    assert memory.peak("mhalib, tile by tile", 8192) < 100 * memory.MIB
    plain = memory.peak("softmax, written out", 2048)
    assert plain > 0.95 * 2 * 8 * 2048**2 * 4
    assert memory.peak("mhalib, tile by tile", 2048) < plain / 4
