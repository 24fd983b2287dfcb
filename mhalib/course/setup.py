"""`setup`, the first call of every chapter: seeds, device, and one line that says what is running."""

from __future__ import annotations

import contextlib
import importlib
import platform
import random
import sys

import numpy as np
import torch

from mhalib._version import __version__
from mhalib.arguments import is_whole, kind


def setup(seed: int = 0) -> torch.device:
    """Seed Python, NumPy and torch (every device), pick the device, and print one line of versions.

    Call it as often as you like: it leaves the generators in the same state each time. On Colab it also switches
    on the manager that third-party widgets need there.

    Apple's `mps` device is never picked: it has no float64, and the chapters compare with float64. The CPU is
    quick enough for all of them.

    Args:
        seed: an integer from 0 to 2³² − 1 (the range NumPy accepts).

    Returns:
        `torch.device("cuda")` where torch finds a GPU it can use, else `torch.device("cpu")`.
    """
    if not is_whole(seed):
        raise TypeError(f"seed: got {kind(seed)}; accepted is an integer, for example 0")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed: got {seed}; accepted is from 0 to 2**32 - 1, the range NumPy's generator takes")
    seed = int(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - a reader's own cell may draw from NumPy's global generator
    torch.manual_seed(seed)  # CPU and every GPU
    _enable_colab_widgets()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"mhalib {__version__} · torch {torch.__version__} · Python {platform.python_version()} · {device}")
    return device


def _enable_colab_widgets() -> None:
    """Colab draws third-party widgets (anywidget) only after this call; elsewhere it does nothing.

    Other services put a stand-in under Colab's name. Whatever it lacks or raises, a chapter goes on without widgets.
    """
    if "google.colab" in sys.modules:
        with contextlib.suppress(Exception):
            importlib.import_module("google.colab.output").enable_custom_widget_manager()
