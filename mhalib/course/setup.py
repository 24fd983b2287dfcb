"""`setup`, the first call of every chapter: seeds, device, and one line that says what is running."""

from __future__ import annotations

import platform
import random
import sys

import numpy as np
import torch

from mhalib._version import __version__


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
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"seed: got {type(seed).__name__} {seed!r}; accepted is an integer, for example 0")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed: got {seed}; accepted is from 0 to 2**32 - 1, the range NumPy's generator takes")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - a reader's own cell may draw from NumPy's global generator
    torch.manual_seed(seed)  # CPU and every GPU
    _enable_colab_widgets()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"mhalib {__version__} · torch {torch.__version__} · Python {platform.python_version()} · {device}")
    return device


def _enable_colab_widgets() -> None:
    """Colab draws third-party widgets (anywidget) only after this call; elsewhere it does nothing."""
    if "google.colab" in sys.modules:
        from google.colab import output

        output.enable_custom_widget_manager()
