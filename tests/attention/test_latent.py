"""Latent attention: two ways to the same numbers, a cache of kv_rank + rope_dim numbers a token, and its formula."""

import math

import pytest
import torch
from oracle import assert_within, normal

from mhalib import counting
from mhalib.latent import MultiHeadLatentAttention

#: Projections of up to 24 terms, twice, and a softmax of at most 13, of size about 1, in float64.
EXACT = 1e-12
SIZES = {"head_dim": 5, "kv_rank": 7, "rope_dim": 4}
LENGTH = 13


def layer_of(num_heads=3, *, q_rank=None, dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    return MultiHeadLatentAttention(24, num_heads, q_rank=q_rank, **(SIZES | sizes)).to(dtype)


def some_x(batch=2, length=LENGTH, seed=1, dtype=torch.float64):
    return normal(batch, length, 24, seed=seed, dtype=dtype)


# ------------------------------------------------------------------------------------------------ absorbed = plain


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("q_rank", [None, 6])
@pytest.mark.parametrize("num_heads", [1, 3])
def test_absorbed_equals_plain(num_heads, q_rank, causal):
    """Outputs, and the gradients of the input and of every weight."""
    results = []
    for absorbed in (False, True):
        layer, x = layer_of(num_heads, q_rank=q_rank), some_x().requires_grad_()
        output = layer(x, causal=causal, absorbed=absorbed)
        output.backward(normal(2, LENGTH, 24, seed=2))
        results.append((output, x.grad, *(parameter.grad for parameter in layer.parameters())))
    for plain, absorbed in zip(*results, strict=True):
        assert plain.abs().max() > 0.01
        # A gradient of a weight sums over 2 · 13 tokens.
        assert_within(absorbed, plain, 10 * EXACT, "absorbed")


@pytest.mark.parametrize("absorbed", [False, True])
def test_the_options_matter(absorbed):
    """Causal hides, positions turn, and each head has values of its own: none of it is left out on both ways alike."""
    layer, x = layer_of(), some_x()
    plain = layer(x, absorbed=absorbed)
    assert not torch.allclose(layer(x, causal=True, absorbed=absorbed), plain)
    assert not torch.allclose(layer(x, positions=2 * torch.arange(LENGTH), absorbed=absorbed), plain)
    shifted = layer(x, positions=torch.arange(LENGTH) + 50, absorbed=absorbed)
    assert_within(shifted, plain, 10 * EXACT, "only distances matter")
    other = layer_of()
    with torch.no_grad():
        other.v_up.weight[:5] *= 2
    assert not torch.allclose(other(x, absorbed=absorbed), plain)


@pytest.mark.parametrize("absorbed", [False, True])
def test_no_later_token_changes_an_earlier_row(absorbed):
    layer, x = layer_of(), some_x()
    before = layer(x, causal=True, absorbed=absorbed)
    for t in range(1, LENGTH, 4):
        other = x.clone()
        other[:, t:] += 1
        after = layer(other, causal=True, absorbed=absorbed)
        assert torch.equal(after[:, :t], before[:, :t])
        assert (after[:, t:] != before[:, t:]).any(-1).all()


# ------------------------------------------------------------------------------------------ the formula, by loops


def turned(vector, position):
    """Channels 2i and 2i + 1 turned by position / 10000^(2i / size)."""
    result = vector.clone()
    for i in range(0, len(vector), 2):
        angle = position / 10000 ** (i / len(vector))
        result[i] = vector[i] * math.cos(angle) - vector[i + 1] * math.sin(angle)
        result[i + 1] = vector[i] * math.sin(angle) + vector[i + 1] * math.cos(angle)
    return result


@pytest.mark.parametrize("absorbed", [False, True])
@pytest.mark.parametrize("q_rank", [None, 6])
@torch.no_grad()
def test_one_head_by_loops(q_rank, absorbed):
    """DeepSeek-V2, §2.1.2 and §2.1.3, a token at a time, for head 1 of 3: the other heads' output weights are 0."""
    layer, x, head = layer_of(q_rank=q_rank), some_x(), 1
    layer.out_proj.weight[:, :5] = 0
    layer.out_proj.weight[:, 10:] = 0
    w_query = layer.q_proj.weight if q_rank is None else layer.q_proj[1].weight @ layer.q_proj[0].weight
    w_query = w_query[head * 9 : (head + 1) * 9]  # 5 channels without position, 4 that turn
    w_key, w_value = (up.weight[head * 5 : (head + 1) * 5] for up in (layer.k_up, layer.v_up))
    w_out = layer.out_proj.weight[:, head * 5 : (head + 1) * 5]
    expected = torch.zeros_like(x)
    for b in range(2):
        for i in range(LENGTH):
            query = w_query @ x[b, i]
            scores, values = [], []
            for j in range(i + 1):
                latent = layer.kv_down.weight @ x[b, j]
                content = query[:5] @ (w_key @ latent)
                position = turned(query[5:], i) @ turned(layer.rope_key.weight @ x[b, j], j)
                scores.append((content + position) / math.sqrt(5 + 4))
                values.append(w_value @ latent)
            weights = torch.stack(scores).softmax(0)
            expected[b, i] = w_out @ (weights @ torch.stack(values))
    assert expected.abs().max() > 0.01
    assert_within(layer(x, causal=True, absorbed=absorbed), expected, EXACT, "head 1")


# ----------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("absorbed", [False, True])
@pytest.mark.parametrize("q_rank", [None, 6])
@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("prompt", [1, 5])
@torch.no_grad()
def test_decoding_from_what_was_compressed_equals_the_full_forward(prompt, chunk, q_rank, absorbed):
    layer, x = layer_of(q_rank=q_rank), some_x()
    expected = layer(x, causal=True)
    cached, start, step, outputs = torch.empty(2, 0, 11, dtype=torch.float64), 0, prompt, []
    while start < LENGTH:
        new = x[:, start : start + step]
        positions = torch.arange(start, start + new.shape[1])
        cached = torch.cat([cached, layer.compress(new, positions)], dim=1)
        outputs.append(layer(new, cached, causal=True, absorbed=absorbed))
        start, step = start + new.shape[1], chunk
    assert_within(torch.cat(outputs, 1), expected, EXACT, "output")
    assert_within(cached, layer.compress(x), EXACT, "cached")


@torch.no_grad()
def test_positions_for_each_sequence():
    layer, x = layer_of(), some_x()
    each = torch.stack([torch.arange(LENGTH), 3 * torch.arange(LENGTH)])
    both = layer(x, positions=each, causal=True)
    for b in (0, 1):
        alone = layer(x[b : b + 1], positions=each[b], causal=True)
        assert_within(both[b : b + 1], alone, EXACT, f"sequence {b}")


def test_what_is_cached_is_the_latent_and_the_turned_key():
    layer, x = layer_of(), some_x()
    cached = layer.compress(x)
    assert_within(cached[..., :7], layer.kv_down(x), EXACT, "latent")
    keys = layer.rope_key(x)
    for t in (0, 1, 12):
        assert_within(cached[1, t, 7:], turned(keys[1, t].detach(), t), EXACT, f"key of token {t}")


# ------------------------------------------------------------------------------------------------------ counting


@pytest.mark.parametrize("num_heads", [1, 3, 8])
@pytest.mark.parametrize(("dtype", "width"), [(torch.float64, 8), (torch.float32, 4)], ids=str)
def test_bytes_of_the_cache_do_not_depend_on_the_heads(dtype, width, num_heads):
    cached = layer_of(num_heads, dtype=dtype).compress(some_x(dtype=dtype))
    held = cached.untyped_storage().nbytes()
    assert held == counting.latent_cache_bytes(1, 7, 4, LENGTH, bytes_per_value=width, batch_size=2)
    assert held == 2 * LENGTH * (7 + 4) * width


@pytest.mark.parametrize(("num_heads", "q_rank"), [(1, 6), (3, 6), (8, 2)])
def test_parameters_are_those_that_counting_says(num_heads, q_rank):
    total = counting.latent_attention_parameters(24, num_heads, q_rank=q_rank, **SIZES)
    assert counting.module_parameters(layer_of(num_heads, q_rank=q_rank)) == total
    without = total - 24 * q_rank - q_rank * num_heads * 9 + 24 * num_heads * 9
    assert counting.module_parameters(layer_of(num_heads)) == without


# ----------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", ["d_model", "num_heads", "head_dim", "kv_rank", "rope_dim", "q_rank"])
@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (4.0, TypeError), (True, TypeError)])
def test_sizes(name, size, error):
    sizes = {"d_model": 24, "num_heads": 3, "q_rank": 6, **SIZES} | {name: size}
    with pytest.raises(error, match=f"{name}: got {size}; accepted is an integer of at least 1"):
        MultiHeadLatentAttention(**sizes)


def test_channels_turn_in_pairs():
    with pytest.raises(ValueError, match="got 3; accepted is an even number, channels turn in pairs"):
        layer_of(rope_dim=3)


@pytest.mark.parametrize("call", ["forward", "compress"])
@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.zeros(13, 24), ValueError, r"x: got shape \(13, 24\); accepted is \(B, L, 24\)"),
        (torch.zeros(2, 13, 23), ValueError, r"x: got shape \(2, 13, 23\); accepted is \(B, L, 24\)"),
        ([[1.0]], TypeError, "x: got list; accepted is a tensor"),
    ],
)
def test_x_is_checked(call, x, error, words):
    with pytest.raises(error, match=words):
        getattr(layer_of(dtype=torch.float32), call)(x)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((2, LENGTH, 12), r"cached: got shape \(2, 13, 12\); accepted is \(2, Lk, 11\), as compress\(\) gives it"),
        ((1, LENGTH, 11), r"cached: got shape \(1, 13, 11\); accepted is \(2, Lk, 11\)"),
        ((LENGTH, 11), r"cached: got shape \(13, 11\); accepted is \(2, Lk, 11\)"),
        ((2, LENGTH - 1, 11), "cached: got 12 tokens for the 13 of x; accepted are its own and all before"),
    ],
)
def test_cached_is_checked(size, words):
    with pytest.raises(ValueError, match=words):
        layer_of()(some_x(), torch.zeros(size, dtype=torch.float64), causal=True)


def test_positions_are_checked():
    for call in (layer_of(), layer_of().compress):
        with pytest.raises(ValueError, match=r"positions: got shape \(4,\)"):
            call(some_x(), positions=torch.arange(4))
        with pytest.raises(TypeError, match=r"positions: got torch\.float32"):
            call(some_x(), positions=torch.ones(LENGTH))
