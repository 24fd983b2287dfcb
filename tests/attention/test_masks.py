"""`mhalib.masks`: one polarity, every other library's converted, nothing ambiguous accepted."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import PROPERTY, coin, inputs, may_see
from oracle import Shape as Sizes
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from mhalib import masks

LENGTH = st.integers(0, 9)


def bools(*rows):
    return torch.tensor([[letter == "1" for letter in row] for row in rows])


# ----------------------------------------------------------------------------------------------- the blocks


def test_causal_is_aligned_at_the_bottom_right():
    assert torch.equal(masks.causal(3), bools("100", "110", "111"))
    assert torch.equal(masks.causal(2, 4), bools("1110", "1111"))
    assert torch.equal(masks.causal(4, 2), bools("00", "00", "10", "11"))
    assert torch.equal(masks.causal(1, 5), bools("11111"))


@PROPERTY
@given(lq=LENGTH, lk=LENGTH, width=st.integers(1, 11), causal=st.booleans())
def test_causal_and_window_are_the_contract_entry_by_entry(lq, lk, width, causal):
    def drawn(window):
        rows = [
            [may_see(i, j, lq, lk, causal=causal, window=window, length=None) for j in range(lk)] for i in range(lq)
        ]
        return torch.tensor(rows, dtype=torch.bool).reshape(lq, lk)

    assert torch.equal(masks.window(lq, lk, width, causal=causal), drawn(width))
    if causal:
        assert torch.equal(masks.causal(lq, lk), drawn(None))


@pytest.mark.parametrize(
    ("lq", "lk", "width", "causal", "counts"),
    [
        (7, 7, 3, True, [1, 2, 3, 3, 3, 3, 3]),  # the last three keys, the query's own included
        (7, 7, 3, False, [3, 4, 5, 5, 5, 4, 3]),  # two beside it on each side
        (7, 7, 1, True, [1] * 7),
        (7, 7, 1, False, [1] * 7),
        (3, 7, 3, True, [3, 3, 3]),  # decoding: the queries are the last three of seven
        (3, 7, 3, False, [5, 4, 3]),
        (5, 3, 2, True, [0, 0, 1, 2, 2]),  # the first two queries stand before every key
        (5, 3, 2, False, [0, 1, 2, 3, 2]),
    ],
)
def test_window_counts_keys_in_the_middle_and_at_both_ends(lq, lk, width, causal, counts):
    """O20: a window of 3 shows three keys."""
    assert masks.window(lq, lk, width, causal=causal).sum(-1).tolist() == counts


def test_padding_keeps_the_leading_keys():
    got = masks.padding(torch.tensor([0, 2, 3]), 3)
    assert got.shape == (3, 1, 1, 3)
    assert torch.equal(got[:, 0, 0], bools("000", "110", "111"))
    assert torch.equal(masks.padding(torch.tensor([1, 2], dtype=torch.uint8), 2)[:, 0, 0], bools("10", "11"))


def test_dead_rows_are_those_without_a_key():
    assert masks.dead_rows(bools("010", "000", "111")).tolist() == [False, True, False]
    assert torch.equal(masks.dead_rows(masks.padding(torch.tensor([0, 1]), 2)), torch.tensor([[[True]], [[False]]]))
    assert masks.dead_rows(torch.ones(3, 0, dtype=torch.bool)).all()


def test_blocks_combine_with_and():
    both = masks.causal(3) & masks.padding(torch.tensor([3, 1]), 3)
    assert torch.equal(both[0, 0], bools("100", "110", "111"))
    assert torch.equal(both[1, 0], bools("100", "100", "100"))


def test_draw():
    assert masks.draw(masks.causal(2, 3)) == "■ ■ ·\n■ ■ ■"
    assert masks.draw(bools("0")) == "·"


@PROPERTY
@given(lq=st.integers(1, 6), lk=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_draw_can_be_read_back(lq, lk, seed):
    mask = coin(lq, lk, seed=seed)
    assert [[letter == "■" for letter in row.split(" ")] for row in masks.draw(mask).split("\n")] == mask.tolist()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_zero_padding_removes_whatever_stands_there(value):
    lengths = torch.tensor([2, 0, 3])
    for x in (torch.ones(3, 3, 4), torch.ones(3, 2, 3, 4)):
        dirty = x.clone()
        dirty[0, ..., 2:, :] = value
        dirty[1] = value
        clean = masks.zero_padding(dirty, lengths)
        rows = clean.select(-1, 0) if x.dim() == 3 else clean[:, 0, :, 0]
        assert rows.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
        assert clean.shape == x.shape
        assert dirty[1].isnan().all() or (dirty[1] == value).all()  # the input is left alone


def test_nan_behind_a_mask_poisons_and_zero_padding_cures():
    """O02: 0 · NaN is NaN; the contract says that what stands behind a mask must be finite."""
    q, k, v = inputs(Sizes(2, 2, 2, 4, 4, 8, 8))
    lengths = torch.tensor([4, 2])
    want = mhalib.attention(q, k, v, key_lengths=lengths)
    v[1, :, 2:] = float("nan")
    # key_lengths may leave padding unread, and on the CPU does; a mask is always read.
    assert mhalib.attention(q, k, v, mask=masks.padding(lengths, 4))[1].isnan().any()
    assert mhalib.attention(q, k, v, key_lengths=lengths, backend="reference")[1].isnan().any()
    assert torch.equal(mhalib.attention(q, k, masks.zero_padding(v, lengths), key_lengths=lengths)[0], want[0])
    assert torch.allclose(mhalib.attention(q, k, masks.zero_padding(v, lengths), key_lengths=lengths), want, atol=0)


# ------------------------------------------------------------------------------------------- other libraries


def test_one_row_read_by_two_libraries():
    """O04: the same [F, F, T] drops key 2 in nn.MultiheadAttention and keeps only key 2 in torch's SDPA."""
    theirs = torch.tensor([[False, False, True]])
    ours = masks.from_torch_mha(key_padding_mask=theirs)
    assert ours[:, 0, 0].tolist() == [[True, True, False]]
    q, k, v = inputs(Sizes(1, 1, 1, 1, 3, 4, 4))
    assert torch.equal(scaled_dot_product_attention(q, k, v, attn_mask=theirs), v[:, :, 2:])
    assert torch.equal(mhalib.attention(q, k, v, mask=theirs), v[:, :, 2:])
    alone = mhalib.attention(q, k[:, :, :2], v[:, :, :2])
    assert torch.allclose(mhalib.attention(q, k, v, mask=ours), alone, rtol=0, atol=1e-15)


@PROPERTY
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    lq=st.integers(1, 4),
    lk=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_torch_mha_round_trip(batch, heads, lq, lk, seed):
    flat, full = coin(lq, lk, seed=seed), coin(batch, heads, lq, lk, seed=seed)
    assert torch.equal(masks.to_torch_mha(flat), ~flat)
    assert torch.equal(masks.from_torch_mha(attn_mask=masks.to_torch_mha(flat)), flat)
    theirs = masks.to_torch_mha(full, batch_size=batch, num_heads=heads)
    assert theirs.shape == (batch * heads, lq, lk)
    assert torch.equal(masks.from_torch_mha(attn_mask=theirs, num_heads=heads), full)
    one = full[:1, :1]
    expanded = masks.to_torch_mha(one, batch_size=batch, num_heads=heads)
    assert torch.equal(expanded, ~one[0].expand(batch * heads, lq, lk))


def test_torch_mha_orders_heads_inside_the_batch():
    mask = coin(2, 3, 4, 5, seed=1)
    theirs = masks.to_torch_mha(mask, batch_size=2, num_heads=3)
    for b in range(2):
        for h in range(3):
            assert torch.equal(theirs[b * 3 + h], ~mask[b, h])


def test_torch_mha_parts_are_joined():
    attn, pad = bools("010", "001"), bools("001", "000")
    joined = masks.from_torch_mha(attn_mask=attn, key_padding_mask=pad)
    assert joined.shape == (2, 1, 2, 3)
    assert torch.equal(joined[0, 0], bools("100", "110"))
    assert torch.equal(joined[1, 0], bools("101", "110"))
    heads = torch.stack([attn, ~attn, attn, attn])
    joined = masks.from_torch_mha(attn_mask=heads, key_padding_mask=pad, num_heads=2)
    assert torch.equal(joined[0, 1], bools("010", "000"))


def test_the_polarity_is_torchs_own():
    """The converted mask does what the layer that it was meant for does."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    x, mask = torch.randn(1, 4, 8), masks.causal(4)
    _, weights = theirs(x, x, x, attn_mask=masks.to_torch_mha(mask), average_attn_weights=False)
    assert torch.equal(weights[0, 0] > 0, mask)


def test_hugging_face_ones_are_real_tokens():
    for dtype in (torch.int64, torch.int32, torch.bool, torch.uint8):
        got = masks.from_huggingface(torch.tensor([[1, 1, 0], [1, 0, 0]]).to(dtype))
        assert got.dtype == torch.bool
        assert got.shape == (2, 1, 1, 3)
        assert torch.equal(got[:, 0, 0], bools("110", "100"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_additive_round_trip(dtype):
    mask = coin(2, 1, 4, 5, seed=1)
    numbers = masks.to_additive(mask, dtype)
    assert numbers.dtype == dtype
    assert (numbers[mask] == 0).all()
    assert (numbers[~mask] == -float("inf")).all()
    assert torch.equal(masks.from_additive(numbers), mask)
    lowest = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
    assert torch.equal(masks.from_additive(lowest), mask)
    assert torch.equal(masks.from_additive(lowest + lowest), mask)  # finite minimum twice is −inf (O13)
    assert not masks.from_additive(torch.tensor([-0.0, 0.0], dtype=dtype)).logical_not().any()


def test_additive_mask_as_bias_is_the_bool_mask():
    q, k, v = inputs(Sizes(1, 2, 2, 4, 4, 8, 8))
    mask = masks.causal(4)
    biased = mhalib.attention(q, k, v, bias=masks.to_additive(mask, q.dtype), backend="reference")
    assert torch.equal(biased, mhalib.attention(q, k, v, mask=mask, backend="reference"))


def test_minus_a_billion_in_half_precision():
    """O13: torch refuses the fill; in float32 a whole row of it is a uniform row, so it is no mask."""
    with pytest.raises(RuntimeError, match=r"overflow|cannot be converted"):
        torch.zeros(2, dtype=torch.float16).masked_fill(torch.tensor([True, False]), -1e9)
    q, k, v = inputs(Sizes(1, 1, 1, 1, 4, 4, 4), torch.float32)
    fake = mhalib.attention(q, k, v, bias=torch.full((1, 4), -1e9), backend="reference")
    # float32 numbers around 1e9 are 64 apart: every score is rounded to the same number.
    assert torch.allclose(fake, v.mean(2, keepdim=True), rtol=0, atol=4 * torch.finfo(torch.float32).eps)
    assert mhalib.attention(q, k, v, mask=torch.zeros(1, 4, dtype=torch.bool)).eq(0).all()


# --------------------------------------------------------------------------------------------------- refusals

NUMBERS = torch.zeros(2, 3)
KEEP = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: masks.causal(-1), ValueError, ["lq: got -1", "integer of at least 0"]),
        (lambda: masks.causal(2, 1.5), TypeError, ["lk: got 1.5", "integer of at least 0"]),
        (lambda: masks.causal(True), TypeError, ["lq: got True", "integer"]),
        (lambda: masks.window(2, 2, 0), ValueError, ["width: got 0", "at least 1"]),
        (lambda: masks.window(2, 2, -3), ValueError, ["width: got -3", "at least 1"]),
        (lambda: masks.window(2, 2, 2.0), TypeError, ["width: got 2.0", "integer"]),
        (lambda: masks.padding(torch.tensor([4]), 3), ValueError, ["lengths: got values from 4 to 4", "0 to 3"]),
        (lambda: masks.padding(torch.tensor([-1]), 3), ValueError, ["lengths: got values from -1", "0 to 3"]),
        (lambda: masks.padding(torch.tensor([1.0]), 3), TypeError, ["lengths: got torch.float32", "integer"]),
        (lambda: masks.padding([1], 3), TypeError, ["lengths: got list", "integer tensor of shape (B,)"]),
        (lambda: masks.padding(torch.tensor([[1]]), 3), ValueError, ["lengths: got shape (1, 1)", "(B,)"]),
        (lambda: masks.dead_rows(NUMBERS), TypeError, ["mask: got torch.float32", "bool", "bias"]),
        (lambda: masks.draw(KEEP[None]), ValueError, ["mask: got shape (1, 2, 3)", "mask[0, 0]"]),
        (lambda: masks.draw(NUMBERS.int()), TypeError, ["mask: got torch.int32", "bool"]),
        (lambda: masks.zero_padding(NUMBERS, torch.tensor([1, 1])), ValueError, ["x: got shape (2, 3)", "(B, L, d)"]),
        (lambda: masks.zero_padding(NUMBERS[None], torch.tensor([3])), ValueError, ["lengths: got values", "0 to 2"]),
        (lambda: masks.zero_padding(NUMBERS[None].numpy(), torch.tensor([1])), TypeError, ["x: got ndarray", "tensor"]),
        (
            lambda: masks.zero_padding(NUMBERS[None], torch.tensor([1], device="meta")),
            ValueError,
            ["lengths: is on meta", "cpu", ".to()"],
        ),
        (lambda: masks.from_torch_mha(), ValueError, ["got no mask", "attn_mask, key_padding_mask"]),
        (lambda: masks.from_torch_mha(attn_mask=NUMBERS), TypeError, ["attn_mask: got torch.float32", "bias"]),
        (
            lambda: masks.from_torch_mha(key_padding_mask=NUMBERS.int()),
            TypeError,
            ["key_padding_mask: got torch.int32", "bool"],
        ),
        (lambda: masks.from_torch_mha(attn_mask=KEEP[0]), ValueError, ["attn_mask: got shape (3,)", "(L, S)"]),
        (
            lambda: masks.from_torch_mha(attn_mask=torch.ones(6, 2, 3, dtype=torch.bool)),
            ValueError,
            ["attn_mask: got shape (6, 2, 3) and num_heads=None", "pass num_heads"],
        ),
        (
            lambda: masks.from_torch_mha(attn_mask=torch.ones(6, 2, 3, dtype=torch.bool), num_heads=4),
            ValueError,
            ["num_heads=4", "divisor"],
        ),
        (
            lambda: masks.from_torch_mha(attn_mask=torch.ones(6, 2, 3, dtype=torch.bool), num_heads=0),
            ValueError,
            ["num_heads", "got 0|num_heads=0", "at least 1|divisor"],
        ),
        (
            lambda: masks.from_torch_mha(key_padding_mask=KEEP[None]),
            ValueError,
            ["key_padding_mask: got shape (1, 2, 3)"],
        ),
        (
            lambda: masks.from_torch_mha(attn_mask=KEEP, key_padding_mask=torch.ones(2, 4, dtype=torch.bool)),
            ValueError,
            ["attn_mask (2, 3)", "key_padding_mask (2, 4)", "same batch and keys"],
        ),
        (lambda: masks.to_torch_mha(NUMBERS), TypeError, ["mask: got torch.float32", "bool"]),
        (lambda: masks.to_torch_mha(KEEP[None]), ValueError, ["mask: got shape (1, 2, 3)", "batch_size and num_heads"]),
        (lambda: masks.to_torch_mha(KEEP[None, None]), ValueError, ["batch_size=None", "batch_size and num_heads"]),
        (
            lambda: masks.to_torch_mha(KEEP[None, None].expand(3, 1, 2, 3), batch_size=2, num_heads=2),
            ValueError,
            ["mask: got shape (3, 1, 2, 3)", "1 or batch_size=2"],
        ),
        (lambda: masks.from_huggingface(KEEP[0]), ValueError, ["attention_mask: got shape (3,)", "(B, S)"]),
        (lambda: masks.from_huggingface(NUMBERS), TypeError, ["attention_mask: got torch.float32", "from_additive"]),
        (
            lambda: masks.from_huggingface(torch.tensor([[1, 2]])),
            ValueError,
            ["attention_mask", "holds 2", "0 (padding) and 1 (real token)"],
        ),
        (lambda: masks.from_huggingface([[1, 0]]), TypeError, ["attention_mask: got list", "tensor"]),
        (lambda: masks.from_additive(torch.tensor([0.0, -1e9])), ValueError, ["mask: holds -1e+09", "bias"]),
        (lambda: masks.from_additive(torch.tensor([0.0, 1.0])), ValueError, ["mask: holds 1", "bias="]),
        (lambda: masks.from_additive(torch.tensor([float("nan")])), ValueError, ["mask: holds nan"]),
        (lambda: masks.from_additive(KEEP), TypeError, ["mask: got torch.bool", "floating"]),
        (lambda: masks.from_additive(KEEP.numpy()), TypeError, ["mask: got ndarray", "tensor"]),
        (lambda: masks.to_additive(NUMBERS, torch.float32), TypeError, ["mask: got torch.float32", "bool"]),
        (lambda: masks.to_additive(KEEP, torch.int64), TypeError, ["dtype: got torch.int64", "floating"]),
    ],
)
def test_refusals_name_the_argument_what_came_and_the_remedy(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert any(re.search(re.escape(part), str(caught.value)) for part in word.split("|")), str(caught.value)
