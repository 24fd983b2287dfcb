"""runs: a run is trained as if alone, what it reports is what it did, and it learns."""

import pytest
import torch

from mhalib.course import runs, sequences
from mhalib.encoder_decoder import EncoderDecoder

PAIRS = sequences.letters(400, (2, 4), alphabet=4)


def model_of(number=2, score="general", asks="current", seed=0):
    torch.manual_seed(seed)
    return EncoderDecoder(number, 5, 5, score=score, asks=asks, hidden=8, embedding=6, dtype=torch.float64)


def only(model, run):
    """A model of one run with the weights of this run."""
    alone = model_of(1, model.score, model.asks)
    both = 2 if model.encoder.both_ways else 1
    for name, parameter in alone.named_parameters():
        given = dict(model.named_parameters())[name].detach()
        parts = both if name.startswith("encoder.recurrence") else 1
        parameter.data = given.unflatten(0, (parts, model.runs))[:, run].clone()
    return alone


class Same:
    """Pairs of which each run draws what run `run` of two draws."""

    def __init__(self, run):
        self.run = run

    def drawn(self, number, batch_size, generator):
        both = PAIRS.drawn(2, batch_size, generator)
        return sequences.Pairs(*(field[self.run : self.run + 1] for field in both))


@pytest.mark.parametrize("run", [0, 1])
def test_a_run_among_others_learns_what_it_learns_alone(run):
    """Gradients are cut run by run: a `clip` this small cuts every one."""
    together = model_of()
    alone = only(together, run)
    options = {"steps": 5, "learning_rate": 1e-2, "batch_size": 8, "clip": 0.05}
    losses, expected = runs.train(together, PAIRS, **options), runs.train(alone, Same(run), **options)
    assert (losses[:, run] - expected[:, 0]).abs().max() < 1e-10
    after = only(together, run)
    for one, other in zip(after.parameters(), alone.parameters(), strict=True):
        assert (one - other).abs().max() < 1e-9


def test_gradients_are_cut_to_the_length_given_and_no_further():
    model = model_of()
    loss = runs.run_losses(model, PAIRS.drawn(2, 8, torch.Generator().manual_seed(0)))
    loss.sum().backward()
    parameters = list(model.parameters())

    def lengths():
        return [
            torch.stack([p.grad.unflatten(0, (-1, 2))[:, run].square().sum() for p in parameters]).sum().sqrt().item()
            for run in range(2)
        ]

    before = lengths()
    runs._clip_each_run(parameters, 2, 10 * max(before))
    assert lengths() == pytest.approx(before, rel=1e-5)
    runs._clip_each_run(parameters, 2, min(before) / 4)
    assert lengths() == pytest.approx([min(before) / 4] * 2, rel=1e-4)


def test_losses_count_the_real_symbols_only():
    model, batch = model_of(), PAIRS.drawn(2, 6, torch.Generator().manual_seed(1))
    logits, _ = model(batch.source, batch.lengths, batch.target)
    found = runs.run_losses(model, batch)
    for run in range(2):
        each = [
            -logits[run, row, step].log_softmax(-1)[batch.target[run, row, step]].item()
            for row in range(6)
            for step in range(int(batch.target_lengths[run, row]))
        ]
        assert found[run].item() == pytest.approx(sum(each) / len(each), rel=1e-12)


def test_translated_is_right_where_every_real_symbol_is():
    model = model_of(3)
    right, weights = runs.translated(model, PAIRS)
    symbols, _ = model.translate(PAIRS.repeated(3).source, PAIRS.repeated(3).lengths, 4)
    for run in range(3):
        for row in range(0, 400, 37):
            length = int(PAIRS.lengths[row])
            assert right[run, row] == (symbols[run, row, :length] == PAIRS.target[row, :length]).all()
    assert weights.shape == (3, 400, 4, 4)


def test_hit_rate_by_hand():
    """Two runs: 3 and 1 of the 4 symbols that can be read. One without a place and one behind the end do not count."""
    gold = torch.zeros(2, 3, 4, dtype=torch.bool)
    gold[0, 0, 1] = gold[0, 2, 2:] = gold[1, 0, 0] = gold[1, 1, 3] = gold[1, 2, 0] = True
    pairs = sequences.Pairs(*(torch.zeros(2, 4), torch.tensor([4, 4]), torch.zeros(2, 3), torch.tensor([3, 2])), gold)
    largest = torch.tensor([[[1, 0, 0], [0, 3, 0]], [[2, 0, 3], [1, 1, 0]]])  # (R, N, T)
    weights = torch.full((2, 2, 3, 4), 0.1).scatter(-1, largest[..., None], 0.7)
    assert runs.hit_rate(weights, pairs).tolist() == [0.75, 0.25]


def test_training_learns_to_copy():
    model = model_of(2)
    losses = runs.train(model, PAIRS, steps=160, learning_rate=2e-2)
    right, _ = runs.translated(model, PAIRS)
    assert losses.shape == (160, 2)
    assert (losses[-10:].mean(0) < losses[:5].mean(0) / 3).all()
    assert (right.double().mean(1) > 0.6).all()
    assert runs.parameters_of_a_run(model) == sum(p.numel() for p in only(model, 0).parameters())


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"steps": 0}, "steps: got 0"),
        ({"learning_rate": 0.0}, "learning_rate: got 0.0"),
        ({"clip": -1.0}, "clip: got -1.0"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_refused(changed, says):
    with pytest.raises(ValueError, match=says):
        runs.train(model_of(), PAIRS, **({"steps": 1, "learning_rate": 1e-2} | changed))
