"""A text to train on: *Alice's Adventures in Wonderland*, which is in the public domain.

`alice.txt` holds the twelve chapters of the book that Lewis Carroll (Charles Lutwidge Dodgson, 1832 to 1898) published
in 1865, as plain ASCII, without title page, verses before the first chapter, or pictures. Nobody owns this text any
more. The transcription is `examples/alice.txt` of the public repository amueller/word_cloud, a copy of Project
Gutenberg's; what Project Gutenberg had added, its name and its licence, is taken out.
"""

from __future__ import annotations

import hashlib
from importlib import resources

#: Of the text with "\n" at the end of lines.
ALICE_SHA256 = "1ef0448c1ae4caa1bd5808be52c1dbb32d129bd00456ec705a8361a75bcbfa96"


def alice() -> str:
    """*Alice's Adventures in Wonderland*, 144,013 characters, 68 of them different; lines end with "\\n".

    The same text on every machine. A changed file is refused with a ValueError: numbers that a chapter prints depend on
    each letter.
    """
    text = (resources.files("mhalib.language") / "alice.txt").read_bytes().decode("ascii").replace("\r\n", "\n")
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != ALICE_SHA256:
        raise ValueError(f"alice.txt: got a text with SHA-256 {found}; accepted is {ALICE_SHA256}: install mhalib anew")
    return text
