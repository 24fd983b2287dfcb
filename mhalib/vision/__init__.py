"""Seeing: a Vision Transformer, its positions and weights, maps of what it attends to, gates in convolutions."""

from mhalib.vision.positions import FactorisedPositions, LearnedPositions, SinusoidalPositions, interpolate_positions
from mhalib.vision.transformer import PatchEmbedding, VisionTransformer, VisionTransformerBlock, cut_patches

__all__ = [
    "FactorisedPositions",
    "LearnedPositions",
    "PatchEmbedding",
    "SinusoidalPositions",
    "VisionTransformer",
    "VisionTransformerBlock",
    "cut_patches",
    "interpolate_positions",
]
