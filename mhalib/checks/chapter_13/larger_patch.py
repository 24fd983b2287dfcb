"""Exercise 13.larger_patch: a prediction of what larger patches change."""

from __future__ import annotations

from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.predictions import between


def predict_larger_patch() -> dict[str, float]:
    """ViT-B for 224 × 224 pixels: what it has with patches of 32, divided by what it has with patches of 16."""
    tokens = {patch: 1 + (224 // patch) ** 2 for patch in (16, 32)}
    rest = 12 * (4 * 768 * 769 + 2 * 768 * 3072 + 768 + 3072 + 4 * 768) + 2 * 768 + 1000 * 769 + 768
    embedding = {patch: 3 * patch**2 * 768 + 768 for patch in tokens}
    whole = {patch: rest + embedding[patch] + tokens[patch] * 768 for patch in tokens}
    matrices, scores = (12 * (4 * 768**2 + 2 * 768 * 3072), 12 * 2 * 768)
    flops = {p: n * matrices + n**2 * scores + (n - 1) * 3 * p**2 * 768 + 768 * 1000 for p, n in tokens.items()}
    return {
        "patches": (tokens[32] - 1) / (tokens[16] - 1),
        "scores": tokens[32] ** 2 / tokens[16] ** 2,
        "embedding": embedding[32] / embedding[16],
        "parameters": whole[32] / whole[16],
        "flops": flops[32] / flops[16],
    }


ROOM = {
    "patches": (0.245, 0.255),
    "scores": (0.055, 0.07),
    "embedding": (3.9, 4.1),
    "parameters": (1.005, 1.05),
    "flops": (0.2, 0.3),
}

LARGER_PATCH = Exercise(
    id="13.larger_patch",
    points=2,
    answer="predict_larger_patch",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_larger_patch,
    properties=(
        Property.each(
            "five factors above 0",
            lambda case, got, want: set(got.value) == set(ROOM) and all(x > 0 for x in got.value.values()),
            hint="Return a dict with five numbers under the names that the docstring shows.",
        ),
        *(Property.each(f"{key}: near what is counted", between(key, *room)) for key, room in ROOM.items()),
    ),
    findings=(
        Finding.any(
            "the other way round",
            "A larger patch makes fewer of them. The factors are those of 32 over 16.",
            between("patches", 1.5, 20),
        ),
        Finding.any(
            "halved",
            "The patch is twice as wide *and* twice as high.",
            between("patches", 0.45, 0.55),
        ),
        Finding.any(
            "scores like patches",
            "A score belongs to a pair of tokens. If there are fewer tokens by some factor, what happens to the pairs?",
            between("scores", 0.2, 0.3),
        ),
        Finding.any(
            "embedding unchanged",
            "The same matrix for every patch, that is right. But how many rows or columns does it need for one patch "
            "of 32 × 32 pixels?",
            between("embedding", 0.9, 1.1),
        ),
        Finding.any(
            "embedding like patches",
            "The matrix is not there once for each patch: it is shared. Its size follows the pixels of one.",
            between("embedding", 0.2, 0.6),
        ),
        Finding.any(
            "parameters unchanged or fewer",
            "Fewer tokens are not fewer weights: the blocks have the same ones for any number of tokens. Two things "
            "in front of them do change. Which of the two changes by more?",
            between("parameters", 0.0, 1.005),
        ),
        Finding.any(
            "parameters like the embedding",
            "The patch embedding grows by that, and it is one matrix. What share of the model's weights is it?",
            between("parameters", 1.05, 20),
        ),
        Finding.any(
            "all work is scores",
            "Scores fall like that. At some two hundred tokens and a width of 768, what is most of the work, and how "
            "does it depend on the number of tokens?",
            between("flops", 0.0, 0.12),
        ),
    ),
)
