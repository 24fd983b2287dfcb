"""The tests of the Triton kernels can fail: each fault of this list, put into a copy of mhalib, is caught by them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import oracle
import pytest

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parent / "mhalib"
TESTS = ("test_triton_interpreter.py", "test_triton_known_bugs.py")


class Fault(NamedTuple):
    """In `file`, `old` (which stands there once) becomes `new`; a test of TESTS that matches `only` fails."""

    name: str
    file: str
    old: str
    new: str
    only: str


MANY, FEW = "test_many_queries and fp32", "test_few_queries_split and fp32"

FAULTS = [
    # -------------------------------------------------------------------------------------- the running softmax
    Fault(
        "missing rescale of the output", "forward.py", "output = output * rescale[:, None]", "pass", f"{MANY} and odd"
    ),
    Fault("missing rescale of the sum", "forward.py", "total * rescale + ", "total + ", f"{MANY} and odd"),
    Fault(
        "missing rescale in decoding",
        "decode.py",
        "dot(weights.to(v.dtype), v, output * rescale[:, None], PRECISION)",
        "dot(weights.to(v.dtype), v, output, PRECISION)",
        f"{FEW} and one_split",
    ),
    Fault(
        "−inf − −inf in a row",
        "forward.py",
        'pivot = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)',
        "pass",
        "test_first_tile_of_a_window",
    ),
    Fault(
        "−inf − −inf in a split",
        "decode.py",
        'pivot = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)',
        "pivot = new_maximum",
        f"{FEW} and window_across",
    ),
    Fault(
        "−inf − −inf where the parts are joined",
        "decode.py",
        'pivot = tl.where(maximum == float("-inf"), 0.0, maximum)',
        "pivot = maximum",
        f"{FEW} and lengths",
    ),
    Fault(
        "NaN that arrives at the log-sum-exp of a row without keys",
        "backward.py",
        'tl.where(lse == float("-inf"), 0.0, delta)',
        "delta",
        "test_causal_rows_without_keys",
    ),
    Fault("parts joined without their weights", "decode.py", "shares[:, None] * tile", "tile", f"{FEW} and one_query"),
    # -------------------------------------------------------------------------------------- heads
    Fault(
        "wrong group map in dK and dV",
        "backward.py",
        "head = kv_head * GROUP + member",
        "head = member * kv_heads + kv_head",
        f"{MANY} and group_of_three",
    ),
    Fault(
        "only one head of the group in dK and dV",
        "backward.py",
        "for member in range(GROUP):",
        "for member in range(1):",
        f"{MANY} and group_of_three",
    ),
    Fault(
        "wrong group map, forward",
        "forward.py",
        "k_base = K + batch * k_b + (head // GROUP) * k_h",
        "k_base = K + batch * k_b + (head % (heads // GROUP)) * k_h",
        f"{MANY} and group_of_three",
    ),
    Fault(
        "wrong group map, decoding",
        "decode.py",
        "heads = kv_head * GROUP + rows % GROUP",
        "heads = rows % GROUP * kv_heads + kv_head",
        f"{FEW} and group_of_eight",
    ),
    # -------------------------------------------------------------------------------------- who sees whom
    Fault("last tile unmasked", "common.py", "seen = keys < length", "seen = keys >= 0", f"{MANY} and odd_lengths"),
    Fault(
        "last tile taken as whole",
        "common.py",
        "tl.maximum(0, whole) // BLOCK_K * BLOCK_K",
        "(tl.maximum(0, whole) + BLOCK_K - 1) // BLOCK_K * BLOCK_K",
        f"{MANY} and odd_lengths",
    ),
    Fault(
        "causal aligned at the top left",
        "forward.py",
        "shift = lk - lq",
        "shift = 0",
        f"{MANY} and causal_fewer_queries",
    ),
    Fault(
        "causal aligned at the top left in dK and dV only",
        "backward.py",
        "shift = lk - lq\n    length = length_of(LENGTHS, batch, lk, HAS_LENGTHS)\n"
        "    wanted = length_of(QUERY_LENGTHS, batch, lq, HAS_QUERY_LENGTHS)\n\n    k = ",
        "shift = 0\n    length = length_of(LENGTHS, batch, lk, HAS_LENGTHS)\n"
        "    wanted = length_of(QUERY_LENGTHS, batch, lq, HAS_QUERY_LENGTHS)\n\n    k = ",
        f"{MANY} and causal_fewer_queries",
    ),
    Fault(
        "causal shows one key of the future", "common.py", "keys <= here)", "keys <= here + 1)", f"{MANY} and causal"
    ),
    Fault(
        "window one key too wide", "common.py", "keys > here - window)", "keys >= here - window)", f"{MANY} and window"
    ),
    Fault(
        "window one key too wide to the right",
        "common.py",
        "keys < here + window)",
        "keys <= here + window)",
        f"{MANY} and window_both",
    ),
    Fault(
        "lengths ignored",
        "common.py",
        "return tl.minimum(tl.load(LENGTHS + batch).to(tl.int32), most)",
        "return most",
        f"{MANY} and lengths and not causal and not window and not odd",
    ),
    Fault(
        "gradient of keys past the length",
        "backward.py",
        "tl.where(real, dv, 0.0)",
        "dv",
        "test_rows_without_keys and many",
    ),
    Fault(
        "tiles of a window taken as whole too early",
        "common.py",
        "left = (tl.maximum(0, last - window + 1) + BLOCK_K - 1)",
        "left = tl.maximum(0, last - window + 1)",
        f"{MANY} and window_past",
    ),
    Fault(
        "tiles of a window taken as whole too long in dK and dV",
        "common.py",
        "until = first - shift + window",
        "until = last - shift + window",
        f"{MANY} and window_past",
    ),
    Fault(
        "rows that nobody wants are given an output",
        "forward.py",
        "alive = (total > 0) & (queries < wanted)",
        "alive = total > 0",
        f"{MANY} and padded",
    ),
    Fault(
        "rows that nobody wants are given an output in decoding",
        "decode.py",
        "alive = (total > 0) & (queries < wanted)",
        "alive = total > 0",
        f"{FEW} and padded",
    ),
    # -------------------------------------------------------------------------------------- numbers
    Fault("log-sum-exp in base 2", "forward.py", "tl.log2(total)) * LN_2", "tl.log2(total))", f"{MANY} and one_tile"),
    Fault(
        "log-sum-exp in base 2 in decoding",
        "decode.py",
        "tl.log2(total)) * LN_2",
        "tl.log2(total))",
        f"{FEW} and one_split",
    ),
    Fault(
        "log-sum-exp read in the wrong base",
        "common.py",
        'other=float("inf")) * LOG2_E',
        'other=float("inf"))',
        f"{MANY} and one_tile",
    ),
    Fault(
        "delta omitted",
        "backward.py",
        "delta = tl.sum(output * grad.to(tl.float32), 1)",
        "delta = 0.0 * tl.sum(grad, 1)",
        f"{MANY} and one_tile",
    ),
    Fault(
        "gradient of the log-sum-exp omitted",
        "backward.py",
        "delta -= tl.load(grad_lse, mask=queries < wanted, other=0.0)",
        "pass",
        f"{MANY} and one_tile",
    ),
    Fault("scale missing in dQ", "backward.py", "dq * scale", "dq", f"{MANY} and one_tile"),
    Fault("scale missing in dK", "backward.py", "dk * scale", "dk", f"{MANY} and one_tile"),
    Fault("scale below 0 not turned round", "op.py", "if scale < 0:", "if False:", f"{MANY} and scale_negative"),
    Fault("slope of the softcap omitted", "common.py", "1.0 - bent * bent", "1.0 + 0.0 * bent", f"{MANY} and softcap"),
    # -------------------------------------------------------------------------------------- memory
    Fault(
        "offsets in 32 bits",
        "common.py",
        "tl.cast(first, tl.int64) * stride_row",
        "tl.cast(first, tl.int32) * tl.cast(stride_row, tl.int32)",
        "test_offsets_past and token",
    ),
    Fault(
        "places in a tile in 32 bits", "common.py", "    if WIDE:\n", "    if False:\n", "test_offsets_past and number"
    ),
    Fault(
        "gradient read as if it were contiguous",
        "backward.py",
        "*grad_output.stride(),\n            *grad_lse.stride(),",
        "*grad_output.contiguous().stride(),\n            *grad_lse.stride(),",
        "arrives_is_not_contiguous",
    ),
    Fault("precision left to triton", "common.py", ", input_precision=PRECISION)", ")", "test_precision"),
]


def lay_out(folder: Path, fault: Fault | None = None) -> None:
    """A copy of mhalib, with the fault, beside the tests; a conftest refuses any other mhalib."""
    shutil.copytree(LIBRARY, folder / "mhalib", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (Path(oracle.__file__), HERE / "interpreted.py", *(HERE / name for name in TESTS)):
        shutil.copy(path, folder / path.name)
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "conftest.py").write_text(
        "from pathlib import Path\n\nimport mhalib\n\n"
        "assert Path(mhalib.__file__).parent == Path(__file__).parent / 'mhalib', mhalib.__file__\n",
        "utf-8",
    )
    if fault:
        path = folder / "mhalib" / "backends" / "triton" / fault.file
        text = path.read_text("utf-8")
        times = text.count(fault.old)
        assert times == 1, f"stale fault: {fault.old!r} stands {times} times in {fault.file}, not once"
        path.write_text(text.replace(fault.old, fault.new), "utf-8")


def run(folder: Path, only: str) -> subprocess.CompletedProcess:
    hidden = ("PYTEST", "COV", "TRITON", "MHALIB")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    settings = {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-k", only, *TESTS]
    return subprocess.run(
        command,
        cwd=folder,
        env=inherited | settings,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


def test_without_a_fault_the_same_tests_pass(tmp_path):
    lay_out(tmp_path)
    done = run(tmp_path, " or ".join(f"({only})" for only in sorted({fault.only for fault in FAULTS})))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_caught(fault, tmp_path):
    assert fault.old != fault.new
    lay_out(tmp_path, fault)
    done = run(tmp_path, fault.only)
    report = done.stdout + done.stderr
    assert done.returncode == 1, f"exit status {done.returncode}: not caught, or not run\n{report}"
    summary = done.stdout.strip().splitlines()[-1]
    assert re.search(r"\b1 failed\b", summary), report
    assert "error" not in summary, f"an error, not a failed assertion\n{report}"
    # An exception of another kind comes back from the interpreting process as a RuntimeError.
    assert re.search(r"^E +AssertionError", done.stdout, re.MULTILINE), report


def test_the_names_are_different():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
