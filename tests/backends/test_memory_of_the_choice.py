"""What `explain_backend` says of memory is measured: no weights where it says so, never more than plain torch takes.

Bytes are those alive at one time in what torch's operators return (`LiveBytes`), inputs apart. With 8 heads of 8 the
weights are 19 times as large as all inputs together, and a mask for all heads is an eighth of them.
"""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from bench.memory import LiveBytes
from mhalib.backends import tiled, torch_kernel
from mhalib.backends.request import validate

N, HEADS, DIM = 448, 8, 8
LENGTHS = torch.tensor([200])
COIN = torch.rand(N, N, generator=torch.Generator().manual_seed(0)) > 0.3


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype)


def qkv(batch=1, kv_heads=HEADS, lq=N, lk=N, value_dim=DIM, dtype=torch.float32):
    sizes = (HEADS, lq, DIM), (kv_heads, lk, DIM), (kv_heads, lk, value_dim)
    return [normal(batch, *size, dtype=dtype) for size in sizes]


def channels_first(x):
    return x.mT.contiguous().mT


#: name: (inputs, options)
TABLE = {
    "plain": lambda: (qkv(), {}),
    "causal": lambda: (qkv(), {"causal": True}),
    "causal, more keys": lambda: (qkv(lq=N // 2), {"causal": True}),
    "causal, more queries": lambda: (qkv(lk=N // 2), {"causal": True}),
    "dropout": lambda: (qkv(), {"dropout": 0.1}),
    "causal and dropout": lambda: (qkv(), {"dropout": 0.1, "causal": True}),
    "window and dropout": lambda: (qkv(), {"dropout": 0.1, "causal": True, "window": 9}),
    "narrow values": lambda: (qkv(value_dim=4), {}),
    "wide values": lambda: (qkv(value_dim=24), {"causal": True}),
    "wide values, groups": lambda: (qkv(value_dim=24, kv_heads=2), {"causal": True}),
    "strides": lambda: ([channels_first(x) for x in qkv()], {}),
    "strides of the keys": lambda: ([channels_first(x) if i == 1 else x for i, x in enumerate(qkv())], {}),
    "one channel": lambda: ([channels_first(x[..., :1]) for x in qkv()], {}),
    "expanded heads": lambda: ([x[:, :1].expand(x.shape) for x in qkv()], {}),
    "groups": lambda: (qkv(kv_heads=2), {}),
    "groups, causal": lambda: (qkv(kv_heads=2), {"causal": True}),
    "a mask": lambda: (qkv(), {"mask": COIN}),
    "a mask and causal": lambda: (qkv(), {"mask": COIN, "causal": True}),
    "a mask of keys": lambda: (qkv(), {"mask": COIN[:1][None, None]}),
    "a bias": lambda: (qkv(), {"bias": normal(N, N)}),
    "a bias of keys": lambda: (qkv(), {"bias": normal(1, HEADS, 1, N)}),
    "a bias with a gradient": lambda: (qkv(), {"bias": normal(N, N).requires_grad_()}),
    "a bias of keys with a gradient": lambda: (qkv(), {"bias": normal(1, 1, 1, N).requires_grad_()}),
    "a bias of heads": lambda: (qkv(), {"bias": normal(1, HEADS, N, N)}),
    "a bias and causal": lambda: (qkv(), {"bias": normal(1, 1, N, N), "causal": True}),
    "a bias of heads and causal": lambda: (qkv(), {"bias": normal(1, HEADS, N, N), "causal": True}),
    "lengths of one": lambda: (qkv(), {"key_lengths": LENGTHS}),
    "lengths": lambda: (qkv(2), {"key_lengths": torch.tensor([N, 99]), "query_lengths": torch.tensor([N, 99])}),
    "lengths, nearly full": lambda: (qkv(2), {"key_lengths": torch.tensor([N, N - 1])}),
    "lengths, causal": lambda: (qkv(2), {"key_lengths": torch.tensor([N, N - 1]), "causal": True}),
    "lengths, window": lambda: (qkv(2), {"key_lengths": torch.tensor([N, 99]), "causal": True, "window": 64}),
    "short window": lambda: (qkv(), {"causal": True, "window": 16}),
    "short window, groups": lambda: (qkv(kv_heads=2), {"causal": True, "window": 16}),
    "long window": lambda: (qkv(), {"causal": True, "window": 350}),
    "window to both sides": lambda: (qkv(), {"window": 64}),
    "wide window to both sides": lambda: (qkv(), {"window": 300}),
    "window and bias": lambda: (qkv(), {"window": 64, "bias": normal(1, 1, 1, N)}),
    "log-sum-exp": lambda: (qkv(), {"return_lse": True}),
    "log-sum-exp, groups, causal": lambda: (qkv(kv_heads=2), {"return_lse": True, "causal": True}),
    "log-sum-exp, window": lambda: (qkv(), {"return_lse": True, "causal": True, "window": 64}),
    "log-sum-exp, dropout": lambda: (qkv(), {"return_lse": True, "dropout": 0.1}),
    "softcap": lambda: (qkv(), {"softcap": 5.0}),
    "softcap, window": lambda: (qkv(), {"softcap": 5.0, "window": 64}),
    "float64": lambda: (qkv(dtype=torch.float64), {"causal": True}),
    "bfloat16": lambda: (qkv(dtype=torch.bfloat16), {"causal": True, "window": 99}),
    "float16, narrow values": lambda: (qkv(value_dim=4, dtype=torch.float16), {}),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles as small beside these weights as those of the library are beside the weights of a long sequence."""
    monkeypatch.setattr(tiled, "BLOCK_Q", 64)
    monkeypatch.setattr(tiled, "BLOCK_K", 64)


def peak(call, given, sources):
    """Bytes of a call, and of its gradients where there are `sources`."""
    with torch.set_grad_enabled(bool(sources)), LiveBytes(*given) as live:
        output = call()
        output = output[0] if isinstance(output, tuple) else output
        if sources:
            grads = torch.autograd.grad(output, sources, torch.ones_like(output))
            del grads
    return live.peak


def prepared(name, training):
    torch.manual_seed(0)
    tensors, options = TABLE[name]()
    given = [*tensors, *(x for x in options.values() if isinstance(x, torch.Tensor))]
    tensors = [x.detach().requires_grad_(training) for x in tensors]
    bias = options.get("bias")
    sources = [*tensors, *([bias] if bias is not None and bias.requires_grad else [])] if training else []
    return tensors, options, given, sources


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("most", [0, None], ids=["many weights", "few weights"])
def test_the_reason_is_true_of_memory(name, training, most, monkeypatch):
    """Weights, 4 bytes a pair and head, are formed where the reason says so and nowhere else."""
    tensors, options, given, sources = prepared(name, training)
    if most is not None:  # as if these weights were too many
        monkeypatch.setattr("mhalib.backends.sdpa.MOST_WEIGHTS", most)
    with torch.set_grad_enabled(training):
        choice = mhalib.explain_backend(*tensors, **options)
    weights = tensors[0].shape[0] * HEADS * tensors[0].shape[2] * tensors[1].shape[2] * tensors[0].element_size()
    taken = peak(lambda: mhalib.attention(*tensors, **options), given, sources)
    if "forms the weights" in choice.reason:
        assert choice.backend == "sdpa"
        assert most is None or "bands" in choice.reason
        assert torch_kernel.forms_weights(validate(*tensors, **options)) is not None or not training
        if "bands" not in choice.reason:
            assert taken > 0.9 * weights
    else:  # a bias of all heads is as large as the weights: it is copied once where more is to be hidden
        copied = weights if name == "a bias of heads and causal" else 0
        assert taken < 0.6 * weights + copied


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", [name for name in TABLE if "softcap" not in name and "log-sum" not in name])
def test_no_more_than_plain_torch_takes(name, training):
    """Plain torch's call, with the mask that it needs built for it."""
    tensors, options, given, sources = prepared(name, training)
    request = validate(*tensors, **options)

    def plain():
        allowed, bias = request.allowed(), request.bias
        square = request.causal and request.lq == request.lk and request.window is None and request.key_lengths is None
        if square and request.mask is None and bias is None:
            mask, is_causal = None, True
        else:
            mask, is_causal = allowed, False
            if bias is not None:
                mask = bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
        return scaled_dot_product_attention(
            *tensors, mask, request.dropout, is_causal, scale=request.scale, enable_gqa=tensors[1].shape[1] != HEADS
        )

    ours = peak(lambda: mhalib.attention(*tensors, **options), given, sources)
    theirs = peak(plain, given, sources)
    small = 3 * max(x.numel() * x.element_size() for x in tensors)  # vectors, rows of a mask, copies of an input
    assert ours <= 1.1 * theirs + small, f"{ours / 2**20:.2f} MiB, plain torch {theirs / 2**20:.2f} MiB"


@pytest.mark.parametrize("name", [name for name in TABLE if "softcap" not in name])
def test_torch_itself_says_which_kernel_it_takes(name, monkeypatch):
    """`forms_weights` mirrors torch's choice; otherwise what is handed over is fitted to the fused kernel."""
    tensors, options, _, _ = prepared(name, False)
    seen, kernel = [], torch_kernel.scaled_dot_product_attention

    def spy(q, k, v, **given):
        seen.append(torch._fused_sdp_choice(q, k, v, **given))
        return kernel(q, k, v, **given)

    monkeypatch.setattr(torch_kernel, "scaled_dot_product_attention", spy)
    request = validate(*tensors, **options)
    if mhalib.explain_backend(*tensors, **options).backend == "sdpa":
        mhalib.attention(*tensors, **options, backend="sdpa")
        formula = torch_kernel.forms_weights(request) is not None
        assert set(seen) <= {0 if formula else 1}
        assert seen or request.return_lse
