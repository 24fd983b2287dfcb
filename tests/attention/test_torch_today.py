"""What the chapters say of torch itself, where it does something else than this library, held to the torch at hand.

Should a release change one of these, the test fails, names the sentence, and the chapters are to be corrected, not the
library. The letters are those of test_known_bugs.py, which has the public reports and what is right here.
"""

import math

import pytest
import torch
from oracle import Shape, inputs, normal
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from mhalib import masks


def today(holds, claim):
    """What the course says of torch: `claim`."""
    assert holds, f"no longer true of torch {torch.__version__}: {claim}. Correct the chapters that say so."


def today_raises(call, claim):
    """torch refuses `call` with a RuntimeError."""
    try:
        call()
    except RuntimeError:
        return
    today(False, claim)


def qkv(*, heads=2, kv_heads=None, lq=3, lk=None, dtype=torch.float64):
    """(2, H, L, 4), standard normal."""
    return inputs(Shape(2, heads, kv_heads or heads, lq, lk or lq, 4, 4), dtype)


def torch_layer(*, training=False, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        options = {"batch_first": True, "dtype": torch.float64} | options
        return nn.MultiheadAttention(8, 2, **options).train(training)


def test_torch_today_multihead_attention_is_nan_on_a_sample_of_nothing_but_padding():
    """O01: in evaluation, and wherever weights are asked for. So it is no oracle for this row."""
    x = normal(2, 3, 8, seed=1)
    padding = torch.tensor([[False] * 3, [True] * 3])
    for training, need_weights in ((False, False), (False, True), (True, True)):
        module = torch_layer(training=training)
        with torch.no_grad():
            output, _ = module(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        what = f"training={training}, need_weights={need_weights}: nn.MultiheadAttention is NaN on a padded sample"
        today(output[1].isnan().all() and output[0].isfinite().all(), what)


def test_torch_today_sdpa_is_zero_on_a_dead_row():
    """O01: with a bool mask and with −inf."""
    q, k, v = qkv(lq=4)
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1] = False
    for given in (mask, masks.to_additive(mask, torch.float64)):
        row = scaled_dot_product_attention(q, k, v, attn_mask=given)[:, :, 1]
        today((row == 0).all(), "scaled_dot_product_attention gives 0 where no key may be seen")


@pytest.mark.parametrize("place", ["key", "value"])
def test_torch_today_nan_behind_a_mask_poisons_sdpa(place):
    """O02: the weight is 0, and 0 · NaN is NaN."""
    q, k, v = qkv(lk=4)
    mask = torch.tensor([True, True, True, False]).expand(3, 4)
    {"key": k, "value": v}[place][..., 3, :] = math.nan
    today(scaled_dot_product_attention(q, k, v, attn_mask=mask).isnan().any(), f"a NaN in a masked {place} comes out")


def test_torch_today_is_causal_is_aligned_at_the_top_left():
    """O03: the query of a decoding step sees key 0 only, so its output is value 0."""
    q, k, v = qkv(lq=1, lk=5)
    got = scaled_dot_product_attention(q, k, v, is_causal=True)
    today(torch.allclose(got, v[:, :, :1], rtol=0, atol=1e-13), "is_causal=True shows one query key 0 of five")


def test_torch_today_reads_one_row_both_ways():
    """O04: [F, F, T] drops key 2 in nn.MultiheadAttention and keeps only key 2 in scaled_dot_product_attention."""
    q, k, v = qkv(lq=1, lk=3)
    row = torch.tensor([[False, False, True]])
    kept = scaled_dot_product_attention(q, k, v, attn_mask=row)
    today(torch.allclose(kept, v[:, :, 2:], rtol=0, atol=1e-13), "True keeps a key in scaled_dot_product_attention")
    x = normal(1, 3, 8, seed=1)
    _, weights = torch_layer()(x, x, x, key_padding_mask=row)
    today((weights[..., 2] == 0).all() and (weights[..., :2] > 0).all(), "True drops a key in nn.MultiheadAttention")
    today_raises(
        lambda: scaled_dot_product_attention(q, k, v, attn_mask=row.long()),
        "scaled_dot_product_attention refuses an integer mask",
    )


def test_torch_today_float_key_padding_mask_raises_a_key():
    """O05: the 1.0 is added to the scores."""
    x = normal(1, 2, 8, seed=1)
    module = torch_layer(training=True)
    _, plain = module(x, x, x)
    _, raised = module(x, x, x, key_padding_mask=torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    today((raised[..., 1] > plain[..., 1] + 0.01).all(), "a float key_padding_mask of 1.0 raises the weight of its key")


def test_torch_today_sdpa_drops_whatever_the_mode():
    """O06: the functional form knows no evaluation mode."""
    q, k, v = qkv(lq=8)
    torch.manual_seed(0)
    with torch.no_grad():
        first, second = (scaled_dot_product_attention(q, k, v, dropout_p=0.5) for _ in range(2))
    today(not torch.equal(first, second), "scaled_dot_product_attention applies dropout_p under no_grad too")


def test_torch_today_multihead_attention_returns_dropped_weights():
    """O07."""
    module, x = torch_layer(dropout=0.5, training=True), normal(2, 5, 8, seed=1)
    torch.manual_seed(0)
    sums = module(x, x, x, average_attn_weights=False)[1].sum(-1)
    today((sums - 1).abs().max() > 0.1, "in training the rows of returned weights do not sum to 1")


def test_torch_today_weights_are_the_mean_over_heads_by_default():
    """O08."""
    module, x = torch_layer(), normal(2, 3, 8, seed=1)
    _, mean = module(x, x, x)
    _, each = module(x, x, x, average_attn_weights=False)
    _, none = module(x, x, x, need_weights=False)
    today((tuple(mean.shape), tuple(each.shape)) == ((2, 3, 3), (2, 2, 3, 3)), "the default is (B, L, S), a mean")
    today(torch.allclose(mean, each.mean(1), rtol=0, atol=1e-13), "the default is the mean over heads")
    today(none is None, "need_weights=False returns None")


def test_torch_today_multihead_attention_runs_over_the_first_dimension():
    """O09: batch_first=False is the default."""
    module, x = nn.MultiheadAttention(8, 2, dtype=torch.float64).eval(), normal(3, 5, 8, seed=1)
    before = module(x, x, x)[0]
    x[1] = normal(5, 8, seed=2)
    today((module(x, x, x)[0][0] - before[0]).abs().max() > 1e-3, "without batch_first, sample 1 changes sample 0")


def test_torch_today_is_causal_is_only_a_hint():
    """O10: refused alone; beside a mask that hides nothing, sometimes followed, sometimes not."""
    module, x = torch_layer(), normal(2, 5, 8, seed=1)
    for need_weights in (False, True):
        today_raises(
            lambda flag=need_weights: module(x, x, x, is_causal=True, need_weights=flag),
            "nn.MultiheadAttention refuses is_causal=True without a mask",
        )
    keep_all = torch.zeros(5, 5, dtype=torch.bool)
    module.train()
    with_weights, without = (
        module(x, x, x, is_causal=True, attn_mask=keep_all, need_weights=flag)[0] for flag in (True, False)
    )
    today(
        (with_weights - without).abs().max() > 0.01, "is_causal beside another mask: the result hangs on need_weights"
    )


def test_torch_today_minus_a_billion():
    """O13: it does not fit in float16; a whole row of it is uniform; the finite minimum twice is −inf."""
    today_raises(
        lambda: torch.zeros(2).half().masked_fill(torch.tensor([True, False]), -1e9), "−1e9 does not fit in float16"
    )
    q, k, v = qkv(lq=1, lk=4, dtype=torch.float32)
    leak = scaled_dot_product_attention(q, k, v, attn_mask=torch.full((1, 4), -1e9))
    # At −1e9 float32 numbers are 64 apart: the scores are lost in it, and what is left is a uniform row.
    today(torch.allclose(leak, v.mean(2, keepdim=True), rtol=0, atol=1e-6), "a row of −1e9 is a uniform row")
    lowest = torch.tensor(torch.finfo(torch.float16).min, dtype=torch.float16)
    today(lowest + lowest == -math.inf, "the finite minimum added to itself is −inf")


def test_torch_today_enable_gqa_repeats_in_blocks():
    """O15."""
    q, k, v = qkv(heads=4, kv_heads=2)
    got = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    repeated = scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    today(torch.allclose(got, repeated, rtol=0, atol=1e-13), "enable_gqa is repeat_interleave over the key heads")


def test_torch_today_one_key_head_is_broadcast_without_the_flag():
    """O16: two key heads for four query heads without the flag are an error, one is not; four for six are with it."""
    today_raises(lambda: scaled_dot_product_attention(*qkv(heads=4, kv_heads=2)), "4 query heads on 2 need enable_gqa")
    today_raises(
        lambda: scaled_dot_product_attention(*qkv(heads=6, kv_heads=4), enable_gqa=True),
        "6 query heads on 4 are refused",
    )
    q, k, v = qkv(heads=4, kv_heads=1)
    got = scaled_dot_product_attention(q, k, v)
    same = torch.allclose(got, mhalib.attention(q, k, v), rtol=0, atol=1e-13)
    today(same, "one key head for four query heads is broadcast without enable_gqa")
