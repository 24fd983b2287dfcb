"""`import mhalib` is quick and brings in nothing but torch and numpy."""

import os
import re
import subprocess
import sys

from tools.book import twins

LIMIT_S = 3.0  # for everything, torch included
OWN_LIMIT_S = 0.3  # for what mhalib adds to torch and numpy
ELSEWHERE = {
    *("IPython", "anywidget", "hypothesis", "ipywidgets", "matplotlib", "pytest", "safetensors"),
    *("sklearn", "skimage", "tokenizers", "transformers", "triton"),
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(twins.ROOT)}


def fresh(*arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=ENVIRONMENT, cwd=twins.ROOT, capture_output=True, text=True, check=True, timeout=300
    )


def loaded(imports):
    return set(fresh("-c", f"import sys, {imports}; print(*sorted(sys.modules))").stdout.split())


def test_import_loads_nothing_but_torch_and_numpy():
    names = {name.partition(".")[0] for name in loaded("torch, numpy, mhalib") - loaded("torch, numpy")}
    assert "mhalib" in names
    assert names & ELSEWHERE == set()
    assert names - {"mhalib"} <= sys.stdlib_module_names


def measure():
    """Seconds on the clock for each import, outermost ones only, and processor seconds for all together."""
    before = os.times()
    report = fresh("-X", "importtime", "-c", "import torch, numpy, mhalib").stderr
    after = os.times()
    top = re.findall(r"^import time: +\d+ \| +(\d+) \| (\S+)$", report, re.MULTILINE)
    seconds = {name: int(microseconds) / 1e6 for microseconds, name in top}
    own = {name: seconds.get(name, 0.0) for name in ("torch", "numpy", "mhalib")}  # numpy may come with torch
    assert own["torch"] > 0
    assert own["mhalib"] > 0
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return own, processor


def test_import_is_quick():
    """The best of three; where the processor is shared, waiting for it is not counted against the import."""
    tries = [measure() for _ in range(3)]
    own = min(seconds["mhalib"] for seconds, _ in tries)
    total = min(min(sum(seconds.values()), processor) for seconds, processor in tries)
    report = "\n".join(
        f"torch {seconds['torch']:.2f} s, mhalib's own {seconds['mhalib']:.3f} s, "
        f"all {sum(seconds.values()):.2f} s on the clock, {processor:.2f} s of processor time"
        for seconds, processor in tries
    )
    print(report)
    assert own < OWN_LIMIT_S, report
    assert total < LIMIT_S, report
