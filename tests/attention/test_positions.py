"""Positions: each formula a second time, in another form, and `transformers`' code where it has the same thing."""

import math
from types import SimpleNamespace

import pytest
import torch
from oracle import normal
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

import mhalib
from mhalib.positions import t5_bucket

LAYOUTS = ("half", "interleaved")
EPS32, EPS16 = torch.finfo(torch.float32).eps, torch.finfo(torch.bfloat16).eps
#: Angles at positions 0 … 63 in float64, a cosine, two products and a sum: some tens of roundings of 1e-16.
EXACT = 1e-13


# -------------------------------------------------------------------------------------------------- rotary


def pairs(x, layout):
    """The two halves of each pair of channels, (…, D/2) each, by index."""
    half = x.shape[-1] // 2
    if layout == "half":
        return x[..., :half], x[..., half:]
    even = torch.arange(half) * 2
    return x[..., even], x[..., even + 1]


def turned(x, positions, *, base=10000.0, layout="half"):
    """The rotation as a product of complex numbers, in float64: pair i of position m times e^(i · m · θᵢ)."""
    x = x.double()
    dim = x.shape[-1]
    theta = torch.tensor([base ** (-2 * i / dim) for i in range(dim // 2)], dtype=torch.float64)
    angle = positions.double().unsqueeze(-1) * theta
    if positions.dim() == 2:
        angle = angle.unsqueeze(1)
    result = torch.complex(*pairs(x, layout)) * torch.polar(torch.ones_like(angle), angle)
    out = torch.empty_like(x)
    if layout == "half":
        out[..., : dim // 2], out[..., dim // 2 :] = result.real, result.imag
    else:
        out[..., 0::2], out[..., 1::2] = result.real, result.imag
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [10000.0, 500_000, 2.5])
@pytest.mark.parametrize("dim", [2, 4, 6, 40, 64])
def test_rotary_is_multiplication_by_a_complex_number(dim, base, layout):
    rotary = mhalib.RotaryEmbedding(dim, base=base, layout=layout)
    x = normal(2, 3, 17, dim, seed=dim)
    positions = torch.randint(64, (17,), generator=torch.Generator().manual_seed(1))
    got = rotary(x, positions)
    assert got.dtype == x.dtype
    torch.testing.assert_close(got, turned(x, positions, base=base, layout=layout), rtol=0, atol=EXACT)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_of_each_sequence(layout):
    rotary = mhalib.RotaryEmbedding(8, layout=layout)
    x = normal(3, 2, 5, 8, seed=1)
    positions = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2], [7, 3, 60, 3, 11]], dtype=torch.int32)
    got = rotary(x, positions)
    torch.testing.assert_close(got, turned(x, positions, layout=layout), rtol=0, atol=EXACT)
    for b in range(3):
        torch.testing.assert_close(got[b : b + 1], rotary(x[b : b + 1], positions[b]), rtol=0, atol=EXACT)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_position_zero_changes_nothing(layout):
    x = normal(1, 2, 3, 10, seed=2)
    assert torch.equal(mhalib.RotaryEmbedding(10, layout=layout)(x, torch.zeros(3, dtype=torch.long)), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_keeps_the_length_of_each_pair(layout):
    x = normal(2, 2, 9, 12, seed=3)
    got = mhalib.RotaryEmbedding(12, layout=layout)(x, torch.arange(9) * 5)
    assert (got - x).abs().max() > 1
    before, after = (torch.hypot(*pairs(y, layout)) for y in (x, got))
    torch.testing.assert_close(after, before, rtol=0, atol=EXACT)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_depend_on_the_distance_only(layout):
    rotary = mhalib.RotaryEmbedding(16, layout=layout)
    query, key = normal(1, 2, 7, 16, seed=4), normal(1, 2, 7, 16, seed=5)

    def scores(query_positions, key_positions):
        return rotary(query, query_positions) @ rotary(key, key_positions).mT

    here = torch.arange(7)
    # An angle near 1000 is off by 1000 · eps = 2e-13, and so is the score, a sum of 16 products of size 1.
    torch.testing.assert_close(scores(here + 1000, here + 1000), scores(here, here), rtol=0, atol=1e-11)
    assert (scores(here + 1, here) - scores(here, here)).abs().max() > 0.1
    same_place = torch.full((7,), 12)
    torch.testing.assert_close(scores(same_place, same_place), query @ key.mT, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dim", [4, 8, 40])
def test_the_layouts_are_one_after_a_permutation(dim):
    """O17: with two channels there is one pair and no difference, so at least four."""
    half, interleaved = (mhalib.RotaryEmbedding(dim, layout=layout) for layout in LAYOUTS)
    x, positions = normal(1, 2, 6, dim, seed=6), torch.arange(6)
    # Channel c of the half layout is channel order[c] of the interleaved one.
    order = torch.tensor([*range(0, dim, 2), *range(1, dim, 2)])
    assert torch.equal(half(x[..., order], positions), interleaved(x, positions)[..., order])
    assert (half(x, positions) - interleaved(x, positions)).abs().max() > 0.5


def test_the_layouts_are_the_same_for_two_channels():
    half, interleaved = (mhalib.RotaryEmbedding(2, layout=layout) for layout in LAYOUTS)
    x, positions = normal(1, 1, 4, 2, seed=7), torch.arange(4)
    assert torch.equal(half(x, positions), interleaved(x, positions))


@pytest.mark.parametrize("base", [10000.0, 500_000.0])
def test_rotary_of_transformers_llama(base):
    config = SimpleNamespace(
        rope_parameters={"rope_type": "default", "rope_theta": base},
        max_position_embeddings=128,
        hidden_size=48,
        num_attention_heads=4,
        head_dim=12,
    )
    query, key = normal(2, 4, 9, 12, seed=8, dtype=torch.float32), normal(2, 2, 9, 12, seed=9, dtype=torch.float32)
    positions = torch.stack([torch.arange(9), torch.arange(9) + 50])
    theirs = apply_rotary_pos_emb(query, key, *LlamaRotaryEmbedding(config)(query, positions))
    rotary = mhalib.RotaryEmbedding(12, base=base, layout="half")
    for got, want in zip((rotary(query, positions), rotary(key, positions)), theirs, strict=True):
        # Two roundings of the frequency and one of the angle, at most 58: 58 · 1.5 · eps, times pairs of length < 4.
        torch.testing.assert_close(got, want, rtol=0, atol=58 * 1.5 * EPS32 * 4)
    assert (rotary(query, positions) - query).abs().max() > 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_precision_rounds_the_result_and_not_the_angle(layout, dtype):
    """O18. Allowed: one rounding to the dtype, and that of an angle of up to 4096 in float32 (three of eps / 2)."""
    positions = torch.arange(4097)
    x = normal(1, 1, 4097, 8, seed=10).to(dtype)
    got = mhalib.RotaryEmbedding(8, layout=layout)(x, positions)
    assert got.dtype == dtype
    expected = turned(x, positions, layout=layout)
    length = torch.hypot(*pairs(x.double(), layout))
    length = torch.cat((length, length), -1) if layout == "half" else length.repeat_interleave(2, -1)
    angle = 1.5 * EPS32 * positions.double()[:, None] * length
    rounding = torch.finfo(dtype).eps * expected.abs() / 2 + torch.finfo(dtype).smallest_normal
    # Four roundings in float32 of cosine, sine, the products and their sum.
    excess = (got.double() - expected).abs() - rounding - angle - 4 * EPS32 * length
    assert excess.max() <= 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_of_no_tokens(layout):
    x = torch.zeros(2, 3, 0, 4)
    assert mhalib.RotaryEmbedding(4, layout=layout)(x, torch.zeros(0, dtype=torch.long)).shape == (2, 3, 0, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_turns_back(layout):
    """A rotation is orthogonal: the gradient is the upstream gradient turned by the opposite angle."""
    rotary = mhalib.RotaryEmbedding(6, layout=layout)
    x, upstream, positions = normal(1, 1, 5, 6, seed=11), normal(1, 1, 5, 6, seed=12), torch.arange(5)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(rotary(x, positions), x, upstream)
    torch.testing.assert_close(gradient, turned(upstream, -positions, layout=layout), rtol=0, atol=EXACT)


def test_layer_rotates_queries_and_keys_and_leaves_values():
    torch.manual_seed(0)
    layer = mhalib.MultiHeadAttention(8, 2, rotary=mhalib.RotaryEmbedding(4), dtype=torch.float64)
    x = normal(2, 6, 8, seed=14)
    heads = [projection(x).view(2, 6, 2, 4).transpose(1, 2) for projection in (layer.q_proj, layer.k_proj)]
    query, key = (turned(part, torch.arange(6)) for part in heads)
    want = torch.softmax(query @ key.mT / 2, dim=-1)
    value = layer.v_proj(x).view(2, 6, 2, 4).transpose(1, 2)
    joined = layer.out_proj((want @ value).transpose(1, 2).reshape(2, 6, 8))
    for positions in (None, torch.arange(6), torch.arange(6).expand(2, 6), torch.arange(6) + 30):
        output, weights = layer(x, positions=positions, need_weights=True)
        torch.testing.assert_close(weights, want, rtol=0, atol=EXACT)
        torch.testing.assert_close(output, joined, rtol=0, atol=EXACT)
    _, spread = layer(x, positions=torch.arange(6) * 3, need_weights=True)
    assert (spread - want).abs().max() > 0.01


X = torch.zeros(2, 1, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: mhalib.RotaryEmbedding(5), ValueError, "head_dim: got 5; accepted is an even number"),
        (lambda: mhalib.RotaryEmbedding(0), ValueError, "head_dim: got 0; accepted is an integer of at least 1"),
        (lambda: mhalib.RotaryEmbedding(4.0), TypeError, "head_dim: got 4.0; accepted is an integer"),
        (
            lambda: mhalib.RotaryEmbedding(4, layout="neox"),
            ValueError,
            "layout: got 'neox'; accepted are .*'half', 'in",
        ),
        (lambda: mhalib.RotaryEmbedding(4, base=1), ValueError, "base: got 1; accepted is a finite number above 1"),
        (
            lambda: mhalib.RotaryEmbedding(4, base=True),
            TypeError,
            "base: got bool True; accepted is a finite number above 1",
        ),
        (
            lambda: mhalib.RotaryEmbedding(4, base="1e4"),
            TypeError,
            "base: got str '1e4'; accepted is a finite number above 1",
        ),
        (lambda: mhalib.RotaryEmbedding(4, base=math.nan), ValueError, "base: got nan; accepted is a finite number"),
        (lambda: mhalib.RotaryEmbedding(4, base=math.inf), ValueError, "base: got inf; accepted is a finite number"),
        (
            lambda: mhalib.RotaryEmbedding(4)(X[0], torch.arange(3)),
            ValueError,
            r"x: got shape \(1, 3, 4\); accepted is \(B, H, L, 4\)",
        ),
        (
            lambda: mhalib.RotaryEmbedding(8)(X, torch.arange(3)),
            ValueError,
            r"x: got shape \(2, 1, 3, 4\); accepted is \(B, H, L, 8\)",
        ),
        (
            lambda: mhalib.RotaryEmbedding(4)(X, torch.arange(3.0)),
            TypeError,
            "positions: got torch.float32; accepted is an integer tensor",
        ),
        (
            lambda: mhalib.RotaryEmbedding(4)(X, [0, 1, 2]),
            TypeError,
            "positions: got list; accepted is an integer tensor",
        ),
        (
            lambda: mhalib.RotaryEmbedding(4)(X, torch.ones(3, dtype=torch.bool)),
            TypeError,
            "positions: got torch.bool; accepted is an integer tensor",
        ),
        (
            lambda: mhalib.RotaryEmbedding(4)(X, torch.arange(4)),
            ValueError,
            r"positions: got shape \(4,\); accepted are \(3,\) and \(2, 3\)",
        ),
        (
            lambda: mhalib.RotaryEmbedding(4)(X, torch.zeros(1, 3, dtype=torch.long)),
            ValueError,
            r"positions: got shape \(1, 3\); accepted are \(3,\) and \(2, 3\)",
        ),
        (
            lambda: mhalib.MultiHeadAttention(8, 2, rotary=mhalib.RotaryEmbedding(8)),
            ValueError,
            "rotary: .*8.* 4",
        ),
        (
            lambda: mhalib.MultiHeadAttention(8, 2)(torch.zeros(1, 3, 8), positions=torch.arange(3)),
            ValueError,
            "positions: this layer has no rotary embedding",
        ),
        (
            lambda: mhalib.MultiHeadAttention(8, 2, rotary=mhalib.RotaryEmbedding(4))(
                torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)
            ),
            ValueError,
            "rotary: defined for self-attention",
        ),
        (lambda: mhalib.sinusoidal_positions(4, 5), ValueError, "d_model: got 5; accepted is an even number"),
        (
            lambda: mhalib.sinusoidal_positions(-1, 4),
            ValueError,
            "length: got -1; accepted is an integer of at least 0",
        ),
        (lambda: mhalib.sinusoidal_positions(4, 0), ValueError, "d_model: got 0; accepted is an integer of at least 1"),
        (lambda: mhalib.sinusoidal_positions(4.0, 4), TypeError, "length: got 4.0; accepted is an integer"),
        (lambda: mhalib.alibi_slopes(0), ValueError, "num_heads: got 0; accepted is an integer of at least 1"),
        (lambda: mhalib.alibi_slopes(8.0), TypeError, "num_heads: got 8.0; accepted is an integer"),
        (lambda: t5_bucket(torch.zeros(2)), TypeError, "distance: got torch.float32; accepted is an integer tensor"),
        (lambda: t5_bucket(torch.ones(2) > 0), TypeError, "distance: got torch.bool; accepted is an integer tensor"),
        (
            lambda: t5_bucket(torch.arange(3), num_buckets=30),
            ValueError,
            "num_buckets, max_distance: got 30 and 128; accepted are a multiple of 4",
        ),
        (
            lambda: t5_bucket(torch.arange(3), max_distance=8),
            ValueError,
            "num_buckets, max_distance: got 32 and 8; .*a distance beyond the 8",
        ),
        (
            lambda: t5_bucket(torch.arange(3), max_distance=16, bidirectional=False),
            ValueError,
            "num_buckets, max_distance: got 32 and 16; .*a distance beyond the 16",
        ),
    ],
)
def test_refusals_name_the_argument_what_came_and_what_is_accepted(call, error, words):
    with pytest.raises(error, match=words):
        call()


# ---------------------------------------------------------------------------------------------- sinusoidal


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (17, 6), (600, 64)])
def test_sinusoidal_by_the_formula(length, d_model):
    got = mhalib.sinusoidal_positions(length, d_model)
    assert got.dtype == torch.float32
    assert got.shape == (length, d_model)
    want = torch.zeros(length, d_model, dtype=torch.float64)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            want[position, 2 * i], want[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    # Computed in float64 and rounded once: half a unit in the last place of a number of at most 1.
    torch.testing.assert_close(got.double(), want, rtol=0, atol=EPS32 / 2)


def test_sinusoidal_of_no_positions():
    assert mhalib.sinusoidal_positions(0, 4).shape == (0, 4)


# --------------------------------------------------------------------------------------------------- ALiBi


def slopes_by_the_rule(num_heads):
    """A geometric series that starts at its own ratio for 1, 2, 4, …; else the power below, then every other slope
    of the power above."""
    if num_heads & (num_heads - 1) == 0:
        ratio = 0.5 ** (8 / num_heads)
        return [ratio ** (head + 1) for head in range(num_heads)]
    below = 1
    while below * 2 < num_heads:
        below *= 2
    return slopes_by_the_rule(below) + slopes_by_the_rule(2 * below)[0::2][: num_heads - below]


@pytest.mark.parametrize("num_heads", range(1, 21))
def test_alibi_slopes(num_heads):
    """O19, with `transformers`' Bloom as a second witness: its bias of key 1 is the slope."""
    got = mhalib.alibi_slopes(num_heads)
    assert got.dtype == torch.float32
    want = torch.tensor(slopes_by_the_rule(num_heads), dtype=torch.float64)
    torch.testing.assert_close(got.double(), want, rtol=EPS32, atol=0)
    bloom = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), num_heads, torch.float32)[:, 0, 1]
    # Bloom takes float32 powers of a float32 ratio, up to the 16th: as many relative roundings.
    torch.testing.assert_close(got, bloom, rtol=16 * EPS32, atol=0)
    assert got.unique().numel() == num_heads


@pytest.mark.parametrize("num_heads", [4, 6])
def test_alibi_as_a_bias_is_bloom(num_heads):
    """Bloom adds slope · j; slope · (j − i) differs by a number per row, which softmax does not see."""
    query, key, value = (normal(2, num_heads, 7, 8, seed=seed) for seed in (15, 16, 17))
    place = torch.arange(7)
    distance = (place - place[:, None]).double()
    bias = mhalib.alibi_slopes(num_heads).double()[None, :, None, None] * distance
    bloom = build_alibi_tensor(torch.ones(2, 7, dtype=torch.long), num_heads, torch.float64)
    outputs = [
        mhalib.attention(query, key, value, bias=extra, causal=True) for extra in (bias, bloom.view(2, num_heads, 1, 7))
    ]
    # Bloom's slopes are float32 powers (see above), times at most 6 positions, in scores whose softmax is 2-Lipschitz.
    torch.testing.assert_close(*outputs, rtol=0, atol=2 * 6 * 16 * EPS32)
    assert (outputs[0] - mhalib.attention(query, key, value, causal=True)).abs().max() > 0.1


# ------------------------------------------------------------------------------------------------------ T5


@pytest.mark.parametrize("bidirectional", [True, False], ids=["both directions", "past only"])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (16, 50), (64, 200), (8, 300)])
def test_t5_buckets(num_buckets, max_distance, bidirectional):
    distance = torch.arange(-200, 201)
    options = {"num_buckets": num_buckets, "max_distance": max_distance, "bidirectional": bidirectional}
    got = t5_bucket(distance, **options)
    assert got.dtype == torch.int64
    assert torch.equal(got, T5Attention._relative_position_bucket(distance, **options))
    assert got.min() == 0
    if max_distance <= 200:
        assert got.max() == num_buckets - 1


def test_t5_bucket_keeps_the_shape_and_takes_small_integers():
    distance = torch.arange(-12, 12, dtype=torch.int16).view(2, 3, 4)
    assert torch.equal(t5_bucket(distance), t5_bucket(distance.long().flatten()).view(2, 3, 4))
