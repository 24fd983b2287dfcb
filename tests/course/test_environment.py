"""`mhalib.setup`: the same random numbers every time, the right device, one line, nothing heavy."""

import random
import re
import subprocess
import sys
import types

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


@pytest.mark.parametrize("seed", [True, 1.0, "0", None, np.int64(3)])
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


def test_on_colab_the_custom_widget_manager_is_switched_on(monkeypatch):
    calls = []
    colab = types.ModuleType("google.colab")
    colab.output = types.SimpleNamespace(enable_custom_widget_manager=lambda: calls.append("on"))
    google = types.ModuleType("google")
    google.colab = colab
    setup()
    assert calls == []
    monkeypatch.setitem(sys.modules, "google", google)
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    setup()
    assert calls == ["on"]


def test_setup_brings_in_nothing_heavy():
    code = (
        "import sys, mhalib; mhalib.setup();"
        "heavy = {'matplotlib', 'anywidget', 'ipywidgets', 'IPython', 'triton', 'safetensors', 'tokenizers',"
        " 'transformers', 'huggingface_hub'};"
        "found = sorted(heavy & set(sys.modules)); print(found); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
