"""The checks of a map: randomised weights stage by stage, the correlation, and the deletion curve against loops."""

import copy

import numpy as np
import pytest
import torch

from mhalib.vision import VisionTransformer
from mhalib.vision.faithfulness import correlation, deletion_curve, randomised, sanity_check
from mhalib.vision.saliency import cdam, class_attention

STAGES = ["head", "block 1", "block 0", "embedding"]


def small_model(**options):
    torch.manual_seed(0)
    model = VisionTransformer(
        (4, 6), (2, 3), in_channels=2, num_classes=4, d_model=8, depth=2, num_heads=2, num_registers=1, **options
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def some_images():
    return torch.randn(3, 2, 4, 6, generator=torch.Generator().manual_seed(1)).double()


def stage_of(name):
    if name.startswith(("head.", "norm.")):
        return "head"
    return f"block {name[7]}" if name.startswith("blocks.") else "embedding"


@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4, None])
def test_randomised_shuffles_the_last_stages_and_no_other(stages):
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    after = dict(randomised(model, stages).named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert torch.equal(parameter.flatten().sort().values, after[name].flatten().sort().values)
        shuffled = stage_of(name) in STAGES[:stages]
        assert torch.equal(parameter, after[name]) != shuffled, name


def test_randomised_is_the_same_for_the_same_seed():
    model, images = small_model(), some_images()
    first, again, other = (randomised(model, seed=seed)(images) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_sanity_check_runs_from_the_output_to_the_input():
    model, images = small_model(), some_images()
    found = sanity_check(model, lambda m: cdam(m, images, 1), seed=5)
    assert list(found) == STAGES
    for count, stage in enumerate(STAGES, 1):
        maps = cdam(model, images, 1), cdam(randomised(model, count, seed=5), images, 1)
        by_hand = [np.corrcoef(first, second)[0, 1] for first, second in zip(*(m.numpy() for m in maps), strict=True)]
        assert abs(found[stage] - np.mean(by_hand)) < 1e-12
        assert found[stage] < 0.95


def test_attention_does_not_see_the_head():
    """By construction: the last maps are computed before the head, and before the last block's MLP."""
    model, images = small_model(), some_images()

    def last_attention(m):
        with torch.no_grad():
            return class_attention(m(images, need_weights=True)[1], prefix=2).mean(1)

    found = sanity_check(model, last_attention)
    assert abs(found["head"] - 1) < 1e-12
    assert found["embedding"] < 0.95


def test_correlation_is_that_of_numpy():
    first, second = torch.randn(2, 5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = [np.corrcoef(a, b)[0, 1] for a, b in zip(first.numpy(), second.numpy(), strict=True)]
    torch.testing.assert_close(correlation(first, second), torch.tensor(expected), rtol=0, atol=1e-14)
    torch.testing.assert_close(correlation(first, 3 - 2 * first), -torch.ones(5).double(), rtol=0, atol=1e-14)
    assert correlation(first, torch.ones(5, 9).double()).tolist() == [0.0] * 5


@pytest.mark.parametrize("baseline", [0.0, 0.5])
def test_deletion_curve_equals_the_loops(baseline):
    model, images = small_model(), some_images()
    scores = torch.tensor([[0.1, 0.4, -0.2, 0.3], [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, -1.0, 0.0]]).double()
    orders = [[1, 3, 0, 2], [3, 2, 1, 0], [0, 1, 3, 2]]  # ties: the earlier patch first
    targets = torch.tensor([0, 3, 2])
    found = deletion_curve(model, images, scores, targets, baseline=baseline)
    assert found.shape == (3, 5)
    assert not found.requires_grad
    for b in range(3):
        image = images[b : b + 1].clone()
        for count in range(5):
            if count:
                patch = orders[b][count - 1]
                top, left = patch // 2 * 2, patch % 2 * 3  # a grid of 2 × 2 patches of 2 × 3 pixels
                image[:, :, top : top + 2, left : left + 3] = baseline
            assert abs(found[b, count] - model(image)[0, targets[b]]) < 1e-12


MODEL, IMAGES, SCORES = small_model(), some_images(), torch.zeros(3, 4).double()
REFUSED = [
    (lambda: randomised(torch.nn.Linear(2, 2)), TypeError, "model: got Linear"),
    (lambda: randomised(MODEL, 5), ValueError, "stages: got 5; accepted is 0 to 4"),
    (lambda: randomised(MODEL, -1), ValueError, "stages: got -1"),
    (lambda: randomised(MODEL, 1.0), TypeError, "stages: got 1.0"),
    (lambda: randomised(MODEL, seed="0"), TypeError, "seed: got '0'"),
    (lambda: randomised(small_model().train()), ValueError, "call model.eval"),
    (lambda: correlation(SCORES, SCORES[:1]), ValueError, "first, second: got shapes"),
    (lambda: correlation(SCORES[0], SCORES[0]), ValueError, "first, second: got shapes"),
    (lambda: correlation([1.0], SCORES), TypeError, "first: got list"),
    (lambda: deletion_curve(MODEL, IMAGES, SCORES[:, :3], 0), ValueError, r"scores: got shape \(3, 3\); .* \(3, 4\)"),
    (lambda: deletion_curve(MODEL, IMAGES, SCORES[:1], 0), ValueError, r"scores: got shape \(1, 4\)"),
    (lambda: deletion_curve(MODEL, IMAGES, SCORES / 0, 0), ValueError, "scores: got NaN or infinity"),
    (lambda: deletion_curve(MODEL, IMAGES, SCORES.tolist(), 0), TypeError, "scores: got list"),
    (lambda: deletion_curve(MODEL, IMAGES, SCORES, 4), ValueError, "target: got 4"),
    (lambda: deletion_curve(MODEL, IMAGES[..., :3], SCORES, 0), ValueError, r"images: got \(4, 3\) pixels"),
    (lambda: deletion_curve(MODEL, IMAGES, SCORES, 0, baseline="mean"), TypeError, "baseline: got str 'mean'"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
