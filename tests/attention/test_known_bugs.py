"""Bugs that people reported in public, of attention written by others, and that must be impossible here.

Each docstring says where it was reported (project and number of the issue or pull request), what goes wrong there, and
what is right here. What torch itself does today is held to in test_torch_today.py.

Entry O21 concerns the cache and is held to in test_cache.py, O26 the notebooks (test_outputs.py, test_twins.py);
O22 and O23 concern images and rollout, which are not built yet.
"""

import math

import pytest
import torch
from oracle import BACKEND_NAMES, coin, normal
from torch import nn

import mhalib
from mhalib import counting, masks
from mhalib.layers import join_heads, split_heads

BACKENDS = pytest.mark.parametrize("backend", BACKEND_NAMES)
TRAINING = pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
#: float64, sums of fewer than 100 terms of size 1: some tens of roundings of 1e-16.
EXACT = {"rtol": 0, "atol": 1e-13}


def qkv(*, batch=2, heads=2, kv_heads=None, lq=3, lk=None, dim=4, dtype=torch.float64):
    lk = lq if lk is None else lk
    kv_heads = heads if kv_heads is None else kv_heads
    return (
        normal(batch, heads, lq, dim, seed=1, dtype=dtype),
        normal(batch, kv_heads, lk, dim, seed=2, dtype=dtype),
        normal(batch, kv_heads, lk, dim, seed=3, dtype=dtype),
    )


def layer(d_model=8, num_heads=2, *, training=False, dtype=torch.float64, **options):
    """A layer whose biases are not 0, so that a lost one shows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = mhalib.MultiHeadAttention(d_model, num_heads, dtype=dtype, **options)
        for projection in (made.q_proj, made.k_proj, made.v_proj, made.out_proj):
            if projection.bias is not None:
                nn.init.normal_(projection.bias)
    return made.train(training)


# -------------------------------------------------------------------------- O01, O02: NaN out of and behind masks


@BACKENDS
@pytest.mark.parametrize("how", ["mask", "key_lengths", "bias", "causal"])
def test_o01_row_whose_keys_are_all_masked_is_zero(backend, how):
    """pytorch/pytorch #103963, #103749: NaN. Right: output 0, finite gradients, and a gradient of 0 for the query."""
    q, k, v = (x.requires_grad_() for x in qkv(lq=4, lk=2 if how == "causal" else 4))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1] = False
    options, dead = {
        "mask": ({"mask": mask}, (slice(None), slice(None), 1)),
        "key_lengths": ({"key_lengths": torch.tensor([4, 0])}, (1,)),
        "bias": ({"bias": masks.to_additive(mask, torch.float64)}, (slice(None), slice(None), 1)),
        "causal": ({"causal": True}, (slice(None), slice(None), slice(0, 2))),
    }[how]
    output = mhalib.attention(q, k, v, **options, backend=backend)
    alive = torch.ones_like(output, dtype=torch.bool)
    alive[dead] = False
    assert (output[~alive] == 0).all()
    assert (output[alive] != 0).all()
    output.backward(torch.ones_like(output))
    for x in (q, k, v):
        assert torch.isfinite(x.grad).all()
        assert x.grad.abs().max() > 0
    assert (q.grad[dead] == 0).all()


@TRAINING
@pytest.mark.parametrize("need_weights", [False, True])
def test_o01_layer_on_a_sample_of_nothing_but_padding(training, need_weights):
    """The layer gives such a sample its output bias, in training and evaluation, with and without weights."""
    ours, x = layer(training=training), normal(2, 3, 8, seed=1)
    output, weights = ours(x, key_lengths=torch.tensor([3, 0]), need_weights=need_weights)
    assert torch.equal(output[1], ours.out_proj.bias.expand(3, 8))
    torch.testing.assert_close(output[0], ours(x[:1])[0][0], **EXACT)
    if need_weights:
        assert (weights[1] == 0).all()
        torch.testing.assert_close(weights[0].sum(-1), torch.ones(2, 3, dtype=torch.float64), **EXACT)
    output.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in ours.parameters())


@BACKENDS
def test_o02_nan_behind_a_mask(backend):
    """pytorch/pytorch #101967: a NaN in a masked value poisons the result, 0 · NaN is NaN. Here it does as well, as
    documented (key_lengths may leave padding unread, and is not bound to); `masks.zero_padding` takes it out, and what
    is left is attention over the real keys alone."""
    q, k, v = qkv(lk=4)
    lengths = torch.tensor([3, 2])
    for b, length in enumerate(lengths):
        k[b, :, length:], v[b, :, length:] = math.nan, math.nan
    assert mhalib.attention(q, k, v, mask=masks.padding(lengths, 4), backend=backend).isnan().any()
    k, v = masks.zero_padding(k, lengths), masks.zero_padding(v, lengths)
    cured = mhalib.attention(q, k, v, key_lengths=lengths, backend=backend)
    for b, length in enumerate(lengths):
        real = (x[b : b + 1, :, :length] for x in (k, v))
        torch.testing.assert_close(cured[b : b + 1], mhalib.attention(q[b : b + 1], *real), **EXACT)


# ------------------------------------------------------------------------------- O03: causal with Lq ≠ Lk


@BACKENDS
def test_o03_causal_is_aligned_at_the_bottom_right(backend):
    """pytorch/pytorch #103082, #108108; ml-explore/mlx #2835: one query after five cached keys sees key 0 only.
    Right: it stands at the last key and sees all five; two queries see four and five."""
    q, k, v = qkv(lq=1, lk=5)
    decoded = mhalib.attention(q, k, v, causal=True, backend=backend)
    torch.testing.assert_close(decoded, mhalib.attention(q, k, v), **EXACT)
    q, k, v = qkv(lq=2, lk=5)
    both = mhalib.attention(q, k, v, causal=True, backend=backend)
    torch.testing.assert_close(both[:, :, :1], mhalib.attention(q[:, :, :1], k[:, :, :4], v[:, :, :4]), **EXACT)
    torch.testing.assert_close(both[:, :, 1:], mhalib.attention(q[:, :, 1:], k, v), **EXACT)


# ------------------------------------------------------------------------------------- O04, O05: polarity


def test_o04_one_polarity_and_refusal_of_integer_masks():
    """pytorch/pytorch #27968; mlwithme/TransformerTranslation #2; PaddlePaddle/Paddle #55254: True means "keep" in one
    place and "drop" in another. Right: True = may attend everywhere, converters for the others, no integers."""
    q, k, v = qkv(lq=1, lk=3)
    only_last = torch.tensor([[False, False, True]])
    assert torch.equal(mhalib.attention(q, k, v, mask=only_last), v[:, :, 2:])
    dropped = masks.from_torch_mha(key_padding_mask=only_last.expand(2, 3))
    torch.testing.assert_close(
        mhalib.attention(q, k, v, mask=dropped), mhalib.attention(q, k[:, :, :2], v[:, :, :2]), **EXACT
    )
    for integers in (only_last.long(), only_last.to(torch.uint8), only_last.int()):
        with pytest.raises(
            TypeError, match=r"mask: got a torch.* tensor; accepted is a bool tensor, True = may attend"
        ):
            mhalib.attention(q, k, v, mask=integers)
        with pytest.raises(TypeError, match="key_padding_mask: got torch"):
            masks.from_torch_mha(key_padding_mask=integers)


def test_o05_float_mask_of_zeros_and_ones_is_refused():
    """pytorch/pytorch #136816: a float key_padding_mask [0, 1] hides nothing, it raises the score of key 1 by 1.
    Right: floats are a bias, and say so; as a mask they are refused, and so is a 0/1 one as an additive mask."""
    q, k, v = qkv(lq=2, lk=3)
    floats = torch.tensor([[0.0, 0.0, 1.0]] * 2, dtype=torch.float64)
    with pytest.raises(
        TypeError, match=r"mask: got a torch.float64 tensor.*Numbers that are added to the scores go to"
    ):
        mhalib.attention(q, k, v, mask=floats)
    with pytest.raises(TypeError, match=r"key_padding_mask: got torch.float64.*Numbers added to the scores are a bias"):
        masks.from_torch_mha(key_padding_mask=floats)
    with pytest.raises(TypeError, match=r"attention_mask: got torch.float64"):
        masks.from_huggingface(floats)
    with pytest.raises(ValueError, match="mask: holds 1; accepted are 0"):
        masks.from_additive(floats)
    _, plain = mhalib.attention(q, k, v, return_weights=True)
    _, raised = mhalib.attention(q, k, v, bias=floats[None, None], return_weights=True)
    odds = (raised[..., 2] / raised[..., 0]) / (plain[..., 2] / plain[..., 0])
    torch.testing.assert_close(odds, torch.full_like(odds, math.e), rtol=1e-12, atol=0)


# ------------------------------------------------------------------------------------ O06, O07: dropout


@pytest.mark.parametrize("need_weights", [False, True])
def test_o06_no_dropout_in_evaluation(need_weights):
    """pytorch/pytorch #124464, #99293; huggingface/pytorch-image-models PR #1978; wenet-e2e/wenet #2699: the functional
    form always drops. Right: the layer drops in training only; two runs in evaluation are equal bit by bit."""
    ours, x = layer(dropout=0.5), normal(2, 5, 8, seed=1)
    first, second = (ours(x, need_weights=need_weights)[0] for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(first, layer(dropout=0.0)(x, need_weights=need_weights)[0])
    ours.train()
    assert not torch.equal(ours(x, need_weights=need_weights)[0], ours(x, need_weights=need_weights)[0])


def test_o07_returned_weights_sum_to_one_in_training():
    """pytorch/pytorch #42929: the weights are returned after dropout, rows sum to 0.55 … 1.16.
    Right: the probabilities before dropout, the same as in evaluation, while the output has been dropped."""
    ours, x = layer(dropout=0.5, training=True), normal(2, 5, 8, seed=1)
    output, weights = ours(x, need_weights=True)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5, dtype=torch.float64), **EXACT)
    steady, expected = ours.eval()(x, need_weights=True)
    assert torch.equal(weights, expected)
    assert not torch.allclose(output, steady)


# ------------------------------------------------------------------------------- O08: the mean over heads


def test_o08_weights_are_per_head():
    """pytorch/pytorch #34537, #47583; facebookresearch/fairseq #3365: the default is the mean over heads.
    Right: (B, H, Lq, Lk); the mean is the reader's to take."""
    torch.manual_seed(0)
    theirs, x = nn.MultiheadAttention(8, 4, batch_first=True, dtype=torch.float64), normal(2, 3, 8, seed=1)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    output, weights = mhalib.MultiHeadAttention.from_torch(theirs)(x, need_weights=True)
    torch.testing.assert_close(output, theirs(x, x, x)[0], **EXACT)
    assert weights.shape == (2, 4, 3, 3)
    assert (weights[:, 0] - weights[:, 1]).abs().max() > 0.01
    torch.testing.assert_close(weights, theirs(x, x, x, average_attn_weights=False)[1], **EXACT)
    torch.testing.assert_close(weights.mean(1), theirs(x, x, x)[1], **EXACT)


# -------------------------------------------------------------------------------------- O09: batch_first


def test_o09_sequences_of_a_batch_do_not_see_each_other():
    """pytorch/pytorch #63560, #122959; om-ai-lab/OmDet #19: with batch_first forgotten, attention runs over the batch,
    without an error. Right: inputs are (B, L, d_model), always; a torch layer built otherwise is refused."""
    ours, x = layer(), normal(3, 5, 8, seed=1)
    before = ours(x)[0]
    x[1] = normal(5, 8, seed=2)
    after = ours(x)[0]
    assert torch.equal(after[0], before[0])
    assert (after[1] - before[1]).abs().max() > 0.01
    with pytest.raises(ValueError, match=r"module: batch_first=False reads .L, B, d.; inputs here are .B, L, d."):
        mhalib.MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2))
    assert ours.to_torch().batch_first


# ------------------------------------------------------------------------------------ O10: is_causal a hint


@TRAINING
def test_o10_causal_alone_is_enough_and_the_same_with_weights(training):
    """pytorch/pytorch #99282, #118972, #172338: is_causal is a hint, needs a mask beside it, and what it does depends
    on need_weights. Right: causal=True alone, the same numbers with and without weights, and as with the mask."""
    ours, x = layer(training=training), normal(2, 5, 8, seed=1)
    alone = ours(x, causal=True)[0]
    with_weights, weights = ours(x, causal=True, need_weights=True)
    torch.testing.assert_close(alone, with_weights, **EXACT)
    torch.testing.assert_close(alone, ours(x, mask=masks.causal(5))[0], **EXACT)
    assert torch.equal(weights > 0, masks.causal(5).expand(2, 2, 5, 5))


# ----------------------------------------------------------------------- O11, O12: evaluation differs from training


@pytest.mark.parametrize(
    "size", [(3, 5), (1, 1, 3, 5), (2, 1, 1, 5), (1, 4, 3, 5), (2, 4, 3, 5), (2, 4, 1, 1)], ids=str
)
def test_o11_each_mask_shape_in_training_and_evaluation(size):
    """pytorch/pytorch #97605, #97409: a mask (B · H, L, S) works in training and crashes in evaluation.
    Right: the same shapes in both, with the same numbers."""
    ours, x, y = layer(8, 4), normal(2, 3, 8, seed=1), normal(2, 5, 8, seed=2)
    mask = coin(*size, seed=3)
    results = [ours.train(training)(x, y, mask=mask, need_weights=True) for training in (False, True)]
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(results[0][1] > 0, mask.expand(2, 4, 3, 5))


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
def test_o12_evaluation_equals_training(bias, heads, padded):
    """pytorch/pytorch #97128: the fast path of evaluation is wrong without biases, or with an odd number of heads and
    padding. Right: the same numbers as in training, and those are torch's in training."""
    ours, x = layer(12, heads, bias=bias), normal(3, 5, 12, seed=1)
    lengths = torch.tensor([5, 2, 4]) if padded else None
    evaluated, trained = (ours.train(mode)(x, key_lengths=lengths)[0] for mode in (False, True))
    assert torch.equal(evaluated, trained)
    drop = None if lengths is None else torch.arange(5) >= lengths[:, None]
    theirs = ours.to_torch().train()
    torch.testing.assert_close(trained, theirs(x, x, x, key_padding_mask=drop)[0], **EXACT)


# -------------------------------------------------------------------------------- O13: −1e9 in half precision


@BACKENDS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_o13_masks_need_no_large_number(backend, dtype):
    """NVIDIA/apex #93, #1105; facebookresearch/fairseq #3575; bentrevett/pytorch-seq2seq #191: −1e9 does not fit in
    float16, and in float32 a row full of it is uniform. Right: hidden keys have weight 0 exactly, a row without keys
    is 0 and no mean, in every dtype; masks as numbers are −inf; −1e9 is refused where a mask is meant."""
    q, k, v = qkv(lq=4, dtype=dtype)
    mask = masks.causal(4)
    mask[0] = False
    output = mhalib.attention(q, k, v, mask=mask, backend=backend)
    assert (output[:, :, 0] == 0).all()
    alone = mhalib.attention(q[:, :, 1:2], k[:, :, :2], v[:, :, :2], backend=backend)
    # Below 2 in size; a few roundings to the dtype.
    torch.testing.assert_close(output[:, :, 1:2], alone, rtol=0, atol=4 * torch.finfo(dtype).eps)
    _, weights = mhalib.attention(q, k, v, mask=mask, return_weights=True)
    assert torch.equal(weights > 0, mask.expand(2, 2, 4, 4))
    added = masks.to_additive(mask, dtype)
    assert torch.equal(masks.from_additive(added + added), mask)
    if dtype != torch.float16:  # the number does not exist there
        with pytest.raises(ValueError, match=r"mask: holds -.*e\+0[89]; accepted are 0 \(may attend\) and -inf"):
            masks.from_additive(torch.tensor([[0.0, -1e9]], dtype=torch.float32).to(dtype))


# ---------------------------------------------------------------------------------- O14: the missing transpose


def test_o14_head_of_a_token_is_a_slice_of_its_channels():
    """reczoo/FuxiCTR #30; jsbaan/transformer-from-scratch PR #6; hyunwoongko/transformer #15; QAnet-pytorch #2: heads
    split or joined by a view without the transpose, which mixes tokens. Right: head h of token t is channels h · D …
    (h + 1) · D − 1 of token t, and joining undoes it."""
    x = normal(2, 5, 6, seed=1)
    heads = split_heads(x, 3)
    for t in range(5):
        for h in range(3):
            assert torch.equal(heads[:, h, t], x[:, t, 2 * h : 2 * h + 2])
    assert torch.equal(join_heads(heads), x)
    assert not torch.equal(heads, x.view(2, 3, 5, 2))
    assert torch.equal(split_heads(x, 1), x.view(2, 1, 5, 6))  # one head hides the bug
    with pytest.raises(RuntimeError):
        heads.transpose(1, 2).transpose(1, 2).view(2, 5, 6)  # the joined view does not exist without a copy


@pytest.mark.parametrize("need_weights", [False, True])
def test_o14_tokens_are_not_mixed_by_the_layer(need_weights):
    """Each query may see itself only: the layer is then linear, token by token, whatever the number of heads."""
    ours, x = layer(8, 4), normal(2, 5, 8, seed=1)
    output, _ = ours(x, mask=torch.eye(5, dtype=torch.bool), need_weights=need_weights)
    torch.testing.assert_close(output, ours.out_proj(ours.v_proj(x)), **EXACT)
    changed = x.clone()
    changed[:, 3] += 1
    before, after = (ours(y, causal=True, need_weights=need_weights)[0] for y in (x, changed))
    assert torch.equal(before[:, :3], after[:, :3])
    assert ((before - after)[:, 3:].abs().amax(-1) > 1e-3).all()
    loops = torch.zeros_like(x)
    q, k, v = ours.q_proj(x), ours.k_proj(x), ours.v_proj(x)
    for h in range(4):
        channels = slice(2 * h, 2 * h + 2)
        weights = torch.softmax(q[..., channels] @ k[..., channels].mT / math.sqrt(2), -1)
        loops[..., channels] = weights @ v[..., channels]
    torch.testing.assert_close(ours(x, need_weights=need_weights)[0], ours.out_proj(loops), **EXACT)


# -------------------------------------------------------------------------------------- O15, O16: grouped heads


@BACKENDS
def test_o15_groups_are_blocks_of_query_heads(backend):
    """onnx/onnx #7274: key heads tiled (0, 1, 0, 1) instead of repeated (0, 0, 1, 1). Right: query heads 0 and 1 read
    key head 0. With one key head, or as many as query heads, both agree; so two for four."""
    q, k, v = qkv(heads=4, kv_heads=2)
    got = mhalib.attention(q, k, v, backend=backend)
    for head in range(4):
        group = slice(head // 2, head // 2 + 1)
        alone = mhalib.attention(q[:, head : head + 1], k[:, group], v[:, group])
        torch.testing.assert_close(got[:, head : head + 1], alone, **EXACT)
    tiled = mhalib.attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), backend=backend)
    assert (got - tiled).abs().max() > 0.1


@pytest.mark.parametrize("need_weights", [False, True])
def test_o15_groups_of_the_layer(need_weights):
    """The grouped layer is the full one whose key and value rows are repeated group by group."""
    grouped = layer(8, 4, num_kv_heads=2)
    full = layer(8, 4)
    with torch.no_grad():
        full.load_state_dict(
            {
                name: x.unflatten(0, (2, 2)).repeat_interleave(2, 0).flatten(0, 1) if name[:2] in ("k_", "v_") else x
                for name, x in grouped.state_dict().items()
            }
        )
    x = normal(2, 5, 8, seed=1)
    torch.testing.assert_close(grouped(x, need_weights=need_weights)[0], full(x, need_weights=need_weights)[0], **EXACT)


@BACKENDS
def test_o16_groups_follow_from_the_shapes(backend):
    """pytorch/pytorch #139769; ModelTC/LightX2V PR #1472: the flag is forgotten, and one key head is broadcast without
    a word. Right: no flag; key heads that divide the query heads are groups, all others are refused."""
    q, k, v = qkv(heads=4, kv_heads=1)
    got = mhalib.attention(q, k, v, backend=backend)
    repeated = mhalib.attention(q, k.repeat(1, 4, 1, 1), v.repeat(1, 4, 1, 1), backend=backend)
    torch.testing.assert_close(got, repeated, **EXACT)
    for heads, kv_heads, divisors in ((6, 4, "1, 2, 3, 6"), (4, 3, "1, 2, 4"), (2, 4, "1, 2")):
        words = rf"got {heads} query heads and {kv_heads} key heads; accepted are \[{divisors}\] key heads"
        with pytest.raises(ValueError, match=words):
            mhalib.attention(*qkv(heads=heads, kv_heads=kv_heads), backend=backend)
    with pytest.raises(ValueError, match=r"num_kv_heads: got 3 for num_heads=4; accepted are its divisors \[1, 2, 4\]"):
        mhalib.MultiHeadAttention(8, 4, num_kv_heads=3)
    q, k, v = qkv(heads=4, kv_heads=2)
    with pytest.raises(ValueError, match="key, value: heads and lengths must be equal"):
        mhalib.attention(q, k, v[:, :1], backend=backend)


# ---------------------------------------------------------------------------------------- O17, O18: rotary


def test_o17_layouts_agree_after_permuting_the_projections_and_not_before():
    """huggingface/transformers #25199, #40462; rasbt/LLMs-from-scratch #746, PR #747; TinyLlama #24: weights trained
    with pairs (0, 1), (2, 3), … run with pairs (0, D/2), (1, D/2 + 1), …. Right: both are correct alone; the rows of
    the query and key projections are permuted, head by head, when the layout changes. Heads of 2 would hide it."""
    half = layer(8, 2, rotary=mhalib.RotaryEmbedding(4, layout="half"))
    interleaved = layer(8, 2, rotary=mhalib.RotaryEmbedding(4, layout="interleaved"))
    x = normal(2, 5, 8, seed=1)
    want, weights = half(x, need_weights=True)
    assert (interleaved(x, need_weights=True)[1] - weights).abs().max() > 0.01
    place = torch.tensor([0, 2, 1, 3])  # channel c of the interleaved head is channel place[c] of the half one
    with torch.no_grad():
        for projection in (interleaved.q_proj, interleaved.k_proj):
            for x_ in (projection.weight, projection.bias):
                x_.copy_(x_.unflatten(0, (2, 4))[:, place].flatten(0, 1))
    got, permuted = interleaved(x, need_weights=True)
    torch.testing.assert_close(permuted, weights, **EXACT)
    torch.testing.assert_close(got, want, **EXACT)


def test_o18_angles_are_not_rounded_to_the_dtype_of_the_input():
    """EleutherAI/gpt-neox #1003; huggingface/transformers PR #29285, #29496; KellerJordan/modded-nanogpt #39: angles
    in bfloat16, where neighbours share a position. Right: neighbours differ, and the error is that of the result."""
    bfloat16 = torch.arange(255, 262).to(torch.bfloat16)
    assert bfloat16.tolist() == [255, 256, 256, 258, 260, 260, 260]
    places = torch.arange(4097)
    assert (places.to(torch.bfloat16).double().cos() - places.double().cos()).abs().max() > 1.99
    x = torch.ones(1, 1, 4097, 8, dtype=torch.bfloat16)
    for layout in ("half", "interleaved"):
        rotary = mhalib.RotaryEmbedding(8, layout=layout)
        got, exact = rotary(x, places), rotary(x.double(), places)
        # Half a unit in the last place of a number below 2, and 4096 · eps of float32 for the angle.
        assert (got.double() - exact).abs().max() <= torch.finfo(torch.bfloat16).eps + 2 * 4096 * 1.2e-7
        assert ((got[0, 0, 1:] - got[0, 0, :-1]).abs().amax(-1) > 0.1).all()


# ------------------------------------------------------------------------------------------ O19, O20: ALiBi, windows


def test_o19_alibi_slopes_of_six_and_eight_heads():
    """ml-explore/mlx #343, PR #3071; huggingface/transformers PR #28380; Baichuan2 #225; aprender PR #2143: wrong where
    the heads are no power of two, or off by one in the exponent. Right: 6 heads are the 4-head set and every other one
    of the 8-head set; 8 heads start at 1/2, not at 1."""
    assert mhalib.alibi_slopes(6).tolist() == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    assert mhalib.alibi_slopes(8).tolist() == [2.0**-power for power in range(1, 9)]


@BACKENDS
@pytest.mark.parametrize(
    ("lq", "lk", "causal", "counts"),
    [
        (7, 7, True, [1, 2, 3, 3, 3, 3, 3]),
        (7, 7, False, [3, 4, 5, 5, 5, 4, 3]),
        (2, 7, True, [3, 3]),
        (2, 7, False, [4, 3]),
    ],
)
def test_o20_a_window_of_three_keys_shows_three_keys(backend, lq, lk, causal, counts):
    """huggingface/transformers #39408; apple/axlearn PR #1009; sglang PR #26147: is a window of 3 three keys or four?
    Right: three, the query's own included; without `causal`, those nearer than 3 on either side."""
    assert masks.window(lq, lk, 3, causal=causal).sum(-1).tolist() == counts
    q, k, v = qkv(lq=lq, lk=lk, dim=8)
    # With value j the unit vector of key j, the output is the row of weights, from any backend.
    v = torch.eye(lk, 8, dtype=torch.float64).expand(2, 2, lk, 8)
    seen = mhalib.attention(q, k, v, window=3, causal=causal, backend=backend) > 0
    assert torch.equal(seen.sum(-1), torch.tensor(counts).expand(2, 2, lq))
    last = torch.arange(lk - lq, lk)
    assert seen[:, :, torch.arange(lq), last].all()


# ---------------------------------------------------------------------------------------------- O21: the cache


@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("prompt", [1, 5])
def test_o21_generation_is_the_same_with_the_cache(prompt, chunk):
    """pytorch/torchtune #959; lucidrains/x-transformers #219: other tokens with the cache than without. Right: at each
    step the rows of the full forward pass, for every prompt and chunk. More in test_cache.py."""
    ours = layer(8, 2, num_kv_heads=1, rotary=mhalib.RotaryEmbedding(4))
    x = normal(2, 11, 8, seed=1)
    expected, _ = ours(x, causal=True)
    cache = mhalib.KVCache(2, 1, 11, 4, dtype=torch.float64)
    start, step = 0, prompt
    with torch.no_grad():
        while start < 11:
            got, _ = ours(x[:, start : start + step], causal=True, cache=cache)
            torch.testing.assert_close(got, expected[:, start : start + step], **EXACT)
            start, step = start + step, chunk


# ------------------------------------------------------------------------------- O24, O25: weights, tied weights


def test_o24_fused_kernels_have_no_weights_and_say_so():
    """jacobgil/vit-explain #23; huggingface/transformers #30978, #33649: a hook on a fused attention finds nothing, or
    None, or an empty list. Right: asking a fused backend for weights is an error; `auto` takes the explicit one."""
    q, k, v = qkv()
    with pytest.raises(ValueError, match=r"backend: 'sdpa' cannot serve this request.*never form the weights"):
        mhalib.attention(q, k, v, backend="sdpa", return_weights=True)
    fused, x = layer(backend="sdpa"), normal(2, 3, 8, seed=1)
    with pytest.raises(ValueError, match=r"backend: 'sdpa' cannot serve this request.*never form the weights"):
        fused(x, need_weights=True)
    assert mhalib.explain_backend(q, k, v, return_weights=True).backend == "reference"
    assert mhalib.explain_backend(q, k, v).backend == "sdpa"
    explicit, weights = layer()(x, need_weights=True)
    torch.testing.assert_close(fused(x)[0], explicit, **EXACT)
    value = split_heads(fused.v_proj(x), 2)
    torch.testing.assert_close(explicit, fused.out_proj(join_heads(weights @ value)), **EXACT)


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": 2}, {"key_lengths": torch.tensor([3, 0])}], ids=str
)
def test_o24_fused_equals_explicit(options):
    q, k, v = qkv(heads=4, kv_heads=2)
    fused, explicit = (mhalib.attention(q, k, v, backend=name, **options) for name in ("sdpa", "reference"))
    torch.testing.assert_close(fused, explicit, **EXACT)


def test_o25_tied_weights_are_counted_once():
    """karpathy/nanoGPT PR #209; huggingface/transformers #14960; karpathy/llama2.c #378; pytorch/torchtitan PR #3225:
    a weight with two names counted twice. Right: 40 for a tied pair of 10 × 4, whose state dict holds 80 numbers."""
    pair = nn.ModuleDict({"embed": nn.Embedding(10, 4), "head": nn.Linear(4, 10, bias=False)})
    assert counting.module_parameters(pair) == 80
    pair["head"].weight = pair["embed"].weight
    assert counting.module_parameters(pair) == 40
    assert sum(x.numel() for x in pair.state_dict().values()) == 80


@pytest.mark.parametrize(
    ("sizes", "options", "total"),
    [
        ((64, 8), {}, 16_640),
        ((64, 1), {}, 16_640),
        ((64, 64), {}, 16_640),
        ((64, 8), {"bias": False}, 16_384),
        ((64, 16), {"bias": False}, 16_384),
        ((64, 8), {"num_kv_heads": 2, "bias": False}, 10_240),
    ],
)
def test_o25_parameters_of_a_layer(sizes, options, total):
    """Counted on the module and from the formula; the number of heads does not enter."""
    assert counting.module_parameters(mhalib.MultiHeadAttention(*sizes, **options)) == total
    assert counting.attention_parameters(*sizes, **({"bias": True} | options)) == total
