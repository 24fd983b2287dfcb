"""training: `fit` is the plain loop it says it is, seeded, stops where it should, and its bar holds no time."""

import io
import math
import sys
from contextlib import redirect_stdout

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mhalib import training


def problem(count=50, seed=0):
    """Points in the plane, class 1 above a line: (N, 2) float64, (N,) int64."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return points, (points.sum(1) > 0.3).long()


def small_model(dropout=0.0, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2)).double()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_fit_takes_the_steps_of_adamw_written_out():
    """Moments, bias correction, decay beside the gradient and the cycle of the rate, in plain arithmetic."""
    points, classes = problem(24)
    torch.manual_seed(0)
    model = nn.Linear(2, 2, bias=False).double()
    weight = model.weight.detach().clone()
    history = training.fit(
        model, points, classes, epochs=5, batch_size=24, learning_rate=0.1, weight_decay=0.3, progress=False
    )
    first, second, losses = torch.zeros_like(weight), torch.zeros_like(weight), []
    for step in range(5):
        # OneCycleLR: up from 0.1 / 25 during the first 30 % of the steps, then down to 0.1 / 25 / 10⁴, as cosines.
        rate, beta = one_cycle(step, 5, 0.1)
        probabilities = (points @ weight.T).softmax(-1)
        losses.append(-probabilities[torch.arange(24), classes].log().mean().item())
        gradient = (probabilities - F.one_hot(classes, 2)).T @ points / 24
        first = beta * first + (1 - beta) * gradient
        second = 0.999 * second + 0.001 * gradient**2
        weight = weight * (1 - rate * 0.3)
        weight = weight - rate * (first / (1 - beta ** (step + 1))) / (
            (second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
        )
    assert history.loss == pytest.approx(losses, abs=1e-12)
    assert (model.weight - weight).abs().max() < 1e-12


def one_cycle(step, steps, peak):
    """Learning rate and first beta of a step; the beta falls from 0.95 to 0.85 where the rate rises."""

    def between(start, end, share):
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    top = 0.3 * steps - 1
    if step <= top:
        return between(peak / 25, peak, step / top), between(0.95, 0.85, step / top)
    share = (step - top) / (steps - 1 - top)
    return between(peak, peak / 25 / 1e4, share), between(0.85, 0.95, share)


def test_every_example_counts_once_an_epoch_and_the_loss_is_their_mean():
    """A model that does not move (rate 0) shows the order of the batches, and a mean over unequal batches."""
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(1))

        def forward(self, batch):
            seen.append(batch[:, 0].int().tolist())
            return batch + 0 * self.bias

    inputs = torch.arange(10.0)[:, None]
    history = training.fit(
        Spy(), inputs, inputs.clone() * 0, epochs=2, batch_size=4, learning_rate=1e-12, loss=F.mse_loss, progress=False
    )
    assert [len(batch) for batch in seen] == [4, 4, 2] * 2
    first, second = ([*seen[at], *seen[at + 1], *seen[at + 2]] for at in (0, 3))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second != list(range(10))
    assert history.loss == pytest.approx([sum(i**2 for i in range(10)) / 10] * 2)


def test_the_seed_decides_order_and_dropout_and_the_global_generator_is_left_alone():
    points, classes = problem()
    results = {}
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        model = small_model(dropout=0.5)
        torch.manual_seed({"one": 10, "again": 20, "other": 10}[name])  # must not matter
        before = torch.get_rng_state()
        history = training.fit(model, points, classes, epochs=3, batch_size=16, seed=seed, progress=False)
        assert torch.equal(torch.get_rng_state(), before)
        results[name] = weights(model), history.loss
    assert torch.equal(results["one"][0], results["again"][0])
    assert results["one"][1] == results["again"][1]
    assert not torch.equal(results["one"][0], results["other"][0])


def test_fit_learns_a_line():
    points, classes = problem(400)
    model = small_model()
    history = training.fit(model, points, classes, epochs=30, learning_rate=3e-2, progress=False)
    assert history.loss[-1] < history.loss[0] / 4
    assert training.accuracy(training.predict(model, points), classes) > 0.97
    assert (len(history.loss), history.score, history.best_epoch) == (30, [], 29)
    assert history.seconds > 0


def stopping(scores, patience, epochs=8):
    """Fit with scores that are dictated; returns the history, the model's weights, and those after each epoch."""
    points, classes = problem()
    model, after, given = small_model(), [], iter([*scores, *[0.0] * epochs])

    def score(outputs, targets):
        assert outputs.shape == (7, 2)
        assert torch.equal(targets, classes[:7])
        after.append(weights(model))
        return next(given)

    held_out = points[:7], classes[:7]
    history = training.fit(
        model, points, classes, epochs=epochs, held_out=held_out, score=score, patience=patience, progress=False
    )
    return history, weights(model), after


@pytest.mark.parametrize(
    ("scores", "patience", "run", "best"),
    [
        ([0.1, 0.5, 0.4, 0.5, 0.9], 2, 4, 1),  # an equal score is not a better one
        ([0.1, 0.5, 0.4, 0.6, 0.5, 0.5, 0.9], 2, 6, 3),
        ([0.5, 0.4, 0.9], 1, 2, 0),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], 1, 8, 7),
        ([0.1, 0.9, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], 7, 8, 1),  # all epochs run, and the best weights come back
    ],
)
def test_patience_stops_and_the_best_weights_come_back(scores, patience, run, best):
    history, final, after = stopping(scores, patience)
    assert (len(history.loss), history.best_epoch) == (run, best)
    assert history.score == scores[:run]
    assert torch.equal(final, after[best])


def test_without_patience_all_epochs_run_and_the_last_weights_stay():
    history, final, after = stopping([0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], None)
    assert (len(history.score), history.best_epoch) == (8, 7)
    assert torch.equal(final, after[7])
    assert not torch.equal(final, after[0])


def test_training_trains_in_training_mode_scores_in_evaluation_mode_and_ends_in_it():
    modes = []

    class Spy(nn.Linear):
        def forward(self, batch):
            modes.append((len(batch), self.training))
            return super().forward(batch)

    points, classes = problem(20)
    model = Spy(2, 2).double().eval()
    training.fit(model, points, classes, epochs=2, batch_size=20, held_out=(points[:3], classes[:3]), progress=False)
    assert modes == [(20, True), (3, False)] * 2
    assert not model.training


def test_predict_goes_in_batches_and_puts_the_mode_back():
    model = small_model(dropout=0.5).train()
    points = problem(11)[0]
    outputs = training.predict(model, points, batch_size=4)
    assert model.training
    assert not outputs.requires_grad
    assert (outputs - model.eval()(points)).abs().max() < 1e-15
    assert not training.predict(model, points).isnan().any()
    assert not model.training


def test_accuracy_of_one_class_and_of_several():
    logits = torch.tensor([[2.0, 1.0, -1.0], [0.5, 3.0, 1.0], [-1.0, -2.0, -3.0], [1.0, -1.0, 2.0]])
    assert training.accuracy(logits, torch.tensor([0, 1, 1, 2])) == 0.75
    several = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert training.accuracy(logits, several) == 0.5


def test_a_loss_that_is_no_number_stops_with_advice():
    points, classes = problem()
    points[3] = math.nan
    with pytest.raises(FloatingPointError, match="loss: became nan; try a lower learning_rate"):
        training.fit(small_model(), points, classes, epochs=1, progress=False)


# The bar.


def shown(text):
    """What a notebook keeps of a stream: each line from its last carriage return on."""
    return "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))


def test_what_stays_of_the_bar_is_the_same_each_time():
    points, classes = problem()
    texts = []
    for _ in range(2):
        stream = io.StringIO()
        with redirect_stdout(stream):
            training.fit(small_model(), points, classes, epochs=12)
        texts.append(shown(stream.getvalue()))
    assert texts == ["training " + "#" * 20 + " 12/12, 00:00 left\n"] * 2


def test_a_bar_that_is_left_early_says_what_was_done():
    stream = io.StringIO()
    with redirect_stdout(stream):
        for step in training.progress_bar(range(9), "looking"):
            if step == 3:
                break
    assert shown(stream.getvalue()) == "looking " + "#" * 20 + " 4/4, 00:00 left\n"


def test_progress_false_needs_no_tqdm_and_prints_nothing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    points, classes = problem()
    training.fit(small_model(), points, classes, epochs=1, progress=False)
    assert capsys.readouterr().out == ""
    with pytest.raises(ImportError, match=r"needs tqdm: pip install tqdm; progress=False"):
        training.fit(small_model(), points, classes, epochs=1)


# Refused.

HELD_OUT = problem(4)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"model": "model"}, TypeError, "model: got str"),
        ({"inputs": [[0.0, 1.0]]}, TypeError, "inputs: got list"),
        ({"targets": problem(49)[1]}, ValueError, r"inputs \(50, 2\), targets \(49,\)"),
        ({"inputs": torch.zeros(0, 2), "targets": torch.zeros(0)}, ValueError, "one or more examples"),
        ({"targets": torch.tensor(1)}, ValueError, "one or more examples"),
        ({"inputs": torch.zeros(50, 2, device="meta")}, ValueError, "inputs: is on meta, the model on cpu"),
        ({"epochs": 0}, ValueError, "epochs: got 0"),
        ({"epochs": 2.0}, TypeError, "epochs: got 2.0"),
        ({"batch_size": 0}, ValueError, "batch_size: got 0"),
        ({"seed": -1}, ValueError, "seed: got -1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate: got 0.0"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate: got str 'fast'"),
        ({"weight_decay": -0.1}, ValueError, "weight_decay: got -0.1"),
        ({"patience": 2}, ValueError, "patience: needs held_out"),
        ({"score": training.accuracy}, ValueError, "score: needs held_out"),
        ({"patience": 0, "held_out": HELD_OUT}, ValueError, "patience: got 0"),
        ({"held_out": HELD_OUT[0]}, TypeError, "held_out: got Tensor"),
        ({"held_out": (HELD_OUT[0], None)}, TypeError, r"held_out\[1\]: got NoneType"),
    ],
)
def test_fit_refuses(change, error, says):
    points, classes = problem()
    arguments = {"model": small_model(), "inputs": points, "targets": classes, "epochs": 1, "progress": False}
    with pytest.raises(error, match=says):
        training.fit(**(arguments | change))


def test_accuracy_refuses_what_it_cannot_compare():
    with pytest.raises(ValueError, match=r"targets: got torch.int32 \(3,\) for outputs \(3, 2\)"):
        training.accuracy(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int32))
    with pytest.raises(TypeError, match="targets: got list"):
        training.accuracy(torch.zeros(3, 2), [0, 1, 1])
