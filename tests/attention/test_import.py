"""`import mhalib` is quick and brings in nothing but torch and numpy."""

import ast
import inspect
import os
import re
import subprocess
import sys

import pytest

import mhalib
from tools.book import twins

#: What mhalib adds to torch and numpy: so many seconds, and so large a part of the whole.
OWN_LIMIT_S, OWN_PART = 0.3, 0.1
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


ALL = f"{sorted(mhalib._SUBMODULES)}"
#: Each submodule in a process in which no other was reached before: a copy of the one that has just imported mhalib.
EACH_ALONE = """
import os, sys, mhalib
for name in NAMES:
    child = os.fork()
    if child == 0:
        try:
            assert name in dir(mhalib)
            REACH
        except BaseException as error:
            print(name, repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("all")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork: each would cost an import of torch")
@pytest.mark.parametrize(
    "reach",
    [
        "assert getattr(mhalib, name).__name__ == mhalib._SUBMODULES[name]",
        "exec(f'from mhalib import {name}')",
        "exec(f'import {mhalib._SUBMODULES[name]}')",
    ],
)
def test_every_public_submodule_is_reachable_by_itself(reach):
    assert fresh("-c", EACH_ALONE.replace("NAMES", ALL).replace("REACH", reach)).stdout == "all\n"


def test_all_submodules_together_load_nothing_optional():
    names = {name.partition(".")[0] for name in loaded("mhalib; [getattr(mhalib, name) for name in mhalib.__all__]")}
    assert names & ELSEWHERE == set()


def test_what_type_checkers_see_is_what_is_there():
    """The imports for type checkers, the table of submodules and the public names agree."""
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(mhalib)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.name: f"{node.module}.{alias.name}" for node in block.body for alias in node.names}
    assert seen == mhalib._SUBMODULES
    assert set(seen) <= set(mhalib.__all__)
    assert sorted(mhalib.__all__) == sorted(set(mhalib.__all__))
    assert set(mhalib.__all__) <= set(dir(mhalib))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "suggested"),
    [("plot", "plots"), ("widget", "widgets"), ("Attention", "attention"), ("import_lib", None), ("house_style", None)],
)
def test_an_unknown_name_is_refused_and_only_a_public_one_suggested(name, suggested):
    with pytest.raises(AttributeError, match=f"^module 'mhalib' has no attribute '{name}'$") as refused:
        getattr(mhalib, name)
    assert (refused.value.name, refused.value.obj) == (name, mhalib)
    code = f"import mhalib\nmhalib.{name}"
    told = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    found = re.search(r"Did you mean: '(\w+)'", told.stderr)
    assert (found and found[1]) == suggested
    assert set(dir(mhalib)) - set(mhalib.__all__) == {name for name in dir(mhalib) if name.startswith("__")} - {
        "__version__"
    }


def measure():
    """Seconds on the clock for each import, outermost ones only."""
    report = fresh("-X", "importtime", "-c", "import torch, numpy, mhalib").stderr
    top = re.findall(r"^import time: +\d+ \| +(\d+) \| (\S+)$", report, re.MULTILINE)
    seconds = {name: int(microseconds) / 1e6 for microseconds, name in top}
    own = {name: seconds.get(name, 0.0) for name in ("torch", "numpy", "mhalib")}  # numpy may come with torch
    assert own["torch"] > 0
    assert own["mhalib"] > 0
    return own


@pytest.mark.slow
def test_import_is_quick():
    """The best of three. How long torch itself takes is a matter of the machine; what comes on top is ours."""
    tries = [measure() for _ in range(3)]
    own = min(seconds["mhalib"] for seconds in tries)
    part = min(seconds["mhalib"] / sum(seconds.values()) for seconds in tries)
    report = "\n".join(
        f"torch {seconds['torch']:.2f} s, mhalib's own {seconds['mhalib']:.3f} s, all {sum(seconds.values()):.2f} s"
        for seconds in tries
    )
    print(report)
    assert own < OWN_LIMIT_S, report
    assert part < OWN_PART, report
