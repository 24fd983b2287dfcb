"""Generation equals asking the model for all tokens again at each step; draws come as often as the scores say."""

import re

import pytest
import torch

from mhalib.language import Decoder, generate


def decoder(**options):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "depth": 2, "num_heads": 4, "num_kv_heads": 2}
    model = Decoder(12, **sizes, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.eval()


PROMPTS = torch.tensor([[1, 2, 3], [7, 7, 0]])


@torch.no_grad()
def one_by_one(model, text, new):
    for _ in range(new):
        text = torch.cat((text, model(text)[:, -1].argmax(-1, keepdim=True)), dim=1)
    return text


@pytest.mark.parametrize("options", [{}, {"window": 3}], ids=str)
def test_greedy_text_equals_recomputing(options):
    model = decoder(**options)
    made = generate(model, PROMPTS, 20)
    assert torch.equal(made, one_by_one(model, PROMPTS, 20))
    assert len(set(made[:, 3:].flatten().tolist())) > 3
    assert torch.equal(generate(model, PROMPTS, 0), PROMPTS)


def test_the_draw_follows_the_generator_and_the_scores():
    model = decoder()
    texts = [generate(model, PROMPTS, 9, temperature=1, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(texts[0], texts[1])
    assert not torch.equal(texts[0], texts[2])
    assert torch.equal(generate(model, PROMPTS, 9, temperature=1e-6), generate(model, PROMPTS, 9))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_their_probability(temperature):
    """4,000 draws: a frequency is off by at most 5 · √(¼ / 4,000) = 0.04, but for one time in a million."""
    model, many = decoder(), PROMPTS[:1].expand(4000, -1)
    drawn = generate(model, many, 1, temperature=temperature, generator=torch.Generator().manual_seed(0))[:, -1]
    with torch.no_grad():
        expected = (model(PROMPTS[:1])[0, -1] / temperature).softmax(-1)
    frequencies = torch.bincount(drawn, minlength=12) / 4000
    assert (frequencies - expected).abs().max() < 0.04
    assert 0.1 < expected.max() < 0.999


def test_a_text_ends_where_it_was_told_to():
    model = decoder()
    free = generate(model, PROMPTS, 20)
    stop = free[0, 6].item()
    made = generate(model, PROMPTS, 20, stop=stop)
    ends = [3 + row[3:].index(stop) + 1 if stop in row[3:] else 23 for row in free.tolist()]
    assert ends[0] < ends[1]
    assert made.shape[1] == max(ends)
    for row, whole, end in zip(made.tolist(), free.tolist(), ends, strict=True):
        assert row[:end] == whole[:end]
        assert set(row[end:]) <= {stop}
    single = generate(model, PROMPTS[:1], 20, stop=stop)
    assert single.shape[1] == 3 + free[0, 3:].tolist().index(stop) + 1


def test_dropout_is_off_and_the_mode_put_back():
    model = decoder(dropout=0.5).train()
    assert torch.equal(generate(model, PROMPTS, 9), one_by_one(decoder(), PROMPTS, 9))
    assert model.training
    with pytest.raises(ValueError, match="tokens"):
        generate(model, PROMPTS + 100, 1)
    assert model.training


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((torch.nn.Linear(2, 2), PROMPTS, 1), TypeError, "model: got Linear; accepted is a mhalib.language.Decoder"),
        ((decoder(), PROMPTS, -1), ValueError, "new: got -1; accepted is an integer of at least 0"),
        ((decoder(), PROMPTS[:, :0], 1), ValueError, "tokens: got a prompt of length 0"),
        ((decoder(), PROMPTS, 1.5), TypeError, "new: got 1.5; accepted is an integer of at least 0"),
    ],
)
def test_wrong_input_is_refused(arguments, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        generate(*arguments)


@pytest.mark.parametrize("temperature", [-1.0, float("inf"), "hot"])
def test_a_wrong_temperature_is_refused(temperature):
    with pytest.raises(
        (TypeError, ValueError), match=r"^temperature: got .*; accepted is a finite number of at least 0"
    ):
        generate(decoder(), PROMPTS, 1, temperature=temperature)
