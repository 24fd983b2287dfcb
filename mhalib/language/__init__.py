"""Language: a decoder of the course's parts, the bytes that it reads, and a text to train it on."""

from mhalib.language.byte_pairs import BytePairs, pieces
from mhalib.language.decoder import Decoder, DecoderBlock
from mhalib.language.generation import generate
from mhalib.language.parts import RMSNorm, SwiGLU
from mhalib.language.text import alice

__all__ = ["BytePairs", "Decoder", "DecoderBlock", "RMSNorm", "SwiGLU", "alice", "generate", "pieces"]
