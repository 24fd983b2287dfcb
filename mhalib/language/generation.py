"""`generate`: let a decoder continue a text, greedily or by drawing, with a cache."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.arguments import check_whole, number
from mhalib.language.decoder import Decoder


@torch.no_grad()
def generate(
    model: Decoder,
    tokens: Tensor,
    new: int,
    *,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    stop: int | None = None,
) -> Tensor:
    """The tokens, and up to `new` more: each is chosen from the model's scores and becomes part of the text.

    The model runs in evaluation mode and is left as it was. Scores are divided by the temperature in float64, and the
    draw is made on the CPU, so that one generator gives one text on every device as far as the scores agree.

    Args:
        model: a `Decoder`.
        tokens: integer (B, L), L ≥ 1; the prompts, all of one length.
        new: how many to add.
        temperature: 0 takes the largest score; otherwise draw with probability softmax(scores / temperature).
        generator: of the draw, on the CPU; None is torch's own.
        stop: end when each text has had this token; what follows it in a text that had it earlier is `stop` too.

    Returns:
        integer (B, L + new), or shorter where all texts stopped.
    """
    if not isinstance(model, Decoder):
        raise TypeError(f"model: got {type(model).__name__}; accepted is a mhalib.language.Decoder")
    check_whole(0, new=new)
    temperature = number("temperature", temperature, "a finite number of at least 0", lambda x: x >= 0)
    if stop is not None:
        check_whole(0, stop=stop)
    if tokens.dim() == 2 and tokens.shape[1] == 0:
        raise ValueError("tokens: got a prompt of length 0; accepted is (B, L) with at least one token to start from")
    was_training = model.training
    model.eval()
    try:
        caches = model.new_caches(tokens.shape[0], tokens.shape[1] + new)
        text, fresh = tokens, tokens
        ended = torch.zeros(tokens.shape[0], dtype=torch.bool, device=tokens.device)
        for _ in range(new):
            scores = model(fresh, caches=caches, last=1)[:, -1]
            chosen = _choose(scores, temperature, generator).to(tokens)
            if stop is not None:
                chosen = torch.where(ended, stop, chosen)
                ended = ended | (chosen == stop)
            fresh = chosen[:, None]
            text = torch.cat((text, fresh), dim=1)
            if stop is not None and bool(ended.all()):
                break
        return text
    finally:
        model.train(was_training)


def _choose(scores: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    """One token for each row of scores (B, vocab_size): int64 (B,)."""
    if temperature == 0:
        return scores.argmax(dim=-1)
    probabilities = (scores.double().cpu() / temperature).softmax(dim=-1)
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
