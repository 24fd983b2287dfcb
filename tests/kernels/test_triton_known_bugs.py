"""Bugs that people reported of attention kernels written by others, and that must be impossible in these.

Each docstring says where it was reported (project and number of the issue or pull request). Those that show when a
kernel is compiled, shared memory and the aborts of Turing's compilers, are in test_triton_ahead_of_time.py.
Three need a GPU and are not here: triton #10573 (an illegal access at one tile size on an H100), #5437 and #1975 (a
slow backward at head size 128).
"""

from unittest import mock

import pytest
import torch
from interpreted import in_interpreter
from oracle import Shape, inputs, leaves, normal, truth
from test_triton_interpreter import check, tiles, undivided

import mhalib
from mhalib.backends.triton import configs

FP32 = torch.float32
#: float32, sums of fewer than 100 terms of size 1: some tens of roundings of 6e-8.
CLOSE = {"rtol": 0, "atol": 5e-6}


def attend(*qkv, **options):
    return mhalib.attention(*qkv, backend="triton", **options)


@pytest.mark.parametrize("dim", [1, 3, 17, 40, 96, 130])
@in_interpreter
def test_head_size_is_not_a_power_of_two(dim):
    """triton #621; tiny-flash-attention #12: head size hard-coded, or powers of two only."""
    with undivided(), tiles(16, 16):
        check(Shape(1, 2, 1, 18, 20, dim, dim), FP32, {"causal": True})


@pytest.mark.parametrize("lengths", [(31, 33), (33, 31), (1, 47), (47, 1)], ids=str)
@in_interpreter
def test_lengths_are_not_a_multiple_of_the_tile(lengths):
    """jax #27224; rationalism/flash-attn-triton #4: the last tile reads, or counts, what is not there."""
    with undivided(), tiles(16, 16):
        check(Shape(1, 2, 2, *lengths, 16, 16), FP32, {})


@in_interpreter
def test_backward_without_causal():
    """triton #5660, #4174: the tutorial's backward pass was right for causal attention only."""
    with undivided(), tiles(16, 16):
        check(Shape(1, 2, 2, 40, 40, 16, 16), FP32, {"causal": False})


@in_interpreter
def test_gradient_that_arrives_is_not_contiguous():
    """flash-attention #355; fla #871: the gradient was read as if it were contiguous."""
    shape = Shape(2, 4, 2, 21, 25, 16, 8)
    grad = normal(2, 21, 4, 8, seed=21, dtype=FP32).transpose(1, 2)
    assert not grad.is_contiguous()
    with undivided(), tiles(16, 16):
        check(shape, FP32, {"causal": True}, grad=grad)


@in_interpreter
def test_gradient_that_arrives_is_one_expanded_number():
    """ROCm/TransformerEngine #623: the gradient of `output.sum()` has stride 0 everywhere."""
    shape = Shape(1, 4, 2, 21, 25, 16, 8)
    grad = torch.ones((), dtype=FP32).expand(1, 4, 21, 8)
    assert grad.stride() == (0, 0, 0, 0)
    with undivided(), tiles(16, 16):
        check(shape, FP32, {"causal": True}, grad=grad)
    sources = leaves(*inputs(shape, FP32))
    attend(*sources).sum().backward()
    expected = truth(*inputs(shape, FP32), grad_output=grad).gradients
    for name, source in zip(("query", "key", "value"), sources, strict=True):
        torch.testing.assert_close(source.grad.double(), expected[name], **CLOSE)


@in_interpreter
def test_gradient_that_leaves_has_strides_of_its_own():
    """ROCm/flash-attention #122: the query's strides were used to write the gradient of the query."""
    shape = Shape(2, 4, 2, 21, 25, 16, 16)
    with undivided(), tiles(16, 16):
        check(shape, FP32, {}, arrange=lambda x: x.transpose(1, 2).contiguous().transpose(1, 2))


@pytest.mark.parametrize("axis", ["batch", "head", "token", "number"])
@in_interpreter
def test_offsets_past_two_to_the_31(axis):
    """fla #1080; SageAttention #386; sglang #20389; ffpa-attn #299: places counted in 32 bits wrap around, silently.

    The keys are a view whose one stride is so large that the second step along it lands 2^31 elements or more away.
    The memory between is asked for and never touched.
    """
    stride, size = {
        "batch": ((2**31 + 48, 512, 16, 1), (2, 2, 20, 16)),
        "head": ((512, 2**31 + 48, 16, 1), (2, 2, 20, 16)),
        "token": ((16, 48, 2**27 + 16, 1), (2, 2, 20, 16)),
        "number": ((128, 64, 1, 2**28 + 128), (2, 2, 20, 16)),
    }[axis]
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    assert reach > 2**31
    shape = Shape(2, 4, 2, 18, 20, 16, 16)
    query, key, value = inputs(shape, torch.float16)
    far = torch.empty(reach, dtype=torch.float16).as_strided(size, stride)
    far.copy_(key)
    for context in (undivided(), mock.patch.object(configs, "DECODE_ROWS", 64)):
        with context, tiles(16, 16):
            near, there = leaves(key)[0], far.detach().requires_grad_()
            expected, got = attend(query, near, value), attend(query, there, value)
            assert torch.equal(got, expected)
            grad = normal(2, 4, 18, 16, seed=1, dtype=torch.float16)
            (right,), (ours,) = (torch.autograd.grad(x, y, grad) for x, y in ((expected, near), (got, there)))
            assert torch.equal(ours, right)


@pytest.mark.parametrize("few", [False, True], ids=["many queries", "few queries"])
@in_interpreter
def test_causal_is_aligned_at_the_bottom_right(few):
    """pytorch #108108; flash-attention #1778: with more keys than queries, which corner? The last query sees all."""
    lq = 2 if few else 40
    query, key, value = inputs(Shape(1, 2, 1, lq, 50, 16, 16), FP32)
    output = attend(query, key, value, causal=True)
    torch.testing.assert_close(output[:, :, -1:], attend(query[:, :, -1:], key, value), **CLOSE)
    seen = 50 - lq + 1
    first = attend(query[:, :, :1], key[:, :, :seen], value[:, :, :seen])
    torch.testing.assert_close(output[:, :, :1], first, **CLOSE)
    assert not torch.allclose(first, attend(query[:, :, :1], key, value))


def nan_where_dead(lse, output):
    """Gradients of the output and of the log-sum-exp: 1, and NaN in rows without keys, where nothing depends on it."""
    grad = torch.where(lse.isinf(), torch.nan, 1.0)
    return [grad[..., None].expand_as(output), grad]


@pytest.mark.parametrize("few", [False, True], ids=["many queries", "few queries"])
@in_interpreter
def test_rows_without_keys(few):
    """cubecl #1070; pegainfer #21: NaN from −inf − −inf, in a row that sees nothing and in a split that is empty."""
    shape = Shape(2, 2, 1, 3 if few else 40, 37, 16, 16)
    sources = leaves(*inputs(shape, FP32))
    with tiles(16, 16), mock.patch.object(configs, "splits", return_value=4):
        output, lse = attend(*sources, key_lengths=torch.tensor([0, 5]), return_lse=True)
        # exp(lse) of a dead row is 0; the gradient that arrives there may well be NaN.
        grads = torch.autograd.grad([output, lse], sources, nan_where_dead(lse, output))
    assert torch.equal(output[0], torch.zeros_like(output[0]))
    assert (lse[0] == -torch.inf).all()
    assert lse[1].isfinite().all()
    for grad in grads:
        assert grad.isfinite().all()
        assert torch.equal(grad[0], torch.zeros_like(grad[0]))
    for grad in grads[1:]:
        assert torch.equal(grad[1, :, 5:], torch.zeros_like(grad[1, :, 5:]))
        assert grad[1, :, :5].abs().min() > 0


@in_interpreter
def test_causal_rows_without_keys():
    """cubecl #1070: with more queries than keys the first ones see nothing, in tiles where others see something."""
    sources = leaves(*inputs(Shape(1, 2, 1, 40, 37, 16, 16), FP32))
    with undivided(), tiles(16, 16):
        output, lse = attend(*sources, causal=True, return_lse=True)
        grads = torch.autograd.grad([output, lse], sources, nan_where_dead(lse, output))
    assert torch.equal(output[:, :, :3], torch.zeros_like(output[:, :, :3]))
    assert (lse == -torch.inf).nonzero()[:, 2].tolist() == [0, 1, 2, 0, 1, 2]
    assert all(grad.isfinite().all() for grad in grads)
    assert torch.equal(grads[0][:, :, :3], torch.zeros_like(grads[0][:, :, :3]))
    assert grads[0][:, :, 3:].abs().amax(-1).min() > 0


@in_interpreter
def test_rows_that_a_window_and_a_length_leave_without_keys():
    """The keys that a late query could see lie past the length, in tiles where earlier queries see something."""
    sources = leaves(*inputs(Shape(2, 2, 1, 40, 40, 16, 16), FP32))
    options = {"causal": True, "window": 6, "key_lengths": torch.tensor([20, 3])}
    with undivided(), tiles(16, 16):
        output, lse = attend(*sources, **options, return_lse=True)
        grads = torch.autograd.grad([output, lse], sources, nan_where_dead(lse, output))
    dead = lse.isinf()
    assert dead[0, 0].nonzero().flatten().tolist() == list(range(25, 40))
    assert dead[1, 1].nonzero().flatten().tolist() == list(range(8, 40))
    exact = [x.detach().double().requires_grad_() for x in sources]
    right = mhalib.attention(*exact, **options, return_lse=True, backend="reference")
    ones = (~dead).double()
    expected = torch.autograd.grad(right, exact, [ones[..., None].expand_as(right[0]), ones])
    for grad, other in zip(grads, expected, strict=True):
        torch.testing.assert_close(grad.double(), other, rtol=1e-5, atol=1e-5)


@in_interpreter
def test_first_tile_of_a_window_hides_all_keys_of_some_rows():
    """cubecl #1070 again, inside a living row: its first tile may show it nothing, before the window begins."""
    with undivided(), tiles(32, 16):
        check(Shape(1, 1, 1, 64, 64, 8, 8), FP32, {"causal": True, "window": 2})


@in_interpreter
def test_query_heads_of_a_group_add_up_in_their_key_head():
    """native-sparse-attention-triton #27: wrong map from query to key heads in dK and dV; value size ≠ key size."""
    with undivided(), tiles(16, 16):
        check(Shape(2, 6, 2, 20, 18, 8, 24), FP32, {"causal": True})
    query, key, value = leaves(*inputs(Shape(1, 6, 2, 20, 18, 8, 24), FP32))
    with undivided():
        attend(query, key, value)[:, :3].sum().backward()  # the heads that share key head 0
    assert key.grad[:, 0].abs().min() > 0
    assert torch.equal(key.grad[:, 1], torch.zeros_like(key.grad[:, 1]))
    assert torch.equal(value.grad[:, 1], torch.zeros_like(value.grad[:, 1]))


@pytest.mark.parametrize("kernel", ["forward", "decode", "backward"])
@in_interpreter
def test_precision_of_products_is_always_given(kernel):
    """triton #1671, #8654; triton_docs_tutorials #6: TF32 is triton's default, and float32 gradients were 0.7 off."""
    from triton.runtime.interpreter import InterpreterBuilder

    asked = []
    plain = InterpreterBuilder.create_dot

    def spy(self, a, b, accumulator, precision, *options):
        asked.append(str(precision))
        return plain(self, a, b, accumulator, precision, *options)

    sources = leaves(*inputs(Shape(1, 2, 1, 20, 20, 16, 16), FP32))
    limit = 64 if kernel == "decode" else 0
    with mock.patch.object(configs, "DECODE_ROWS", limit), mock.patch.object(InterpreterBuilder, "create_dot", spy):
        output = attend(*sources)
        if kernel == "backward":
            asked.clear()
            output.sum().backward()
    assert {precision.rpartition(".")[2] for precision in asked} == {"IEEE"}


@in_interpreter
def test_dropout_is_refused():
    """flash-attention #116; pytorch #197563: races, and a seed that is read on the host. There is none here."""
    with pytest.raises(ValueError, match="have no dropout"):
        attend(*inputs(Shape(1, 1, 1, 4, 4, 8, 8), FP32), dropout=0.1)


@in_interpreter
def test_backward_is_an_operator_without_a_derivative():
    """pytorch #139707, #125489, #92348: a kernel's second derivative was silently wrong, or unknown to the compiler."""
    assert torch.ops.mhalib.triton_attention_backward.default
    query, key, value = leaves(*inputs(Shape(1, 1, 1, 20, 20, 8, 8), FP32))
    (grad,) = torch.autograd.grad(attend(query, key, value).sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        grad.square().sum().backward()


@pytest.mark.parametrize("what", ["forward", "decode", "backward"])
@in_interpreter
def test_many_heads_stay_on_the_first_axis_of_the_grid(what):
    """pytorch #157018: batch · heads on the second axis, which CUDA ends at 65535, was an "invalid argument"."""
    from mhalib.backends.triton import backward, decode, forward

    grids = []

    class Recorder:
        def __getitem__(self, grid):
            grids.append(grid)
            return lambda *arguments, **options: None

    batch, heads, lq = 9000, 8, 1 if what == "decode" else 100
    query, key, value = (torch.empty(batch, heads, n, 16, device="meta") for n in (lq, 100, 100))
    options = {"causal": False, "window": None, "scale": 1.0, "softcap": None}
    names = ("forward_kernel", "decode_kernel", "combine_kernel", "delta_kernel", "key_value_kernel", "query_kernel")
    with (
        mock.patch.multiple(forward, forward_kernel=Recorder()),
        mock.patch.multiple(decode, **dict.fromkeys(names[1:3], Recorder())),
        mock.patch.multiple(backward, **dict.fromkeys(names[3:], Recorder())),
    ):
        if what == "forward":
            forward.forward(query, key, value, None, **options)
        elif what == "decode":
            decode.decode(query, key, value, None, **options, splits=2)
        else:
            rows = torch.empty(batch, heads, lq, device="meta")
            backward.backward(query, rows, query, key, value, query, rows, None, **options)
    assert len(grids) == {"forward": 1, "decode": 2, "backward": 3}[what]
    assert all(len(grid) == 1 and 65535 < grid[0] < 2**31 for grid in grids), grids


@in_interpreter
def test_decoding_still_splits_the_keys_of_a_large_batch():
    """vllm #48076: from a batch of 12 on the keys were no longer split, and a token took twice as long."""
    for batch in (11, 12, 13, 16):
        assert configs.splits(programs=batch * 8, lk=16384, block_k=64, processors=132) >= 2


@in_interpreter
def test_bias_is_refused():
    """flash-attention #442: a large additive bias gave wrong results. There is none here."""
    with pytest.raises(ValueError, match="read no bias"):
        attend(*inputs(Shape(1, 1, 1, 4, 4, 8, 8), FP32), bias=torch.full((4, 4), 1e4))


@pytest.mark.parametrize("few", [False, True], ids=["many queries", "few queries"])
@in_interpreter
def test_scores_above_65504_in_float16(few):
    """Scores are held in float32: what would be infinite in float16 is a number."""
    query, key, value = inputs(Shape(1, 1, 1, 4 if few else 70, 20, 64, 16), torch.float16)
    query, key = query * 60, key * 60
    assert (query.float() @ key.float().mT).abs().max() > 65504
    output = attend(query, key, value, scale=1.0)
    torch.testing.assert_close(output.double(), truth(query, key, value, scale=1.0).output, rtol=2e-3, atol=2e-3)


@in_interpreter
def test_what_lies_past_the_length_is_never_read():
    """NaN in the padding: 0 · NaN is NaN, but a key past its sequence's length is not even loaded."""
    shape = Shape(2, 2, 1, 20, 24, 16, 16)
    query, key, value = inputs(shape, FP32)
    lengths = torch.tensor([24, 7])
    clean = attend(query, key, value, key_lengths=lengths)
    for x in (key, value):
        x[1, :, 7:] = torch.nan
    for rows in (0, 64):
        with mock.patch.object(configs, "DECODE_ROWS", rows):
            torch.testing.assert_close(attend(query, key, value, key_lengths=lengths), clean, **CLOSE)
