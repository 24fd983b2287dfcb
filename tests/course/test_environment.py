"""`mhalib.setup`: the same random numbers every time, the right device, one line, nothing heavy."""

import importlib
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import mhalib
from mhalib.course.setup import setup


def draws():
    return random.random(), float(np.random.random()), float(torch.rand(())), torch.randn(3).tolist()  # noqa: NPY002


def test_same_seed_gives_the_same_numbers_and_another_seed_does_not():
    setup(3)
    first = draws()
    setup(3)
    assert draws() == first
    setup(4)
    other = draws()
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_each_generator_is_the_plain_one_of_its_library():
    setup(7)
    got = draws()
    assert got[0] == random.Random(7).random()
    assert got[1] == float(np.random.RandomState(7).random_sample())
    generator = torch.Generator().manual_seed(7)
    assert got[2] == float(torch.rand((), generator=generator))


def test_device_is_the_gpu_where_there_is_one_else_the_cpu(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert setup() == torch.device("cpu")
    assert capsys.readouterr().out.endswith("· cpu\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "manual_seed", lambda seed: None)
    assert setup() == torch.device("cuda")
    assert capsys.readouterr().out.endswith("· cuda\n")


def test_prints_one_line_with_the_versions(capsys):
    setup()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert re.fullmatch(r"mhalib \S+ · torch \S+ · Python \d+\.\d+\.\d+\S* · (cpu|cuda)\n", out)
    assert mhalib.__version__ in out
    assert torch.__version__ in out


@pytest.mark.parametrize("seed", [True, 1.0, "0", None, np.float64(3)])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(TypeError, match=r"seed: got .*accepted is an integer"):
        setup(seed)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_numpy_cannot_take_is_refused(seed):
    with pytest.raises(ValueError, match=rf"seed: got {seed}; accepted is from 0 to 2\*\*32 - 1"):
        setup(seed)


def test_a_refused_seed_changes_no_generator():
    setup(1)
    expected = draws()
    setup(1)
    with pytest.raises(ValueError, match="seed"):
        setup(-1)
    assert draws() == expected


def test_a_seed_of_numpy_is_the_same_seed():
    setup(3)
    expected = draws()
    setup(np.int64(3))
    assert draws() == expected


#: What stands under Colab's name: the package's files, and what a chapter's first cell makes of them.
COLABS = {
    "Colab": {"output.py": "def enable_custom_widget_manager(): print('switched on')"},
    "without the function": {"output.py": ""},
    "without the module": {},
    "a function that raises": {"output.py": "def enable_custom_widget_manager(): raise RuntimeError('no frontend')"},
    "a function that wants an argument": {"output.py": "def enable_custom_widget_manager(manager): pass"},
    "no function": {"output.py": "enable_custom_widget_manager = None"},
    "a module that raises when it is imported": {"output.py": "raise OSError('not on Colab')"},
    "a module that needs what is not there": {"output.py": "import a_package_that_nobody_has"},
    "the module as None": {"__init__.py": "output = None"},
}


@pytest.mark.parametrize("files", COLABS.values(), ids=COLABS)
def test_where_colab_is_imported_setup_goes_on_whatever_stands_under_its_name(files, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "google" / "colab"
    folder.mkdir(parents=True)
    for name, text in {"__init__.py": "", **files}.items():
        (folder / name).write_text(text, "utf-8")
    for name in [name for name in sys.modules if name.partition(".")[0] == "google"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    setup(5)
    assert "switched on" not in capsys.readouterr().out  # a package that is there and not imported is left alone
    importlib.import_module("google.colab")
    expected = draws()
    setup(5)
    out = capsys.readouterr().out
    assert ("switched on" in out) == (files is COLABS["Colab"])
    assert out.endswith(f"· {torch.device('cuda' if torch.cuda.is_available() else 'cpu')}\n")
    assert draws() == expected
    for name in [name for name in sys.modules if name.partition(".")[0] == "google"]:
        del sys.modules[name]


def test_setup_brings_in_nothing_heavy():
    code = (
        "import sys, mhalib; mhalib.setup();"
        "heavy = {'matplotlib', 'anywidget', 'ipywidgets', 'IPython', 'triton', 'safetensors', 'tokenizers',"
        " 'transformers', 'huggingface_hub'};"
        "found = sorted(heavy & set(sys.modules)); print(found); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
