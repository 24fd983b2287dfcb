"""`auto` takes the fused kernel where it is correct, tiles elsewhere, the reference for weights, and says why."""

import pytest
import torch
from oracle import (
    BACKEND_NAMES,
    DTYPES,
    OPTIONS,
    SMALL,
    TALL,
    Budget,
    Shape,
    assert_within,
    coin,
    inputs,
    normal,
    option,
    truth,
)

import mhalib
from mhalib.backends import torch_kernel
from mhalib.functional import BACKENDS

WHOLE = "torch's fused kernel serves this request without forming the weights"
FOLDED = "torch's fused kernel, the queries of a group as rows of one head, so that no key is repeated"


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_auto_takes_the_fused_kernel_unless_something_is_in_the_way(dtype, name):
    choice = mhalib.explain_backend(*inputs(SMALL, dtype), **option(name, SMALL, dtype))
    half = dtype in (torch.float16, torch.bfloat16)
    if "softcap" in option(name, SMALL, dtype):
        assert choice == ("tiled", "tile by tile in plain torch, because torch's fused kernels cannot cap the scores")
    elif name == "bias_fine" and half:
        because = f"because torch's fused kernels would round the torch.float32 bias to {dtype}"
        assert choice == ("tiled", f"tile by tile in plain torch, {because}")
    else:
        assert choice == ("sdpa", FOLDED)  # five queries of six heads over two key heads


@pytest.mark.parametrize(
    ("sizes", "options", "because"),
    [
        (Shape(0, 2, 2, 3, 3, 4, 4), {}, "torch's fused kernels are not defined on empty inputs"),
        (Shape(1, 2, 2, 3, 0, 4, 4), {}, "torch's fused kernels are not defined on empty inputs"),
    ],
)
def test_auto_takes_tiles_where_the_fused_kernel_cannot(sizes, options, because):
    assert mhalib.explain_backend(*inputs(sizes), **options) == (
        "tiled",
        f"tile by tile in plain torch, because {because}",
    )


@pytest.mark.parametrize("options", [{}, {"return_lse": True}, {"softcap": 2.0}, {"causal": True}], ids=str)
@pytest.mark.parametrize("sizes", [SMALL, Shape(0, 2, 2, 3, 3, 4, 4)], ids=str)
def test_auto_takes_the_reference_for_the_weights_only(sizes, options):
    because = "because the other backends never form the weights"
    assert mhalib.explain_backend(*inputs(sizes), **options, return_weights=True) == (
        "reference",
        f"the formula written out, {because}",
    )
    assert mhalib.explain_backend(*inputs(sizes), **options).backend != "reference"


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_a_name_is_a_name(backend):
    choice = mhalib.explain_backend(*inputs(SMALL), backend=backend)
    assert isinstance(choice, mhalib.BackendChoice)
    assert choice.backend == backend
    assert choice.reason == "asked for by name"
    assert str(choice) == f"{backend}: asked for by name"
    assert f"{choice}" == str(choice)


def test_a_choice_prints_as_a_sentence(capsys):
    print(mhalib.explain_backend(*inputs(SMALL)))
    assert capsys.readouterr().out == f"sdpa: {FOLDED}\n"
    print(mhalib.explain_backend(*inputs(Shape(1, 2, 2, 5, 7, 8, 8))))
    assert capsys.readouterr().out == f"sdpa: {WHOLE}\n"


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_explained_is_what_runs(name, monkeypatch):
    ran = []
    for backend, module in BACKENDS.items():
        run = module.run
        monkeypatch.setattr(module, "run", lambda request, b=backend, r=run: (ran.append(b), r(request))[1])
    options = option(name, SMALL, torch.float64)
    choice = mhalib.explain_backend(*inputs(SMALL), **options)
    assert ran == []  # nothing is computed to explain
    mhalib.attention(*inputs(SMALL), **options)
    assert ran == [choice.backend]


@pytest.mark.parametrize("name", OPTIONS)
def test_auto_gives_the_numbers_of_the_reference(name):
    for shape in (SMALL, TALL):
        qkv, options = inputs(shape), option(name, shape, torch.float64)
        expected = truth(*qkv, **options)
        budget = Budget.of(shape, torch.float64, expected.reach).forward * expected.sizes["output"]
        assert_within(mhalib.attention(*qkv, **options), expected.output, budget, name)


@pytest.fixture
def handed_over(monkeypatch):
    """What the sdpa backend hands to torch."""
    calls = []

    def spy(*qkv, **options):
        calls.append(options)
        return scaled_dot_product_attention(*qkv, **options)

    scaled_dot_product_attention = torch_kernel.scaled_dot_product_attention
    monkeypatch.setattr(torch_kernel, "scaled_dot_product_attention", spy)
    return calls


def test_torch_gets_its_causal_flag_where_both_corners_are_one(handed_over):
    """A flag instead of a mask is what makes the kernel skip half of the work."""
    square = Shape(1, 2, 2, 5, 5, 8, 8)
    mhalib.attention(*inputs(square), causal=True, backend="sdpa")
    assert handed_over[-1]["is_causal"] is True
    assert handed_over[-1]["attn_mask"] is None
    assert handed_over[-1]["enable_gqa"] is False
    for sizes, options in (
        (SMALL, {}),
        (TALL, {}),
        (square, {"window": 3}),
        (square, {"mask": coin(5, 5, seed=1)}),
        (square, {"bias": normal(5, 5, seed=1)}),
        (square, {"key_lengths": torch.tensor([3])}),  # one sequence alone: no padding to leave out
    ):
        mhalib.attention(*inputs(sizes), causal=True, **options, backend="sdpa")
        assert handed_over[-1]["is_causal"] is False
        assert handed_over[-1]["attn_mask"] is not None


def test_torch_gets_no_mask_where_there_is_nothing_to_hide(handed_over):
    mhalib.attention(*inputs(SMALL), backend="sdpa")
    assert handed_over[-1]["attn_mask"] is None
    assert handed_over[-1]["is_causal"] is False
    mhalib.attention(*inputs(Shape(2, 6, 2, 1, 7, 8, 8)), causal=True, backend="sdpa")
    assert handed_over[-1]["attn_mask"] is None  # a single query stands at the last key, and sees all
    assert handed_over[-1]["is_causal"] is False


def test_keys_are_never_repeated_before_torch_sees_them(handed_over, monkeypatch):
    """O16: grouped heads are asked for, not made by copying; torch alone would broadcast one key head silently."""
    for name in ("repeat", "repeat_interleave", "tile"):
        monkeypatch.setattr(torch.Tensor, name, lambda *_, n=name: pytest.fail(f"{n} copies the keys"))
    mhalib.attention(*inputs(Shape(1, 4, 1, 5, 7, 8, 8)), backend="sdpa")
    assert handed_over[-1]["enable_gqa"] is False  # four heads of five queries became one of twenty
    mhalib.attention(*inputs(Shape(1, 4, 1, 20, 20, 8, 8)), causal=True, backend="sdpa")
    assert handed_over[-1]["enable_gqa"] is True
    mhalib.attention(*inputs(Shape(1, 4, 4, 5, 7, 8, 8)), backend="sdpa")
    assert handed_over[-1]["enable_gqa"] is False
