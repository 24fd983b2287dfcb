"""torch.func, second derivatives, torch.compile and the meta device: each backend with each option."""

import re

import pytest
import torch
from oracle import BACKEND_NAMES, Shape, inputs, option, refusal
from torch.func import grad, hessian, jacrev, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

import mhalib
from mhalib import tiled

NAMES = ("auto", *BACKEND_NAMES)
TINY = Shape(2, 2, 1, 3, 4, 2, 2)
OPTIONS = ("plain", "causal", "window_past", "softcap", "both_lengths", "bias", "mask")


def functions(backend, name, return_lse=False):
    """(by this backend, by the formula) from query, key, value to one tensor; None where the backend refuses."""
    options = option(name, TINY, torch.float64)
    if backend != "auto" and refusal(backend, *inputs(TINY), **options, return_lse=return_lse):
        return None

    def of(backend):
        def f(q, k, v):
            result = mhalib.attention(q, k, v, backend=backend, return_lse=return_lse, **options)
            if not return_lse:
                return result
            lse = result[1][..., None]
            return torch.cat((result[0], lse.masked_fill(lse == -torch.inf, 0.0)), dim=-1)

        return f

    return of(backend), of("reference")


CASES = [*((name, False) for name in OPTIONS), ("plain", True), ("both_lengths", True)]


@pytest.mark.parametrize(("name", "lse"), CASES)
@pytest.mark.parametrize("backend", NAMES)
def test_derivatives_of_any_order(backend, name, lse):
    """In reverse mode all are those of the formula, however they are asked for."""
    both = functions(backend, name, lse)
    if both is None or (backend == "sdpa" and (lse or "lengths" in name)):
        return  # refused inside torch.func: test_vmap_over_everything
    q, k, v = inputs(TINY)

    def twice(f):
        return [
            grad(lambda x: f(x, k, v).pow(3).sum())(q),
            grad(lambda x: grad(lambda y: f(q, y, v).pow(3).sum())(x).pow(2).sum())(k),
            jacrev(lambda x: f(q, k, x))(v),
            *penalty(f),
        ]

    def penalty(f):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        first = torch.autograd.grad(f(*leaves).pow(3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(x.pow(2).sum() for x in first), leaves)

    for got, want in zip(*map(twice, both), strict=True):
        torch.testing.assert_close(got, want)


def test_gradgradcheck():
    for backend in NAMES:
        qkv = [x.requires_grad_() for x in inputs(TINY)]
        assert torch.autograd.gradgradcheck(lambda *x, b=backend: mhalib.attention(*x, causal=True, backend=b), qkv)


def test_second_derivatives_with_dropout_are_refused():
    for backend in ("tiled", "sdpa"):
        qkv = [x.requires_grad_() for x in inputs(TINY)]
        output = mhalib.attention(*qkv, dropout=0.5, backend=backend)
        with pytest.raises(RuntimeError, match=r"with dropout: .*; take backend='reference'$"):
            torch.autograd.grad(output.sum(), qkv, create_graph=True)


def outcome(call):
    """What is raised, in words: an error of torch's own, too, is an answer that these tests compare."""
    try:
        return f"no error, but {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(("name", "lse"), CASES)
@pytest.mark.parametrize("backend", NAMES)
def test_forward_mode_is_right_or_refused(backend, name, lse):
    both = functions(backend, name, lse)
    if both is None:
        return
    q, k, v = inputs(TINY)

    def forward(f):
        return jvp(lambda x: f(x, k, v), (q,), (q.cos(),))[1], hessian(lambda x: f(x, k, v).pow(3).sum())(q)

    if backend in ("tiled", "sdpa"):
        for ask in (lambda f: jvp(lambda x: f(x, k, v), (q,), (q,)), lambda f: hessian(lambda x: f(x, k, v).sum())(q)):
            refused = outcome(lambda ask=ask: ask(both[0]))
            assert re.search(r"^ValueError: .*forward-mode derivatives .*; take 'reference' or 'auto'$", refused)
        return
    for got, want in zip(*map(forward, both), strict=True):
        torch.testing.assert_close(got, want)
    # The reference itself: the tangent against the gradient.
    tangent = jvp(lambda x: both[0](x, k, v).sum(), (q,), (q.cos(),))[1]
    assert torch.allclose(tangent, (grad(lambda x: both[0](x, k, v).sum())(q) * q.cos()).sum())


def test_tiles_refuse_forward_mode():
    """By their own entrance, which no backend is chosen at."""
    q, k, v = inputs(TINY)
    for position in range(3):

        def call(x, position=position):
            return tiled.attention(*(x if i == position else y for i, y in enumerate((q, k, v))))[0]

        x = (q, k, v)[position]
        refused = outcome(lambda call=call, x=x: jvp(call, (x,), (x,)))
        assert re.search(r"^ValueError: tiled\.attention: .*forward-mode .*; take mhalib\.attention$", refused)


@pytest.mark.parametrize("position", range(4), ids=["query", "key", "value", "bias"])
def test_what_auto_takes_inside_a_transform(position):
    """The formula where a tangent comes with any tensor, and nowhere else; tiles where torch's ways need lengths."""
    tensors = [*inputs(TINY), torch.zeros(3, 4, dtype=torch.float64)]
    chosen = {}

    def f(x, what, **options):
        q, k, v, bias = (x if i == position else y for i, y in enumerate(tensors))
        chosen[what] = mhalib.explain_backend(q, k, v, bias=bias, **options).backend
        return x

    x = tensors[position]
    jvp(lambda x: f(x, "forward"), (x,), (x,))
    jvp(lambda y: f(x, "forward, of something else") * y, (x,), (x,))
    jvp(lambda x: vmap(lambda y: f(y, "mapped, forward"))(x[None]), (x,), (x,))
    hessian(lambda x: f(x, "forward over reverse").sum())(x)
    f(x, "in no transform")
    vmap(lambda x: f(x, "mapped"))(x[None])
    lengths = torch.tensor([4, 2])
    vmap(lambda x: f(x, "mapped, with lengths", key_lengths=lengths))(x[None])
    vmap(lambda x: f(x, "mapped, with the log-sum-exp", return_lse=True))(x[None])
    assert chosen == {
        "forward": "reference",
        "forward, of something else": "sdpa",
        "mapped, forward": "reference",
        "forward over reverse": "reference",
        "in no transform": "sdpa",
        "mapped": "sdpa",
        "mapped, with lengths": "tiled",
        "mapped, with the log-sum-exp": "tiled",
    }


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("which", [(0,), (1, 2), (0, 1, 2)], ids=str)
def test_vmap_over_the_tiles_and_any_axis(which, axis):
    tensors = inputs(Shape(3, 3, 3, 3, 3, 3, 3))  # where the wrong axis would have the right size
    stacked = [torch.stack([x, 2 * x, -x], dim=axis) if i in which else x for i, x in enumerate(tensors)]
    axes = tuple(axis if i in which else None for i in range(3))
    outputs = vmap(lambda *qkv: mhalib.attention(*qkv, causal=True, backend="tiled"), axes)(*stacked)
    for n, output in enumerate(outputs):
        qkv = [x.select(axis, n) if i in which else x for i, x in enumerate(stacked)]
        torch.testing.assert_close(output, mhalib.attention(*qkv, causal=True, backend="reference"))


@pytest.mark.parametrize("backend", NAMES)
def test_vmap_over_everything(backend):
    q, k, v = inputs(TINY)
    lengths = torch.tensor([[4, 0], [2, 3], [1, 1]])
    scaled = torch.stack([q, 2 * q, 3 * q])

    def f(x, n, backend=backend):
        return mhalib.attention(x, k, v, key_lengths=n, query_lengths=n.clamp(max=3), backend=backend)

    if backend == "sdpa":
        with pytest.raises(
            ValueError, match=r"'sdpa' cannot serve .*torch\.func .* lengths .*; take 'reference' or 'auto'$"
        ):
            vmap(f)(scaled, lengths)
        return
    expected = torch.stack([f(x, n, "reference") for x, n in zip(scaled, lengths, strict=True)])
    torch.testing.assert_close(vmap(f)(scaled, lengths), expected)
    each = torch.stack(
        [grad(lambda y, n=n: f(y, n, "reference").pow(2).sum())(x) for x, n in zip(scaled, lengths, strict=True)]
    )
    torch.testing.assert_close(vmap(grad(lambda x, n: f(x, n).pow(2).sum()))(scaled, lengths), each)
    with pytest.raises(ValueError, match="key_lengths: got values from 1 to 5; accepted are 0 to 4"):
        vmap(f)(scaled, lengths + 1)


# ----------------------------------------------------------------------------------------------- torch.compile


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("backend", NAMES)
def test_compiles_whole(backend, dynamic):
    """All options in one graph, which takes a tenth of the time of a graph each."""
    qkv = inputs(TINY)
    given = {name: option(name, TINY, torch.float64) for name in OPTIONS}
    given |= {"dropout": {"dropout": 0.5}, "lse": {"return_lse": True}, "weights": {"return_weights": True}}
    served = {name: o for name, o in given.items() if backend == "auto" or not refusal(backend, *qkv, **o)}
    assert served.keys() >= {"plain", "causal", "window_past", "both_lengths", "bias", "mask", "dropout"}
    torch._dynamo.reset()

    def f(q, k, v):
        results = [mhalib.attention(q, k, v, backend=backend, **options) for options in served.values()]
        return [result[0] if isinstance(result, tuple) else result for result in results]

    compiled = torch.compile(f, fullgraph=True, backend="eager", dynamic=dynamic)
    results = []
    for run in (f, compiled):
        leaves = [x.detach().requires_grad_() for x in qkv]
        outputs = dict(zip(served, run(*leaves), strict=True))
        dropped = outputs.pop("dropout")
        results.append((*outputs.values(), *torch.autograd.grad(sum(x.sum() for x in outputs.values()), leaves)))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want)
    again = dict(zip(served, compiled(*qkv), strict=True))["dropout"]
    assert not torch.equal(again, dropped)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"causal": True}, {"causal": True, "window": 3}, {"softcap": 2.0}], ids=str)
def test_few_graphs_for_many_lengths_and_heads(options):
    torch._dynamo.reset()
    graphs = []
    compiled = torch.compile(
        lambda *x: mhalib.attention(*x, **options), fullgraph=True, backend=lambda graph, _: graphs.append(1) or graph
    )
    for heads, length in ((2, 5), (2, 6), (2, 40), (2, 300), (4, 300), (4, 9)):
        qkv = [torch.randn(2, heads, length, 4) for _ in range(3)]
        torch.testing.assert_close(compiled(*qkv), mhalib.attention(*qkv, backend="reference", **options))
    assert len(graphs) <= 4


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "window"), [(mhalib.KVCache, None), (mhalib.RollingKVCache, 5)])
def test_few_graphs_for_twelve_steps_of_decoding(kind, window):
    torch._dynamo.reset()
    graphs = []
    layer = mhalib.MultiHeadAttention(8, 2, num_kv_heads=1, window=window).eval().requires_grad_(False)
    compiled = torch.compile(layer, fullgraph=True, backend=lambda graph, _: graphs.append(1) or graph)
    caches = [kind(1, 1, window or 16, 4) for _ in range(2)]
    with torch.no_grad():
        for _ in range(12):
            x = torch.randn(1, 1, 8)
            got, want = (run(x, causal=True, cache=c)[0] for run, c in zip((compiled, layer), caches, strict=True))
            torch.testing.assert_close(got, want)
    assert len(graphs) <= 4


@pytest.mark.parametrize("options", [{}, {"window": 3}], ids=["plain", "window"])
def test_export_with_a_dynamic_length(options):
    layer = mhalib.MultiHeadAttention(8, 2, num_kv_heads=1, **options).eval()
    length = torch.export.Dim("length", min=2, max=4096)
    shapes = {"query": {1: length}, "causal": None}
    program = torch.export.export(layer, (torch.randn(2, 10, 8),), {"causal": True}, dynamic_shapes=shapes)
    x = torch.randn(2, 77, 8)
    torch.testing.assert_close(program.module()(x, causal=True)[0], layer(x, causal=True)[0])


# ----------------------------------------------------------------------------- tensors that are not on the CPU


class Reads(TorchDispatchMode):
    """Counts what reads a tensor's values into Python."""

    names = ("_local_scalar_dense", "is_nonzero", "equal")

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(name in str(function) for name in self.names):
            self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("backend", NAMES)
def test_nothing_is_read_from_a_device(backend, name):
    """On the meta device a read would raise besides."""
    options = option(name, TINY, torch.float64)
    options = {key: x.to("meta") if isinstance(x, torch.Tensor) else x for key, x in options.items()}
    qkv = [x.to("meta").requires_grad_() for x in inputs(TINY)]
    if backend != "auto" and refusal(backend, *qkv, **options):
        return
    with Reads() as reads:
        output = mhalib.attention(*qkv, backend=backend, **options)
        grads = torch.autograd.grad(output.sum(), qkv)
    assert output.shape == (TINY.batch, TINY.heads, TINY.lq, TINY.dv)
    assert [x.shape for x in grads] == [x.shape for x in qkv]
    assert reads.seen == []
