"""Exercise 10.cache_bytes: the bytes of a KV cache."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mhalib import configurations, counting
from mhalib.checks import Case, Exercise, Finding, Property

NAMES = (
    "Llama 2 7B",
    "Llama 3 8B",
    "Llama 3.1 405B",
    "Mistral 7B v0.1",
    "Gemma 3 27B",
    "PaLM 540B",
    "DeepSeek-V2",
    "DeepSeek-V3",
)

SIZES = (
    *("layers", "windowed_layers", "window", "d_model", "num_heads", "num_kv_heads", "head_dim"),
    *("kv_rank", "rope_dim"),
)


def cache_bytes(config: dict[str, int], tokens: int, users: int, bits: int) -> int:
    """Bytes of the KV cache of `users` texts of `tokens` tokens, `bits` bits a number."""
    if config["kv_rank"]:
        sizes = (config["layers"], config["kv_rank"], config["rope_dim"])
        return counting.latent_cache_bytes(*sizes, tokens, 1, users) * bits // 8
    heads, windowed = (config["num_kv_heads"], config["head_dim"]), config["windowed_layers"]
    kinds = ((config["layers"] - windowed, None), (windowed, config["window"]))
    numbers = [counting.kv_cache_bytes(n, *heads, tokens, 1, users, window) for n, window in kinds if n]
    return sum(numbers) * bits // 8


def _bytes_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, low: int, high: int, bits: int) -> Case:
        model = configurations.get(name)
        tokens = int(torch.randint(low, high, (), generator=generator))
        users = int(torch.randint(2, 40, (), generator=generator))
        config = {size: getattr(model, size) for size in SIZES}
        return Case(
            f"{name}, {bits} bits{', short' if high < 1000 else ''}",
            {"config": config, "tokens": tokens, "users": users, "bits": bits},
        )

    long = [case(name, 5000, 30000, 16) for name in NAMES]
    return [*long, case("Gemma 3 27B", 10, 999, 16), case("Llama 3 8B", 1000, 9000, 4), case("DeepSeek-V2", 10, 999, 8)]


def _bytes_with(
    heads: str = "num_kv_heads",
    both: int = 2,
    size: Callable = lambda c: c["head_dim"],
    windowed: Callable = lambda c: c["windowed_layers"],
    latent: Callable = lambda c: c["kv_rank"] + c["rope_dim"],
    unit: Callable = lambda numbers, bits: numbers * bits // 8,
):
    """The count with one thing different; `latent` gives 0 where latents are not known."""

    def mistaken(config: dict[str, int], tokens: int, users: int, bits: int) -> int:
        numbers = both * config[heads] * size(config)
        inside, layers = windowed(config) if config["window"] else 0, config["layers"]
        kept = inside * min(tokens, config["window"]) + (layers - inside) * tokens
        if config["kv_rank"] and latent(config):
            numbers, kept = latent(config), layers * tokens
        return unit(numbers * kept * users, bits)

    return mistaken


CACHE_BYTES = Exercise(
    id="10.cache_bytes",
    points=3,
    answer="cache_bytes",
    cases=_bytes_cases,
    reference=cache_bytes,
    properties=(Property.equal("equals the count of bytes, to the byte"), Property.pure()),
    findings=(
        Finding.like(
            "query heads",
            "Right for Llama 2 7B. Whose heads are in the cache: those that ask, or those that are asked?",
            _bytes_with(heads="num_heads"),
        ),
        Finding.like(
            "keys alone",
            "Half of what is there. A key says whether a token is looked at: what else is needed of it?",
            _bytes_with(both=1),
        ),
        Finding.like(
            "head size from the width",
            "Right for the Llamas. The size of a head is a number of its own: compare num_heads · head_dim with "
            "d_model for Gemma 3 and PaLM.",
            _bytes_with(size=lambda c: c["d_model"] // c["num_heads"]),
        ),
        Finding.like(
            "windows forgotten",
            "Right for short texts. In a layer with a window, how many tokens can still be seen, however long the "
            "text has become?",
            _bytes_with(windowed=lambda c: 0),
        ),
        Finding.like(
            "a window in every layer",
            "Right for Mistral. Gemma 3 has 62 layers and 52 of them have a window: what do the other ten keep?",
            _bytes_with(windowed=lambda c: c["layers"]),
        ),
        Finding.like(
            "heads in the place of latents",
            "Right for all but the DeepSeeks. They do not keep keys and values of heads, but one vector for each "
            "token from which all are unpacked. What size does it have?",
            _bytes_with(latent=lambda c: 0),
        ),
        Finding.like(
            "latents twice",
            "Twice too much for the DeepSeeks. Are there two vectors for each token, one for the keys and one for the "
            "values, or are both unpacked from the same?",
            _bytes_with(latent=lambda c: 2 * (c["kv_rank"] + c["rope_dim"])),
        ),
        Finding.like(
            "the rotary part forgotten",
            "A little too small for the DeepSeeks. The latent knows no positions: which other small key is kept?",
            _bytes_with(latent=lambda c: c["kv_rank"]),
        ),
        Finding.like(
            "latents in every head",
            "Far too much for the DeepSeeks. How many heads read the same latent?",
            _bytes_with(latent=lambda c: c["num_kv_heads"] * (c["kv_rank"] + c["rope_dim"])),
        ),
        Finding.like(
            "bits taken for bytes",
            "Eight times too much. What is the unit of `bits`, and what is asked for?",
            _bytes_with(unit=lambda numbers, bits: numbers * bits),
        ),
    ),
)
