"""What is right in eager float32 on contiguous tensors is right in every other mode: each backend with each option."""

import copy

import oracle
import pytest
import torch
from oracle import BACKEND_NAMES, SMALL, assert_output, inputs, leaves, option, refusal, upstream

import mhalib
from mhalib import tiled

NAMES = ("auto", *BACKEND_NAMES)
MODES = ("strided", "expanded", "offset")
OPTIONS = ("plain", "causal", "window_past", "both_lengths", "mask_full", "bias_full", "softcap", "everything")


def served(backend, name, dtype=torch.float64, **more):
    """The options of this name, or the test is of a request that the backend refuses, which is right too."""
    options = option(name, SMALL, dtype) | more
    if backend != "auto" and refusal(backend, *inputs(SMALL, dtype), **options):
        assert backend in ("sdpa", "tiled")
        return None
    return options


def laid_out(x, mode):
    """The same values with other strides: every second of a larger tensor, or behind other numbers."""
    if mode == "strided":
        large = torch.empty(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
        large[..., ::2] = x
        large[..., 1::2] = 1  # True, a key more, a number that would show
        return large[..., ::2]
    if mode == "offset":
        return torch.cat((torch.ones_like(x[:1]), x), dim=0)[1:]
    return x[:1].expand(x.shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("backend", NAMES)
def test_strides_of_every_tensor(backend, name, mode):
    options = served(backend, name)
    if options is None:
        return
    views = {key: laid_out(x, mode) if isinstance(x, torch.Tensor) else x for key, x in options.items()}
    plain = {key: x.contiguous() if isinstance(x, torch.Tensor) else x for key, x in views.items()}
    qkv = [laid_out(x, mode) for x in inputs(SMALL)]
    grad = laid_out(upstream(SMALL, torch.float64), mode)

    def run(tensors, options, grad):
        followed = [x.detach().requires_grad_() for x in tensors]
        output = mhalib.attention(*followed, backend=backend, **options)
        return output, *torch.autograd.grad(output, followed, grad)

    expected = run([x.contiguous() for x in qkv], plain, grad.contiguous())
    for got, want in zip(run(qkv, views, grad), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12)


ARRIVING = (float("nan"), float("inf"), -float("inf"))
ROW = torch.tensor([True, True, False, True, True])[:, None].expand(5, 7)
#: Every way in which a query of SMALL may lose its last key.
DEAD = {
    "mask": {"mask": ROW},
    "mask+bias+causal": {"mask": ROW, "bias": torch.ones(5, 7, dtype=torch.float64), "causal": True},
    "bias": {"bias": torch.zeros(5, 7, dtype=torch.float64).masked_fill(~ROW, -torch.inf)},
    "key_lengths": {"key_lengths": torch.tensor([0, 7])},
    "key_lengths+causal": {"key_lengths": torch.tensor([0, 1]), "causal": True},
    "query_lengths": {"query_lengths": torch.tensor([3, 0])},
    "query_lengths+window": {"query_lengths": torch.tensor([3, 0]), "window": 2, "causal": True},
    "window+key_lengths": {"window": 2, "key_lengths": torch.tensor([3, 7])},
    "softcap+mask": {"softcap": 2.0, "mask": ROW},
}


@pytest.mark.parametrize("with_lse", [False, True], ids=["output", "lse"])
@pytest.mark.parametrize("name", DEAD)
@pytest.mark.parametrize("backend", NAMES)
def test_what_arrives_at_a_dead_row_reaches_nothing(backend, name, with_lse):
    options = DEAD[name] | {"return_lse": with_lse}
    if backend != "auto" and refusal(backend, *inputs(SMALL), **options):
        return
    dead = mhalib.attention(*inputs(SMALL), **DEAD[name], return_lse=True, backend="reference")[1] == -torch.inf
    assert dead.any()
    assert not dead.all()
    results = []
    for there in (0.0, *ARRIVING):
        qkv = leaves(*inputs(SMALL))
        result = mhalib.attention(*qkv, backend=backend, **options)
        parts = result if with_lse else (result,)
        grads = [torch.ones_like(part) for part in parts]
        for grad in grads:
            grad[dead] = there
        results.append(torch.autograd.grad(parts, qkv, grads))
    for got in results:
        for x, without in zip(got, results[0], strict=True):
            assert x.isfinite().all()
            assert torch.equal(x, without)


@pytest.mark.parametrize("loss", ["square", "logaddexp", "exp", "output"])
@pytest.mark.parametrize("backend", ["auto", "reference", "tiled"])
def test_merge_of_dead_parts_has_finite_gradients(backend, loss):
    """Query 5 sees no key in either part, queries 0 … 2 none in the second."""
    q, k, v = leaves(*(torch.randn(1, 2, 6, 4, dtype=torch.float64) for _ in range(3)))
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    mask[5] = False
    halves = slice(0, 3), slice(3, 6)
    parts = [
        mhalib.attention(q, k[:, :, part], v[:, :, part], mask=mask[:, part], return_lse=True, backend=backend)
        for part in halves
    ]
    output, lse = tiled.merge(parts)
    whole = mhalib.attention(q, k, v, mask=mask, return_lse=True, backend="reference")
    alive = (lse > -torch.inf)[..., None]
    losses = {
        "square": lambda output, lse: (lse**2).sum(),
        "logaddexp": lambda output, lse: torch.logaddexp(lse, lse).exp().sum(),
        "exp": lambda output, lse: output.sum() + lse.exp().sum(),
        "output": lambda output, lse: output.square().sum(),
    }
    grads = torch.autograd.grad(losses[loss](output, lse), (q, k, v), allow_unused=True)
    assert all(grad.isfinite().all() for grad in grads if grad is not None)
    if loss in ("exp", "output"):
        expected = torch.autograd.grad(losses[loss](*whole), (q, k, v))
        for got, want in zip(grads, expected, strict=True):
            torch.testing.assert_close(got, want)
    assert (output[~alive.expand_as(output)] == 0).all()


@pytest.mark.parametrize("arriving", ARRIVING)
def test_what_arrives_at_a_dead_row_of_a_merge_reaches_nothing(arriving):
    """Query 0 sees no key in either part, query 1 none in the second."""
    results = []
    for there in (0.0, arriving):
        outputs = torch.ones(1, 1, 3, 2, dtype=torch.float64), torch.ones(1, 1, 3, 2, dtype=torch.float64)
        lses = torch.tensor([[[[-torch.inf, 1.0, 2.0]]], [[[-torch.inf, -torch.inf, 3.0]]]], dtype=torch.float64)
        sources = leaves(*outputs, *lses)
        merged = tiled.merge([(sources[0], sources[2]), (sources[1], sources[3])])
        grads = [torch.ones_like(part) for part in merged]
        for grad in grads:
            grad[:, :, 0] = there
        results.append(torch.autograd.grad(merged, sources, grads))
    for without, got in zip(*results, strict=True):
        assert got.isfinite().all()
        assert torch.equal(got, without)


@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["plain", "steep", "softcap", "causal", "both_lengths", "bias", "mask"])
@pytest.mark.parametrize("backend", NAMES)
def test_autocast_is_one_conversion_and_nothing_else(backend, name, dtype, lower):
    """Query, key and value as torch's own attention takes them; all that follows is as without autocast."""
    options = served(backend, name, dtype)
    if options is None:
        return
    qkv = inputs(SMALL, dtype)
    accepted = torch.float64 if dtype == torch.float64 else lower
    converted = [x.to(accepted) for x in qkv]
    asked = [{}]
    asked += [more for more in ({"return_lse": True}, {"return_weights": True}) if served(backend, name, dtype, **more)]
    for more in asked:
        if backend != "auto" and refusal(backend, *converted, **options, **more):
            continue  # a bias finer than the dtype of autocast, which torch's kernels would round
        with torch.autocast("cpu", dtype=lower):
            under = mhalib.attention(*qkv, backend=backend, **options, **more)
        plain = mhalib.attention(*converted, backend=backend, **options, **more)
        pairs = zip(under, plain, strict=True) if more else [(under, plain)]
        for got, want in pairs:
            assert got.dtype == want.dtype
            assert torch.equal(got, want)
        if "return_lse" in more:
            assert under[1].dtype == oracle.accumulator(accepted)
        output = under[0] if more else under
        expected = oracle.truth(*converted, **options)
        assert_output(output, expected, SMALL, accepted, f"{backend} {name} under autocast")


def test_what_is_explained_under_autocast():
    """A float32 bias is finer than the dtype of autocast, and torch's kernels would round it."""
    qkv, bias = inputs(SMALL, torch.float32), torch.zeros(5, 7)
    assert mhalib.explain_backend(*qkv, bias=bias).backend == "sdpa"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        backend, reason = mhalib.explain_backend(*qkv, bias=bias)
    assert backend == "tiled"
    assert "would round the torch.float32 bias to torch.bfloat16" in reason


@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16], ids=str)
def test_a_layers_output_does_not_depend_on_need_weights(lower):
    torch.manual_seed(0)
    layer, x = mhalib.MultiHeadAttention(64, 4).eval(), 8 * torch.randn(1, 24, 64)
    with torch.no_grad(), torch.autocast("cpu", dtype=lower):
        without, _ = layer(x)
        with_weights, weights = layer(x, need_weights=True)
    assert without.dtype == with_weights.dtype == weights.dtype == lower
    # Each rounds to the dtype once, by half of eps. Rounded scores, of some hundreds, are off by several eps.
    torch.testing.assert_close(with_weights, without, rtol=0, atol=torch.finfo(lower).eps * without.abs().max())


@pytest.mark.parametrize("twice", [False, True], ids=["first", "to be differentiated again"])
def test_backward_under_autocast_rounds_no_scores(twice):
    results = []
    for enabled in (False, True):
        qkv = leaves(*inputs(SMALL, torch.float32))
        output = mhalib.attention(*qkv, softcap=2.0, backend="tiled")
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            results.append(torch.autograd.grad(output, qkv, upstream(SMALL, torch.float32), create_graph=twice))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("scale", [1e-46, -1e-46, 1e39, float("nan")])
def test_a_scale_that_float32_cannot_hold_is_refused(scale):
    qkv = inputs(SMALL, torch.float32)
    for backend in NAMES:
        with pytest.raises(ValueError, match=r"^scale: got .*; accepted is a finite number, .* 0, or 1\.2e-38 to "):
            mhalib.attention(*qkv, scale=scale, backend=backend, causal=True)
    for backend in NAMES:
        for held in (0, 2e-38):
            assert mhalib.attention(*qkv, scale=held, backend=backend, causal=True).isfinite().all()


def test_numpys_numbers_are_numbers():
    import numpy as np

    qkv = inputs(SMALL, torch.float32)
    for backend in NAMES:
        given = {"window": np.int64(3), "scale": np.float32(0.5), "dropout": np.float64(0.0)}
        plain = {"window": 3, "scale": 0.5, "dropout": 0.0}
        got, want = (mhalib.attention(*qkv, causal=True, backend=backend, **o) for o in (given, plain))
        assert torch.equal(got, want)
    layer = mhalib.MultiHeadAttention(np.int64(8), np.int32(2), dropout=np.float32(0.5))
    assert copy.deepcopy(layer).eval()(torch.randn(1, 3, 8))[0].shape == (1, 3, 8)
