"""Multi-head attention, step by step: the library behind the course."""

from __future__ import annotations

import importlib
from types import ModuleType

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

#: Where each public submodule lies. It is imported when its name is first used, so that `import mhalib` stays quick and
#: needs nothing but torch and numpy.
_SUBMODULES = {
    **{name: f"mhalib.{name}" for name in ("backends", "checks", "configurations", "counting", "course", "latent")},
    **{name: f"mhalib.{name}" for name in ("masks", "positions", "pretrained", "vision")},
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
    "attention",
    "explain_backend",
    "setup",
    "sinusoidal_positions",
    "tiled",
    *sorted(_SUBMODULES),
]


def __getattr__(name: str) -> ModuleType:
    if name not in _SUBMODULES:
        raise AttributeError(f"module 'mhalib' has no attribute {name!r}")
    module = importlib.import_module(_SUBMODULES[name])
    globals()[name] = module
    return module


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
