"""O21: decoding with a cache gives the rows of the full forward pass, whatever the prompt and the chunks."""

import re
from itertools import pairwise

import pytest
import torch
from oracle import assert_within, normal

from mhalib import KVCache, MultiHeadAttention, RollingKVCache, RotaryEmbedding, counting

#: Two projections of 24 terms and a softmax of at most 24, of size about 1: in float64 below 1e-12, and in float32,
#: where a rounding is 5e8 times larger, in proportion.
EXACT = {torch.float64: 1e-12, torch.float32: 1e-5}
LENGTH = 17


def layer_of(*, dtype=torch.float64, **options):
    """Evaluation mode, biases not 0."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(24, 4, dtype=dtype, **options).eval()
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return layer


def cache_for(layer, *, batch=2, length=LENGTH, rolling=False):
    kind = RollingKVCache if rolling else KVCache
    return kind(batch, layer.num_kv_heads, length, layer.head_dim, dtype=layer.q_proj.weight.dtype)


def pieces(total, prompt, chunk):
    """Slices: the prompt, then chunks; the last may be shorter."""
    edges = [0, *range(prompt, total, chunk), total]
    return [slice(a, b) for a, b in pairwise(edges)]


@torch.no_grad()
def decode(layer, x, cache, slices, **options):
    """Outputs of all steps joined, and the weights of each."""
    outputs, weights = zip(*(layer(x[:, s], causal=True, cache=cache, **options) for s in slices), strict=True)
    return torch.cat(outputs, dim=1), weights


def test_pieces_are_what_the_tests_below_think():
    assert pieces(9, 5, 3) == [slice(0, 5), slice(5, 8), slice(8, 9)]
    assert pieces(3, 1, 1) == [slice(0, 1), slice(1, 2), slice(2, 3)]


# -------------------------------------------------------------------------------------------- equal to the whole


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("rotary", [None, "half", "interleaved"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("prompt", [1, 5])
def test_cached_decoding_equals_the_full_forward(prompt, chunk, kv_heads, rotary, dtype):
    rotary = rotary and RotaryEmbedding(6, layout=rotary)
    layer = layer_of(num_kv_heads=kv_heads, rotary=rotary, dtype=dtype)
    x = normal(2, LENGTH, 24, seed=1, dtype=dtype)
    expected, expected_weights = layer(x, causal=True, need_weights=True)
    for need_weights in (False, True):
        cache = cache_for(layer)
        output, weights = decode(layer, x, cache, pieces(LENGTH, prompt, chunk), need_weights=need_weights)
        assert cache.length == LENGTH
        assert_within(output, expected, EXACT[dtype], "output")
        for s, step in zip(pieces(LENGTH, prompt, chunk), weights, strict=True):
            if need_weights:
                assert_within(step, expected_weights[:, :, s, : s.stop], EXACT[dtype], f"weights of {s}")
            else:
                assert step is None


@pytest.mark.parametrize("backend", ["reference", "tiled", "sdpa"])
@pytest.mark.parametrize("window", [1, 3, 8, 100])
@pytest.mark.parametrize(("prompt", "chunk"), [(1, 1), (5, 1), (5, 3), (11, 2), (17, 1)])
def test_cached_decoding_under_a_window(prompt, chunk, window, backend):
    layer = layer_of(num_kv_heads=2, window=window, rotary=RotaryEmbedding(6), backend=backend)
    x = normal(2, LENGTH, 24, seed=1)
    expected, _ = layer(x, causal=True)
    output, _ = decode(layer, x, cache_for(layer), pieces(LENGTH, prompt, chunk))
    assert_within(output, expected, EXACT[torch.float64], "whole cache")
    rolling = cache_for(layer, length=window, rolling=True)
    output, _ = decode(layer, x, rolling, pieces(LENGTH, prompt, chunk))
    assert_within(output, expected, EXACT[torch.float64], "rolling cache")
    assert rolling.length == LENGTH


@pytest.mark.parametrize("window", [1, 2, 4, 5])
@pytest.mark.parametrize("sizes", [[1] * 17, [9, 8], [2, 7, 1, 1, 6], [4, 4, 4, 5], [1, 16], [3] * 5 + [2]], ids=str)
def test_rolling_cache_for_any_chunks(sizes, window):
    """Chunks smaller than, equal to and larger than the window, and than the room of the buffer."""
    layer = layer_of(num_kv_heads=2, window=window, rotary=RotaryEmbedding(6))
    x = normal(2, LENGTH, 24, seed=1)
    expected, expected_weights = layer(x, causal=True, need_weights=True)
    edges = torch.tensor([0, *sizes]).cumsum(0).tolist()
    slices = [slice(a, b) for a, b in pairwise(edges)]
    output, weights = decode(layer, x, cache_for(layer, length=window, rolling=True), slices, need_weights=True)
    assert_within(output, expected, EXACT[torch.float64], "output")
    for s, step in zip(slices, weights, strict=True):
        first = max(0, s.start - window + 1)  # the window of the first new token begins there
        assert_within(step, expected_weights[:, :, s, first : s.stop], EXACT[torch.float64], f"weights of {s}")


def test_positions_can_be_given_and_are_those_that_follow():
    layer = layer_of(rotary=RotaryEmbedding(6))
    x = normal(2, 6, 24, seed=1)
    places = torch.tensor([0, 2, 3, 7, 8, 20])
    expected, _ = layer(x, causal=True, positions=places)
    cache = cache_for(layer)
    with torch.no_grad():
        steps = [layer(x[:, s], causal=True, positions=places[s], cache=cache)[0] for s in pieces(6, 3, 1)]
    assert_within(torch.cat(steps, 1), expected, EXACT[torch.float64], "output")
    assert not torch.allclose(expected, layer(x, causal=True)[0])


def test_padding_of_the_prompt_stays_hidden():
    """Masks and lengths count all tokens in the cache."""
    layer = layer_of()
    x = normal(2, 6, 24, seed=1)
    mask = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    mask[1, ..., :2] = False  # sequence 1 is padded at the left
    expected, _ = layer(x, causal=True, mask=mask)
    cache = cache_for(layer)
    with torch.no_grad():
        steps = [layer(x[:, s], causal=True, mask=mask[..., : s.stop], cache=cache)[0] for s in pieces(6, 3, 1)]
    assert_within(torch.cat(steps, 1), expected, EXACT[torch.float64], "output")


# ------------------------------------------------------------------------------------------------ the cache alone


def numbered(batch, heads, tokens, size, start=0):
    """Entry (b, h, t, d) says who it is: no two are equal."""
    b, h, t, d = torch.meshgrid(*(torch.arange(n) for n in (batch, heads, tokens, size)), indexing="ij")
    return (1000.0 * b + 100 * h + (start + t) + d / 10).float()


def test_append_returns_all_tokens_in_order():
    cache = KVCache(2, 3, 7, 4, value_dim=2)
    for start, new in ((0, 3), (3, 1), (4, 3)):
        key, value = cache.append(numbered(2, 3, new, 4, start), -numbered(2, 3, new, 2, start))
        assert cache.length == start + new
        assert torch.equal(key, numbered(2, 3, start + new, 4))
        assert torch.equal(value, -numbered(2, 3, start + new, 2))


def test_rolling_append_returns_the_window_before_and_the_new():
    cache = RollingKVCache(1, 1, 4, 2)
    start = 0
    for new in (1, 2, 1, 1, 9, 1, 3, 4, 1, 20, 2):
        key, value = cache.append(numbered(1, 1, new, 2, start), -numbered(1, 1, new, 2, start))
        kept = min(start, 3)
        assert torch.equal(key, numbered(1, 1, kept + new, 2, start - kept))
        assert torch.equal(value, -key)
        start += new
        assert cache.length == start


def test_keys_are_views_of_the_buffer_and_not_repeated_for_query_heads():
    """(B, Hkv, L, D), in the same storage at each step: 4 query heads bring no copy."""
    layer = layer_of(num_kv_heads=2)
    cache, returned = cache_for(layer), []
    append = cache.append
    cache.append = lambda *new: returned.append(append(*new)) or returned[-1]
    decode(layer, normal(2, 6, 24, seed=1), cache, pieces(6, 3, 1))
    assert [tuple(key.shape) for key, _ in returned] == [(2, 2, n, 6) for n in (3, 4, 5, 6)]
    for part in (0, 1):
        assert len({step[part].untyped_storage().data_ptr() for step in returned}) == 1
        assert returned[0][part].untyped_storage().nbytes() == 2 * 2 * LENGTH * 6 * 8
    assert returned[0][0].untyped_storage().data_ptr() != returned[0][1].untyped_storage().data_ptr()


@pytest.mark.parametrize(("dtype", "width"), [(torch.float64, 8), (torch.float32, 4), (torch.float16, 2)], ids=str)
def test_bytes_of_the_buffer_are_those_that_counting_says(dtype, width):
    cache = KVCache(3, 2, 11, 16, dtype=dtype)
    key, value = cache.append(*(torch.zeros(3, 2, 1, 16, dtype=dtype) for _ in range(2)))
    held = key.untyped_storage().nbytes() + value.untyped_storage().nbytes()
    assert held == counting.kv_cache_bytes(1, 2, 16, 11, bytes_per_value=width, batch_size=3)


def test_memory_of_a_rolling_cache_does_not_grow():
    """1000 tokens in the room of twice the window; one long prompt makes room for itself, and no more after that."""
    cache = RollingKVCache(2, 1, 8, 4)
    sizes = set()
    for t in range(1000):
        key, value = cache.append(numbered(2, 1, 1, 4, t), numbered(2, 1, 1, 4, t))
        sizes.add((key.untyped_storage().nbytes(), value.untyped_storage().nbytes()))
    assert sizes == {(2 * 16 * 4 * 4,) * 2}
    assert cache.length == 1000
    cache = RollingKVCache(2, 1, 8, 4)
    cache.append(numbered(2, 1, 100, 4), numbered(2, 1, 100, 4))
    for t in range(100, 400):
        key, _ = cache.append(numbered(2, 1, 1, 4, t), numbered(2, 1, 1, 4, t))
    assert torch.equal(key, numbered(2, 1, 8, 4, 392))
    assert key.untyped_storage().nbytes() <= 2 * 107 * 4 * 4


def test_reset_forgets_the_tokens_and_keeps_the_buffer():
    layer = layer_of(rotary=RotaryEmbedding(6), window=3)
    x, y = normal(2, 9, 24, seed=1), normal(2, 9, 24, seed=2)
    for rolling in (False, True):
        cache = cache_for(layer, length=3 if rolling else 9, rolling=rolling)
        first, _ = decode(layer, x, cache, pieces(9, 4, 1))
        cache.reset()
        assert cache.length == 0
        second, _ = decode(layer, y, cache, pieces(9, 4, 1))
        assert_within(second, layer(y, causal=True)[0], EXACT[torch.float64], "after reset")
        cache.reset()
        again, _ = decode(layer, x, cache, pieces(9, 4, 1))
        assert torch.equal(again, first)


# -------------------------------------------------------------------------------------------------- beam search


@pytest.mark.parametrize("rolling", [False, True], ids=["whole", "rolling"])
@pytest.mark.parametrize("order", [[2, 0, 1], [0, 0, 0], [1, 2, 2], [0, 1, 2]], ids=str)
def test_reorder_equals_recomputation(order, rolling):
    """After the steps so far, sequence b continues from sequence order[b]."""
    layer = layer_of(num_kv_heads=2, rotary=RotaryEmbedding(6), window=4)
    past, future = normal(3, 6, 24, seed=1), normal(3, 5, 24, seed=2)
    cache = cache_for(layer, batch=3, length=4 if rolling else 11, rolling=rolling)
    decode(layer, past, cache, pieces(6, 4, 1))
    index = torch.tensor(order)
    cache.reorder(index)
    assert cache.length == 6
    got, _ = decode(layer, future, cache, pieces(5, 2, 1))
    expected, _ = layer(torch.cat([past[index], future], dim=1), causal=True)
    assert_within(got, expected[:, 6:], EXACT[torch.float64], "after reordering")
    unordered, _ = layer(torch.cat([past, future], dim=1), causal=True)
    assert (order == [0, 1, 2]) == torch.allclose(got, unordered[:, 6:])


def test_reorder_takes_int32_and_an_empty_cache():
    cache = KVCache(2, 1, 4, 2)
    cache.reorder(torch.tensor([1, 0], dtype=torch.int32))
    cache.append(numbered(2, 1, 2, 2), numbered(2, 1, 2, 2))
    cache.reorder(torch.tensor([1, 0], dtype=torch.int32))
    key, _ = cache.append(numbered(2, 1, 1, 2, 2), numbered(2, 1, 1, 2, 2))
    assert torch.equal(key[:, :, :2], numbered(2, 1, 2, 2).flip(0))
    assert torch.equal(key[:, :, 2:], numbered(2, 1, 1, 2, 2))


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        ([1, 0], TypeError, "index: got list; accepted is an integer tensor"),
        (torch.tensor([1.0, 0.0]), TypeError, "index: got torch.float32; accepted is an integer tensor"),
        (torch.tensor([True, False]), TypeError, "index: got torch.bool; accepted is an integer tensor"),
        (torch.tensor([0]), ValueError, r"index: got \[0\]; accepted are 2 numbers from 0 to 1"),
        (torch.tensor([[0, 1]]), ValueError, r"index: got \[\[0, 1\]\]; accepted are 2 numbers from 0 to 1"),
        (torch.tensor([0, 2]), ValueError, r"index: got \[0, 2\]; accepted are 2 numbers from 0 to 1"),
        (torch.tensor([-1, 0]), ValueError, r"index: got \[-1, 0\]; accepted are 2 numbers from 0 to 1"),
    ],
)
def test_reorder_refuses(index, error, words):
    cache = KVCache(2, 1, 4, 2)
    cache.append(numbered(2, 1, 2, 2), numbered(2, 1, 2, 2))
    with pytest.raises(error, match=words):
        cache.reorder(index)
    key, _ = cache.append(numbered(2, 1, 1, 2, 2), numbered(2, 1, 1, 2, 2))
    assert torch.equal(key, numbered(2, 1, 3, 2))


# ----------------------------------------------------------------------------------------------------- refusals


def test_a_full_cache_refuses_and_is_unchanged():
    """It says how long it is, what is taken, what came, and what to do; then it still holds what it held."""
    cache = KVCache(2, 3, 7, 4)
    cache.append(numbered(2, 3, 5, 4), numbered(2, 3, 5, 4))
    words = (
        "cache: full: 5 of max_length=7 tokens are taken and 3 more came; build it with a larger max_length, "
        "start anew with reset(), or keep a window with RollingKVCache"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        cache.append(numbered(2, 3, 3, 4, 90), numbered(2, 3, 3, 4, 90))
    assert cache.length == 5
    key, value = cache.append(numbered(2, 3, 2, 4, 5), numbered(2, 3, 2, 4, 5))
    assert torch.equal(key, numbered(2, 3, 7, 4))
    assert torch.equal(value, numbered(2, 3, 7, 4))
    with pytest.raises(ValueError, match="full: 7 of max_length=7 tokens are taken and 1 more came"):
        cache.append(numbered(2, 3, 1, 4), numbered(2, 3, 1, 4))


def test_a_full_cache_refuses_in_the_layer():
    layer = layer_of(rotary=RotaryEmbedding(6))
    x, cache = normal(2, 6, 24, seed=1), cache_for(layer, length=5)
    with torch.no_grad():
        layer(x[:, :4], causal=True, cache=cache)
        with pytest.raises(ValueError, match="full: 4 of max_length=5 tokens are taken and 2 more came"):
            layer(x[:, 4:], causal=True, cache=cache)
        got, _ = layer(x[:, 4:5], causal=True, cache=cache)
    assert_within(got, layer(x[:, :5], causal=True)[0][:, 4:], EXACT[torch.float64], "after the refusal")


@pytest.mark.parametrize("rolling", [False, True], ids=["whole", "rolling"])
def test_a_refused_call_leaves_no_tokens_in_the_cache(rolling):
    """A mask of the wrong shape is found after the keys were stored; called again, the layer must not count them."""
    layer = layer_of(window=4, rotary=RotaryEmbedding(6))
    x = normal(2, 9, 24, seed=1)
    cache = cache_for(layer, length=4 if rolling else 9, rolling=rolling)
    outputs = []
    with torch.no_grad():
        for s in pieces(9, 3, 2):
            with pytest.raises(ValueError, match=r"mask: got shape \(1, 1, 1, 99\)"):
                layer(x[:, s], causal=True, cache=cache, mask=torch.ones(1, 1, 1, 99, dtype=torch.bool))
            assert cache.length == s.start
            outputs.append(layer(x[:, s], causal=True, cache=cache)[0])
    assert_within(torch.cat(outputs, 1), layer(x, causal=True)[0], EXACT[torch.float64], "output")


@pytest.mark.parametrize(
    ("tokens", "error", "words"),
    [
        (4, ValueError, "tokens: got 4; accepted are 0 to 3, those that are held"),
        (-1, ValueError, "tokens: got -1; accepted is an integer of at least 0"),
        (1.0, TypeError, r"tokens: got 1\.0; accepted is an integer of at least 0"),
    ],
)
def test_take_back(tokens, error, words):
    cache = KVCache(2, 3, 7, 4)
    cache.append(numbered(2, 3, 3, 4), numbered(2, 3, 3, 4))
    with pytest.raises(error, match=words):
        cache.take_back(tokens)
    cache.take_back(2)
    assert cache.length == 1
    key, value = cache.append(numbered(2, 3, 2, 4, 1), numbered(2, 3, 2, 4, 1))
    assert torch.equal(key, numbered(2, 3, 3, 4))
    assert torch.equal(value, key)


GOOD = torch.zeros(2, 3, 1, 4), torch.zeros(2, 3, 1, 2)


@pytest.mark.parametrize("rolling", [False, True], ids=["whole", "rolling"])
@pytest.mark.parametrize(
    ("key", "value", "error", "words"),
    [
        (torch.zeros(2, 3, 4), GOOD[1], ValueError, r"key: got shape \(2, 3, 4\); accepted is \(2, 3, n, 4\)"),
        (torch.zeros(1, 3, 1, 4), GOOD[1], ValueError, r"key: got shape \(1, 3, 1, 4\); accepted is \(2, 3, n, 4\)"),
        (torch.zeros(2, 6, 1, 4), GOOD[1], ValueError, r"key: got shape \(2, 6, 1, 4\)"),
        (torch.zeros(2, 3, 1, 8), GOOD[1], ValueError, r"key: got shape \(2, 3, 1, 8\)"),
        (GOOD[0], torch.zeros(2, 3, 1, 4), ValueError, r"value: got shape \(2, 3, 1, 4\); accepted is \(2, 3, n, 2\)"),
        (GOOD[0], torch.zeros(2, 3, 2, 2), ValueError, "key, value: 1 and 2 tokens; accepted is the same number"),
        (GOOD[0].half(), GOOD[1], TypeError, "key: got torch.float16 on cpu; this cache holds torch.float32 on cpu"),
        (GOOD[0], GOOD[1].double(), TypeError, "value: got torch.float64 on cpu.*same dtype and device"),
        (GOOD[0].to("meta"), GOOD[1], TypeError, "key: got torch.float32 on meta; this cache holds torch.float32 on c"),
        (GOOD[0].clone().requires_grad_(), GOOD[1], ValueError, r"key: autograd is following it.*torch\.no_grad\(\)"),
        (GOOD[0], GOOD[1].clone().requires_grad_(), ValueError, r"value: autograd is following it"),
    ],
)
def test_append_refuses_what_is_not_its_own(key, value, error, words, rolling):
    cache = (RollingKVCache if rolling else KVCache)(2, 3, 5, 4, value_dim=2)
    with pytest.raises(error, match=words):
        cache.append(key, value)
    assert cache.length == 0
    held, _ = cache.append(*(x + 1 for x in GOOD))
    assert torch.equal(held, torch.ones(2, 3, 1, 4))


def test_what_autograd_follows_is_taken_without_gradients():
    cache = KVCache(2, 3, 5, 4, value_dim=2)
    with torch.no_grad():
        key, _ = cache.append(GOOD[0].clone().requires_grad_(), GOOD[1])
    assert not key.requires_grad


def test_a_layer_in_training_says_so_before_the_cache_is_changed():
    layer = layer_of()
    cache = cache_for(layer)
    with pytest.raises(ValueError, match="key: autograd is following it; a cache is for inference"):
        layer(normal(2, 3, 24, seed=1), causal=True, cache=cache)
    assert cache.length == 0


@pytest.mark.parametrize("name", ["batch_size", "num_kv_heads", "max_length", "head_dim", "value_dim"])
@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)])
def test_sizes(name, size, error):
    sizes = {"batch_size": 1, "num_kv_heads": 1, "max_length": 4, "head_dim": 2, "value_dim": 2} | {name: size}
    with pytest.raises(error, match=f"{name}: got {size}; accepted is an integer of at least 1"):
        KVCache(**sizes)


def test_the_layer_refuses():
    layer, x, y = layer_of(), normal(2, 3, 24, seed=1), normal(2, 3, 24, seed=2)
    with torch.no_grad():
        with pytest.raises(ValueError, match="cache: holds the past of self-attention; query and key here are differ"):
            layer(x, y, cache=cache_for(layer))
        with pytest.raises(TypeError, match=r"cache: got tuple; accepted are mhalib\.KVCache and RollingKVCache"):
            layer(x, cache=(x, x))
        with pytest.raises(ValueError, match=r"key: got shape \(2, 4, 3, 6\); accepted is \(1, 4, n, 6\)"):
            layer(x, cache=cache_for(layer, batch=1))
        with pytest.raises(TypeError, match=r"cache: got dict"):
            layer_of(rotary=RotaryEmbedding(6))(x, cache={})


def test_key_lengths_are_refused_once_the_cache_holds_tokens():
    """In the first call they hide the padding; after it they would hide what comes behind the padding."""
    layer, x = layer_of(), normal(2, 5, 24, seed=1)
    cache = cache_for(layer)
    with torch.no_grad():
        layer(x, causal=True, cache=cache, key_lengths=torch.tensor([5, 3]))
        with pytest.raises(ValueError, match=r"key_lengths: .* cache already holds 5, .* mask="):
            layer(x[:, :1], causal=True, cache=cache, key_lengths=torch.tensor([6, 4]))
    assert cache.length == 5


@pytest.mark.parametrize(
    ("window", "causal", "words"),
    [
        (None, True, "this layer has window=None and was called with causal=True"),
        (3, True, "this layer has window=3 and was called with causal=True"),
        (5, True, "this layer has window=5 and was called with causal=True"),
        (4, False, "this layer has window=4 and was called with causal=False"),
    ],
)
def test_a_rolling_cache_serves_its_own_causal_window_only(window, causal, words):
    """Anything else would need keys that it has thrown away."""
    layer = layer_of(window=window)
    cache = cache_for(layer, length=4, rolling=True)
    message = f"cache: keeps a causal window of 4 keys; {words}: build it with window=4 and pass causal=True"
    with torch.no_grad(), pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        layer(normal(2, 3, 24, seed=1), causal=causal, cache=cache)
    assert cache.length == 0
