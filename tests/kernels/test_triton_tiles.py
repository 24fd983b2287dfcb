"""How much the kernels do: the tiles that they visit, those of them that they mask, the splits, the compilations."""

import os
import subprocess
import sys
from unittest import mock

import pytest
import torch
from interpreted import in_interpreter
from oracle import Shape, inputs

import mhalib
from mhalib.backends.triton import configs

BLOCK_Q, BLOCK_K = 4, 8
SHAPE = Shape(2, 1, 1, 21, 37, 8, 8)

#: Options, with lengths as one number for each of the two sequences.
CASES = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"causal": True, "window": 21},
    "narrow window": {"causal": True, "window": 2},
    "window to both sides": {"window": 19},
    "window wider than all": {"causal": True, "window": 90},
    "lengths": {"key_lengths": (37, 18)},
    "wanted": {"query_lengths": (21, 6)},
    "nobody wanted": {"query_lengths": (0, 5), "causal": True},
    "wanted, causal": {"query_lengths": (17, 6), "causal": True},
    "wanted, window": {"query_lengths": (17, 6), "causal": True, "window": 19},
    "wanted, window to both sides": {"query_lengths": (14, 1), "window": 20},
    "everything": {"query_lengths": (17, 6), "key_lengths": (34, 23), "causal": True, "window": 19},
}


def who_sees_whom(sequence, options, shape=SHAPE):
    """bool (Lq, Lk) of one sequence, and how many of its queries and keys are real."""
    i, j = torch.arange(shape.lq)[:, None] + shape.lk - shape.lq, torch.arange(shape.lk)[None, :]
    wanted = options.get("query_lengths", (shape.lq,) * shape.batch)[sequence]
    real = options.get("key_lengths", (shape.lk,) * shape.batch)[sequence]
    seen = (torch.arange(shape.lq)[:, None] < wanted) & (j < real)
    if options.get("causal"):
        seen = seen & (j <= i)
    if "window" in options:
        seen = seen & ((i - j).abs() < options["window"])
    return seen, wanted, real


def expected(options, rows_whole, columns_whole):
    """(tiles to visit, tiles to mask) over both sequences, for one head. A tile needs no mask where all of its wanted
    queries see all of its keys; `rows_whole`, `columns_whole`: must rows and columns over the edge be masked too?"""
    visited = masked = 0
    for sequence in range(SHAPE.batch):
        seen, wanted, real = who_sees_whom(sequence, options)
        for m in range(0, SHAPE.lq, BLOCK_Q):
            for n in range(0, SHAPE.lk, BLOCK_K):
                tile = seen[m : m + BLOCK_Q, n : n + BLOCK_K]
                if not tile.any():
                    continue
                visited += 1
                rows = BLOCK_Q if rows_whole else min(BLOCK_Q, wanted - m)
                columns = BLOCK_K if columns_whole else min(BLOCK_K, real - n)
                masked += int(tile.sum()) < rows * columns
    return visited, masked


class Counter:
    """Counts products, and calls of the mask, while kernels are interpreted."""

    def __enter__(self):
        from triton.runtime.interpreter import InterpreterBuilder

        from mhalib.backends.triton import decode, forward, walks

        self.products = self.masks = 0
        plain = InterpreterBuilder.create_dot

        def dot(builder, *arguments):
            self.products += 1
            return plain(builder, *arguments)

        def counting(visible):
            def seen(*arguments):
                self.masks += 1
                return visible(*arguments)

            return seen

        self.patches = [mock.patch.object(InterpreterBuilder, "create_dot", dot)]
        self.patches += [
            mock.patch.object(file, "visible", counting(file.visible)) for file in (forward, decode, walks)
        ]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *error):
        for patch in self.patches:
            patch.stop()

    def take(self):
        counted = self.products, self.masks
        self.products = self.masks = 0
        return counted


@pytest.mark.parametrize("name", CASES)
@in_interpreter
def test_tiles_that_nobody_sees_are_not_visited_and_whole_ones_are_not_masked(name):
    given = CASES[name]
    options = given | {key: torch.tensor(x) for key, x in given.items() if key.endswith("lengths")}
    sources = [x.requires_grad_() for x in inputs(SHAPE, torch.float32)]
    heads = SHAPE.heads
    tiles = mock.patch.object(configs, "INTERPRETER", configs.Config(BLOCK_Q, BLOCK_K, 4, 1))
    with tiles, mock.patch.object(configs, "DECODE_ROWS", 0), Counter() as counter:
        output = mhalib.attention(*sources, **options, backend="triton")
        visited, masked = expected(given, rows_whole=False, columns_whole=True)
        assert counter.take() == (2 * heads * visited, heads * masked)
        # Of the two backward kernels that of dK and dV lets keys over the edge be: they are zeros.
        output.sum().backward()
        _, masked_of_keys = expected(given, rows_whole=False, columns_whole=False)
        assert counter.take() == ((4 + 3) * heads * visited, heads * (masked_of_keys + masked))


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("options", [{}, {"window": 40}, {"causal": True, "window": 40}], ids=str)
@in_interpreter
def test_decoding_reads_the_keys_that_a_wanted_query_sees(options, splits):
    """Six queries of 200 keys, in tiles of 16: in one sequence all are wanted, in the second two, in the third none."""
    shape, wanted = Shape(3, 2, 1, 6, 200, 8, 8), (6, 2, 0)
    given = options | {"query_lengths": wanted}
    expected_tiles = 0
    for sequence in range(3):
        seen = who_sees_whom(sequence, given, shape)[0].any(0).nonzero()
        if len(seen):
            expected_tiles += int(seen.max()) // BLOCK_K - int(seen.min()) // BLOCK_K + 1
    tiles = mock.patch.object(configs, "INTERPRETER", configs.Config(16, BLOCK_K, 4, 1))
    with tiles, mock.patch.object(configs, "splits", return_value=splits), Counter() as counter:
        mhalib.attention(*inputs(shape, torch.float32), **options, query_lengths=torch.tensor(wanted), backend="triton")
    assert counter.products == 2 * expected_tiles


def test_keys_outside_a_window_are_not_split():
    """One query with a window of 128 sees 128 keys, whatever the cache holds; 33 splits shared 131,072 of them."""
    assert configs.keys_seen(None, 1, 131072) == 131072
    assert configs.keys_seen(128, 1, 131072) == 128
    assert configs.keys_seen(128, 4, 131072) == 131
    assert configs.keys_seen(128, 4, 100) == 100
    assert configs.splits(8, configs.keys_seen(128, 1, 131072), 64, 132) == 1
    assert configs.splits(8, configs.keys_seen(4096, 1, 131072), 64, 132) == 16


#: What is compiled anew while a cache grows: the launches are recorded, and given to triton's own rule for it.
COMPILATIONS = """
import inspect, torch
from unittest import mock
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import create_function_from_signature
from mhalib.backends.triton import decode

backend = make_backend(GPUTarget("cuda", 90, 32))
keys = {}

class Recorder:
    def __init__(self, kernel):
        self.name = kernel.fn.__name__
        self.rule = create_function_from_signature(kernel.signature, kernel.params, backend)
        keys[self.name] = set()
    def __getitem__(self, grid):
        return self.launch
    def launch(self, *arguments, **options):
        bound, specialisation, options = self.rule(*arguments, **options)
        constants = [x for x in bound.items() if type(x[1]) in (int, bool, str) and x[0].isupper()]
        keys[self.name].add(str((specialisation, options, constants)))

for heads, kv_heads in ((8, 8), (8, 1)):
    query = torch.empty(1, heads, 1, 64, dtype=torch.float16, device="meta")
    replaced = {name: Recorder(getattr(decode, name)) for name in ("decode_kernel", "combine_kernel")}
    splits = set()
    with mock.patch.multiple(decode, **replaced):
        for lk in (*range(1, 600), *range(600, 32769, 97)):
            key = torch.empty(1, kv_heads, 32768, 64, dtype=torch.float16, device="meta")[:, :, :lk]
            decode.decode(query, key, key, None, causal=True, window=None, scale=0.125, softcap=None)
    print(*(len(found) for found in keys.values()))
"""


def test_a_growing_cache_compiles_the_kernels_once():
    """Joining the parts was compiled anew for each number of them: 63 times while a cache grew to 32,768 keys."""
    pytest.importorskip("triton")
    inherited = {name: x for name, x in os.environ.items() if not name.startswith("TRITON")}
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", COMPILATIONS], env=inherited, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    # One split alone writes the output itself, in its dtype: the kernel of decoding is compiled for both.
    assert done.stdout.splitlines() == ["2 1", "2 1"]
