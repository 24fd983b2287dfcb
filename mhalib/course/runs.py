"""Training of several runs side by side: one optimiser, and nothing that one run learns reaches another."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mhalib.arguments import number, whole_numbers
from mhalib.course.sequences import Pairs
from mhalib.encoder_decoder import EncoderDecoder, Weigh


def train(
    model: EncoderDecoder,
    pairs: Pairs,
    *,
    steps: int,
    learning_rate: float,
    batch_size: int = 32,
    clip: float = 1.0,
    seed: int = 0,
    weigh: Weigh | None = None,
) -> Tensor:
    """Adam with one cycle of the learning rate; each run draws batches of its own. Returns losses (steps, R).

    The loss of a run is the mean cross-entropy of its real target symbols, in nats. The gradient of each run is cut to
    the length `clip` by itself: a length common to all would let one run slow down the others.

    Args:
        pairs: what batches are drawn from, with repetition.
        learning_rate: the highest one.
        seed: of the batches.
        weigh: takes the place of the softmax, as in `EncoderDecoder.forward`.

    Source: Kingma and Ba 2015, arXiv:1412.6980 (Adam); Pascanu, Mikolov, Bengio 2013, arXiv:1211.5063 (clipping).
    """
    steps, batch_size = whole_numbers(steps=steps, batch_size=batch_size)
    (seed,) = whole_numbers(minimum=0, seed=seed)
    learning_rate = number("learning_rate", learning_rate, "a number above 0", lambda x: x > 0)
    clip = number("clip", clip, "a number above 0", lambda x: x > 0)
    parameters: list[Any] = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps, pct_start=0.15)
    generator, losses = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        batch = pairs.drawn(model.runs, batch_size, generator)
        loss = run_losses(model, batch, weigh)
        optimizer.zero_grad()
        loss.sum().backward()
        _clip_each_run(parameters, model.runs, clip)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def run_losses(model: EncoderDecoder, batch: Pairs, weigh: Weigh | None = None) -> Tensor:
    """The mean cross-entropy of each run's real target symbols, (R,), for a batch with (R, B) in front."""
    logits, _ = model(batch.source, batch.lengths, batch.target, weigh)
    each = F.cross_entropy(logits.flatten(0, 2), batch.target.flatten(), reduction="none").view(batch.target.shape)
    return (each * batch.real).sum((1, 2)) / batch.real.sum((1, 2))


def translated(model: EncoderDecoder, pairs: Pairs, weigh: Weigh | None = None) -> tuple[Tensor, Tensor | None]:
    """Which pairs each run gets right as a whole, (R, N) bool, symbol after symbol on its own; and the weights.

    Weights are (R, N, T, L), or None for a model without them.
    """
    every = pairs.repeated(model.runs)
    found, weights = model.translate(every.source, every.lengths, pairs.target.shape[1], weigh)
    return ((found == every.target) | ~every.real).all(dim=-1), weights


def hit_rate(weights: Tensor, pairs: Pairs) -> Tensor:
    """Of the real target symbols that can be read somewhere, the share whose largest weight lies there: (R,).

    Args:
        weights: (R, N, T, L).
    """
    readable = pairs.gold.any(dim=-1) & pairs.real
    largest = weights.argmax(dim=-1, keepdim=True)
    hit = pairs.gold.expand(len(weights), *pairs.gold.shape).gather(-1, largest)[..., 0] & readable
    return hit.sum((1, 2)) / readable.sum()


def parameters_of_a_run(model: EncoderDecoder) -> int:
    """How many numbers one run learns."""
    return sum(parameter.numel() for parameter in model.parameters()) // model.runs


def _clip_each_run(parameters: list[Any], runs: int, clip: float) -> None:
    gradients = [p.grad.view(-1, runs, p.grad[0].numel()) for p in parameters if p.grad is not None]
    norm = torch.stack([gradient.square().sum((0, 2)) for gradient in gradients]).sum(0).sqrt()
    factor = (clip / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor[:, None])
