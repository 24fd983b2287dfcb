"""Does a map say anything about the model? Two checks: weights are randomised, and patches are taken away."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.arguments import check_tensors, number, whole_numbers
from mhalib.vision.saliency import check_model, class_scores
from mhalib.vision.transformer import VisionTransformer


def randomised(model: VisionTransformer, stages: int | None = None, *, seed: int = 0) -> VisionTransformer:
    """A copy whose weights are shuffled, each tensor within itself, in the last `stages` stages; None: in all.

    Stages, from the output to the input: the head with the norm before it; each block, the last one first; the
    embedding. Shuffling keeps every histogram of weights and destroys what was learned.
    """
    check_model(model)
    names = list(_stages(model).values())
    stages = len(names) if stages is None else stages
    stages, seed = whole_numbers(0, stages=stages, seed=seed)
    if stages > len(names):
        raise ValueError(f"stages: got {stages}; accepted is 0 to {len(names)}, all of this model")
    copied = copy.deepcopy(model)
    parameters = dict(copied.named_parameters())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name in (name for stage in names[:stages] for name in stage):
            flat = parameters[name].flatten()
            order = torch.randperm(len(flat), generator=generator).to(flat.device)
            parameters[name].copy_(flat[order].view_as(parameters[name]))
    return copied


def sanity_check(
    model: VisionTransformer, method: Callable[[VisionTransformer], Tensor], *, seed: int = 0
) -> dict[str, float]:
    """How much of a map is left when the weights are randomised, stage by stage, from the output to the input.

    Args:
        model: the trained model.
        method: from a model to its maps (B, N), such as `lambda m: cdam(m, images, target)`.
        seed: of the shuffling.

    Returns:
        {stage: mean over the images of the correlation between the map of `model` and that of the copy in which this
        stage and all before it are randomised}. A map that stays the same does not depend on what was learned there.

    Source: Adebayo et al. 2018 (cascading randomisation; they draw new weights where we shuffle).
    """
    before = method(model)
    return {
        stage: correlation(before, method(randomised(model, count, seed=seed))).mean().item()
        for count, stage in enumerate(_stages(model), 1)
    }


def correlation(first: Tensor, second: Tensor) -> Tensor:
    """Pearson's correlation of two maps (B, N), image by image: (B,). A map without any spread has correlation 0."""
    check_tensors(first=first, second=second)
    if first.dim() != 2 or first.shape != second.shape:
        raise ValueError(
            f"first, second: got shapes {tuple(first.shape)} and {tuple(second.shape)}; accepted are two maps (B, N)"
        )
    centred = (m - m.mean(1, keepdim=True) for m in (first, second))
    return torch.nn.functional.cosine_similarity(*centred, dim=1)


@torch.no_grad()
def deletion_curve(
    model: VisionTransformer, images: Tensor, scores: Tensor, target: int | Tensor, *, baseline: float = 0.0
) -> Tensor:
    """The logit of the target while patches are taken away, those with the highest score first.

    A map that is faithful makes the curve fall fast; compare with a random order. What replaces a patch matters: an
    image with holes is one that the model has never seen.

    Args:
        model, images, target: as for `cdam`.
        scores: (B, N), a map.
        baseline: the value of the pixels of a patch that was taken away.

    Returns:
        (B, N + 1): entry k is the logit after k patches.

    Source: Samek et al. 2015 (most relevant first).
    """
    check_model(model)
    check_tensors(images=images, scores=scores)
    baseline = number("baseline", baseline, "a finite number")
    class_scores(model(images), target)  # refuses images and targets that do not fit the model
    embedding = model.patch_embedding
    if tuple(scores.shape) != (len(images), embedding.num_patches):
        accepted = (len(images), embedding.num_patches)
        raise ValueError(f"scores: got shape {tuple(scores.shape)}; accepted is {accepted}, one for each patch")
    if not scores.isfinite().all():
        raise ValueError("scores: got NaN or infinity; accepted are finite numbers, which have an order")
    rank = scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1)  # 0 for the patch that goes first
    rank = rank.view(-1, 1, *embedding.grid)  # and now the same for each of its pixels:
    rank = rank.repeat_interleave(embedding.patch_size[0], 2).repeat_interleave(embedding.patch_size[1], 3)
    values = [
        class_scores(model(images.masked_fill(rank < count, baseline)), target) for count in range(scores.shape[1] + 1)
    ]
    return torch.stack(values, dim=1)


def _stages(model: VisionTransformer) -> dict[str, list[str]]:
    """{stage: names of its parameters}, from the output to the input."""
    depth = len(model.blocks)
    stages: dict[str, list[str]] = {"head": [], **{f"block {n}": [] for n in reversed(range(depth))}, "embedding": []}
    for name, _ in model.named_parameters():
        part, _, rest = name.partition(".")
        stage = f"block {rest.partition('.')[0]}" if part == "blocks" else "embedding"
        stages["head" if part in ("head", "norm") else stage].append(name)
    return stages
