"""torch.func through the Triton kernels: right, or refused in so many words; never a silent 0. And scales near 0.

`attention` refuses some of it before a backend is reached. Whoever calls the kernels' own `op.attend` is as safe.
"""

from unittest import mock

import pytest
import torch
from interpreted import in_interpreter
from oracle import Shape, inputs
from torch.autograd import forward_ad

import mhalib
from mhalib.backends.triton import configs

SHAPE = Shape(2, 4, 2, 5, 9, 8, 8)
NAMES = ("query", "key", "value")


def attend(query, key, value, backend="triton", **options):
    if backend == "kernels":
        from mhalib.backends.triton import op

        return op.attend(query, key, value, **{"scale": query.shape[3] ** -0.5} | options)[0]
    return mhalib.attention(query, key, value, backend=backend, **options)


def function_of(position, backend="kernels", **options):
    """(a function of one of the three tensors, that tensor)."""
    tensors = list(inputs(SHAPE, torch.float32))

    def call(x):
        return attend(*tensors[:position], x, *tensors[position + 1 :], backend=backend, **options)

    return call, tensors[position]


def dual(call, x):
    with forward_ad.dual_level():
        return call(forward_ad.make_dual(x, torch.ones_like(x)))


#: Every way to carry a derivative forward.
FORWARD = {
    "jvp": lambda call, x: torch.func.jvp(call, (x,), (torch.ones_like(x),)),
    "jacfwd": lambda call, x: torch.func.jacfwd(lambda x: call(x).sum())(x),
    "hessian": lambda call, x: torch.func.hessian(lambda x: call(x).sum())(x),
    "dual": dual,
    "dual that needs a gradient": lambda call, x: dual(call, x.requires_grad_()),
    "jvp of vmap": lambda call, x: torch.func.jvp(torch.func.vmap(call), (x[None],), (torch.ones_like(x[None]),)),
}


@in_interpreter
def test_attention_refuses_it_too():
    for way in FORWARD.values():
        with pytest.raises((RuntimeError, ValueError), match=r"forward-mode derivative.*reference"):
            way(*function_of(0, "triton"))


@pytest.mark.parametrize("position", range(3), ids=NAMES)
@pytest.mark.parametrize("way", FORWARD)
@in_interpreter
def test_a_derivative_carried_forward_is_refused(way, position):
    """An operator of torch drops the tangent: the derivative was 0, silently."""
    call, x = function_of(position)
    with pytest.raises(RuntimeError, match=r"no forward-mode derivative.*backend='reference'"):
        FORWARD[way](call, x)


@in_interpreter
def test_compiled_it_is_refused_too():
    call, x = function_of(0)
    compiled = torch.compile(lambda x: torch.func.jvp(call, (x,), (x,))[1], backend="eager")
    with pytest.raises(Exception, match="no forward-mode derivative"):
        compiled(x)


@in_interpreter
def test_where_no_input_carries_one_nothing_is_refused():
    call, x = function_of(0)
    with forward_ad.dual_level():
        assert torch.equal(call(x), call(x))
        forward_ad.make_dual(x, x)
    tangent = torch.func.jvp(lambda y: call(x) * y, (torch.tensor(2.0),), (torch.tensor(1.0),))[1]
    assert torch.equal(tangent, call(x))


@pytest.mark.parametrize("axes", [(0, 0, 0), (1, None, None), (None, 2, None), (-1, 0, None)], ids=str)
@pytest.mark.parametrize("options", [{}, {"causal": True, "window": 3}], ids=str)
@in_interpreter
def test_vmap_equals_a_loop(options, axes):
    tensors = list(inputs(SHAPE, torch.float32))
    stacked = [
        x if axis is None else torch.stack([x, 2 * x, -x], dim=axis) for x, axis in zip(tensors, axes, strict=True)
    ]
    got = torch.func.vmap(lambda *qkv: attend(*qkv, **options), axes)(*stacked)
    for n in range(3):
        one = [x if axis is None else x.select(axis, n) for x, axis in zip(stacked, axes, strict=True)]
        torch.testing.assert_close(got[n], attend(*one, backend="reference", **options), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("position", range(3), ids=NAMES)
@in_interpreter
def test_gradients_for_each_sample_by_vmap(position):
    """As the usual recipe takes them: vmap(grad(loss))."""

    def gradients(backend):
        call, x = function_of(position, backend)
        return torch.func.vmap(torch.func.grad(lambda x: call(x).square().sum()))(torch.stack([x, 2 * x, -x]))

    got, right = gradients("triton"), gradients("reference")
    assert right.abs().max() > 0.1
    torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev], ids=["grad", "jacrev"])
@in_interpreter
def test_reverse_mode_is_right_and_a_second_one_refused(transform):
    def gradients(backend):
        call, x = function_of(0, backend)
        return transform(lambda x: call(x).square().sum())(x)

    torch.testing.assert_close(gradients("triton"), gradients("reference"), rtol=1e-5, atol=1e-5)
    call, x = function_of(0)
    with pytest.raises(RuntimeError, match=r"first derivatives only.*backend='reference'"):
        torch.func.grad(lambda x: torch.func.grad(lambda x: call(x).square().sum())(x).sum())(x)


@pytest.mark.parametrize("scale", [1e-46, -1e-40], ids=str)
@pytest.mark.parametrize("few", [False, True], ids=["many queries", "few queries"])
@in_interpreter
def test_a_scale_that_is_0_in_float32(few, scale):
    """−inf · 0 is NaN, and a masked score is −inf."""
    with mock.patch.object(configs, "DECODE_ROWS", 64 if few else 0):
        for options in ({"causal": True}, {"window": 2}):
            sources = [x.requires_grad_() for x in inputs(SHAPE, torch.float32)]
            output = attend(*sources, "kernels", scale=scale, **options)
            exact = attend(*(x.double() for x in sources), "reference", scale=0.0, **options)
            torch.testing.assert_close(output.double(), exact, rtol=1e-5, atol=1e-6)
            assert all(x.isfinite().all() for x in torch.autograd.grad(output.sum(), sources))
