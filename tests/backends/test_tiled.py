"""Attention tile by tile: the numbers of the formula for any tile sizes, in memory that grows with N, not with N²."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import (
    DTYPES,
    OPTIONS,
    PROPERTY,
    SMALL,
    TALL,
    Budget,
    Shape,
    accumulator,
    assert_gradients,
    assert_output,
    assert_within,
    coin,
    floor,
    gradients_of,
    inputs,
    leaves,
    may_see,
    normal,
    option,
    score_shape,
    truth,
    upstream,
)
from torch.utils._python_dispatch import TorchDispatchMode

import mhalib
from mhalib import tiled
from mhalib.backends.tiles import Tiles

#: (block_q, block_k): single entries; sizes that divide no length below, and differ; one tile for all.
BLOCKS = [(1, 1), (1, 7), (7, 1), (7, 7), (7, 64), (64, 7), (64, 64), (1000, 1000)]
#: 17 × 33 and 65 × 17, neither a multiple of 7 or 64; groups of 3; Dv beside D.
WIDE, LONG = Shape(1, 6, 2, 17, 33, 8, 5), Shape(2, 3, 1, 65, 17, 5, 8)
INF = math.inf


def sources_of(qkv, bias):
    return {"query": qkv[0], "key": qkv[1], "value": qkv[2], "bias": bias}


def check(shape, dtype, options, blocks, what):
    """Output, log-sum-exp, and the gradient of both, against the loops."""
    qkv, bias = inputs(shape, dtype), options.pop("bias", None)
    grad_output = upstream(shape, dtype)
    grad_lse = normal(*shape.scores[:3], seed=23, dtype=accumulator(dtype))
    expected = truth(*qkv, bias=bias, **options, grad_output=grad_output, grad_lse=grad_lse)
    *qkv, bias = leaves(*qkv, bias)
    output, lse = tiled.attention(*qkv, bias=bias, **options, block_q=blocks[0], block_k=blocks[1])
    assert_output(output, expected, shape, dtype, what)
    assert lse.dtype == accumulator(dtype)
    assert_within(lse, expected.lse, Budget.of(shape, dtype, expected.reach).lse, f"{what}, lse")
    alive = expected.lse > -INF
    total = (output * grad_output).to(accumulator(dtype)).sum() + (lse * grad_lse)[alive].sum()
    gradients = gradients_of(total, torch.ones_like(total), **sources_of(qkv, bias))
    assert_gradients(gradients, expected, shape, dtype, what)


# ------------------------------------------------------------------------------------------ against the loops


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_any_tile_sizes_give_the_numbers_of_the_formula(blocks, name):
    for shape in (SMALL, TALL) if min(blocks) == 1 else (SMALL, TALL, WIDE, LONG):
        check(shape, torch.float64, option(name, shape, torch.float64), blocks, f"{name}, {shape}")


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_accumulates_in_float32_or_better(dtype, name):
    for shape in (WIDE, TALL):
        check(shape, dtype, option(name, shape, dtype), (7, 5), f"{name}, {shape}")


@pytest.mark.parametrize("hidden", [False, True], ids=["alone", "with mask"])
@pytest.mark.parametrize("name", ["Lq,Lk", "BHQK", "1HQK", "B1QK", "B11K", "1H1K", "11Q1", "B1Q1", "1H11", "1111"])
def test_gradient_of_a_bias_in_each_shape(name, hidden):
    """A bias that is 1 along a dimension collects the gradients of all tiles along it."""
    for shape in (SMALL, WIDE):
        options = {"mask": coin(*shape.scores, seed=32)} if hidden else {}
        bias = normal(*score_shape(name, shape), seed=33)
        check(shape, torch.float64, options | {"bias": bias}, (4, 3), name)


def test_gradient_of_an_expanded_bias():
    """The gradient of each entry, and so of the number behind all of them: 0, as it moves all scores alike."""
    number = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    output, lse = tiled.attention(*inputs(SMALL), bias=number.expand(SMALL.scores), block_q=2, block_k=3)
    (grad,) = torch.autograd.grad(output.sum(), number, retain_graph=True)
    assert_within(grad, torch.zeros_like(grad), 1e-12, "a constant in all scores")
    (grad,) = torch.autograd.grad(lse.sum(), number)
    # The log-sum-exp moves with it, one for one, in 2 · 6 · 5 rows.
    assert_within(grad, torch.full_like(grad, 60.0), 1e-12, "log-sum-exp")


def test_a_gradient_that_arrives_at_lse_alone():
    """d lse / d scores are the weights: so the query's gradient is the weighted mean of the keys, times the scale."""
    q, k, v = leaves(*inputs(SMALL))
    _, lse = tiled.attention(q, k, v, block_q=2, block_k=3, causal=True)
    grads = torch.autograd.grad(lse.sum(), (q, k, v), materialize_grads=True)
    _, weights = mhalib.attention(q, k, v, causal=True, return_weights=True, backend="reference")
    expected = weights @ k.repeat_interleave(3, 1) / math.sqrt(8)
    assert_within(grads[0], expected, 1e-13, "query")
    expected = (weights.mT @ q / math.sqrt(8)).unflatten(1, (2, 3)).sum(2)
    assert_within(grads[1], expected, 1e-13, "key")
    assert not grads[2].any()


@pytest.mark.parametrize("options", ["plain", "softcap+bias+causal", "everything"])
def test_gradcheck(options):
    """Against differences, without the formula of the loops."""
    shape = Shape(1, 4, 2, 3, 5, 3, 2)
    options = option(options, shape, torch.float64)
    *qkv, bias = leaves(*inputs(shape), options.pop("bias", None))

    def outputs(q, k, v, bias=None):
        output, lse = tiled.attention(q, k, v, bias=bias, **options, block_q=2, block_k=2)
        return output, lse.masked_fill(lse == -INF, 0.0)

    assert torch.autograd.gradcheck(outputs, [x for x in (*qkv, bias) if x is not None])


def test_scores_too_large_for_exp():
    """Scores of 3000: exp overflows from 710 on, and the running maximum grows from tile to tile."""
    for dtype in (torch.float64, torch.float32, torch.float16):
        q, k, v = inputs(Shape(1, 2, 1, 3, 9, 1, 4), dtype)
        q, k = q.abs() + 1, torch.linspace(-3000, 3000, 9).to(dtype)[None, None, :, None]
        expected = truth(q, k, v, scale=1.0)
        output, lse = tiled.attention(q, k, v, scale=1.0, block_q=2, block_k=2)
        u = torch.finfo(accumulator(dtype)).eps
        # The last key is ahead of the others by more than 700: the output is its value, to the last bit.
        assert torch.equal(output, v[:, :, -1:].expand(1, 2, 3, 4))
        assert_within(lse, expected.lse, 2 * u * expected.lse.abs(), "lse")


def test_the_backend_is_these_tiles(monkeypatch):
    options = option("everything", WIDE, torch.float64)
    monkeypatch.setattr(tiled, "BLOCK_Q", 6)
    monkeypatch.setattr(tiled, "BLOCK_K", 10)
    output, lse = mhalib.attention(*inputs(WIDE), **options, backend="tiled", return_lse=True)
    expected = tiled.attention(*inputs(WIDE), **options, block_q=6, block_k=10)
    assert torch.equal(output, expected[0])
    assert torch.equal(lse, expected[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_does_not_round_the_scores(dtype):
    """Its matrix products would be bfloat16, and with them the scores that go into exp."""
    shape, grad = WIDE, upstream(WIDE, torch.bfloat16)
    results = []
    for enabled in (False, True):
        # Under autocast the inputs are converted, and nothing else is.
        qkv = leaves(*(x if enabled else x.bfloat16() for x in inputs(shape, dtype)))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            output, lse = tiled.attention(*qkv, causal=True, block_q=8, block_k=8)
            results.append((output, lse, *torch.autograd.grad(output, qkv, grad)))
    for plain, under in zip(*results, strict=True):
        assert torch.equal(plain.to(under.dtype), under)


# ------------------------------------------------------------------------------------------------------ dropout


def with_seed(seed, *qkv, **options):
    torch.manual_seed(seed)
    return tiled.attention(*qkv, **options)


def test_the_same_seed_drops_the_same_weights():
    qkv = inputs(WIDE)
    first, lse = with_seed(1, *qkv, dropout=0.4, block_q=5, block_k=8)
    again, _ = with_seed(1, *qkv, dropout=0.4, block_q=5, block_k=8)
    other, _ = with_seed(2, *qkv, dropout=0.4, block_q=5, block_k=8)
    plain, plain_lse = tiled.attention(*qkv, block_q=5, block_k=8)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.allclose(first, plain)
    assert torch.equal(lse, plain_lse)  # weights are dropped after the softmax


def test_tiles_drop_different_weights():
    """With the identity as values the output is the weights used; the same pattern in each tile would be a grid."""
    shape = Shape(1, 2, 2, 16, 16, 4, 16)
    q, k, _ = inputs(shape)
    v = torch.eye(16, dtype=torch.float64).expand(1, 2, 16, 16)
    kept = with_seed(0, q, k, v, dropout=0.5, block_q=4, block_k=4)[0] != 0
    patterns = kept.unflatten(2, (4, 4)).unflatten(4, (4, 4)).permute(2, 4, 0, 1, 3, 5).flatten(0, 1).flatten(1)
    assert len({tuple(pattern.tolist()) for pattern in patterns}) == 16


def test_dropout_is_right_on_average():
    """Over 400 seeds the mean of a dropped output is the output; the standard deviation is measured beside it."""
    qkv = inputs(Shape(1, 4, 2, 3, 11, 4, 4))
    plain, _ = tiled.attention(*qkv, block_q=2, block_k=4)
    runs = torch.stack([with_seed(seed, *qkv, dropout=0.3, block_q=2, block_k=4)[0] for seed in range(400)])
    error = (runs.mean(0) - plain).abs() / (runs.std(0) / math.sqrt(400))
    # 48 numbers, each within five standard deviations of its mean: fails by chance once in 40,000 draws of seeds.
    assert error.max() < 5
    assert runs.std(0).min() > 0.01


@pytest.mark.parametrize("name", ["plain", "mask_full", "softcap+bias+causal"])
def test_gradients_with_dropout_are_those_of_the_weights_kept(name):
    """What is dropped depends on the seed alone: seen with the identity as values, then put into the formula."""
    shape, seed = Shape(2, 4, 2, 7, 9, 4, 3), 5
    options = option(name, shape, torch.float64) | {"block_q": 3, "block_k": 4}
    q, k, v = inputs(shape)
    identity = torch.eye(9, dtype=torch.float64).expand(2, 2, 9, 9)
    kept = with_seed(seed, q, k, identity, **options, dropout=0.4)[0] != 0
    assert 0 < kept.sum() < kept.numel()
    grad, results = upstream(shape, torch.float64), []
    for by_tiles in (True, False):
        *qkv, bias = leaves(q, k, v, options.get("bias"))
        if by_tiles:
            output, _ = with_seed(seed, *qkv, **(options | {"bias": bias}), dropout=0.4)
        else:
            rest = {key: x for key, x in options.items() if not key.startswith("b")}
            weights = mhalib.attention(*qkv, bias=bias, **rest, backend="reference", return_weights=True)[1]
            output = weights * kept / 0.6 @ qkv[2].repeat_interleave(2, 1)
        results.append({"output": output} | gradients_of(output, grad, **sources_of(qkv, bias)))
    for what, expected in results[1].items():
        assert expected.abs().max() > 0.1
        # Sums over 7 queries of 2 heads of terms of size about 1.
        assert_within(results[0][what], expected, 1e-12, what)


@pytest.mark.parametrize("name", ["plain", "softcap+bias+causal"])
def test_backward_repeats_what_forward_dropped(name):
    """Against differences, the seed being set before each evaluation."""
    shape = Shape(1, 4, 2, 3, 5, 3, 2)
    options = option(name, shape, torch.float64)
    *qkv, bias = leaves(*inputs(shape), options.pop("bias", None))

    def output(q, k, v, bias=None):
        return with_seed(3, q, k, v, bias=bias, **options, dropout=0.4, block_q=2, block_k=2)[0]

    assert torch.autograd.gradcheck(output, [x for x in (*qkv, bias) if x is not None])


# ----------------------------------------------------------------------------------------- second derivatives


def test_second_derivatives_are_those_of_the_formula():
    """Not a wrong number, not a term that silently has no gradient."""
    qkv, arriving = leaves(*inputs(SMALL)), upstream(SMALL, torch.float64).requires_grad_()
    results = []
    for run in (tiled.attention, lambda *x: mhalib.attention(*x, backend="reference", return_lse=True)):
        output, lse = run(*qkv)
        first = torch.autograd.grad((output, lse), qkv, (arriving, lse.detach()), create_graph=True)
        results.append(torch.autograd.grad(sum(x.pow(2).sum() for x in first), (*qkv, arriving)))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want)
    assert torch.autograd.gradgradcheck(lambda *x: tiled.attention(*x), leaves(*inputs(Shape(1, 2, 1, 2, 3, 2, 2))))


# -------------------------------------------------------------------------------------------------------- merge


def attend_to(keys, q, k, v):
    """Attention over the given keys alone."""
    return tiled.attention(q, k[:, :, keys], v[:, :, keys], block_q=3, block_k=2)


#: Sums of at most 12 terms of size about 1, in float64, twice.
MERGED = 1e-13


@PROPERTY
@given(owners=st.lists(st.integers(0, 4), min_size=1, max_size=12), seed=st.integers(0, 10**6))
def test_merged_parts_are_the_whole(owners, seed):
    """Key j is given to part owners[j]; a part may get none."""
    shape = Shape(2, 4, 2, 3, len(owners), 4, 3)
    qkv, owners = inputs(shape, seed=seed), torch.tensor(owners)
    parts = [attend_to((owners == owner).nonzero().flatten(), *qkv) for owner in range(5)]
    whole = mhalib.attention(*qkv, backend="reference", return_lse=True)
    merged = tiled.merge(parts)
    assert_within(merged[0], whole[0], MERGED, "output")
    assert_within(merged[1], whole[1], MERGED, "lse")


def three_parts(dtype=torch.float64):
    qkv = inputs(Shape(1, 4, 2, 5, 12, 4, 3), dtype)
    return [attend_to(keys, *qkv) for keys in (slice(0, 2), slice(2, 9), slice(9, 12))]


def test_merge_is_commutative_and_associative():
    a, b, c = three_parts()
    whole = tiled.merge([a, b, c])
    assert (whole[0] - a[0]).abs().max() > 0.1  # the parts are not alike
    for order in permutations((a, b, c)):
        assert_within(tiled.merge(order)[0], whole[0], MERGED, "order")
        assert_within(tiled.merge(order)[1], whole[1], MERGED, "order")
    for other in (tiled.merge([tiled.merge([a, b]), c]), tiled.merge([a, tiled.merge([b, c])])):
        assert_within(other[0], whole[0], MERGED, "brackets")
        assert_within(other[1], whole[1], MERGED, "brackets")


def test_merging_one_part_changes_nothing():
    part = three_parts()[0]
    output, lse = tiled.merge([part])
    assert torch.equal(output, part[0])
    assert_within(lse, part[1], 1e-15 * part[1].abs(), "lse")


def test_a_part_that_saw_no_key_counts_for_nothing():
    """lse −inf, output 0: alone, beside others, and among more of its kind."""
    part = three_parts()[0]
    nothing = (torch.zeros_like(part[0]), torch.full_like(part[1], -INF))
    for parts in ([part, nothing], [nothing, part], [nothing, part, nothing]):
        output, lse = tiled.merge(parts)
        assert torch.equal(output, part[0])
        assert_within(lse, part[1], 1e-15 * part[1].abs(), "lse")
    output, lse = tiled.merge([nothing, nothing])
    assert not output.any()
    assert (lse == -INF).all()


def test_merging_rows_of_which_some_are_dead():
    shape = Shape(2, 4, 2, 7, 5, 4, 3)  # causal, and two queries before the first key
    q, k, v = inputs(shape)
    mask = mhalib.masks.causal(7, 5)
    parts = [tiled.attention(q, k[:, :, s], v[:, :, s], mask=mask[:, s]) for s in (slice(0, 2), slice(2, 5))]
    expected = mhalib.attention(q, k, v, causal=True, backend="reference", return_lse=True)
    for got, want in zip(tiled.merge(parts), expected, strict=True):
        assert_within(got, want, MERGED, "merged")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_merge_keeps_the_dtype_and_adds_in_float32(dtype):
    shape = Shape(1, 4, 2, 5, 12, 4, 3)
    qkv = inputs(shape, dtype)
    expected = truth(*qkv)
    output, lse = tiled.merge(three_parts(dtype))
    assert (output.dtype, lse.dtype) == (dtype, torch.float32)
    # Each part was rounded to the dtype once, the result is once more.
    budget = 2 * Budget.of(shape, dtype, expected.reach).forward
    assert_within(output, expected.output, budget * expected.sizes["output"] + floor(dtype), "output")
    assert_within(lse, expected.lse, 2 * Budget.of(shape, dtype, expected.reach).lse, "lse")


def test_a_gradient_flows_through_a_merge():
    """The gradient that reaches a part's lse is what makes it right."""
    shape = Shape(1, 4, 2, 5, 12, 4, 3)
    expected = truth(*inputs(shape), grad_output=upstream(shape, torch.float64))
    qkv = leaves(*inputs(shape))
    output, _ = tiled.merge([attend_to(keys, *qkv) for keys in (slice(0, 2), slice(2, 9), slice(9, 12))])
    gradients = gradients_of(output, upstream(shape, torch.float64), query=qkv[0], key=qkv[1], value=qkv[2])
    assert_gradients(gradients, expected, shape, torch.float64, "merged")


@pytest.mark.parametrize("parts", [[], ()], ids=str)
def test_merging_nothing_is_refused(parts):
    with pytest.raises(ValueError, match=r"parts: got none; accepted is at least one \(output, lse\)"):
        tiled.merge(parts)


# ------------------------------------------------------------------------------------------------------- memory


class Largest(TorchDispatchMode):
    """The bytes of the largest storage that any operation returned."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, torch.Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return result


def largest_storage(length, attend):
    qkv = leaves(*inputs(Shape(1, 2, 2, length, length, 8, 8), torch.float32))
    with Largest() as seen:
        attend(*qkv).sum().backward()
    return seen.bytes


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 40}, {"softcap": 3.0}, {"dropout": 0.1}], ids=str)
def test_no_tensor_of_lq_times_lk_is_ever_made(options):
    """Forward and backward: nothing larger than the inputs, or than a tile. The reference shows that this is seen."""

    def by_tiles(*qkv):
        return tiled.attention(*qkv, **options, block_q=32, block_k=32)[0]

    def written_out(*qkv):
        return mhalib.attention(*qkv, **options, backend="reference")

    inputs_of = {length: 2 * length * 8 * 4 for length in (512, 1024)}
    for length, size in inputs_of.items():
        assert largest_storage(length, by_tiles) == size
        assert largest_storage(length, written_out) >= 2 * length * length * 4


@pytest.mark.parametrize("with_bias", [False, True])
def test_saved_for_backward_are_inputs_output_and_lse(with_bias):
    qkv = leaves(*inputs(WIDE))
    bias = normal(1, 6, 1, WIDE.lk, seed=1).requires_grad_() if with_bias else None
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        output, lse = tiled.attention(*qkv, bias=bias, causal=True, softcap=2.0, dropout=0.1, block_q=8, block_k=8)
    allowed = [*qkv, *([bias] if with_bias else []), output, lse]
    # Beside them one number, the seed of the dropout.
    assert {x.data_ptr() for x in saved if x.numel() > 1} == {x.data_ptr() for x in allowed}
    assert max(x.numel() for x in saved) < WIDE.lq * WIDE.lk * WIDE.heads


# -------------------------------------------------------------------------------------------------- tiles skipped


@pytest.fixture
def computed(monkeypatch):
    """The tiles that are computed, (rows, columns), in order."""
    computed, scores = [], Tiles.scores

    def spy(self, rows, cols):
        computed.append((rows, cols))
        return scores(self, rows, cols)

    monkeypatch.setattr(Tiles, "scores", spy)
    return computed


RESTRICTIONS = [
    {},
    {"causal": True},
    {"window": 1},
    {"window": 6},
    {"window": 1, "causal": True},
    {"window": 6, "causal": True},
    {"key_lengths": torch.tensor([5, 11])},
    {"key_lengths": torch.tensor([0, 0])},
    {"causal": True, "window": 4, "key_lengths": torch.tensor([9, 2])},
]


@pytest.mark.parametrize("lengths", [(12, 12), (5, 19), (19, 5), (1, 19), (19, 1)], ids=str)
@pytest.mark.parametrize("options", RESTRICTIONS, ids=str)
def test_a_tile_is_computed_if_and_only_if_it_shows_something(options, lengths, computed):
    """Every visible pair lies in one tile, once; a tile without a visible pair is not computed, forward or backward."""
    (lq, lk), lengths_of = lengths, options.get("key_lengths")
    if lengths_of is not None:
        options = options | {"key_lengths": lengths_of.clamp(max=lk)}
        lengths_of = options["key_lengths"].tolist()
    visible = torch.zeros(lq, lk, dtype=torch.int64)
    for i in range(lq):
        for j in range(lk):
            rules = {"causal": options.get("causal", False), "window": options.get("window")}
            visible[i, j] = any(may_see(i, j, lq, lk, **rules, length=n) for n in lengths_of or [None])
    qkv = leaves(*inputs(Shape(2, 2, 1, lq, lk, 4, 4)))
    output, _ = tiled.attention(*qkv, **options, block_q=3, block_k=4)
    forward = list(computed)
    covered = torch.zeros(lq, lk, dtype=torch.int64)
    for rows, cols in forward:
        covered[rows, cols] += 1
        assert visible[rows, cols].any(), f"{rows}, {cols} shows nothing"
    assert torch.equal(covered * visible, visible)
    output.sum().backward()
    assert computed == 2 * forward


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 16),
        ({"causal": True}, 10),  # 1 + 2 + 3 + 4
        ({"window": 16, "causal": True}, 7),  # 16 keys for the first block, 31 for each of the others: 1 + 2 + 2 + 2
        ({"window": 16}, 10),  # 31, 46, 46 and 31 keys: 2 + 3 + 3 + 2
        ({"key_lengths": torch.tensor([17, 3])}, 8),  # two of four
    ],
)
def test_number_of_tiles(options, count, computed):
    tiled.attention(*inputs(Shape(2, 2, 1, 64, 64, 4, 4)), **options, block_q=16, block_k=16)
    assert len(computed) == count


def test_with_a_window_the_number_of_tiles_grows_with_n(computed):
    counts = []
    for length in (128, 256, 512):
        computed.clear()
        tiled.attention(*inputs(Shape(1, 1, 1, length, length, 4, 4)), window=16, causal=True, block_q=16, block_k=16)
        counts.append(len(computed))
    assert counts == [15, 31, 63]


# ----------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", ["block_q", "block_k"])
@pytest.mark.parametrize(
    ("size", "error"), [(0, ValueError), (-3, ValueError), (8.0, TypeError), (None, TypeError), (True, TypeError)]
)
def test_block_sizes(name, size, error):
    with pytest.raises(error, match=rf"{name}: got {size}; accepted is an integer of at least 1"):
        tiled.attention(*inputs(SMALL), **{name: size})


def test_weights_are_refused():
    words = "tiles are thrown away, the weights are never held together"
    with pytest.raises(ValueError, match=f"return_weights: got True; not to be had here: {words}"):
        tiled.attention(*inputs(SMALL), return_weights=True)
    with pytest.raises(ValueError, match=f"backend: 'tiled' cannot serve this request: {words}; take 'reference'"):
        mhalib.attention(*inputs(SMALL), backend="tiled", return_weights=True)


def test_what_attention_refuses_is_refused_here():
    q, k, v = inputs(SMALL)
    for changes, words in (
        ({"mask": torch.ones(5, 7)}, "mask: got a torch.float32 tensor"),
        ({"mask": torch.ones(1, 7, dtype=torch.bool)}, r"mask: got shape \(1, 7\)"),
        ({"window": 0}, "window: got 0"),
        ({"dropout": 1.0}, r"dropout: got 1\.0"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            tiled.attention(q, k, v, **changes)
    with pytest.raises(TypeError, match=r"unexpected .*'is_causal'"):
        tiled.attention(q, k, v, is_causal=True)
