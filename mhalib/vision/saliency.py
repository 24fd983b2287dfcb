"""Maps of what a Vision Transformer reads, and of what the score of a class depends on.

Maps from attention alone (`class_attention`, `rollout`) know no class: they are the same whatever one asks about.
Maps for a class (`cdam` and its relatives, `input_times_gradient`) are signed, in logits. Whether a map says anything
about the model is measured by `mhalib.faithfulness`.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from mhalib.arguments import check_flags, check_tensors, check_whole, is_whole, number, whole_numbers
from mhalib.vision.transformer import Pair, VisionTransformer, VisionTransformerBlock, cut_patches

FUSIONS = ("mean", "max", "min")


# ---------------------------------------------------------------------------------------- from attention alone


def class_attention(maps: Tensor, *, layer: int = -1, prefix: int = 1) -> Tensor:
    """The class token's row of one layer, patches only: what it reads, head by head.

    Args:
        maps: (B, depth, H, T, T) from `VisionTransformer.forward(images, need_weights=True)`; T tokens, the class
            token first.
        layer: −1 is the last.
        prefix: how many tokens stand before the patches: the class token and any registers.

    Returns:
        (B, H, T − prefix). What is missing to one in a row went to the `prefix` tokens.
    """
    _check_maps(maps, prefix)
    depth = maps.shape[1]
    if not is_whole(layer):
        raise TypeError(f"layer: got {layer!r}; accepted is an integer from {-depth} to {depth - 1}")
    if not -depth <= layer < depth:
        raise ValueError(f"layer: got {layer} for maps of {depth} layers; accepted is {-depth} to {depth - 1}")
    return maps[:, layer, :, 0, prefix:]


def fuse_heads(weights: Tensor, fusion: str = "mean") -> Tensor:
    """(…, H, T, T) → (…, T, T): the mean over the heads (the paper), or their largest or smallest weight (custom).

    Rows of the mean sum to one; those of "max" sum to at least one, those of "min" to at most one.
    """
    if fusion not in FUSIONS:
        raise ValueError(f"fusion: got {fusion!r}; accepted is one of {FUSIONS}")
    return {"mean": weights.mean, "max": weights.amax, "min": weights.amin}[fusion](-3)


def rollout(maps: Tensor, *, fusion: str = "mean", discard: float = 0.0, prefix: int = 1) -> Tensor:
    """Attention followed through all layers: R = Â_L ⋯ Â_1, with Â = ½ A + ½ I and rows that sum to one.

    Row 0 from column `prefix` on is the usual picture. It assumes that each residual connection carries half of what
    flows, that values and MLPs change nothing, and that heads may be averaged: a model of the model.

    Args:
        maps: (B, depth, H, T, T), as for `class_attention`; before dropout.
        fusion: of the heads: "mean", "max" or "min".
        discard: the share, from 0 up to 1, of the fused weights of each layer that is set to 0, the smallest first.
            Weights on the first `prefix` columns always stay: whatever reaches the patches passes through them.
        prefix: how many tokens stand before the patches.

    Returns:
        (B, T, T): row i is a distribution over the input tokens.

    Source: Abnar and Zuidema 2020, §3 (mean). Max, min and discarding are customs of published code.
    """
    _check_maps(maps, prefix)
    discard = number("discard", discard, "a share from 0 up to, not including, 1", lambda x: 0 <= x < 1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)
    joint = identity.expand(maps.shape[0], -1, -1)
    for weights in maps.unbind(1):  # from the first layer to the last
        mixed = 0.5 * _without_smallest(fuse_heads(weights, fusion), discard, prefix) + 0.5 * identity
        joint = (mixed / mixed.sum(-1, keepdim=True)) @ joint  # the later layer on the left
    return joint


def _without_smallest(weights: Tensor, share: float, prefix: int) -> Tensor:
    """(B, T, T) with the smallest `share` of each matrix at 0, its first `prefix` columns left out of the count."""
    patches = weights[..., prefix:].flatten(1)
    drop = patches.argsort(dim=-1, stable=True)[:, : round(share * patches.shape[1])]
    kept = patches.scatter(1, drop, 0.0).unflatten(1, weights[..., prefix:].shape[1:])
    return torch.cat((weights[..., :prefix], kept), dim=-1)


# ---------------------------------------------------------------------------------------- for a class


def cdam(model: VisionTransformer, images: Tensor, target: int | Tensor, *, all_tokens: bool = False) -> Tensor:
    """Class-discriminative attention map: S_j = Σ_d T_jd ∂f_c/∂T_jd.

    T are the tokens that enter the last attention layer, **after** the norm before it, as in the authors' code; f_c
    is the logit of class c. Before that norm the sum would be zero for every patch, up to the norm's ε: a norm does not
    see how long a token is, so the logit does not change along it. Attention enters through the chain rule alone.

    Args:
        model: in evaluation mode; its parameters, and their gradients, are left alone.
        images: (B, C, H, W).
        target: the class, or one for each image, integer (B,).
        all_tokens: also the class token and registers, which stand first.

    Returns:
        (B, N), or (B, T) with `all_tokens`; in logits: positive where a token speaks for the class, negative against.

    Source: Brocki, Binda and Chung 2023.
    """
    residual, tokens = _before_last_attention(model, images)
    return _scores(model, tokens * _gradient(model, residual, tokens, target), all_tokens)


def smooth_cdam(
    model: VisionTransformer,
    images: Tensor,
    target: int | Tensor,
    *,
    noise: float = 0.1,
    samples: int = 16,
    seed: int = 0,
    all_tokens: bool = False,
) -> Tensor:
    """The mean of `cdam` over `samples` copies of the tokens with normal noise added to them.

    `noise` is its standard deviation, as a multiple of the tokens' own (one number for each image); all images of a
    batch get the same draws, so that a map does not depend on the company. Other arguments and the result: as for
    `cdam`.

    Sources: Brocki, Binda and Chung 2023 (Smooth CDAM), after Smilkov et al. 2017 (SmoothGrad).
    """
    (samples,) = whole_numbers(samples=samples)
    (seed,) = whole_numbers(0, seed=seed)
    noise = number("noise", noise, "a finite number of at least 0", lambda x: x >= 0)
    residual, tokens = _before_last_attention(model, images)
    centred = tokens - tokens.mean(dim=(1, 2), keepdim=True)
    scale = noise * centred.square().mean(dim=(1, 2), keepdim=True).sqrt()
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros_like(tokens)
    for _ in range(samples):
        drawn = torch.randn(tokens.shape[1:], generator=generator, dtype=tokens.dtype).to(tokens.device)
        noisy = tokens + scale * drawn
        total += noisy * _gradient(model, residual, noisy, target)
    return _scores(model, total / samples, all_tokens)


def integrated_cdam(
    model: VisionTransformer, images: Tensor, target: int | Tensor, *, steps: int = 16, all_tokens: bool = False
) -> Tensor:
    """S_j = Σ_d T_jd ∫₀¹ ∂f_c(a T)/∂T_jd da: gradients averaged on the way from zero to the tokens.

    The sum over all tokens is f_c(T) − f_c(0), up to the midpoint rule with `steps` points. Other arguments and the
    result: as for `cdam`.

    Sources: Brocki, Binda and Chung 2023 (Integrated CDAM), after Sundararajan, Taly and Yan 2017.
    """
    (steps,) = whole_numbers(steps=steps)
    residual, tokens = _before_last_attention(model, images)
    points = [(k + 0.5) / steps for k in range(steps)]
    total = sum((_gradient(model, residual, a * tokens, target) for a in points), torch.zeros_like(tokens))
    return _scores(model, tokens * total / steps, all_tokens)


def input_times_gradient(model: VisionTransformer, images: Tensor, target: int | Tensor) -> Tensor:
    """The plain baseline: each pixel times the gradient of the logit with respect to it, (B, C, H, W).

    A black pixel, 0, scores 0, whatever it means to the model. Sums per patch: `per_patch`.

    Source: Shrikumar et al. 2016.
    """
    check_model(model)
    check_tensors(images=images)
    pixels = images.detach().clone().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(class_scores(model(pixels), target).sum(), pixels)
    return images.detach() * gradient


def per_patch(pixels: Tensor, patch_size: Pair) -> Tensor:
    """(B, C, H, W) → (B, N): the sum over each patch and its channels, row by row."""
    return cut_patches(pixels, patch_size).sum(-1)


# ---------------------------------------------------------------------------------------- parts and checks


@torch.no_grad()
def _before_last_attention(model: VisionTransformer, images: Tensor) -> tuple[Tensor, Tensor]:
    """What enters the last block, and the same after its first norm: what its attention layer reads. (B, T, d) each."""
    check_model(model)
    tokens = model.embed(images)
    for block in model.blocks[:-1]:
        tokens, _ = block(tokens)
    return tokens, _last_block(model).norm1(tokens)


def _gradient(model: VisionTransformer, residual: Tensor, tokens: Tensor, target: int | Tensor) -> Tensor:
    """∂f_c/∂T at T = `tokens`, (B, T, d); the residual connection around the attention layer stays as it is."""
    with torch.enable_grad():
        tokens = tokens.detach().requires_grad_()
        left, _ = _last_block(model).after_norm1(residual, tokens)
        (gradient,) = torch.autograd.grad(class_scores(model.classify(left), target).sum(), tokens)
    return gradient


def _last_block(model: VisionTransformer) -> VisionTransformerBlock:
    return cast(VisionTransformerBlock, model.blocks[-1])


def _scores(model: VisionTransformer, products: Tensor, all_tokens: bool) -> Tensor:
    """(B, T, d) → (B, T), or the patches among them."""
    check_flags(all_tokens=all_tokens)
    return products.sum(-1)[:, 0 if all_tokens else 1 + model.num_registers :]


def class_scores(logits: Tensor, target: int | Tensor) -> Tensor:
    """(B, classes) → (B,): the logit of the target of each image."""
    batch, classes = logits.shape
    accepted = f"accepted is a class from 0 to {classes - 1}, or an integer tensor ({batch},), one for each image"
    if isinstance(target, Tensor):
        if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
            raise TypeError(f"target: got a tensor of {target.dtype}; {accepted}")
        if target.shape != (batch,):
            raise ValueError(f"target: got shape {tuple(target.shape)}; {accepted}")
        target = target.to(logits.device, torch.int64)
    elif not is_whole(target):
        raise TypeError(f"target: got {target!r}; {accepted}")
    else:
        target = torch.full((batch,), int(target), device=logits.device)
    if batch and not 0 <= int(target.min()) <= int(target.max()) < classes:
        raise ValueError(f"target: got {int(target.min())} to {int(target.max())}; {accepted}")
    return logits.gather(1, target[:, None])[:, 0]


def check_model(model: VisionTransformer) -> None:
    if not isinstance(model, VisionTransformer):
        raise TypeError(f"model: got {type(model).__name__}; accepted is a mhalib.vision.VisionTransformer")
    if model.training:
        raise ValueError("model: is in training mode; call model.eval() first, so that the map is of what it predicts")


def _check_maps(maps: Tensor, prefix: int) -> None:
    if maps is None:
        raise TypeError("maps: got None; the model gives them with model(images, need_weights=True)")
    check_tensors(maps=maps)
    check_whole(prefix=prefix)
    if maps.dim() != 5 or maps.shape[-1] != maps.shape[-2] or 0 in maps.shape[1:]:
        raise ValueError(f"maps: got shape {tuple(maps.shape)}; accepted is (B, depth, H, T, T), not empty")
    if not maps.is_floating_point():
        raise TypeError(f"maps: got {maps.dtype}; accepted are floats")
    if prefix >= maps.shape[-1]:
        raise ValueError(f"prefix: got {prefix} for {maps.shape[-1]} tokens; accepted is less than all of them")
    # Each entry is rounded to the dtype, eps / 2 of itself, and a sum over T of them adds roundings of its own.
    tolerance = 2 * torch.finfo(maps.dtype).eps * maps.shape[-1]
    off = (maps.sum(-1) - 1).abs().max().item() if maps.numel() else 0.0
    if not off <= tolerance or (maps < 0).any():
        raise ValueError(
            f"maps: a row sums to 1 ± {off:.2g} or has a weight below 0; accepted are weights from 0 to 1 that sum to "
            f"1 ± {tolerance:.1g} in each row, as softmax gives them: before dropout, per head, nothing discarded"
        )
