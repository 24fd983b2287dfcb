"""Which key changes which row of the output: with `causal` those up to the query's own place, and no other."""

from functools import partial

import pytest
import torch
from oracle import BACKEND_NAMES, DTYPES, Shape, gradients_of, inputs, leaves, may_see, normal
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from mhalib import masks

#: Lq at, below and above Lk; one token against a cache; lengths beside a power of two.
LENGTHS = [(6, 6), (4, 7), (7, 4), (1, 5), (17, 33), (33, 17)]


def shape_of(lq, lk):
    return Shape(2, 4, 2, lq, lk, 8, 6)


def influence(attend, shape, dtype=torch.float64):
    """bool (Lq, Lk): entry (i, j) is True where a change of key and value j changes any bit of output row i."""
    q, k, v = inputs(shape, dtype)
    before = attend(q, k, v)
    columns = []
    for j in range(shape.lk):
        other_k, other_v = k.clone(), v.clone()
        other_k[:, :, j] = -3 * k[:, :, j] + 1
        other_v[:, :, j] += 2
        after = attend(q, other_k, other_v)
        columns.append((after != before).any(-1).any(1).any(0))
    return torch.stack(columns, dim=1)


def visible(shape, window=None):
    """The contract's causal mask, entry by entry."""
    lq, lk = shape.lq, shape.lk
    rows = [[may_see(i, j, lq, lk, causal=True, window=window, length=None) for j in range(lk)] for i in range(lq)]
    return torch.tensor(rows)


def assert_sees_exactly(attend, shape, expected, dtype=torch.float64):
    found = influence(attend, shape, dtype)
    leaked, blind = found & ~expected, expected & ~found
    assert not leaked.any(), f"row {leaked.nonzero()[0].tolist()[0]} changes with key {leaked.nonzero()[0].tolist()[1]}"
    assert not blind.any(), f"row {blind.nonzero()[0].tolist()[0]} misses key {blind.nonzero()[0].tolist()[1]}"


# ---------------------------------------------------------------------------------------------- the function


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_a_row_sees_the_keys_up_to_its_own_and_no_other(backend, lengths):
    shape = shape_of(*lengths)
    for options, expected in (
        ({}, visible(shape)),
        ({"bias": normal(*lengths, seed=1)}, visible(shape)),
        ({"window": 3}, visible(shape, window=3)),
        ({"mask": torch.ones(*lengths, dtype=torch.bool)}, visible(shape)),
        ({"key_lengths": torch.tensor([shape.lk, shape.lk])}, visible(shape)),
    ):
        assert_sees_exactly(partial(mhalib.attention, causal=True, backend=backend, **options), shape, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_no_later_key_changes_a_bit_in_any_dtype(backend, dtype):
    """Half precision may round an influence away, so only leaks are looked for."""
    for lengths in LENGTHS:
        shape = shape_of(*lengths)
        found = influence(lambda q, k, v: mhalib.attention(q, k, v, causal=True, backend=backend), shape, dtype)
        assert not (found & ~visible(shape)).any()
        assert found.any()


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_no_gradient_flows_to_a_later_key(backend):
    for lengths in LENGTHS[:4]:
        shape = shape_of(*lengths)
        q, k, v = leaves(*inputs(shape))
        for i in range(shape.lq):
            row = mhalib.attention(q, k, v, causal=True, backend=backend)[:, :, i]
            flow = gradients_of(row, torch.ones_like(row), query=q, key=k, value=v)
            seen = visible(shape)[i]
            assert (flow["value"].abs().sum((0, 1, 3)) > 0).tolist() == seen.tolist()
            assert not flow["key"].abs().sum((0, 1, 3))[~seen].any()
            others = torch.arange(shape.lq) != i
            assert not flow["query"][:, :, others].any()


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_decoding_one_token_sees_the_whole_cache(backend):
    """O03: torch's is_causal shows a single query key 0 only; here the last query stands at the last key."""
    q, k, v = inputs(Shape(1, 2, 2, 5, 5, 8, 8))
    whole = mhalib.attention(q, k, v, causal=True, backend=backend)
    step = mhalib.attention(q[:, :, -1:], k, v, causal=True, backend=backend)
    # The same sums of 8 and 5 terms, perhaps in another order.
    assert torch.allclose(step, whole[:, :, -1:], rtol=0, atol=1e-14)
    theirs = scaled_dot_product_attention(q[:, :, -1:], k, v, is_causal=True)
    assert torch.allclose(theirs, v[:, :, :1], rtol=0, atol=1e-14)


# -------------------------------------------------------------------------------------------------- the layer


@pytest.mark.parametrize("extra", ["plain", "grouped", "rotary", "window", "need_weights", "train"])
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_layer_leaks_nothing(backend, extra):
    torch.manual_seed(0)
    layer = mhalib.MultiHeadAttention(
        24,
        4,
        num_kv_heads=2 if extra == "grouped" else None,
        rotary=mhalib.RotaryEmbedding(6) if extra == "rotary" else None,
        window=3 if extra == "window" else None,
        backend="auto" if extra == "need_weights" else backend,
        dtype=torch.float64,
    ).train(extra == "train")
    x = normal(2, 9, 24, seed=1)
    before = layer(x, causal=True, need_weights=extra == "need_weights")[0]
    for t in range(9):
        other = x.clone()
        other[:, t:] = 5 * other[:, t:] + 1
        after = layer(other, causal=True, need_weights=extra == "need_weights")[0]
        assert torch.equal(after[:, :t], before[:, :t])
        assert (after[:, t:] != before[:, t:]).any(-1).all()


@pytest.mark.parametrize("extra", ["plain", "window"])
def test_layer_across_sequences_is_aligned_at_the_bottom_right(extra):
    torch.manual_seed(0)
    window = 3 if extra == "window" else None
    layer = mhalib.MultiHeadAttention(12, 2, window=window, dtype=torch.float64)
    x, y = normal(1, 3, 12, seed=1), normal(1, 5, 12, seed=2)
    before = layer(x, y, causal=True)[0]
    found = []
    for j in range(5):
        other = y.clone()
        other[:, j] += 1
        found.append((layer(x, other, causal=True)[0] != before).any(-1)[0])
    assert torch.equal(torch.stack(found, dim=1), visible(shape_of(3, 5), window))


# ------------------------------------------------------------------------------- these tests find a wrong mask


def _wrong(name, lq, lk):
    ones = torch.ones(lq, lk, dtype=torch.bool)
    return {
        "top left": ones.tril(),
        "one key too many": ones.tril(lk - lq + 1),
        "one key too few": ones.tril(lk - lq - 1),
        "flipped": ~masks.causal(lq, lk),
        "none": ones,
    }[name]


@pytest.mark.parametrize("lengths", [(4, 7), (7, 4)], ids=str)
@pytest.mark.parametrize("name", ["top left", "one key too many", "one key too few", "flipped", "none"])
def test_a_wrong_mask_is_found(name, lengths):
    shape = shape_of(*lengths)
    mask = _wrong(name, *lengths)
    assert not torch.equal(mask, visible(shape))
    with pytest.raises(AssertionError, match=r"row . (changes with|misses) key"):
        assert_sees_exactly(lambda q, k, v: mhalib.attention(q, k, v, mask=mask), shape, visible(shape))


@pytest.mark.parametrize("lengths", [(4, 7), (7, 4)], ids=str)
def test_torchs_own_corner_is_found(lengths):
    """O03: correct at equal lengths, another corner otherwise."""

    def theirs(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    assert_sees_exactly(theirs, shape_of(6, 6), visible(shape_of(6, 6)))
    with pytest.raises(AssertionError, match=r"row . (changes with|misses) key"):
        assert_sees_exactly(theirs, shape_of(*lengths), visible(shape_of(*lengths)))
