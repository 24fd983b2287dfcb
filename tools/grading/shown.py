"""What a student's cells showed, as a teacher's browser may hold it: plain text and PNG, nothing that is executed."""

from __future__ import annotations

import base64
import binascii
from typing import Any

MAX_IMAGES = 20  # for one cell
MAX_IMAGE = 2 << 20  # characters
PNG = b"\x89PNG\r\n\x1a\n"


def clean(outputs: object, limit: int) -> list[dict[str, Any]]:
    """Outputs in nbformat's form, whatever `outputs` is; about `limit` characters of text."""
    kept, left, images = [], limit + 2000, 0
    for output in outputs if isinstance(outputs, list) else []:
        if not isinstance(output, dict) or left <= 0:
            continue
        kind, data = output.get("output_type"), output.get("data")
        if kind == "stream" and output.get("name") in ("stdout", "stderr"):
            text = _text(output.get("text"))[:left]
            left -= len(text)
            kept.append({"output_type": kind, "name": output["name"], "text": text})
        elif kind == "error":
            lines = output.get("traceback")
            text = "\n".join(map(_text, lines if isinstance(lines, list) else []))[:left]
            left -= len(text)
            told = {"ename": _text(output.get("ename"))[:100], "evalue": _text(output.get("evalue"))[:1000]}
            kept.append({"output_type": kind, **told, "traceback": text.split("\n")})
        elif kind in ("execute_result", "display_data") and isinstance(data, dict):
            shown = {"text/plain": _text(data.get("text/plain"))[:left]}
            left -= len(shown["text/plain"])
            if images < MAX_IMAGES and (image := _png(data.get("image/png"))):
                images += 1
                shown["image/png"] = image
            number = {"execution_count": None} if kind == "execute_result" else {}
            kept.append({"output_type": kind, "data": shown, "metadata": {}, **number})
    return kept


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _png(value: object) -> str | None:
    if not isinstance(value, str) or len(value) > MAX_IMAGE:
        return None
    try:
        data = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(data).decode() if data.startswith(PNG) else None
