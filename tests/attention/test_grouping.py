"""Fewer key and value heads from a layer that has more: each new one is the mean of a group of neighbours."""

import copy

import pytest
import torch
from oracle import DTYPES, assert_within, normal

import mhalib
from mhalib import MultiHeadAttention, RotaryEmbedding, counting

#: Two projections of 24 terms and a softmax of 7, of size about 1, in float64.
EXACT = 1e-12
HEADS, SIZE = 8, 3


def layer_of(*, dtype=torch.float64, **options):
    torch.manual_seed(0)
    layer = MultiHeadAttention(HEADS * SIZE, HEADS, dtype=dtype, **options)
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return layer


def rows_of(head):
    return slice(head * SIZE, (head + 1) * SIZE)


@torch.no_grad()
def equal_within_groups(layer, groups):
    """Copies the first head of each of `groups` neighbours over the others."""
    heads = layer.num_kv_heads
    for projection in (layer.k_proj, layer.v_proj):
        for parameter in projection.parameters():
            for head in range(heads):
                first = head // (heads // groups) * (heads // groups)
                parameter[rows_of(head)] = parameter[rows_of(first)].clone()


@pytest.mark.parametrize("options", [{}, {"rotary": RotaryEmbedding(2)}, {"window": 3}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_exact_where_the_heads_of_a_group_are_equal(kv_heads, options):
    options = options | ({"head_dim": 2} if "rotary" in options else {})
    layer = layer_of(**options)
    size = layer.head_dim
    with torch.no_grad():
        for projection in (layer.k_proj, layer.v_proj):
            for parameter in projection.parameters():
                heads = parameter.unflatten(0, (kv_heads, -1, size))
                heads.copy_(heads[:, :1].clone().expand_as(heads))
    grouped = layer.to_grouped(kv_heads)
    x = normal(2, 7, 24, seed=1)
    for call in ({}, {"causal": True}, {"key_lengths": torch.tensor([7, 4])}):
        expected, expected_weights = layer(x, **call, need_weights=True)
        output, weights = grouped(x, **call, need_weights=True)
        assert_within(output, expected, EXACT, "output")
        assert_within(weights, expected_weights, EXACT, "weights")


def test_an_approximation_where_they_are_not():
    """Random heads have nothing in common: the outputs differ, and the fewer heads are left, the less like it."""
    layer, x = layer_of(), normal(2, 7, 24, seed=1)
    expected, _ = layer(x)
    assert_within(layer.to_grouped(8)(x)[0], expected, EXACT, "as many heads as before")
    assert (layer.to_grouped(4)(x)[0] - expected).abs().max() > 0.1


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["k_proj", "v_proj"])
def test_each_new_head_is_the_mean_of_neighbours(name, kv_heads):
    """Row by row; neighbours, not every second, fourth, …: heads 0 … 3 become head 0 of two."""
    layer = layer_of()
    old, new = getattr(layer, name), getattr(layer.to_grouped(kv_heads), name)
    group = HEADS // kv_heads
    assert new.weight.shape == (kv_heads * SIZE, HEADS * SIZE)
    for head in range(kv_heads):
        for channel in range(SIZE):
            rows = [(head * group + member) * SIZE + channel for member in range(group)]
            weight = sum(old.weight[row] for row in rows) / group
            bias = sum(old.bias[row] for row in rows) / group
            assert_within(new.weight[head * SIZE + channel], weight, 1e-15, "weight")
            assert_within(new.bias[head * SIZE + channel], bias, 1e-15, "bias")


def test_grouping_in_two_steps_is_grouping_in_one():
    layer = layer_of()
    for parts in zip(layer.to_grouped(4).to_grouped(2).parameters(), layer.to_grouped(2).parameters(), strict=True):
        assert_within(*parts, 1e-15, "parameter")


def test_a_grouped_layer_can_be_grouped_further():
    grouped = layer_of(num_kv_heads=4)
    equal_within_groups(grouped, 2)
    x = normal(1, 5, 24, seed=1)
    assert_within(grouped.to_grouped(2)(x)[0], grouped(x)[0], EXACT, "output")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_everything_else_stays(dtype):
    layer = layer_of(dtype=dtype, dropout=0.25, window=5, backend="reference", bias=False).eval()
    grouped = layer.to_grouped(2)
    for name in ("num_heads", "head_dim", "d_model", "dropout", "window", "backend", "training"):
        assert getattr(grouped, name) == getattr(layer, name)
    assert (grouped.num_heads, grouped.num_kv_heads, layer.num_kv_heads) == (8, 2, 8)
    for name in ("q_proj", "out_proj"):
        assert torch.equal(getattr(grouped, name).weight, getattr(layer, name).weight)
    assert all(parameter.dtype == dtype and parameter.requires_grad for parameter in grouped.parameters())
    assert grouped.k_proj.bias is None
    assert layer.train().to_grouped(2).training
    assert "num_heads=8, num_kv_heads=2, head_dim=3" in repr(grouped)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_parameters_are_those_that_counting_says(kv_heads, bias):
    grouped = layer_of(bias=bias).to_grouped(kv_heads)
    assert counting.module_parameters(grouped) == counting.attention_parameters(24, 8, kv_heads, bias=bias)
    twin = MultiHeadAttention(24, 8, num_kv_heads=kv_heads, bias=bias, dtype=torch.float64)
    twin.load_state_dict(grouped.state_dict())
    x = normal(1, 5, 24, seed=1)
    assert torch.equal(twin(x)[0], grouped(x)[0])


def test_it_is_a_copy():
    """The old layer is as it was, and training the new one leaves it so."""
    layer = layer_of()
    before, x = copy.deepcopy(layer.state_dict()), normal(1, 5, 24, seed=1)
    expected, _ = layer(x)
    grouped = layer.to_grouped(2)
    optimiser = torch.optim.SGD(grouped.parameters(), lr=1.0)
    grouped(x)[0].pow(2).sum().backward()
    for parameter in grouped.parameters():
        assert parameter.grad.abs().max() > 0
    optimiser.step()
    assert (layer.num_heads, layer.num_kv_heads) == (8, 8)
    for name, parameter in layer.state_dict().items():
        assert torch.equal(parameter, before[name]), name
    assert all(parameter.grad is None for parameter in layer.parameters())
    assert torch.equal(layer(x)[0], expected)


def test_gradients_do_not_flow_back_to_the_old_layer():
    layer = layer_of()
    grouped = layer.to_grouped(2)
    assert all(parameter.is_leaf for parameter in grouped.parameters())


def test_it_needs_the_cache_of_the_new_number_of_heads():
    layer, x = layer_of(), normal(2, 4, 24, seed=1)
    grouped = layer.to_grouped(2)
    with torch.no_grad():
        cache = mhalib.KVCache(2, 2, 4, SIZE, dtype=torch.float64)
        steps = [grouped(x[:, t : t + 1], causal=True, cache=cache)[0] for t in range(4)]
    assert_within(torch.cat(steps, 1), grouped(x, causal=True)[0], EXACT, "output")


@pytest.mark.parametrize(
    ("kv_heads", "error", "words"),
    [
        (3, ValueError, r"num_kv_heads: got 3 for num_heads=8; accepted are its divisors \[1, 2, 4, 8\]"),
        (16, ValueError, r"num_kv_heads: got 16 for num_heads=8; accepted are its divisors \[1, 2, 4, 8\]"),
        (0, ValueError, "num_kv_heads: got 0; accepted is an integer of at least 1"),
        (-2, ValueError, "num_kv_heads: got -2; accepted is an integer of at least 1"),
        (2.0, TypeError, r"num_kv_heads: got 2\.0; accepted is an integer"),
        (None, TypeError, "num_kv_heads: got None; accepted is an integer"),
    ],
)
def test_numbers_of_heads_that_are_refused(kv_heads, error, words):
    layer = layer_of()
    with pytest.raises(error, match=words):
        layer.to_grouped(kv_heads)


def test_more_heads_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"num_kv_heads: got 4 .*accepted are its divisors \[1, 2\]"):
        layer_of(num_kv_heads=2).to_grouped(4)
