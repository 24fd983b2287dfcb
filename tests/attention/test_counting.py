"""Counts are whole numbers and exact: against real modules, real matrix products, masks drawn out, printed values."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import mhalib
from mhalib import counting

small = st.integers(1, 9)


@st.composite
def head_shapes(draw):
    """(d_model, num_heads, num_kv_heads, head_dim), head_dim free of d_model."""
    num_kv_heads, group = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return draw(st.integers(1, 40)), num_kv_heads * group, num_kv_heads, draw(st.integers(1, 16))


# parameters


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8, 16, 64, 512])
def test_the_head_count_does_not_change_the_number(num_heads):
    assert counting.attention_parameters(512, num_heads) == 1_048_576
    assert counting.attention_parameters(512, num_heads, bias=True) == 1_050_624


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"d_model": 64, "num_heads": 8, "bias": True}, 16_640),
        ({"d_model": 64, "num_heads": 8}, 16_384),
        ({"d_model": 64, "num_heads": 8, "num_kv_heads": 2}, 10_240),
        ({"d_model": 64, "num_heads": 8, "num_kv_heads": 1}, 9_216),
        ({"d_model": 64, "num_heads": 8, "num_kv_heads": 2, "bias": "qkv"}, 10_240 + 64 + 2 * 16),
        ({"d_model": 64, "num_heads": 8, "num_kv_heads": 2, "bias": True}, 10_240 + 64 + 2 * 16 + 64),
        ({"d_model": 768, "num_heads": 12, "bias": True}, 2_362_368),  # BERT base
        ({"d_model": 1024, "num_heads": 128, "head_dim": 128}, 67_108_864),  # T5-11B
        ({"d_model": 18_432, "num_heads": 48, "num_kv_heads": 1, "head_dim": 256}, 462_422_016),  # PaLM 540B
    ],
)
def test_known_counts(arguments, count):
    assert counting.attention_parameters(**arguments) == count


def test_nn_multihead_attention_with_and_without_bias():
    assert counting.module_parameters(nn.MultiheadAttention(64, 8)) == 16_640
    assert counting.module_parameters(nn.MultiheadAttention(64, 8, bias=False)) == 16_384


def test_the_printed_786432_6291456_and_what_it_leaves_out():
    """Three d × d matrices, once and eight times over; the output matrix and the biases are not in it."""
    d_model, num_heads = 512, 8
    query_key_value = 3 * d_model**2
    assert query_key_value == 786_432
    assert num_heads * query_key_value == 6_291_456
    assert num_heads * query_key_value / query_key_value == 8.0
    assert counting.attention_parameters(d_model, num_heads) - query_key_value == 262_144
    assert counting.attention_parameters(d_model, num_heads, bias=True) - query_key_value == 262_144 + 4 * 512


@given(head_shapes(), st.booleans())
@settings(deadline=None)
def test_equals_a_stack_of_linear_layers(shape, bias):
    d_model, num_heads, num_kv_heads, head_dim = shape
    inner, inner_kv = num_heads * head_dim, num_kv_heads * head_dim
    stack = [nn.Linear(d_model, width, bias=bias) for width in (inner, inner_kv, inner_kv)]
    stack.append(nn.Linear(inner, d_model, bias=bias))
    numbers = [sum(p.numel() for p in layer.parameters()) for layer in stack]
    assert counting.attention_parameters(*shape, bias=bias) == sum(numbers)
    if bias:  # "qkv" is the same without the output's bias
        assert counting.attention_parameters(*shape, bias="qkv") == sum(numbers) - d_model


@given(head_shapes(), st.booleans())
@settings(deadline=None, max_examples=30)
def test_equals_the_librarys_layer(shape, bias):
    d_model, num_heads, num_kv_heads, head_dim = shape
    layer = mhalib.MultiHeadAttention(
        d_model, num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim, bias=bias, device="meta"
    )
    assert counting.attention_parameters(*shape, bias=bias) == counting.module_parameters(layer)


@given(small, small, small, small, small, small)
@settings(deadline=None)
def test_latent_attention_equals_its_matrices(d_model, num_heads, q_rank, kv_rank, head_dim, rope_dim):
    matrices = [
        nn.Linear(d_model, q_rank, bias=False),
        nn.Linear(q_rank, num_heads * (head_dim + rope_dim), bias=False),
        nn.Linear(d_model, kv_rank + rope_dim, bias=False),
        nn.Linear(kv_rank, num_heads * (head_dim + head_dim), bias=False),
        nn.Linear(num_heads * head_dim, d_model, bias=False),
    ]
    assert counting.latent_attention_parameters(
        d_model, num_heads, q_rank=q_rank, kv_rank=kv_rank, head_dim=head_dim, rope_dim=rope_dim
    ) == sum(matrix.weight.numel() for matrix in matrices)


@given(st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans())
@settings(deadline=None)
def test_mlp_equals_its_linear_layers(d_model, d_ff, gated, bias):
    layers = [nn.Linear(d_model, d_ff, bias=bias) for _ in range(2 if gated else 1)]
    layers.append(nn.Linear(d_ff, d_model, bias=bias))
    assert counting.mlp_parameters(d_model, d_ff, gated=gated, bias=bias) == sum(
        counting.module_parameters(layer) for layer in layers
    )


def test_tied_weights_count_once():
    """O25: a tied 10 × 4 pair is 40 parameters under two names; the state dict adds up to 80."""
    model = nn.Module()
    model.embedding, model.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    assert counting.module_parameters(model) == 80
    model.head.weight = model.embedding.weight
    assert counting.module_parameters(model) == 40
    assert sum(value.numel() for value in model.state_dict().values()) == 80


def test_buffers_are_not_parameters_and_frozen_weights_are():
    module = nn.BatchNorm1d(7)
    assert counting.module_parameters(module) == 14
    assert counting.module_parameters(module.requires_grad_(False)) == 14


def test_module_parameters_refuses_what_it_cannot_count():
    with pytest.raises(TypeError, match=r"module: got dict; accepted is a torch.nn.Module"):
        counting.module_parameters(dict(nn.Linear(2, 2).state_dict()))
    lazy = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"0\.weight, 0\.bias has no size before the first call"):
        counting.module_parameters(lazy)


# pairs


def drawn(lq, lk, causal, window):
    """The same rule, one pair at a time."""
    count = 0
    for i, j in itertools.product(range(lq), range(lk)):
        p = i + lk - lq
        seen = j <= p or not causal
        if window is not None:
            seen = seen and (p - j < window if causal else abs(p - j) < window)
        count += seen
    return count


@given(st.integers(1, 14), st.integers(1, 14), st.booleans(), st.none() | st.integers(1, 16))
def test_visible_pairs_equals_counting_them(lq, lk, causal, window):
    assert counting.visible_pairs(lq, lk, causal=causal, window=window) == drawn(lq, lk, causal, window)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 14))
@settings(deadline=None)
def test_visible_pairs_equals_the_librarys_masks(lq, lk, window):
    assert counting.visible_pairs(lq, lk, causal=True) == int(mhalib.masks.causal(lq, lk).sum())
    for causal in (True, False):
        mask = mhalib.masks.window(lq, lk, window, causal=causal)
        assert counting.visible_pairs(lq, lk, causal=causal, window=window) == int(mask.sum())


@given(st.integers(1, 5000), st.data())
def test_visible_pairs_closed_forms(length, data):
    window = data.draw(st.integers(1, length))
    assert counting.visible_pairs(length) == length**2
    assert counting.visible_pairs(length, causal=True) == length * (length + 1) // 2
    assert counting.visible_pairs(length, causal=True, window=window) == length * window - window * (window - 1) // 2


# FLOPs


def layer_by_products(batch_size, lq, lk, shape, requires_grad=False):
    """One attention layer as plain matrix products, grouped heads repeated; returns the output."""
    d_model, num_heads, num_kv_heads, head_dim = shape
    x = torch.ones(batch_size, lq, d_model, requires_grad=requires_grad)
    memory = torch.ones(batch_size, lk, d_model, requires_grad=requires_grad)

    def project(inputs, width):
        return inputs @ torch.ones(inputs.shape[-1], width, requires_grad=requires_grad)

    def split(inputs, heads):
        return inputs.view(batch_size, -1, heads, head_dim).transpose(1, 2)

    query = split(project(x, num_heads * head_dim), num_heads)
    key, value = (split(project(memory, num_kv_heads * head_dim), num_kv_heads) for _ in range(2))
    group = num_heads // num_kv_heads
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    weights = (query @ key.transpose(-1, -2)).softmax(-1)
    joined = (weights @ value).transpose(1, 2).reshape(batch_size, lq, -1)
    return project(joined, d_model)


@given(st.integers(1, 3), small, small, head_shapes())
@settings(deadline=None, max_examples=40)
def test_flops_equal_those_of_real_products(batch_size, lq, lk, shape):
    with FlopCounterMode(display=False) as counter:
        layer_by_products(batch_size, lq, lk, shape)
    flops = counting.attention_flops(lq, *shape, key_length=lk, batch_size=batch_size)
    assert flops.total == counter.get_total_flops()


@given(st.integers(1, 3), small, head_shapes())
@settings(deadline=None, max_examples=40)
def test_training_flops_equal_those_of_a_real_backward_pass(batch_size, length, shape):
    with FlopCounterMode(display=False) as counter:
        layer_by_products(batch_size, length, length, shape, requires_grad=True).sum().backward()
    flops = counting.attention_flops(length, *shape, batch_size=batch_size, training=True)
    assert flops.total == counter.get_total_flops()


def test_flops_of_the_librarys_layer_with_grouped_heads():
    layer = mhalib.MultiHeadAttention(64, 8, num_kv_heads=2, backend="reference")
    with FlopCounterMode(display=False) as counter:
        layer(torch.ones(3, 10, 64), causal=True)
    # The reference backend computes every score and masks afterwards: `causal` halves nothing there.
    assert counter.get_total_flops() == counting.attention_flops(10, 64, 8, 2, batch_size=3).total


def test_flops_by_part_have_the_textbook_form():
    length, d = 1000, 512
    flops = counting.attention_flops(length, d, 8)
    assert flops.projections == 8 * length * d**2
    assert flops.scores == flops.weighted_sum == 2 * length**2 * d
    assert flops.attention == 4 * length**2 * d
    assert flops.total == flops.projections + flops.attention
    causal = counting.attention_flops(length, d, 8, causal=True)
    assert causal.attention == 2 * length * (length + 1) * d
    assert causal.projections == flops.projections


@pytest.mark.parametrize("num_kv_heads", [8, 4, 2, 1])
def test_grouped_heads_leave_the_scores_as_they_are(num_kv_heads):
    grouped = counting.attention_flops(1000, 512, 8, num_kv_heads)
    assert grouped.attention == 4 * 1000**2 * 512
    assert grouped.projections == 4 * 1000 * 512**2 * (8 + num_kv_heads) // 8


def test_recomputation_makes_the_backward_pass_two_and_a_half_times():
    forward = counting.attention_flops(64, 32, 4)
    plain = counting.attention_flops(64, 32, 4, training=True)
    flash = counting.attention_flops(64, 32, 4, training=True, recompute=True)
    assert plain.total == 3 * forward.total
    assert 2 * (flash.attention - forward.attention) == 5 * forward.attention
    assert flash.projections == plain.projections


def test_a_decoding_step_projects_one_token_and_meets_all():
    step = counting.attention_flops(1, 4096, 32, 8, key_length=5000, projected_keys=1)
    assert step.projections == 2 * counting.attention_parameters(4096, 32, 8)
    assert step.attention == 4 * 5000 * 4096


# crossover


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3), st.integers(1, 6), st.booleans())
def test_crossover_is_the_first_length_where_attention_costs_as_much(d_model, num_kv_heads, group, head_dim, causal):
    num_heads = num_kv_heads * group
    length = counting.crossover_length(d_model, num_heads, num_kv_heads, causal=causal)

    def reached(n):
        flops = counting.attention_flops(n, d_model, num_heads, num_kv_heads, head_dim, causal=causal)
        return flops.attention >= flops.projections

    assert reached(length)
    assert length == 1 or not reached(length - 1)


def test_crossover_values():
    assert counting.crossover_length(512) == counting.crossover_length(512, 8) == 1024
    assert counting.crossover_length(4096, 32, 8) == 5120
    assert counting.crossover_length(4096, 32, 1) == 4224
    assert counting.crossover_length(512, causal=True) == 2047
    with_mlp = counting.attention_flops(6 * 512, 512, 8)
    assert with_mlp.attention == with_mlp.projections + 2 * 6 * 512 * counting.mlp_parameters(512, 2048)


# bytes


@given(small, small, small, small, st.sampled_from([1, 2, 4, 8]))
def test_score_matrix_bytes_are_those_of_the_tensor(batch_size, num_heads, lq, lk, size):
    dtype = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[size]
    scores = torch.empty(batch_size, num_heads, lq, lk, dtype=dtype)
    assert counting.score_matrix_bytes(batch_size, num_heads, lq, lk, size) == scores.nbytes


def test_score_matrix_of_8192_tokens():
    assert counting.score_matrix_bytes(1, 1, 8192, 8192, 2) == 128 * 2**20
    assert counting.score_matrix_bytes(1, 32, 8192, 8192, 2) == 4 * 2**30


@given(small, small, small, small, small)
def test_kv_cache_bytes_are_those_of_the_tensors(layers, num_kv_heads, head_dim, tokens, batch_size):
    cache = torch.empty(2, layers, batch_size, num_kv_heads, tokens, head_dim, dtype=torch.bfloat16)
    count = counting.kv_cache_bytes(layers, num_kv_heads, head_dim, tokens, batch_size=batch_size)
    assert count == cache.nbytes
    assert counting.kv_cache_bytes(layers, num_kv_heads, head_dim, tokens, 4, batch_size) == 2 * count


@pytest.mark.parametrize(("tokens", "kept"), [(1, 1), (4095, 4095), (4096, 4096), (4097, 4096), (32768, 4096)])
def test_a_window_stops_the_cache(tokens, kept):
    assert counting.kv_cache_bytes(32, 8, 128, tokens, window=4096) == 131_072 * kept


def test_latent_cache():
    assert counting.latent_cache_bytes(60, 512, 64, 1) == 69_120  # DeepSeek-V2
    assert counting.latent_cache_bytes(61, 512, 64, 1000, batch_size=3) == 70_272 * 3000  # DeepSeek-V3


# what is refused

CALLS = {
    "attention_parameters": {"d_model": 8, "num_heads": 4, "num_kv_heads": 2, "head_dim": 2},
    "latent_attention_parameters": dict.fromkeys(
        ["d_model", "num_heads", "q_rank", "kv_rank", "head_dim", "rope_dim"], 8
    ),
    "mlp_parameters": {"d_model": 8, "d_ff": 8},
    "visible_pairs": {"lq": 8, "lk": 8, "window": 2},
    "attention_flops": dict.fromkeys(
        ["length", "d_model", "num_heads", "num_kv_heads", "head_dim", "key_length", "projected_keys", "window"], 8
    )
    | {"batch_size": 1},
    "crossover_length": {"d_model": 8, "num_heads": 4, "num_kv_heads": 2},
    "score_matrix_bytes": dict.fromkeys(["batch_size", "num_heads", "lq", "lk", "bytes_per_value"], 8),
    "kv_cache_bytes": dict.fromkeys(
        ["layers", "num_kv_heads", "head_dim", "tokens", "bytes_per_value", "batch_size", "window"], 8
    ),
    "latent_cache_bytes": dict.fromkeys(
        ["layers", "kv_rank", "rope_dim", "tokens", "bytes_per_value", "batch_size"], 8
    ),
}


@pytest.mark.parametrize(("function", "name"), [(f, name) for f, arguments in CALLS.items() for name in arguments])
def test_sizes_are_whole_numbers_above_0(function, name):
    call, good = getattr(counting, function), CALLS[function]
    call(**good)
    for size, error in ((0, ValueError), (-3, ValueError), (2.0, TypeError), ("2", TypeError), (True, TypeError)):
        with pytest.raises(error, match=f"^{name}: got {size!r}; accepted is an integer of at least 1$"):
            call(**good | {name: size})


@pytest.mark.parametrize("function", [counting.attention_parameters, lambda *a: counting.attention_flops(9, *a)])
def test_heads_that_do_not_fit(function):
    with pytest.raises(ValueError, match=r"num_heads: got 12 for d_model=512; .*\[1, 2, 4, 8, 16, .*512\].* head_dim"):
        function(512, 12)
    with pytest.raises(ValueError, match=r"num_kv_heads: got 3 for num_heads=4; accepted are its divisors \[1, 2, 4\]"):
        function(512, 4, 3)
    function(512, 12, 4, 64)  # head_dim given: d_model need not be a multiple


def test_crossover_refuses_groups_that_do_not_fit():
    with pytest.raises(ValueError, match="num_kv_heads: got 3 for num_heads=4"):
        counting.crossover_length(512, 4, 3)


@pytest.mark.parametrize("bias", [1, 0, None, "all", "QKV"])
def test_bias_is_false_true_or_qkv(bias):
    with pytest.raises(ValueError, match=r'bias: got .*; accepted are False, True .* and "qkv"'):
        counting.attention_parameters(8, 2, bias=bias)


def test_flops_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="projected_keys: got 6; accepted is up to key_length=5"):
        counting.attention_flops(1, 8, 2, key_length=5, projected_keys=6)
    with pytest.raises(ValueError, match="recompute: got True with training=False"):
        counting.attention_flops(4, 8, 2, recompute=True)
