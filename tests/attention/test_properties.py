"""What is true of attention whatever the numbers: drawn at random, in float64, for every backend."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import BACKEND_NAMES, PROPERTY, Shape, assert_within, coin, inputs, normal

import mhalib
from mhalib import attention, masks

#: A score is a sum of at most 6 products, 60 in all at the most (scale 2), so off by (6 + 4) · u · 60; a weight
#: by twice that, relatively; it meets values up to 5. Together 6e3 · u, on each of two sides.
EXACT = 6e3 * torch.finfo(torch.float64).eps

backends = pytest.mark.parametrize("backend", BACKEND_NAMES)
seeds = st.integers(0, 10**6)


@st.composite
def shapes(draw, *, square=False):
    groups, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    lq = draw(st.integers(1, 9))
    lk = lq if square else draw(st.integers(1, 9))
    sizes = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    return Shape(draw(st.integers(1, 3)), groups * kv_heads, kv_heads, lq, lk, *sizes)


def random_options(shape, seed):
    """Some of the options, each there or not as the seed says, with rows that may be dead."""
    generator = torch.Generator().manual_seed(seed)
    there = torch.rand(7, generator=generator) < 0.5
    options = {}
    if there[0]:
        options["mask"] = coin(shape.batch, 1, shape.lq, shape.lk, seed=seed)
    if there[1]:
        options["bias"] = normal(1, shape.heads, shape.lq, shape.lk, seed=seed)
    if there[2]:
        options["causal"] = True
    if there[3]:
        options["window"] = int(torch.randint(1, 6, (), generator=generator))
    if there[4]:
        options["key_lengths"] = torch.randint(0, shape.lk + 1, (shape.batch,), generator=generator)
    if there[5]:
        options["scale"] = 0.7
    if there[6]:
        options["query_lengths"] = torch.randint(0, shape.lq + 1, (shape.batch,), generator=generator)
    return options


def allowed_pairs(shape, options):
    """All restrictions as one (B, 1, Lq, Lk) mask."""
    every = torch.ones(shape.batch, 1, shape.lq, shape.lk, dtype=torch.bool) & options.get("mask", torch.tensor(True))
    if options.get("causal"):
        every = every & masks.causal(shape.lq, shape.lk)
    if "window" in options:
        every = every & masks.window(shape.lq, shape.lk, options["window"], causal=False)
    if "key_lengths" in options:
        every = every & masks.padding(options["key_lengths"], shape.lk)
    if "query_lengths" in options:
        every = every & masks.padding(options["query_lengths"], shape.lq).mT
    return every


# -------------------------------------------------------------------------------------- weights and outputs


@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_rows_of_weights_sum_to_one_or_are_dead(shape, seed):
    options = random_options(shape, seed)
    _, weights = attention(*inputs(shape, seed=seed), **options, return_weights=True)
    dead = masks.dead_rows(allowed_pairs(shape, options)).expand(shape.scores[:3])
    assert_within(weights.sum(-1), (~dead).double(), EXACT, "sum of a row")
    assert (weights >= 0).all()
    assert (weights[~allowed_pairs(shape, options).expand(shape.scores)] == 0).all()


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_output_lies_in_the_convex_hull_of_the_values_seen(backend, shape, seed):
    """Along every channel, and along random directions, no further out than the values that may be seen."""
    options = random_options(shape, seed)
    q, k, v = inputs(shape, seed=seed)
    output = attention(q, k, v, **options, backend=backend)
    seen = allowed_pairs(shape, options)[..., None]
    alive = seen.any(3)
    directions = torch.cat([torch.eye(shape.dv, dtype=v.dtype), normal(shape.dv, 4, seed=seed)], dim=1)
    reach = (v @ directions).repeat_interleave(shape.heads // shape.kv_heads, 1)[:, :, None]
    low = reach.masked_fill(~seen, math.inf).amin(3)
    high = reach.masked_fill(~seen, -math.inf).amax(3)
    inside = ((output @ directions >= low - EXACT) & (output @ directions <= high + EXACT)) | ~alive
    assert inside.all()
    assert (output[~alive.expand(output.shape)] == 0).all()


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_a_constant_added_to_a_row_of_scores_changes_nothing(backend, shape, seed):
    options = random_options(shape, seed)
    qkv = inputs(shape, seed=seed)
    bias = options.pop("bias", torch.zeros(1, 1, 1, 1, dtype=torch.float64))
    row = 5 * normal(shape.batch, shape.heads, shape.lq, 1, seed=seed + 1)
    before = attention(*qkv, bias=bias, **options, backend=backend)
    assert_within(attention(*qkv, bias=bias + row, **options, backend=backend), before, EXACT, "output")
    _, lse = attention(*qkv, bias=bias, **options, return_lse=True)
    _, shifted = attention(*qkv, bias=bias + row, **options, return_lse=True)
    assert_within(shifted, lse + row[..., 0], EXACT, "log-sum-exp, shifted by the constant")


@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_weights_are_exp_of_score_minus_lse(shape, seed):
    """The three results agree with each other: natural logarithm, same scale, same mask."""
    options = random_options(shape, seed)
    q, k, v = inputs(shape, seed=seed)
    output, weights, lse = attention(q, k, v, **options, return_weights=True, return_lse=True)
    k, v = (x.repeat_interleave(shape.heads // shape.kv_heads, 1) for x in (k, v))
    score = (q @ k.mT) * options.get("scale", shape.dim**-0.5) + options.get("bias", 0.0)
    expected = torch.where(allowed_pairs(shape, options), (score - lse[..., None]).exp(), 0.0)
    assert_within(weights, expected, EXACT, "weights")
    assert_within(output, weights @ v, EXACT, "output")


# ------------------------------------------------------------------------------------------------- symmetries


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_keys_and_values_are_a_set(backend, shape, seed):
    """Permuted together, with the columns of mask and bias, they give the same output."""
    q, k, v = inputs(shape, seed=seed)
    order = torch.randperm(shape.lk, generator=torch.Generator().manual_seed(seed))
    mask, bias = coin(*shape.scores, seed=seed), normal(*shape.scores, seed=seed)
    before = attention(q, k, v, mask=mask, bias=bias, backend=backend)
    permuted = {"mask": mask[..., order], "bias": bias[..., order]}
    after = attention(q, k[:, :, order], v[:, :, order], **permuted, backend=backend)
    assert_within(after, before, EXACT, "output")


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_permuted_queries_permute_the_rows(backend, shape, seed):
    q, k, v = inputs(shape, seed=seed)
    order = torch.randperm(shape.lq, generator=torch.Generator().manual_seed(seed))
    mask = coin(*shape.scores, seed=seed)
    before = attention(q, k, v, mask=mask, backend=backend)
    after = attention(q[:, :, order], k, v, mask=mask[:, :, order], backend=backend)
    assert_within(after, before[:, :, order], EXACT, "output")


@backends
@PROPERTY
@given(shape=shapes(square=True), seed=seeds)
def test_self_attention_is_permutation_equivariant_until_it_is_causal(backend, shape, seed):
    qkv = inputs(shape, seed=seed)
    order = torch.randperm(shape.lq, generator=torch.Generator().manual_seed(seed))
    before = attention(*qkv, backend=backend)
    after = attention(*(x[:, :, order] for x in qkv), backend=backend)
    assert_within(after, before[:, :, order], EXACT, "output")
    if shape.lq > 1:
        order = torch.arange(shape.lq).roll(1)
        before = attention(*qkv, causal=True, backend=backend)
        after = attention(*(x[:, :, order] for x in qkv), causal=True, backend=backend)
        assert not torch.allclose(after, before[:, :, order])


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_grouped_heads_are_repeated_key_heads(backend, shape, seed):
    """O15: repeated one by one (repeat_interleave), not as a block (tile)."""
    options = random_options(shape, seed)
    q, k, v = inputs(shape, seed=seed)
    groups = shape.heads // shape.kv_heads
    repeated = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    grouped = attention(q, k, v, **options, backend=backend)
    assert_within(grouped, attention(q, *repeated, **options, backend=backend), EXACT, "output")
    if 1 < shape.kv_heads < shape.heads and shape.lk > 1:
        tiled = (x.repeat(1, groups, 1, 1) for x in (k, v))
        plain = attention(q, k, v, backend=backend)
        assert not torch.allclose(plain, attention(q, *tiled, backend=backend))


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_samples_do_not_see_each_other(backend, shape, seed):
    """O09: changing sample 1 leaves sample 0 as it was, to the last bit."""
    shape = Shape(2, *(getattr(shape, name) for name in ("heads", "kv_heads", "lq", "lk", "dim", "dv")))
    options = random_options(shape, seed)
    qkv = inputs(shape, seed=seed)
    before = attention(*qkv, **options, backend=backend)
    changed = [torch.cat([x[:1], 3 * x[1:] + 1]) for x in qkv]
    after = attention(*changed, **options, backend=backend)
    assert torch.equal(after[0], before[0])
    assert_within(attention(*(x[:1] for x in qkv), backend=backend), attention(*qkv, backend=backend)[:1], EXACT, "0")


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_heads_do_not_see_each_other(backend, shape, seed):
    """Changing the last key head, and its group of queries, leaves the other groups as they were."""
    groups = shape.heads // shape.kv_heads
    q, k, v = inputs(shape, seed=seed)
    before = attention(q, k, v, backend=backend)
    k[:, -1] += 1
    v[:, -1] *= 3
    q[:, -groups:] -= 2
    after = attention(q, k, v, backend=backend)
    assert torch.equal(after[:, :-groups], before[:, :-groups])
    assert not torch.equal(after[:, -groups:], before[:, -groups:])


# -------------------------------------------------------------------------------------------------- restrictions


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_a_window_as_long_as_the_keys_is_causal_alone(backend, shape, seed):
    qkv = inputs(shape, seed=seed)
    causal = attention(*qkv, causal=True, backend=backend)
    wide = attention(*qkv, causal=True, window=max(shape.lq, shape.lk), backend=backend)
    assert_within(wide, causal, EXACT, "output")
    assert torch.equal(masks.window(shape.lq, shape.lk, shape.lk), masks.causal(shape.lq, shape.lk))


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_restrictions_are_combined_with_and(backend, shape, seed):
    """Options, or one mask made of them: the same, in any order."""
    qkv, options = inputs(shape, seed=seed), random_options(shape, seed)
    numbers = {name: options[name] for name in ("bias", "scale") if name in options}
    expected = attention(*qkv, mask=allowed_pairs(shape, options), **numbers, backend=backend)
    assert_within(attention(*qkv, **options, backend=backend), expected, EXACT, "output")


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_causal_and_key_lengths_commute(backend, shape, seed):
    qkv = inputs(shape, seed=seed)
    lengths = torch.randint(0, shape.lk + 1, (shape.batch,), generator=torch.Generator().manual_seed(seed))
    real, causal = masks.padding(lengths, shape.lk), masks.causal(shape.lq, shape.lk)
    both = attention(*qkv, causal=True, key_lengths=lengths, backend=backend)
    assert_within(attention(*qkv, causal=True, mask=real, backend=backend), both, EXACT, "causal first")
    assert_within(attention(*qkv, mask=causal, key_lengths=lengths, backend=backend), both, EXACT, "lengths first")


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds)
def test_hidden_keys_might_as_well_not_be_there(backend, shape, seed):
    q, k, v = inputs(shape, seed=seed)
    length = seed % shape.lk + 1
    hidden = attention(q, k, v, key_lengths=torch.full((shape.batch,), length), backend=backend)
    absent = attention(q, k[:, :, :length], v[:, :, :length], backend=backend)
    assert_within(hidden, absent, EXACT, "output")


# ----------------------------------------------------------------------------------------------- scale, softcap


@backends
@PROPERTY
@given(shape=shapes(), seed=seeds, scale=st.floats(-2, 2, allow_subnormal=False))
def test_scale_is_a_factor_of_the_scores(backend, shape, seed, scale):
    q, k, v = inputs(shape, seed=seed)
    expected = attention(scale * q, k, v, scale=1.0, backend=backend)
    assert_within(attention(q, k, v, scale=scale, backend=backend), expected, EXACT, "output")
    default = attention(q, k, v, scale=1 / math.sqrt(shape.dim), backend=backend)
    assert_within(attention(q, k, v, backend=backend), default, EXACT, "1/√D by default")


@PROPERTY
@given(shape=shapes(), seed=seeds, cap=st.floats(0.1, 20))
def test_softcap_bounds_the_scores(shape, seed, cap):
    """Scores within (−c, c): no weight is more than exp(2c) times another, and large caps change nothing."""
    qkv = [10 * x for x in inputs(shape, seed=seed)]
    _, weights, lse = attention(*qkv, softcap=cap, return_weights=True, return_lse=True)
    assert (weights.log().amax(-1) - weights.log().amin(-1) <= 2 * cap + EXACT).all()
    assert ((lse - math.log(shape.lk)).abs() <= cap + EXACT).all()
    _, far = attention(*inputs(shape, seed=seed), softcap=1e6, return_weights=True)
    _, free = attention(*inputs(shape, seed=seed), return_weights=True)
    # c · tanh(s / c) is off by s³ / (3 c²): for scores below 30 less than 1e-8.
    assert_within(far, free, 1e-7, "a cap far above the scores")


@backends
@pytest.mark.parametrize("dropout", [0.25, 0.5])
def test_dropout_sets_weights_to_zero_and_scales_the_others(backend, dropout):
    """With the identity as values the output is the weights that were used."""
    shape = Shape(4, 6, 3, 20, 20, 8, 20)
    q, k, _ = inputs(shape)
    v = torch.eye(20, dtype=q.dtype).expand(4, 3, 20, 20)
    _, weights = attention(q, k, v, return_weights=True)
    torch.manual_seed(0)
    used = attention(q, k, v, dropout=dropout, backend=backend)
    kept = used != 0
    assert_within(used, torch.where(kept, weights / (1 - dropout), 0.0), EXACT, "weights used")
    # 9600 coins: the share that is kept has a standard deviation of √(p(1 − p) / 9600) ≤ 0.0052; five of them.
    assert abs(kept.double().mean() - (1 - dropout)) < 5 * math.sqrt(dropout * (1 - dropout) / kept.numel())
    torch.manual_seed(0)
    assert torch.equal(attention(q, k, v, dropout=dropout, backend=backend), used)
    assert not torch.equal(attention(q, k, v, dropout=dropout, backend=backend), used)


def test_weights_are_returned_before_dropout():
    """O07: their rows sum to one, whatever was dropped; dropout changes the output only."""
    shape = Shape(2, 4, 2, 9, 9, 8, 6)
    plain, expected, lse = attention(*inputs(shape), return_weights=True, return_lse=True)
    torch.manual_seed(0)
    output, weights, lse_too = attention(*inputs(shape), dropout=0.5, return_weights=True, return_lse=True)
    assert torch.equal(weights, expected)
    assert torch.equal(lse_too, lse)
    assert not torch.allclose(output, plain)


@backends
@PROPERTY
@given(shape=shapes(square=True), seed=seeds)
def test_layer_equals_its_own_parts(backend, shape, seed):
    """MultiHeadAttention is: project, cut channels h·D … (h+1)·D − 1 for head h, attend, put back, project."""
    torch.manual_seed(seed)
    width = shape.heads * shape.dim
    layer = mhalib.MultiHeadAttention(
        width, shape.heads, num_kv_heads=shape.kv_heads, backend=backend, dtype=torch.float64
    )
    x = normal(shape.batch, shape.lq, width, seed=seed)
    parts = []
    for head in range(shape.heads):
        own, shared = head, head // (shape.heads // shape.kv_heads)
        q = layer.q_proj(x)[..., own * shape.dim : (own + 1) * shape.dim]
        k = layer.k_proj(x)[..., shared * shape.dim : (shared + 1) * shape.dim]
        v = layer.v_proj(x)[..., shared * shape.dim : (shared + 1) * shape.dim]
        parts.append(torch.softmax(q @ k.mT / math.sqrt(shape.dim), dim=-1) @ v)
    expected = layer.out_proj(torch.cat(parts, dim=-1))
    assert_within(layer(x)[0], expected, EXACT, "output")
