"""encoder_decoder and recurrent: torch's own layers run by run, the papers' steps in a loop, what depends on what."""

import math

import pytest
import torch
from oracle import normal
from torch import nn

from mhalib.alignment import additive_scores, hard_weights
from mhalib.encoder_decoder import EncoderDecoder
from mhalib.recurrent import Encoder, RunEmbedding, RunGRU, RunLinear

RUNS, BATCH, LENGTH, STEPS = 3, 4, 6, 5
#: float64: a few hundred roundings of numbers of about 1, through 11 recurrent steps.
EXACT = 1e-12
KINDS = [
    *[("additive", "previous"), ("additive", "current"), ("general", "previous"), ("general", "current")],
    *[("dot", "previous"), ("dot", "current"), ("table", "previous"), ("table", "current"), (None, "previous")],
]


def model_of(score="additive", asks="previous", **options):
    torch.manual_seed(0)
    if score == "table":
        options["table"] = (STEPS, LENGTH)
    model = EncoderDecoder(RUNS, 9, 8, score=score, asks=asks, hidden=6, embedding=4, dtype=torch.float64, **options)
    if score == "table":
        nn.init.normal_(model.table)
    return model


def batch_of(seed=0):
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(1, 9, (RUNS, BATCH, LENGTH), generator=generator)
    lengths = torch.tensor([[6, 1, 3, 5]]).expand(RUNS, BATCH)
    target = torch.randint(1, 8, (RUNS, BATCH, STEPS), generator=generator)
    return source, lengths, target


def near(found, expected):
    return found.shape == expected.shape and bool(((found - expected).abs() < EXACT).all())


def torch_gru(ours, run):
    """torch's cell with the weights of one of our runs."""
    width, hidden = ours.from_input.weight.shape[1], ours.hidden
    theirs = nn.GRUCell(width, hidden, dtype=torch.float64)
    with torch.no_grad():
        theirs.weight_ih.copy_(ours.from_input.weight[run].T)
        theirs.weight_hh.copy_(ours.from_state.weight[run].T)
        theirs.bias_ih.copy_(ours.from_input.bias[run, 0])
        theirs.bias_hh.copy_(ours.from_state.bias[run, 0])
    return theirs


def linear(ours, run, x):
    return x @ ours.weight[run] + (0 if ours.bias is None else ours.bias[run])


def test_each_run_of_the_parts_is_torchs_layer():
    torch.manual_seed(0)
    maps, table, gru = (
        RunLinear(RUNS, 5, 4, dtype=torch.float64),
        RunEmbedding(RUNS, 7, 5, dtype=torch.float64),
        RunGRU(RUNS, 5, 6, dtype=torch.float64),
    )
    symbols, state = torch.randint(7, (RUNS, 2, 3)), normal(RUNS, 2, 6, seed=1)
    for run in range(RUNS):
        embedded = nn.functional.embedding(symbols[run], table.weight[run])
        assert near(table(symbols)[run], embedded)
        assert near(maps(table(symbols))[run], linear(maps, run, embedded))
        after = gru.step(gru.project(table(symbols))[:, :, 0], state)
        assert near(after[run], torch_gru(gru, run)(embedded[:, 0], state[run]))


@pytest.mark.parametrize("both_ways", [False, True])
def test_encoder_is_torchs_gru_on_each_sequence_alone(both_ways):
    """Without padding, forwards and backwards, for each run and each sequence by itself."""
    torch.manual_seed(0)
    encoder = Encoder(RUNS, 9, 6, embedding=4, both_ways=both_ways, dtype=torch.float64)
    source, lengths, _ = batch_of()
    states, last, real = encoder(source, lengths)
    for run in range(RUNS):
        cells = [torch_gru(encoder.recurrence, run + direction * RUNS) for direction in range(1 + both_ways)]
        for row, length in enumerate(lengths[run].tolist()):
            x = encoder.embed.weight[run][source[run, row, :length]]
            halves = []
            for cell, order in zip(cells, (range(length), reversed(range(length))), strict=False):
                state, found = torch.zeros(1, cell.hidden_size, dtype=torch.float64), {}
                for place in order:
                    state = found[place] = cell(x[place : place + 1], state)
                halves.append((torch.cat([found[place] for place in range(length)]), state[0]))
            assert near(states[run, row, :length], torch.cat([half for half, _ in halves], dim=-1))
            assert near(last[run, row], torch.cat([end for _, end in halves]))
            assert real[run, row].tolist() == [place < length for place in range(LENGTH)]


@pytest.mark.parametrize(("score", "asks"), KINDS)
def test_decoder_is_the_papers_steps_one_after_the_other(score, asks):
    """One run, one sequence, one step at a time, from the annotations on."""
    model, (source, lengths, target) = model_of(score, asks), batch_of()
    logits, weights = model(source, lengths, target)
    read = model.encode(source, lengths)
    for run in range(RUNS):
        cell = torch_gru(model.recurrence, run)
        for row, length in enumerate(lengths[run].tolist()):
            h, end = read.states[run, row, :length], read.last[run, row]
            state, symbol = torch.tanh(linear(model.start, run, end[None])), 0
            for step in range(STEPS):
                x = model.embed.weight[run][symbol][None]
                if asks == "current" and score:
                    state = cell(x, state)
                if score is None:
                    context = end[None]
                else:
                    if score == "additive":
                        key = linear(model.key_proj, run, h)
                        e = additive_scores(linear(model.query_proj, run, state), key, model.v[run, 0])[0]
                    elif score == "table":
                        e = model.table[run, 0, step, :length]
                    else:
                        asked = linear(model.query_proj, run, state) if score == "general" else state
                        e = (h @ asked[0]).clone()
                    a = e.softmax(-1)
                    assert near(weights[run, row, step, :length], a)
                    assert (weights[run, row, step, length:] == 0).all()
                    context = (a @ h)[None]
                if asks == "previous" or score is None:
                    shift = context @ model.from_context.weight[run]  # the context's columns of the input matrix
                    state = with_shift(cell, x, state, shift)
                mixed = torch.tanh(linear(model.combine, run, torch.cat([context, state], dim=-1)))
                assert near(logits[run, row, step], linear(model.readout, run, mixed)[0])
                symbol = int(target[run, row, step])
    assert (weights is None) == (score is None)


def with_shift(cell, x, state, shift):
    """torch's cell with `shift` added to what the input contributes."""
    wider = nn.GRUCell(x.shape[1] + shift.shape[1], cell.hidden_size, dtype=torch.float64)
    with torch.no_grad():
        wider.weight_ih.copy_(torch.cat([cell.weight_ih, torch.eye(shift.shape[1], dtype=torch.float64)], dim=1))
        for name in ("weight_hh", "bias_ih", "bias_hh"):
            getattr(wider, name).copy_(getattr(cell, name))
    return wider(torch.cat([x, shift], dim=-1), state)


@pytest.mark.parametrize(("score", "asks"), KINDS)
def test_translate_is_forward_on_its_own_symbols(score, asks):
    model, (source, lengths, _) = model_of(score, asks), batch_of()
    symbols, weights = model.translate(source, lengths, STEPS)
    logits, expected = model(source, lengths, symbols)
    assert torch.equal(symbols, logits.argmax(-1))
    assert score is None or near(weights, expected)


@pytest.mark.parametrize(("score", "asks"), KINDS)
def test_runs_and_sequences_do_not_meet(score, asks):
    """What one run, or one sequence, is given reaches no other; nor does what stands behind the end of a source."""
    model, (source, lengths, target) = model_of(score, asks), batch_of()
    logits, _ = model(source, lengths, target)
    other = source.clone()
    other[0, 0], other[1, 2, 3:] = 1, 7
    changed = (model(other, lengths, target)[0] - logits).abs().amax((2, 3)) > EXACT
    assert changed.nonzero().tolist() == [[0, 0]]
    gradient = torch.autograd.grad(logits[1].sum(), model.readout.weight)[0].abs().amax((1, 2))
    assert (gradient > 0).tolist() == [False, True, False]


@pytest.mark.parametrize(("score", "asks"), KINDS)
def test_no_step_sees_the_target_it_is_to_find(score, asks):
    model, (source, lengths, target) = model_of(score, asks), batch_of()
    logits, _ = model(source, lengths, target)
    other = target.clone()
    other[:, :, 2] = (target[:, :, 2] + 1) % 8
    moved = (model(source, lengths, other)[0] - logits).abs().amax((0, 1, 3)) > EXACT
    assert moved.tolist() == [False, False, False, True, True]


def test_the_previous_state_asks_before_it_hears_the_last_symbol():
    """At step t, Bahdanau's weights know the symbols before t - 1; Luong's know that of t - 1 as well."""
    source, lengths, target = batch_of()
    other = target.clone()
    other[:, :, 2] = (target[:, :, 2] + 1) % 8
    for asks, first in (("previous", 4), ("current", 3)):
        model = model_of("additive", asks)
        moved = (model(source, lengths, other)[1] - model(source, lengths, target)[1]).abs().amax((0, 1, 3)) > EXACT
        assert moved.tolist() == [step >= first for step in range(STEPS)]


def test_one_vector_sees_nothing_else_of_the_source():
    model, (source, lengths, target) = model_of(None), batch_of()
    logits, _ = model(source, lengths, target)
    gradients = torch.autograd.grad(logits.sum(), model.encode(source, lengths).states, allow_unused=True)
    assert gradients == (None,)


@pytest.mark.parametrize("asks", ["previous", "current"])
def test_weigh_takes_the_place_of_the_softmax(asks):
    model, (source, lengths, target) = model_of("general", asks), batch_of()
    seen = []

    def weigh(scores, step):
        seen.extend(range(step, step + scores.shape[2]))
        assert (scores.isinf().sum(-1) == LENGTH - lengths[..., None]).all()
        return hard_weights(scores)

    _, weights = model(source, lengths, target, weigh)
    assert seen == list(range(STEPS))
    assert sorted(weights.unique().tolist()) == [0, 1]
    seen.clear()
    symbols, drawn = model.translate(source, lengths, STEPS, weigh)
    assert seen == list(range(STEPS))
    assert torch.equal(symbols, model(source, lengths, symbols, weigh)[0].argmax(-1))
    assert torch.equal(drawn, model(source, lengths, symbols, weigh)[1])


def test_a_table_is_the_same_for_every_source():
    model = model_of("table", "current")
    (source, _, target), full = batch_of(), torch.full((RUNS, BATCH), LENGTH)
    _, weights = model(source, full, target)
    assert near(weights, model.table.softmax(-1).expand(RUNS, BATCH, -1, -1))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: EncoderDecoder(2, 9, 8, score="cosine"), ValueError, "score: got 'cosine'; accepted are 'additive'"),
        (lambda: EncoderDecoder(2, 9, 8, asks="next"), ValueError, "asks: got 'next'"),
        (lambda: EncoderDecoder(2, 9, 8, score="table"), ValueError, "table: got None for score='table'"),
        (lambda: EncoderDecoder(2, 9, 8, table=(3, 4)), ValueError, "table: got"),
        (lambda: EncoderDecoder(2, 9, 8, hidden=5), ValueError, "hidden: got 5; accepted is an even number"),
        (lambda: EncoderDecoder(0, 9, 8), ValueError, "runs: got 0"),
        (lambda: EncoderDecoder(2, 9, 8, both_ways=1), TypeError, "both_ways: got 1"),
        (lambda: model_of().encode(torch.ones(RUNS, 2, dtype=torch.int64), None), TypeError, "lengths: got NoneType"),
        (lambda: called(lengths=torch.zeros(RUNS, BATCH, dtype=torch.int64)), ValueError, "lengths: got 0 … 0"),
        (lambda: called(lengths=torch.full((RUNS, BATCH), 7)), ValueError, "lengths: got 7 … 7; accepted is 1 … 6"),
        (lambda: called(source=torch.full((RUNS, BATCH, LENGTH), 9)), ValueError, "symbols: got 9 … 9"),
        (lambda: called(source=torch.ones(RUNS, BATCH, LENGTH)), ValueError, "symbols: got torch.float32"),
        (lambda: called(target=torch.ones(RUNS, 1, STEPS, dtype=torch.int64)), ValueError, "target: got shape"),
        (lambda: model_of().translate(*batch_of()[:2], 0), ValueError, "steps: got 0"),
        (lambda: model_of("table").translate(*batch_of()[:2], 6), ValueError, "table: got 6 steps"),
        (lambda: RunLinear(2, 3, 4)(torch.zeros(2, 3)), ValueError, r"x: got shape \(2, 3\)"),
    ],
)
def test_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


def called(**changed):
    source, lengths, target = batch_of()
    return model_of()(**({"source": source, "lengths": lengths, "target": target} | changed))


def test_starts_are_those_that_are_said():
    torch.manual_seed(0)
    weight = RunLinear(50, 16, 20).weight
    assert 0.249 < weight.abs().max() <= 1 / math.sqrt(16)
    gru = RunGRU(50, 9, 4)
    assert 0.499 < gru.from_input.weight.abs().max() <= 0.5
    assert abs(RunEmbedding(50, 9, 16).weight.std() - 1) < 0.05
