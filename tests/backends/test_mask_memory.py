"""A mask takes one byte a pair, and building it at most three: never a matrix of distances, which are int64."""

import pytest
import torch

from bench.memory import LiveBytes
from mhalib import masks

LENGTHS = [(512, 512), (256, 1024), (1024, 256), (1, 4096), (4096, 1)]
BUILDERS = {
    "causal": lambda lq, lk: masks.causal(lq, lk),
    "causal window": lambda lq, lk: masks.window(lq, lk, 100),
    "window": lambda lq, lk: masks.window(lq, lk, 100, causal=False),
    "a window wider than all": lambda lq, lk: masks.window(lq, lk, 10_000, causal=False),
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_at_most_three_bytes_a_pair(lengths, name):
    lq, lk = lengths
    vectors = 8 * 8 * (lq + lk)  # a few positions, int64, per query and per key
    with LiveBytes() as live:
        mask = BUILDERS[name](lq, lk)
    assert mask.shape == lengths
    assert live.peak <= 3 * lq * lk + vectors


@pytest.mark.parametrize("lengths", [(0, 0), (0, 3), (3, 0), (1, 1), (5, 5), (3, 9), (9, 3)], ids=str)
@pytest.mark.parametrize("width", [None, 1, 2, 4, 9, 2**40])
@pytest.mark.parametrize("causal", [False, True])
def test_the_values_are_those_of_the_definition(causal, width, lengths):
    lq, lk = lengths
    if width is None:
        mask = masks.causal(lq, lk)
        causal = True
    else:
        mask = masks.window(lq, lk, width, causal=causal)
    for i in range(lq):
        place = i + lk - lq
        for j in range(lk):
            near = width is None or abs(j - place) < width
            assert bool(mask[i, j]) == (near and (j <= place or not causal))
    assert mask.dtype == torch.bool
    assert mask.shape == (lq, lk)
