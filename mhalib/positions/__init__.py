"""Telling attention where a token stands.

| where positions enter | here |
|---|---|
| added to the tokens | `sinusoidal_positions`; on a grid `mhalib.vision.positions` |
| queries and keys are turned | `RotaryEmbedding` |
| a number for each distance, added to the scores | `alibi_bias`, `T5Bias` |
| a vector for each distance, met by queries and keys | `shaw_scores`, `shaw_values`, `disentangled_scores` |
| the scores are the positions' own | `PositionTable`, `axial_bias` |

What makes a bias returns a tensor for the `bias` of `mhalib.attention`; its last query stands at the last key.
"""

from mhalib.positions.absolute import sinusoidal_positions
from mhalib.positions.distance import T5Bias, alibi_bias, alibi_slopes, distances, t5_bucket
from mhalib.positions.relative import clipped_distances, disentangled_scores, shaw_scores, shaw_values
from mhalib.positions.rotary import LAYOUTS, RotaryEmbedding, check_positions
from mhalib.positions.tables import PositionTable, axial_bias

__all__ = [
    "LAYOUTS",
    "PositionTable",
    "RotaryEmbedding",
    "T5Bias",
    "alibi_bias",
    "alibi_slopes",
    "axial_bias",
    "check_positions",
    "clipped_distances",
    "disentangled_scores",
    "distances",
    "shaw_scores",
    "shaw_values",
    "sinusoidal_positions",
    "t5_bucket",
]
