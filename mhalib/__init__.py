"""Multi-head attention, step by step: the library behind the course."""

from mhalib import counting, gates, masks, models, positions, saliency, vision
from mhalib.backends import tiled
from mhalib.backends.request import BackendChoice
from mhalib.cache import KVCache, RollingKVCache
from mhalib.environment import setup
from mhalib.functional import attention, explain_backend
from mhalib.layers import MultiHeadAttention
from mhalib.positions import RotaryEmbedding, alibi_slopes, sinusoidal_positions

__version__ = "0.1.0"

#: The sentence that every chapter takes through loop, matrix, heads, masks and tiles.
SENTENCE = "The bank can guarantee deposits will eventually cover future tuition costs because it has enough money."

__all__ = [
    "SENTENCE",
    "BackendChoice",
    "KVCache",
    "MultiHeadAttention",
    "RollingKVCache",
    "RotaryEmbedding",
    "alibi_slopes",
    "attention",
    "counting",
    "explain_backend",
    "gates",
    "masks",
    "models",
    "positions",
    "saliency",
    "setup",
    "sinusoidal_positions",
    "tiled",
    "vision",
]
