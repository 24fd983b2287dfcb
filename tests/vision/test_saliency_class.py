"""Maps for a class, against definitions written a second time: differences without any gradient, hooks, loops."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import PROPERTY

from mhalib.vision import VisionTransformer
from mhalib.vision.saliency import cdam, input_times_gradient, integrated_cdam, per_patch, smooth_cdam

METHODS = {"cdam": cdam, "smooth": smooth_cdam, "integrated": integrated_cdam, "pixels": input_times_gradient}
TARGETS = [2, torch.tensor([0, 3, 1])]


def small_model(registers=0, depth=2, seed=0):
    torch.manual_seed(seed)
    model = VisionTransformer(
        (4, 6), 2, in_channels=2, num_classes=4, d_model=8, depth=depth, num_heads=2, num_registers=registers
    )
    for parameter in model.parameters():  # norms with scales and shifts that are not 1 and 0, and so on
        torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def some_images(batch=3, seed=1):
    return torch.randn(batch, 2, 4, 6, generator=torch.Generator().manual_seed(seed)).double()


def of_target(logits, target):
    return torch.stack([logits[b, target if isinstance(target, int) else target[b]] for b in range(len(logits))])


def run_with(model, images, change):
    """The logits when `change` has been applied to what the last block's attention layer is about to read."""
    handle = model.blocks[-1].norm1.register_forward_hook(lambda module, inputs, output: change(output))
    logits = model(images)
    handle.remove()
    return logits


def scaled(token, factor):
    """Multiply one token of what attention reads."""

    def change(tokens):
        tokens = tokens.clone()
        tokens[:, token] *= factor
        return tokens

    return change


def cdam_by_differences(model, images, target, size=1e-3):
    """S_j is the slope of f_c when token j is multiplied by 1 + a, at a = 0: no gradient needed.

    Five points, whose error is size⁴ / 30 times a fifth derivative.
    """
    columns = []
    with torch.no_grad():
        for token in range(1 + model.num_registers + 6):
            at = {
                step: of_target(run_with(model, images, scaled(token, 1 + step * size)), target)
                for step in (-2, -1, 1, 2)
            }
            columns.append((at[-2] - 8 * at[-1] + 8 * at[1] - at[2]) / (12 * size))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("target", TARGETS, ids=["one class", "one each"])
@pytest.mark.parametrize("registers", [0, 2])
def test_cdam_equals_differences_without_a_gradient(registers, target):
    model, images = small_model(registers), some_images()
    expected = cdam_by_differences(model, images, target)
    found = cdam(model, images, target, all_tokens=True)
    assert found.abs().max() > 0.01
    # size⁴ / 30 = 3e-14 times a fifth derivative, and roundings of 2e-16 · 10 / size.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert torch.equal(cdam(model, images, target), found[:, 1 + registers :])


def test_cdam_equals_autograd_by_hand():
    model, images = small_model(), some_images()
    kept = []

    def keep(tokens):
        kept.append(tokens.detach().requires_grad_())
        return kept[0]

    logits = run_with(model, images, keep)
    for b in range(3):
        (gradient,) = torch.autograd.grad(logits[b, 2], kept[0], retain_graph=True)
        for token in range(7):
            by_hand = sum(kept[0][b, token, d].item() * gradient[b, token, d].item() for d in range(8))
            assert abs(cdam(model, images, 2, all_tokens=True)[b, token].item() - by_hand) < 1e-12


def test_before_the_norm_the_sum_is_zero_for_every_patch():
    """The reason why the tokens are taken after it: a norm without ε does not see the length of a token."""
    model, images = small_model(), some_images()
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 0.0
    tokens = model.embed(images).detach()
    tokens = model.blocks[0](tokens)[0].detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.classify(model.blocks[1](tokens)[0])[:, 2].sum(), tokens)
    products = (tokens * gradient).sum(-1)
    assert gradient[:, 1:].abs().max() > 0.01
    assert products[:, 1:].abs().max() < 1e-12
    assert cdam(model, images, 2).abs().max() > 0.1


def test_smooth_cdam_is_the_mean_over_noisy_tokens():
    model, images = small_model(1), some_images()
    noise, samples, seed = 0.3, 3, 7
    generator = torch.Generator().manual_seed(seed)
    total = 0
    for _ in range(samples):
        drawn = torch.randn(8, 8, generator=generator, dtype=torch.float64)
        kept = []

        def keep(tokens, drawn=drawn, kept=kept):
            spread = torch.stack([one.std(correction=0) for one in tokens])[:, None, None]
            kept.append((tokens + noise * spread * drawn).detach().requires_grad_())
            return kept[0]

        logits = run_with(model, images, keep)
        (gradient,) = torch.autograd.grad(logits[:, 1].sum(), kept[0])
        total = total + (kept[0] * gradient).sum(-1).detach() / samples
    found = smooth_cdam(model, images, 1, noise=noise, samples=samples, seed=seed)
    torch.testing.assert_close(found, total[:, 2:], rtol=0, atol=1e-12)
    assert torch.equal(found, smooth_cdam(model, images, 1, noise=noise, samples=samples, seed=seed))
    assert not torch.allclose(found, smooth_cdam(model, images, 1, noise=noise, samples=samples, seed=8))


def test_without_noise_smooth_cdam_is_cdam():
    model, images = small_model(), some_images()
    torch.testing.assert_close(smooth_cdam(model, images, 1, noise=0), cdam(model, images, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS, ids=["one class", "one each"])
@pytest.mark.parametrize("registers", [0, 2])
def test_integrated_cdam_adds_up_to_the_change_of_the_logit(registers, target):
    model, images = small_model(registers), some_images()
    with torch.no_grad():
        change = of_target(model(images), target) - of_target(run_with(model, images, torch.zeros_like), target)
    found = integrated_cdam(model, images, target, steps=400, all_tokens=True).sum(1)
    assert change.abs().max() > 0.1
    torch.testing.assert_close(found, change, rtol=0, atol=1e-3)  # the midpoint rule: (1 / 400)² and its constant


@pytest.mark.slow
def test_integrated_cdam_converges_quadratically():
    model, images = small_model(), some_images()
    limit = integrated_cdam(model, images, 0, steps=3000)
    coarse, fine = ((integrated_cdam(model, images, 0, steps=n) - limit).abs().max() for n in (100, 200))
    assert 3 < coarse / fine < 5


def test_input_times_gradient_equals_differences():
    model, images = small_model(), some_images(2)
    found, size = input_times_gradient(model, images, 3), 1e-5
    for place in [(0, 0, 0, 0), (0, 1, 3, 5), (1, 0, 2, 3), (1, 1, 1, 0)]:
        step = torch.zeros_like(images)
        step[place] = size
        with torch.no_grad():
            slope = (model(images + step) - model(images - step))[place[0], 3] / (2 * size)
        assert abs(found[place] - images[place] * slope) < 1e-7


@PROPERTY
@given(height=st.integers(1, 3), width=st.integers(1, 3), rows=st.integers(1, 3), columns=st.integers(1, 4))
def test_per_patch_is_the_sum_over_each_patch(height, width, rows, columns):
    pixels = torch.randn(2, 3, rows * height, columns * width, dtype=torch.float64)
    found = per_patch(pixels, (height, width))
    for n in range(rows * columns):
        top, left = n // columns * height, n % columns * width
        expected = pixels[:, :, top : top + height, left : left + width].sum((1, 2, 3))
        torch.testing.assert_close(found[:, n], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_another_class_another_map(method):
    model, images = small_model(), some_images()
    assert not torch.allclose(METHODS[method](model, images, 0), METHODS[method](model, images, 1), atol=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_an_image_is_explained_by_itself(method):
    model, images = small_model(), some_images()
    together = METHODS[method](model, images, torch.tensor([1, 2, 0]))
    alone = torch.cat([METHODS[method](model, images[b : b + 1], target) for b, target in enumerate((1, 2, 0))])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_the_model_and_the_images_are_left_alone(method):
    model, images = small_model(), some_images()
    images.requires_grad_()
    before = copy.deepcopy(model.state_dict())
    for frozen in (False, True):
        model.requires_grad_(not frozen)
        with torch.no_grad():
            found = METHODS[method](model, images, 0)
        assert not found.requires_grad
        assert images.grad is None
        assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(found, METHODS[method](model, images, 0))


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_batch(method):
    assert len(METHODS[method](small_model(), some_images()[:0], 0)) == 0


@pytest.mark.parametrize("depth", [1, 3])
def test_any_depth(depth):
    model, images = small_model(depth=depth), some_images()
    torch.testing.assert_close(
        cdam(model, images, 0, all_tokens=True), cdam_by_differences(model, images, 0), rtol=0, atol=1e-6
    )


MODEL, IMAGES = small_model(), some_images()
REFUSED = [
    ((torch.nn.Linear(2, 2), IMAGES, 0), TypeError, "model: got Linear; accepted is a mhalib.vision.VisionTransformer"),
    ((small_model().train(), IMAGES, 0), ValueError, "call model.eval"),
    ((MODEL, IMAGES.numpy(), 0), TypeError, "images: got ndarray"),
    ((MODEL, IMAGES[:, :1], 0), ValueError, "images: got shape"),
    ((MODEL, IMAGES[..., :4], 0), ValueError, r"images: got \(4, 4\) pixels"),
    ((MODEL, IMAGES.float(), 0), TypeError, "images: got torch.float32"),
    ((MODEL, IMAGES, 4), ValueError, "target: got 4 to 4; accepted is a class from 0 to 3"),
    ((MODEL, IMAGES, -1), ValueError, "target: got -1"),
    ((MODEL, IMAGES, 1.0), TypeError, "target: got 1.0"),
    ((MODEL, IMAGES, True), TypeError, "target: got True"),
    ((MODEL, IMAGES, None), TypeError, "target: got None"),
    ((MODEL, IMAGES, torch.tensor(1)), ValueError, r"target: got shape \(\)"),
    ((MODEL, IMAGES, torch.tensor([0, 1])), ValueError, r"target: got shape \(2,\); .* integer tensor \(3,\)"),
    ((MODEL, IMAGES, torch.tensor([0, 1, 4])), ValueError, "target: got 0 to 4"),
    ((MODEL, IMAGES, torch.tensor([0.0, 1.0, 2.0])), TypeError, "target: got a tensor of torch.float32"),
    ((MODEL, IMAGES, torch.tensor([True, False, True])), TypeError, "target: got a tensor of torch.bool"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_refused(method, arguments, error, message):
    with pytest.raises(error, match=message):
        METHODS[method](*arguments)


@pytest.mark.parametrize(
    ("method", "options", "error", "message"),
    [
        (smooth_cdam, {"samples": 0}, ValueError, "samples: got 0"),
        (smooth_cdam, {"noise": -1}, ValueError, "noise: got -1"),
        (smooth_cdam, {"noise": float("inf")}, ValueError, "noise: got inf"),
        (smooth_cdam, {"noise": "1"}, TypeError, "noise: got str '1'"),
        (smooth_cdam, {"seed": 1.5}, TypeError, "seed: got 1.5"),
        (integrated_cdam, {"steps": 0}, ValueError, "steps: got 0"),
        (integrated_cdam, {"steps": 2.0}, TypeError, "steps: got 2.0"),
    ],
)
def test_options_that_are_refused(method, options, error, message):
    with pytest.raises(error, match=message):
        method(MODEL, IMAGES, 0, **options)
