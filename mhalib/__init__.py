"""Multi-head attention, step by step: the library behind the course."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from mhalib._version import __version__
from mhalib.backends import tiled
from mhalib.backends.request import BackendChoice
from mhalib.cache import KVCache, RollingKVCache
from mhalib.course.setup import setup
from mhalib.functional import attention, explain_backend
from mhalib.layers import MultiHeadAttention
from mhalib.positions import RotaryEmbedding, alibi_slopes, sinusoidal_positions

#: The sentence that every chapter takes through loop, matrix, heads, masks and tiles.
SENTENCE = "The bank can guarantee deposits will eventually cover future tuition costs because it has enough money."

if TYPE_CHECKING:  # what `__getattr__` below imports, for type checkers and editors
    from mhalib import (
        alignment,
        backends,
        checks,
        configurations,
        counting,
        course,
        encoder_decoder,
        language,
        latent,
        masks,
        positions,
        pretrained,
        vision,
    )
    from mhalib.course import data, plots, style, training, widgets
    from mhalib.vision import faithfulness, gates, saliency

#: Where each public submodule lies. It is imported when its name is first used, so that `import mhalib` stays quick and
#: needs nothing but torch and numpy.
_SUBMODULES = {
    **{name: f"mhalib.{name}" for name in ("alignment", "backends", "checks", "configurations", "counting", "course")},
    **{name: f"mhalib.{name}" for name in ("encoder_decoder", "language", "latent", "masks", "positions")},
    **{name: f"mhalib.{name}" for name in ("pretrained", "vision")},
    **{name: f"mhalib.vision.{name}" for name in ("faithfulness", "gates", "saliency")},
    **{name: f"mhalib.course.{name}" for name in ("data", "plots", "style", "training", "widgets")},
}

__all__ = [
    "SENTENCE",
    "BackendChoice",
    "KVCache",
    "MultiHeadAttention",
    "RollingKVCache",
    "RotaryEmbedding",
    "__version__",
    "alibi_slopes",
    "alignment",
    "attention",
    "backends",
    "checks",
    "configurations",
    "counting",
    "course",
    "data",
    "encoder_decoder",
    "explain_backend",
    "faithfulness",
    "gates",
    "language",
    "latent",
    "masks",
    "plots",
    "positions",
    "pretrained",
    "saliency",
    "setup",
    "sinusoidal_positions",
    "style",
    "tiled",
    "training",
    "vision",
    "widgets",
]


if not TYPE_CHECKING:  # a type checker that saw it would accept every name

    def __getattr__(name: str) -> ModuleType:
        if name not in _SUBMODULES:
            # With name and module, Python itself suggests the nearest of the names in `__dir__`.
            module = sys.modules[__name__]
            raise AttributeError(f"module 'mhalib' has no attribute {name!r}", name=name, obj=module)
        module = importlib.import_module(_SUBMODULES[name])
        globals()[name] = module
        return module


def __dir__() -> list[str]:
    """The public names, and Python's own; not the modules that this file happens to import."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
