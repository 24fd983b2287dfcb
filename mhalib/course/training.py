"""`fit`: a training loop to read in a minute. AdamW, one cycle of the learning rate, a progress bar, early stopping.

The chapters train small models on small data with it; nothing in it belongs to attention.
"""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import check_flags, check_tensors, check_whole, number, require, whole_numbers


class History(NamedTuple):
    """What `fit` saw: one number for each epoch that was run."""

    loss: list[float]  #: mean training loss of the epoch
    score: list[float]  #: score on the held-out data after the epoch; empty without `held_out`
    best_epoch: int  #: the epoch, from 0, whose weights the model now has
    seconds: float  #: on the clock, for all epochs


def fit(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    epochs: int,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    weight_decay: float = 0.05,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    held_out: tuple[Tensor, Tensor] | None = None,
    score: Callable[[Tensor, Tensor], float] | None = None,
    patience: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> History:
    """Train `model` in place; the learning rate rises to `learning_rate` and falls again, once.

    `seed` decides the order of the batches and what dropout drops; torch's own generators are left as they were.
    The weights at the start are the caller's: build the model after `torch.manual_seed`.

    Args:
        model: called as `model(batch)`; returns what `loss` takes. Left in evaluation mode.
        inputs, targets: (N, …) each, on the model's device.
        loss: called as `loss(outputs, targets)`; returns the mean over the batch.
        held_out: (inputs, targets) to score after each epoch. What decides when to stop is no longer test data.
        score: called as `score(outputs, targets)`, higher is better; None is `accuracy`.
        patience: stop once this many epochs in a row brought no better score, and go back to the best weights. None
            runs all the epochs and keeps the last weights.
        progress: show a progress bar (needs tqdm).

    Raises:
        FloatingPointError: the loss is no longer finite.

    Source: Loshchilov and Hutter 2019, arXiv:1711.05101 (AdamW); Smith and Topin 2018, arXiv:1708.07120 (one cycle).
    """
    _check_data(model, inputs=inputs, targets=targets)
    _check_stopping(held_out, score, patience)
    epochs, batch_size = whole_numbers(epochs=epochs, batch_size=batch_size)
    (seed,) = whole_numbers(minimum=0, seed=seed)
    check_flags(progress=progress)
    learning_rate = number("learning_rate", learning_rate, "a number above 0", lambda x: x > 0)
    weight_decay = number("weight_decay", weight_decay, "a number of at least 0", lambda x: x >= 0)
    batches = math.ceil(len(inputs) / batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=epochs * batches)
    losses, scores, best_epoch, best_weights, began = [], [], 0, None, time.perf_counter()
    with torch.random.fork_rng(devices=[inputs.device] if inputs.is_cuda else []):
        torch.manual_seed(seed)
        for epoch in progress_bar(range(epochs), "training") if progress else range(epochs):
            losses.append(_one_epoch(model, inputs, targets, loss, batch_size, optimizer, schedule))
            if held_out is not None:
                scores.append(float((score or accuracy)(predict(model, held_out[0]), held_out[1])))
            if patience is None:
                best_epoch = epoch
            elif epoch == 0 or scores[-1] > scores[best_epoch]:
                best_epoch, best_weights = epoch, copy.deepcopy(model.state_dict())
            elif epoch - best_epoch >= patience:
                break
    if best_weights is not None:
        model.load_state_dict(best_weights)
    model.eval()
    return History(losses, scores, best_epoch, time.perf_counter() - began)


def _one_epoch(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> float:
    """Every example once, in random order; the mean loss over the examples."""
    model.train()
    total = 0.0
    for chosen in torch.randperm(len(inputs)).to(inputs.device).split(batch_size):
        batch_loss = loss(model(inputs[chosen]), targets[chosen])
        if not torch.isfinite(batch_loss):
            raise FloatingPointError(
                f"loss: became {batch_loss.item()}; try a lower learning_rate, and look for NaN in the inputs"
            )
        optimizer.zero_grad()
        batch_loss.backward()
        optimizer.step()
        schedule.step()
        total += batch_loss.item() * len(chosen)
    return total / len(inputs)


@torch.no_grad()
def predict(model: nn.Module, inputs: Tensor, batch_size: int = 512) -> Tensor:
    """`model(inputs)` in evaluation mode, a batch at a time, without gradients; the model's mode is put back."""
    _check_data(model, inputs=inputs)
    (batch_size,) = whole_numbers(batch_size=batch_size)
    was_training = model.training
    model.eval()
    outputs = torch.cat([model(batch) for batch in inputs.split(batch_size)])
    model.train(was_training)
    return outputs


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The share of rows that are right, from 0 to 1.

    Args:
        outputs: (N, classes) logits.
        targets: (N,) int64 classes: right is the largest logit. Or (N, classes) floats of 0 and 1, several classes a
            row: right is the row whose logits are above 0 for exactly these classes.
    """
    check_tensors(outputs=outputs, targets=targets)
    if targets.dtype == torch.int64 and targets.shape == outputs.shape[:1]:
        right = outputs.argmax(-1) == targets
    elif targets.is_floating_point() and targets.shape == outputs.shape:
        right = ((outputs > 0) == (targets > 0.5)).all(-1)
    else:
        raise ValueError(
            f"targets: got {targets.dtype} {tuple(targets.shape)} for outputs {tuple(outputs.shape)}; accepted are "
            "int64 (N,) or floats of the outputs' shape; for anything else pass a score of your own"
        )
    return right.double().mean().item()


def progress_bar(steps: Sequence[Any], label: str) -> Iterator[Any]:
    """`steps`, one by one, with tqdm's bar: steps done, and the time left.

    It goes to standard output, and what stays of it holds no time: a notebook can be compared with its last run.
    """
    tqdm = require("tqdm", by="the progress bar", instead="progress=False trains without it").tqdm
    form = "{desc} {bar:20} {n_fmt}/{total_fmt}, {remaining} left"
    with tqdm(total=len(steps), desc=label, file=sys.stdout, bar_format=form, ascii=" #") as bar:
        try:
            for step in steps:
                yield step
                bar.update()
        except GeneratorExit:  # the loop was left early: then nothing is left to do
            bar.update()
            bar.total = bar.n


def _check_data(model: nn.Module, **tensors: Tensor) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: got {type(model).__name__}; accepted is an nn.Module")
    check_tensors(**tensors)
    lengths = {name: x.shape[0] if x.dim() else None for name, x in tensors.items()}
    if None in lengths.values() or 0 in lengths.values() or len(set(lengths.values())) > 1:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in tensors.items())
        raise ValueError(f"got {shapes}; accepted are one or more examples along the first axis, as many in each")
    device = next(model.parameters()).device if next(model.parameters(), None) is not None else None
    for name, x in tensors.items():
        if device not in (None, x.device):
            raise ValueError(f"{name}: is on {x.device}, the model on {device}; move it with .to({str(device)!r})")


def _check_stopping(held_out: Any, score: Any, patience: int | None) -> None:
    if held_out is not None and (not isinstance(held_out, tuple) or len(held_out) != 2):
        raise TypeError(f"held_out: got {type(held_out).__name__}; accepted is a pair (inputs, targets)")
    if held_out is not None:
        check_tensors(**{"held_out[0]": held_out[0], "held_out[1]": held_out[1]})
    if held_out is None and (score is not None or patience is not None):
        name = "score" if score is not None else "patience"
        raise ValueError(f"{name}: needs held_out=(inputs, targets), the data on which the score is taken")
    if patience is not None:
        check_whole(patience=patience)
