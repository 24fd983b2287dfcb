"""A query that may see no key: output 0, weights 0, log-sum-exp −inf, gradients finite and 0. No NaN on the way."""

import math

import pytest
import torch
from oracle import (
    BACKEND_NAMES,
    DTYPES,
    TALL,
    Shape,
    accumulator,
    assert_gradients,
    assert_output,
    gradients_of,
    inputs,
    leaves,
    normal,
    refusal,
    truth,
    upstream,
)

import mhalib

FLAT = Shape(2, 6, 2, 5, 7, 8, 6)
INF = math.inf


def rows(shape, *dead, keys=slice(None)):
    """A mask (Lq, Lk) in which the given queries may not see the given keys."""
    mask = torch.ones(shape.lq, shape.lk, dtype=torch.bool)
    for i in dead:
        mask[i, keys] = False
    return mask


def holes(shape, *dead, keys=slice(None)):
    return torch.zeros(shape.lq, shape.lk, dtype=torch.float64).masked_fill(~rows(shape, *dead, keys=keys), -INF)


#: name: (sizes, options, how many of the Lq queries of each sequence are dead)
WAYS = {
    "mask": (FLAT, {"mask": rows(FLAT, 0, 3)}, [2, 2]),
    "mask, one sequence": (FLAT, {"mask": torch.stack([rows(FLAT), rows(FLAT, 1)])[:, None]}, [0, 1]),
    "mask, keys of a sequence": (FLAT, {"mask": torch.tensor([True, False])[:, None, None, None]}, [0, 5]),
    "mask, all rows": (FLAT, {"mask": torch.zeros(1, 1, 1, 1, dtype=torch.bool)}, [5, 5]),
    "bias": (FLAT, {"bias": holes(FLAT, 2)}, [1, 1]),
    "bias, all rows": (FLAT, {"bias": torch.full((1, 1, 1, 7), -INF, dtype=torch.float64)}, [5, 5]),
    "key_lengths": (FLAT, {"key_lengths": torch.tensor([7, 0])}, [0, 5]),
    "key_lengths, all rows": (FLAT, {"key_lengths": torch.tensor([0, 0])}, [5, 5]),
    "query_lengths": (FLAT, {"query_lengths": torch.tensor([5, 2])}, [0, 3]),
    "query_lengths, all rows": (FLAT, {"query_lengths": torch.tensor([0, 0])}, [5, 5]),
    "both lengths": (FLAT, {"query_lengths": torch.tensor([4, 2]), "key_lengths": torch.tensor([0, 7])}, [5, 3]),
    "causal": (TALL, {"causal": True}, [2, 2]),
    "causal and query_lengths": (TALL, {"causal": True, "query_lengths": torch.tensor([3, 7])}, [6, 2]),
    "window": (Shape(2, 6, 2, 9, 5, 8, 6), {"window": 2}, [3, 3]),
    "causal window": (Shape(2, 6, 2, 9, 5, 8, 6), {"window": 2, "causal": True}, [4, 4]),
    "mask and key_lengths": (
        FLAT,
        {"mask": rows(FLAT, 0, 4, keys=slice(0, 3)), "key_lengths": torch.tensor([3, 7])},
        [2, 0],
    ),
    "mask and bias": (
        FLAT,
        {"mask": rows(FLAT, 1, 2, keys=slice(0, 4)), "bias": holes(FLAT, 2, 3, keys=slice(4, 7))},
        [1, 1],
    ),
    "mask and causal": (FLAT, {"mask": rows(FLAT, 0, 4, keys=slice(0, 3)), "causal": True}, [1, 1]),
    "bias and causal": (TALL, {"bias": holes(TALL, 2, keys=slice(0, 1)), "causal": True}, [3, 3]),
    "bias and key_lengths": (
        FLAT,
        {"bias": holes(FLAT, 1, keys=slice(0, 2)), "key_lengths": torch.tensor([7, 2])},
        [0, 1],
    ),
    "window and key_lengths": (
        FLAT,
        {"window": 2, "causal": True, "key_lengths": torch.tensor([7, 3])},
        [0, 3],
    ),
    "everything": (
        TALL,
        {
            "mask": rows(TALL, 4, keys=slice(0, 2)),
            "bias": holes(TALL, 4, keys=slice(2, 3)),
            "causal": True,
            "window": 4,
            "key_lengths": torch.tensor([5, 0]),
        },
        [3, 7],
    ),
}


def options_in(dtype, name):
    shape, options, counts = WAYS[name]
    bias = {"bias": options["bias"].to(dtype)} if "bias" in options else {}
    return shape, options | bias, torch.tensor(counts)


def expected_dead(shape, options, counts):
    """(B, Hq, Lq), from the loops; the count written beside each case guards against a case that is none."""
    dead = truth(*inputs(shape), **options).lse == -INF
    assert torch.equal(dead.sum(-1), counts[:, None].expand(shape.batch, shape.heads))
    return dead


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_output_is_zero_and_gradients_finite(backend, dtype, name):
    shape, options, counts = options_in(dtype, name)
    dead = expected_dead(shape, options, counts)
    qkv = inputs(shape, dtype)
    expected = truth(*qkv, **options, grad_output=upstream(shape, dtype))
    *qkv, bias = leaves(*qkv, options.pop("bias", None))
    with torch.autograd.set_detect_anomaly(True):  # a NaN inside, even one that is blanked later, raises
        output = mhalib.attention(*qkv, bias=bias, **options, backend=backend)
        sources = {"query": qkv[0], "key": qkv[1], "value": qkv[2], "bias": bias}
        gradients = gradients_of(output, upstream(shape, dtype), **sources)
    assert (output[dead] == 0).all()
    assert (output[~dead] != 0).all()
    for gradient in gradients.values():
        assert gradient.isfinite().all()
    assert (gradients["query"][dead] == 0).all()
    if dead.all():
        assert not any(gradient.any() for gradient in gradients.values())
    assert_output(output, expected, shape, dtype, name)
    assert_gradients(gradients, expected, shape, dtype, name)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_weights_are_zero_and_lse_is_minus_infinity(backend, dtype, name):
    shape, options, counts = options_in(dtype, name)
    dead = expected_dead(shape, options, counts)
    *qkv, bias = leaves(*inputs(shape, dtype), options.pop("bias", None))
    extras = {"return_weights": True, "return_lse": True}
    if refusal(backend, *qkv, bias=bias, **options, **extras):  # test_parity lists what may be refused
        extras = {"return_lse": True}
    if refusal(backend, *qkv, bias=bias, **options, **extras):
        extras, backend = {"return_weights": True, "return_lse": True}, "auto"
    with torch.autograd.set_detect_anomaly(True):
        output, *weights, lse = mhalib.attention(*qkv, bias=bias, **options, **extras, backend=backend)
        total = output.sum() + sum(x.sum() for x in weights) + lse.masked_fill(dead, 0).sum()
        gradients = torch.autograd.grad(total, [x for x in (*qkv, bias) if x is not None], retain_graph=True)
        through_dead = torch.autograd.grad(lse, qkv[:2], dead.to(accumulator(dtype)))
    assert (output[dead] == 0).all()
    assert len(weights) == ("return_weights" in extras)
    assert all((x[dead] == 0).all() for x in weights)
    assert (lse[dead] == -INF).all()
    assert lse[~dead].isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not any(gradient.any() for gradient in through_dead)  # the lse of a dead row depends on nothing


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_an_all_padded_sequence_in_the_layer(training, need_weights):
    """O01: nn.MultiheadAttention gives NaN for it; here heads give 0, so the output is the last bias."""
    torch.manual_seed(0)
    layer = mhalib.MultiHeadAttention(12, 3, dropout=0.5, dtype=torch.float64).train(training)
    torch.nn.init.normal_(layer.out_proj.bias)
    x = normal(2, 4, 12, seed=1).requires_grad_()
    output, weights = layer(x, key_lengths=torch.tensor([4, 0]), need_weights=need_weights)
    assert torch.equal(output[1], layer.out_proj.bias.expand(4, 12))
    if need_weights:
        assert not weights[1].any()
    output.sum().backward()
    assert x.grad.isfinite().all()
    assert not x.grad[1].any()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_dropout_leaves_dead_rows_at_zero(backend):
    torch.manual_seed(0)
    qkv = inputs(TALL)
    output = mhalib.attention(*qkv, causal=True, dropout=0.5, backend=backend)
    assert not output[:, :, :2].any()
    assert output.isfinite().all()
