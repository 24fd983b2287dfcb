"""A Vision Transformer: an image is cut into patches, each patch becomes a token, the rest is a Transformer encoder.

Source: Dosovitskiy et al. 2021 (ViT), §3.1. Registers: Darcet et al. 2024, §2.2.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Literal, overload

import torch
from torch import Tensor, nn

from mhalib.arguments import check_tensors, number, pair, whole_numbers
from mhalib.layers import MultiHeadAttention
from mhalib.vision import weights
from mhalib.vision.positions import POSITIONS, interpolate_positions

__all__ = ["PatchEmbedding", "VisionTransformer", "VisionTransformerBlock", "cut_patches", "interpolate_positions"]

Pair = int | tuple[int, int]


def cut_patches(images: Tensor, patch_size: Pair) -> Tensor:
    """Cut images into patches that do not overlap, row by row, and lay each one out as a vector.

    Args:
        images: (B, C, H, W).
        patch_size: (height, width) of a patch, or one number for both; they divide H and W.

    Returns:
        (B, N, C · height · width): patch n stands in row n // (W / width) of the grid, in column n % (W / width);
        its numbers come channel by channel, each row by row, the order of a convolution's weight.
    """
    check_tensors(images=images)
    height, width = pair("patch_size", patch_size)
    if images.dim() != 4:
        raise ValueError(f"images: got shape {tuple(images.shape)}; accepted is (B, C, H, W)")
    rows, columns = _grid((images.shape[2], images.shape[3]), (height, width), "images")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))  # (B, C, rows, height, columns, width)
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


class PatchEmbedding(nn.Module):
    """One token for each patch of an image: cut, lay out as a vector, multiply by one matrix, add one bias.

    Args:
        image_size, patch_size: (height, width) in pixels, or one number for both; the patch divides the image.
        in_channels: of the images.
        d_model: width of a token.

    The weight is kept as that of a convolution, (d_model, in_channels, height, width): a convolution whose stride is
    its own size is the same map. `.grid` is the number of patches (down, across), `.num_patches` their product.

    Source: Dosovitskiy et al. 2021, §3.1, eq. 1.
    """

    def __init__(self, image_size: Pair, patch_size: Pair, in_channels: int, d_model: int):
        super().__init__()
        self.in_channels, self.d_model = whole_numbers(in_channels=in_channels, d_model=d_model)
        self.image_size, self.patch_size = pair("image_size", image_size), pair("patch_size", patch_size)
        self.grid = _grid(self.image_size, self.patch_size, "image_size")
        self.projection = nn.Conv2d(self.in_channels, self.d_model, self.patch_size, stride=self.patch_size)

    @property
    def num_patches(self) -> int:
        return self.grid[0] * self.grid[1]

    def forward(self, images: Tensor) -> Tensor:
        """(B, in_channels, H, W) → (B, num_patches, d_model), row by row."""
        self._check(images)
        return self.projection(images).flatten(2).mT

    def _check(self, images: Tensor) -> None:
        check_tensors(images=images)
        weight, accepted = self.projection.weight, (self.in_channels, *self.image_size)
        if images.dim() != 4 or images.shape[1] != self.in_channels:
            raise ValueError(f"images: got shape {tuple(images.shape)}; accepted is (B, C, H, W) = (B, *{accepted})")
        if tuple(images.shape[2:]) != self.image_size:
            raise ValueError(
                f"images: got {tuple(images.shape[2:])} pixels; accepted are {self.image_size}, the size this was "
                "built for: resize the images, or take VisionTransformer.at_size((H, W)), which interpolates positions"
            )
        if images.device != weight.device:
            raise ValueError(f"images: are on {images.device}, the model on {weight.device}; move one with .to()")
        if images.dtype != weight.dtype and not torch.is_autocast_enabled(images.device.type):
            raise TypeError(
                f"images: got {images.dtype} where the model is {weight.dtype}; convert with .to(), and bring bytes "
                "to the range the model was trained on, such as images / 255"
            )

    def extra_repr(self) -> str:
        return f"image_size={self.image_size}, patch_size={self.patch_size}, grid={self.grid}"


class VisionTransformerBlock(nn.Module):
    """One pre-norm encoder layer: tokens + attention(norm1(tokens)), then that + mlp(norm2(that)).

    Source: Dosovitskiy et al. 2021, eq. 2 and 3.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, norm_eps: float = 1e-6, backend: str = "auto"):
        super().__init__()
        d_model, num_heads, d_ff = whole_numbers(d_model=d_model, num_heads=num_heads, d_ff=d_ff)
        norm_eps = _eps(norm_eps)
        self.norm1 = nn.LayerNorm(d_model, eps=norm_eps)
        self.attention = MultiHeadAttention(d_model, num_heads, backend=backend)
        self.norm2 = nn.LayerNorm(d_model, eps=norm_eps)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, tokens: Tensor, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """(B, L, d_model) → (the same, weights (B, H, L, L) or None)."""
        return self.after_norm1(tokens, self.norm1(tokens), need_weights=need_weights)

    def after_norm1(
        self, tokens: Tensor, normed: Tensor, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The block from its first norm on: `normed` is what attention reads, `tokens` what its output is added to.

        With `normed = block.norm1(tokens)` this is `block(tokens)`; a gradient with respect to `normed` alone is one
        with respect to the tokens that enter the attention layer.
        """
        attended, weights = self.attention(normed, need_weights=need_weights)
        tokens = tokens + attended
        return tokens + self.mlp(self.norm2(tokens)), weights


class VisionTransformer(nn.Module):
    """A Vision Transformer that classifies images from its class token.

    The tokens are, in this order: the class token, the registers if there are any, the patches row by row. L below is
    their number, 1 + num_registers + N.

    Args:
        image_size, patch_size: (height, width) in pixels, or one number for both; the patch divides the image.
        in_channels: of the images.
        num_classes: number of logits.
        d_model, depth, num_heads: width, number of blocks, heads of a block.
        mlp_ratio: inner width of a block's two linear maps, as a multiple of `d_model`.
        num_registers: learned tokens that stand for no place; they have no position.
        positions: "learned" (a vector for each place), "sinusoidal" (fixed, half of the channels for the row, half for
            the column), "factorised" (a learned vector for each row, plus one for each column), or None: without, the
            model cannot tell one order of the patches from another.
        norm_eps: of every layer norm; 1e-6 in the paper's code and in timm, 1e-12 in transformers' ViT.
        backend: as for `mhalib.attention`.

    Class token, registers and positions start from a normal distribution of standard deviation 0.02, the attention's
    matrices as `MultiHeadAttention` starts them, everything else as torch does.

    Source: Dosovitskiy et al. 2021, §3.1 and appendix D.4 (positions).
    """

    def __init__(
        self,
        image_size: Pair,
        patch_size: Pair,
        *,
        in_channels: int = 3,
        num_classes: int,
        d_model: int,
        depth: int,
        num_heads: int,
        mlp_ratio: float = 4.0,
        num_registers: int = 0,
        positions: str | None = "learned",
        norm_eps: float = 1e-6,
        backend: str = "auto",
    ):
        super().__init__()
        num_classes, depth = whole_numbers(num_classes=num_classes, depth=depth)
        d_model, num_heads = whole_numbers(d_model=d_model, num_heads=num_heads)
        (self.num_registers,) = whole_numbers(0, num_registers=num_registers)
        if positions not in tuple(POSITIONS):
            raise ValueError(f"positions: got {positions!r}; accepted are {tuple(POSITIONS)}")
        norm_eps = _eps(norm_eps)
        self.patch_embedding = PatchEmbedding(image_size, patch_size, in_channels, d_model)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model))
        self.registers = (
            nn.Parameter(0.02 * torch.randn(1, self.num_registers, d_model)) if self.num_registers else None
        )
        self.positions = POSITIONS[positions](self.grid, d_model)
        d_ff = _inner_width(d_model, mlp_ratio)
        self.blocks = nn.ModuleList(
            VisionTransformerBlock(d_model, num_heads, d_ff, norm_eps=norm_eps, backend=backend) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.head = nn.Linear(d_model, num_classes)

    @property
    def grid(self) -> tuple[int, int]:
        """Number of patches (down, across)."""
        return self.patch_embedding.grid

    @property
    def position_embedding(self) -> Tensor:
        """What is added to the class token and to the patches, (1, 1 + N, d_model)."""
        return self.positions(self.class_token)

    @overload
    def forward(self, images: Tensor, need_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, images: Tensor, need_weights: Literal[True]) -> tuple[Tensor, Tensor]: ...

    @overload
    def forward(self, images: Tensor, need_weights: bool) -> Tensor | tuple[Tensor, Tensor]: ...

    def forward(self, images: Tensor, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Classify.

        Args:
            images: (B, in_channels, H, W) of the model's dtype.
            need_weights: also return the attention maps of every block and head. They are computed by the formula
                written out; a `backend` that never forms them, asked for by name, refuses.

        Returns:
            logits (B, num_classes), or (logits, maps (B, depth, num_heads, L, L)), [.., query, key].
        """
        tokens, maps = self.run_blocks(self.embed(images), need_weights=need_weights)
        return self.classify(tokens) if maps is None else (self.classify(tokens), maps)

    def embed(self, images: Tensor) -> Tensor:
        """The tokens that enter the first block, (B, L, d_model)."""
        patches = self.patch_embedding(images)
        place = self.position_embedding.to(patches.dtype)
        front = [self.class_token + place[:, :1]] + ([] if self.registers is None else [self.registers])
        front = torch.cat(front, dim=1).to(patches.dtype).expand(len(images), -1, -1)
        return torch.cat([front, patches + place[:, 1:]], dim=1)

    def run_blocks(self, tokens: Tensor, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """All blocks: (B, L, d_model) → (the same, maps (B, depth, num_heads, L, L) or None)."""
        maps = []
        for block in self.blocks:
            tokens, weights = block(tokens, need_weights=need_weights)
            maps.append(weights)
        return tokens, torch.stack(maps, dim=1) if need_weights else None

    def classify(self, tokens: Tensor) -> Tensor:
        """What leaves the last block, (B, L, d_model) → logits (B, num_classes), from the class token alone."""
        return self.head(self.norm(tokens[:, 0]))

    def at_size(self, image_size: Pair) -> VisionTransformer:
        """A copy for images of another size: the same patch size, hence another grid; positions are interpolated.

        No other weight depends on the size. The copy is exact where the grid stays the same; elsewhere the model
        meets a number of tokens that it was not trained with, and we do not know how well it does before trying.
        """
        model = copy.deepcopy(self)
        model.patch_embedding.image_size = pair("image_size", image_size)
        model.patch_embedding.grid = _grid(model.patch_embedding.image_size, self.patch_embedding.patch_size)
        model.positions = self.positions.resized(model.grid)
        return model.train(self.training)

    def load_weights(self, state: Mapping[str, Tensor], *, head: bool = True) -> VisionTransformer:
        """Copy in the weights of a ViT of `transformers` or timm, by name; see `mhalib.vision.weights.load`."""
        return weights.load(self, state, head=head)


def _grid(image_size: tuple[int, int], patch_size: tuple[int, int], name: str = "image_size") -> tuple[int, int]:
    """Patches (down, across); refused where the patch does not divide the image."""
    for side, image, patch in zip(("height", "width"), image_size, patch_size, strict=True):
        if image % patch or not image:
            near = sorted({max(image // patch, 1) * patch, (image // patch + 1) * patch})
            raise ValueError(
                f"{name}: {side} {image} is not a multiple of the patch's {patch}; accepted are multiples such as "
                f"{' and '.join(map(str, near))}: resize, crop or pad the images, or take another patch_size"
            )
    return image_size[0] // patch_size[0], image_size[1] // patch_size[1]


def _eps(norm_eps: float) -> float:
    return number("norm_eps", norm_eps, "a finite number above 0", lambda eps: eps > 0)


def _inner_width(d_model: int, mlp_ratio: float) -> int:
    accepted = f"a finite number above 0, at least 1 / {d_model}"
    mlp_ratio = number("mlp_ratio", mlp_ratio, accepted, lambda ratio: ratio > 0 and round(d_model * ratio) >= 1)
    width = round(d_model * mlp_ratio)
    if abs(width - d_model * mlp_ratio) > 1e-6:
        raise ValueError(
            f"mlp_ratio: got {mlp_ratio} for d_model={d_model}, {d_model * mlp_ratio:g} channels; accepted is a ratio "
            f"that makes them whole, such as {width} / {d_model}"
        )
    return width
