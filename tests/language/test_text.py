"""The text that is trained on is the same everywhere, and none of what somebody put around it is left."""

import re

import pytest

from mhalib.language import alice, text


def test_alice_is_the_whole_book():
    book = alice()
    assert len(book) == 144_013
    assert len(set(book)) == 68
    numbers = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]
    assert re.findall(r"^CHAPTER ([IVX]+)\.", book, re.MULTILINE) == numbers
    assert "gutenberg" not in book.lower()
    assert "\r" not in book


def test_another_text_is_refused(monkeypatch, tmp_path):
    book = alice()
    monkeypatch.setattr(text.resources, "files", lambda package: tmp_path)
    (tmp_path / "alice.txt").write_bytes(book.replace("\n", "\r\n").encode())
    assert text.alice().startswith("CHAPTER I.")  # ends of lines as another system writes them are no change
    (tmp_path / "alice.txt").write_bytes(book.replace("Rabbit", "rabbit").encode())
    with pytest.raises(ValueError, match=r"^alice.txt: got a text with SHA-256 [0-9a-f]{64}; accepted is 1ef0448c"):
        text.alice()
