"""The Triton backend as an operator of torch, and what it says where it cannot run."""

import os
import subprocess
import sys

import pytest
import torch
from interpreted import in_interpreter
from oracle import SMALL, Shape, inputs, leaves, normal
from torch._subclasses.fake_tensor import FakeTensorMode

import mhalib
from mhalib.backends import triton as backend
from mhalib.backends.request import validate

SHAPE = Shape(1, 4, 2, 35, 40, 16, 8)
OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"causal": True, "window": 7},
    "lengths": {"key_lengths": torch.tensor([30])},
    "softcap": {"softcap": 2.0},
}
#: (key_lengths, query_lengths, causal, window, scale, softcap) of the operator itself.
ARGUMENTS = {
    "causal": (None, None, True, None, 0.25, None),
    "everything": (torch.tensor([30]), torch.tensor([2]), True, 9, 0.25, 2.0),
}


# ------------------------------------------------------------------------------------------- as an operator


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("lq", [35, 2], ids=["many queries", "few queries"])
@in_interpreter
def test_opcheck(lq, name):
    """Schema, fake rule, autograd registration and tracing, as torch's own checker sees them."""
    from mhalib.backends.triton import op

    query, key, value = leaves(*inputs(Shape(1, 4, 2, lq, 40, 16, 8), torch.float32))
    torch.library.opcheck(op.triton_attention, (query, key, value, *ARGUMENTS[name]))
    with torch.no_grad():
        output, lse = op.triton_attention(query, key, value, *ARGUMENTS[name])
        tensors = [x.detach() for x in (torch.ones_like(output), torch.ones_like(lse), query, key, value, output, lse)]
    torch.library.opcheck(op.triton_attention_backward, (*tensors, *ARGUMENTS[name]))


@pytest.mark.parametrize("name", OPTIONS)
@in_interpreter
def test_compiled_in_one_graph_forward_and_backward(name):
    def attend(query, key, value):
        return mhalib.attention(query, key, value, backend="triton", **OPTIONS[name])

    sources = leaves(*inputs(SHAPE, torch.float32))
    grad = normal(1, 4, 35, 8, seed=3, dtype=torch.float32)
    eager = attend(*sources)
    compiled = torch.compile(attend, fullgraph=True)(*sources)
    assert torch.equal(compiled, eager)
    for ours, theirs in zip(
        torch.autograd.grad(compiled, sources, grad), torch.autograd.grad(eager, sources, grad), strict=True
    ):
        assert theirs.abs().max() > 0
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@in_interpreter
def test_autocast_casts_the_inputs_and_hands_back_gradients_in_theirs(dtype):
    sources = leaves(*inputs(SHAPE, torch.float32))
    with torch.autocast("cpu", dtype=dtype):
        output = mhalib.attention(*sources, causal=True, backend="triton")
    halves = [x.detach().to(dtype).requires_grad_() for x in sources]
    expected = mhalib.attention(*halves, causal=True, backend="triton")
    assert output.dtype == dtype
    assert torch.equal(output, expected)
    grad = normal(*output.shape, seed=3, dtype=dtype)
    for ours, theirs in zip(
        torch.autograd.grad(output, sources, grad), torch.autograd.grad(expected, halves, grad), strict=True
    ):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, theirs.float())


@in_interpreter
def test_a_second_derivative_is_refused():
    sources = leaves(*inputs(SHAPE, torch.float32))
    output = mhalib.attention(*sources, backend="triton")
    (first,) = torch.autograd.grad(output.sum(), sources[:1], create_graph=True)
    with pytest.raises(RuntimeError, match=r"first derivatives only.*backend='reference'"):
        first.sum().backward()


@in_interpreter
def test_an_input_that_needs_no_gradient_gets_none():
    query, key, value = inputs(SHAPE, torch.float32)
    key.requires_grad_()
    mhalib.attention(query, key, value, backend="triton").sum().backward()
    assert query.grad is None
    assert value.grad is None
    assert key.grad.abs().max() > 0


# ----------------------------------------------------------------------------------------- where it cannot run


def why(*qkv, **options):
    """The refusal of the backend asked for by name."""
    with pytest.raises(ValueError, match=r"backend: 'triton' cannot serve this request: ") as caught:
        mhalib.attention(*qkv, backend="triton", **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask": torch.ones(5, 7, dtype=torch.bool)}, "read no mask from memory"),
        ({"bias": torch.ones(5, 7)}, "read no bias from memory"),
        ({"dropout": 0.5}, "have no dropout"),
        ({"return_weights": True}, "never form the weights"),
    ],
    ids=["mask", "bias", "dropout", "weights"],
)
@in_interpreter
def test_options_it_does_not_have_are_refused(options, words):
    qkv = inputs(SMALL, torch.float32)
    assert words in why(*qkv, **options)
    assert mhalib.explain_backend(*qkv, **options).backend != "triton"


@in_interpreter
def test_inputs_it_does_not_take_are_refused():
    assert "float32 and would lose half of the digits" in why(*inputs(SMALL, torch.float64))
    assert "head sizes up to 256, and this one is 257" in why(*inputs(Shape(1, 1, 1, 2, 2, 257, 8), torch.float32))
    assert "head sizes up to 256, and this one is 300" in why(*inputs(Shape(1, 1, 1, 2, 2, 8, 300), torch.float32))


def without_gpu(code, **environment):
    """What `code` prints in a fresh Python, in which Triton does not interpret unless `environment` says so."""
    inherited = {name: x for name, x in os.environ.items() if not name.startswith("TRITON")}
    inherited["PYTHONPATH"] = os.pathsep.join(sys.path)
    start = "import sys, torch\nq = torch.ones(1, 1, 2, 4)\n"
    call = "\ntry:\n    mhalib.attention(q, q, q, backend='triton')\nexcept ValueError as error:\n    print(error)\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code + call],
        env=inherited | environment,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_of_triton_is_imported_before_it_is_used():
    code = "import mhalib, mhalib.backends.triton\nprint(sorted(x for x in sys.modules if x.split('.')[0] == 'triton'))"
    assert without_gpu(code).splitlines()[0] == "[]"


def test_tensors_without_a_gpu():
    said = without_gpu("import mhalib")
    assert "the tensors are on cpu, and its kernels need an NVIDIA GPU" in said
    assert "set TRITON_INTERPRET=1 before Python starts" in said


def test_the_interpreter_asked_for_too_late():
    said = without_gpu("import triton, os, mhalib\nos.environ['TRITON_INTERPRET'] = '1'")
    assert "TRITON_INTERPRET was set after triton had been imported" in said


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        ("linux", "triton is not installed: pip install triton (or mhalib's extra, mhalib[kernels])"),
        ("darwin", "triton is not installed, and there is none for macOS"),
        ("win32", "triton is not installed; on Windows the package is triton-windows"),
    ],
)
def test_without_triton_it_says_what_to_install(platform, words):
    said = without_gpu(f"import mhalib\nsys.modules['triton'] = None\nsys.platform = {platform!r}")
    assert words in said
    assert "take 'reference' or 'auto'" in said


# ---------------------------------------------------------------------------------------------- what auto takes


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that the tensors' GPU has a given compute capability, and that triton is there and compiles."""

    def pretend(*found, lq=64):
        monkeypatch.setattr(backend, "capability", lambda device: found)
        monkeypatch.setattr(backend, "interpreting", lambda: False)
        monkeypatch.setattr(backend, "_asked_to_interpret", lambda: False)
        monkeypatch.setattr(torch.version, "hip", None, raising=False)
        with FakeTensorMode():
            return [torch.empty(1, 2, length, 32, dtype=torch.float16, device="cuda") for length in (lq, 64, 64)]

    return pretend


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 8, "causal": True}], ids=str)
def test_on_a_t4_auto_takes_torch_and_says_why(gpu, options):
    choice = mhalib.explain_backend(*gpu(7, 5), **options)
    assert choice.backend == "sdpa"
    assert "Triton compiles no tensor-core instructions for compute capability 7.5 (T4)" in choice.reason
    assert mhalib.explain_backend(*gpu(7, 5), backend="triton", **options).backend == "triton"


def test_older_gpus_are_refused(gpu):
    assert "compute capability 7.0, and Triton needs 7.5" in why(*gpu(7, 0))
    assert mhalib.explain_backend(*gpu(7, 0)).backend == "sdpa"


@pytest.mark.parametrize("found", [(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)], ids=str)
def test_on_tensor_cores_auto_takes_the_kernels_for_what_torch_needs_a_mask_for(gpu, found):
    query, key, value = gpu(*found)
    for options in ({"window": 8}, {"causal": True, "window": 8}, {"softcap": 2.0}, {"return_lse": True}):
        assert mhalib.explain_backend(query, key, value, **options).backend == "triton", options
    assert mhalib.explain_backend(*gpu(*found, lq=9), causal=True).backend == "triton"
    for options in ({}, {"causal": True}, {"dropout": 0.1, "causal": True}):
        assert mhalib.explain_backend(query, key, value, **options).backend == "sdpa", options


def test_float32_tiles_that_turing_cannot_hold(gpu):
    with FakeTensorMode():
        wide = torch.empty(1, 1, 2, 200, device="cuda")
    gpu(7, 5)
    assert "tile of float32 with head size 200 does not fit" in why(wide, wide, wide)
    gpu(8, 0)
    assert mhalib.explain_backend(wide, wide, wide, backend="triton").backend == "triton"


@in_interpreter
def test_auto_does_not_take_the_interpreter():
    qkv = inputs(SMALL, torch.float32)
    assert mhalib.explain_backend(*qkv, causal=True, window=3).backend != "triton"
    assert backend.for_auto(validate(*qkv)) == (False, "Triton's interpreter is for trying kernels, not for speed")
