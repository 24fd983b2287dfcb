"""alignment: each score in plain loops, what each may reach, weights that sum to one, dead rows, hard weights."""

import math

import pytest
import torch
from oracle import normal

import mhalib
from mhalib import alignment

#: float64: sums of at most 12 products of numbers of about 1.
EXACT = 1e-13
FRONT = [(), (2,), (3, 2)]
SIZES = [(1, 1, 1), (5, 7, 3), (4, 4, 6)]  # Lq, Lk, width


def pairs(front, lq, lk, width, key_width=None):
    return normal(*front, lq, width, seed=0), normal(*front, lk, key_width or width, seed=1)


def each_pair(score, query, key):
    """Scores of every pair of rows by `score(q, k)`, numbers in and a number out."""
    flat = [x.reshape(-1, *x.shape[-2:]).tolist() for x in (query, key)]
    rows = [[[score(q, k) for k in one_key] for q in one_query] for one_query, one_key in zip(*flat, strict=True)]
    return torch.tensor(rows, dtype=torch.float64).reshape(*query.shape[:-1], key.shape[-2])


def within(found, expected):
    return found.shape == expected.shape and bool(((found - expected).abs() < EXACT).all())


@pytest.mark.parametrize("front", FRONT)
@pytest.mark.parametrize("sizes", SIZES)
def test_additive_scores_are_the_formula(front, sizes):
    query, key = pairs(front, *sizes)
    v = normal(sizes[2], seed=2)
    numbers = v.tolist()
    expected = each_pair(
        lambda q, k: sum(n * math.tanh(a + b) for n, a, b in zip(numbers, q, k, strict=True)), query, key
    )
    assert within(alignment.additive_scores(query, key, v), expected)


def test_additive_scores_take_a_v_of_each_run():
    query, key = pairs((3, 2), 4, 5, 6)
    v = normal(3, 1, 6, seed=2)
    found = alignment.additive_scores(query, key, v)
    for run in range(3):
        assert within(found[run], alignment.additive_scores(query[run], key[run], v[run, 0]))


@pytest.mark.parametrize("front", FRONT)
@pytest.mark.parametrize("sizes", SIZES)
def test_products_are_the_formulas(front, sizes):
    lq, lk, width = sizes
    query, key = pairs(front, *sizes)
    dot = each_pair(lambda q, k: sum(a * b for a, b in zip(q, k, strict=True)), query, key)
    assert within(alignment.dot_scores(query, key), dot)
    query, key = pairs(front, lq, lk, width, width + 2)
    weight = normal(width, width + 2, seed=2)
    rows = weight.tolist()
    general = each_pair(
        lambda q, k: sum(q[a] * rows[a][b] * k[b] for a in range(len(q)) for b in range(len(k))), query, key
    )
    assert ((alignment.general_scores(query, key, weight) - general).abs() < 10 * EXACT).all()


@pytest.mark.parametrize("front", FRONT)
def test_concat_is_additive_with_its_matrix_cut_in_two(front):
    query, key = pairs(front, 4, 5, 3, 6)
    weight, v = normal(9, 7, seed=2), normal(7, seed=3)
    found = alignment.concat_scores(query, key, weight, v)
    assert within(found, alignment.additive_scores(query @ weight[:3], key @ weight[3:], v))


def test_additive_scores_are_bounded_and_products_are_not():
    query, key = pairs((), 6, 7, 5)
    v = normal(5, seed=2)
    for size in (1.0, 1e3, 1e6):
        assert alignment.additive_scores(size * query, size * key, v).abs().max() <= v.abs().sum() * (1 + 1e-12)
    assert alignment.dot_scores(1e3 * query, 1e3 * key).abs().max() > 1e5


@pytest.mark.parametrize("front", FRONT)
def test_soft_align_is_the_formula(front):
    scores, value = normal(*front, 4, 5, seed=0), normal(*front, 5, 3, seed=1)
    context, weights = alignment.soft_align(scores, value)
    for s, v, w, c in zip(*(x.reshape(-1, *x.shape[-2:]) for x in (scores, value, weights, context)), strict=True):
        for row in range(4):
            exponentials = [math.exp(number) for number in s[row].tolist()]
            expected = torch.tensor([number / sum(exponentials) for number in exponentials], dtype=torch.float64)
            assert within(w[row], expected)
            assert within(c[row], sum(expected[j] * v[j] for j in range(5)))


def test_soft_align_is_our_attention_with_the_scores_as_its_bias():
    scores, value = normal(2, 3, 4, 5, seed=0), normal(2, 3, 5, 6, seed=1)
    query, key = torch.zeros(2, 3, 4, 2, dtype=torch.float64), normal(2, 3, 5, 2, seed=2)
    output, weights = mhalib.attention(query, key, value, bias=scores, return_weights=True)
    context, aligned = alignment.soft_align(scores, value)
    assert within(context, output)
    assert within(aligned, weights)


@pytest.mark.parametrize("rows", [1, 4])
def test_what_is_masked_has_no_weight_and_no_say(rows):
    scores, value = normal(2, 4, 5, seed=0).requires_grad_(), normal(2, 5, 3, seed=1)
    mask = torch.ones(2, rows, 5, dtype=torch.bool)
    mask[0, :, 3:] = False
    mask[1, 0] = False  # with one row: no query of the second sequence may align to anything
    context, weights = alignment.soft_align(scores, value, mask)
    dead = ~mask.any(-1).expand(2, 4)
    assert (weights[~mask.expand(2, 4, 5)] == 0).all()
    assert ((weights.sum(-1) - (~dead).double()).abs() < EXACT).all()
    assert (context[dead] == 0).all()
    short, _ = alignment.soft_align(scores[:1, :, :3], value[:1, :3])
    assert within(context[:1], short)
    (gradient,) = torch.autograd.grad(context.sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient[~mask.expand(2, 4, 5)] == 0).all()


def test_large_scores_do_not_overflow():
    scores = torch.tensor([[1e6, 1e6 - 1.0, -1e6]], dtype=torch.float64)
    _, weights = alignment.soft_align(scores, torch.ones(3, 1, dtype=torch.float64))
    assert torch.allclose(weights, torch.tensor([[1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0.0]], dtype=torch.float64))


# Hard weights.


def test_hard_weights_are_on_the_largest_score():
    scores = torch.tensor([[0.5, 2.0, 2.0, -math.inf], [-1.0, -3.0, -math.inf, -2.0]])
    assert alignment.hard_weights(scores).tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert not alignment.hard_weights(scores.requires_grad_()).requires_grad


def test_drawn_weights_come_as_often_as_the_soft_ones_say():
    """10,000 draws: four standard deviations of a share p are at most 4 · √(p (1 - p) / 10,000) ≤ 0.02."""
    scores = torch.tensor([0.0, 1.0, -math.inf, 2.0], dtype=torch.float64).expand(10_000, 4)
    drawn = alignment.hard_weights(scores, torch.Generator().manual_seed(0))
    assert (drawn.sum(-1) == 1).all()
    assert (drawn[:, 2] == 0).all()
    assert ((drawn.mean(0) - scores[0].softmax(-1)).abs() < 0.02).all()


def test_draws_follow_their_generator():
    scores = normal(50, 6, seed=0)
    first, again, other = (alignment.hard_weights(scores, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda q, k: alignment.dot_scores(q, k[..., :2]), ValueError, r"key: got shape \(2, 5, 2\) for query"),
        (lambda q, k: alignment.dot_scores(q, k[0]), ValueError, "of one width, with the same dimensions in front"),
        (lambda q, k: alignment.dot_scores(q, [1.0]), TypeError, "key: got list"),
        (lambda q, k: alignment.additive_scores(q, k, torch.zeros(4)), ValueError, r"v: got shape \(4,\)"),
        (lambda q, k: alignment.additive_scores(q, k[..., :1], torch.zeros(3)), ValueError, "key: got shape"),
        (lambda q, k: alignment.general_scores(q, k, torch.zeros(3, 4)), ValueError, r"weight: got .* \(3, 3\)"),
        (lambda q, k: alignment.concat_scores(q, k, torch.zeros(3, 4), q[0, 0]), ValueError, r"weight: .*\(6, 3\)"),
        (lambda q, k: alignment.soft_align(q, k), ValueError, "value: got 5 for 3 scores a query"),
        (lambda q, k: alignment.soft_align(q, k[0]), ValueError, r"value: got shape \(5, 3\) for scores"),
        (lambda q, k: alignment.soft_align(q @ k.mT, k, torch.ones(2, 4, 5)), ValueError, "mask: got torch.float32"),
        (lambda q, k: alignment.soft_align(q @ k.mT, k, torch.ones(5) > 0), ValueError, r"mask: got .* \(5,\)"),
        (lambda q, k: alignment.hard_weights(q[..., :0]), ValueError, "scores: got shape"),
    ],
)
def test_refused(call, error, says):
    query, key = (x.float() for x in pairs((2,), 4, 5, 3))
    with pytest.raises(error, match=says):
        call(query, key)
