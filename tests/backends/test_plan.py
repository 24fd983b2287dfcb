"""Which way is planned on the grid on which `auto` must not be slower than plain torch, and that both agree there."""

import itertools

import pytest
import torch

from bench import guard, measure
from mhalib import masks
from mhalib.backends import ways
from mhalib.backends.request import validate


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("row", guard.GRID, ids=lambda row: row.name)
def test_the_way_of_each_row(row):
    qkv, options = row.inputs()
    assert ways.choose(validate(*qkv, **options)).way == row.way


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("row", guard.GRID, ids=lambda row: row.name)
def test_both_calls_of_a_row_give_the_same_numbers(row, training):
    """`measure` compares before it times; what is dropped is drawn anew, so there only sizes are compared."""
    case = guard.case(row, training)
    with torch.set_grad_enabled(training):
        outcome = measure.measure(case, rounds=1)
    assert set(outcome.medians) == {"mhalib", "torch"}
    assert case.expected is not None or "dropout" in row.options


@pytest.mark.parametrize("lengths", [(64, 64), (1, 40)], ids=str)
def test_full_lengths_are_no_lengths(lengths):
    lq, lk = lengths
    qkv = torch.randn(3, 2, lq, 8), torch.randn(3, 2, lk, 8), torch.randn(3, 2, lk, 8)
    request = validate(*qkv, key_lengths=torch.full((3,), lk), query_lengths=torch.full((3,), lq))
    served = ways.choose(request).request
    assert served.key_lengths is None
    assert served.query_lengths is None


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_is_left_out_exactly_where_it_hides_nothing(causal):
    for lq, lk in itertools.product(range(1, 6), repeat=2):
        qkv = torch.zeros(1, 1, lq, 2), torch.zeros(1, 1, lk, 2), torch.zeros(1, 1, lk, 2)
        without = masks.causal(lq, lk) if causal else torch.ones(lq, lk, dtype=torch.bool)
        for window in range(1, 8):
            hides_nothing = torch.equal(masks.window(lq, lk, window, causal=causal), without)
            left = validate(*qkv, window=window, causal=causal).window
            assert left == (None if hides_nothing else window), (lq, lk, window)


def test_more_threads_wait_longer_for_a_call():
    """A batch that one thread serves sequence by sequence is one call where many threads would stand still."""
    qkv = [torch.randn(16, 1, 256, 32) for _ in range(3)]
    request = validate(*qkv, key_lengths=torch.linspace(60, 256, 16).long())
    assert ways.choose(request).way == "by length"
    torch.set_num_threads(8)
    assert ways.choose(request).way == "whole"
