"""Gates in convolutional networks: squeeze-and-excitation, CBAM, and a small network that takes any of them.

A gate multiplies a feature map (B, C, H, W) by numbers between 0 and 1 that are computed from the map itself: one for
each channel, or one for each position. It is called attention, and shares neither queries, keys nor a softmax with
`mhalib.attention`: every number is a sigmoid of its own, and they need not sum to one.

Sources: Hu, Shen, Sun 2018, Squeeze-and-Excitation Networks, arXiv:1709.01507, §3; Woo, Park, Lee, Kweon 2018, CBAM:
Convolutional Block Attention Module, arXiv:1807.06521, §3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from mhalib.arguments import check_flags, check_tensors, divisors, whole_numbers


class Gate(nn.Module):
    """What all gates share: `forward(x)` is `x * gate(x)`, of the shape of x (B, C, H, W)."""

    def gate(self, x: Tensor) -> Tensor:
        """The numbers between 0 and 1 that multiply x, broadcastable to it."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class SqueezeExcitation(Gate):
    """Channel gates from channel averages: s = σ(W₂ ReLU(W₁ z)), z the mean of each channel over the image.

    Args:
        channels: C.
        reduction: r; the layer between has C / r units, which must be whole.
        bias: add biases to both matrices. The paper counts 2 C² / r weights, without them.

    Source: Hu et al. 2018, equations 2 to 4.
    """

    def __init__(self, channels: int, reduction: int = 16, *, bias: bool = False):
        super().__init__()
        check_flags(bias=bias)
        channels, hidden = _widths(channels, reduction)
        self.channels = channels
        self.down = nn.Linear(channels, hidden, bias=bias)
        self.up = nn.Linear(hidden, channels, bias=bias)

    def gate(self, x: Tensor) -> Tensor:
        """One number for each channel, (B, C, 1, 1)."""
        _check_map(x, self.channels)
        squeezed = x.mean((2, 3))  # (B, C)
        excited = self.up(torch.relu(self.down(squeezed)))
        return torch.sigmoid(excited)[:, :, None, None]


class ChannelAttention(Gate):
    """Channel gates from averages and maxima, through the same two matrices: σ(MLP(mean) + MLP(max)).

    Args:
        channels: C.
        reduction: r; the layer between has C / r units, which must be whole.

    Source: Woo et al. 2018, equation 2. Its weights are those of squeeze-and-excitation, 2 C² / r.
    """

    def __init__(self, channels: int, reduction: int = 16):
        super().__init__()
        channels, hidden = _widths(channels, reduction)
        self.channels = channels
        self.down = nn.Linear(channels, hidden, bias=False)
        self.up = nn.Linear(hidden, channels, bias=False)

    def gate(self, x: Tensor) -> Tensor:
        """One number for each channel, (B, C, 1, 1)."""
        _check_map(x, self.channels)
        mean, maximum = (self.up(torch.relu(self.down(pooled))) for pooled in (x.mean((2, 3)), x.amax((2, 3))))
        return torch.sigmoid(mean + maximum)[:, :, None, None]


class SpatialAttention(Gate):
    """Position gates from the mean and the maximum over the channels: σ(conv([mean; max])), the mean first.

    Args:
        kernel_size: of the convolution, odd; 7 in the paper. It has 2 · kernel_size² weights, whatever C is.

    Source: Woo et al. 2018, equation 3. (The authors' code has a batch normalisation before σ; the equation has none.)
    """

    def __init__(self, kernel_size: int = 7):
        super().__init__()
        (kernel_size,) = whole_numbers(kernel_size=kernel_size)
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size: got {kernel_size}; accepted is an odd one, which has a pixel in its middle")
        self.conv = nn.Conv2d(2, 1, kernel_size, padding=kernel_size // 2, bias=False)

    def gate(self, x: Tensor) -> Tensor:
        """One number for each position, (B, 1, H, W), the same for all channels."""
        _check_map(x)
        pooled = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)  # (B, 2, H, W)
        return torch.sigmoid(self.conv(pooled))


class CBAM(nn.Module):
    """Channel gates, then position gates of the result: x' = x · M_c(x), x'' = x' · M_s(x').

    Args:
        channels, reduction: of `ChannelAttention`.
        kernel_size: of `SpatialAttention`.

    Source: Woo et al. 2018, equation 1.
    """

    def __init__(self, channels: int, reduction: int = 16, kernel_size: int = 7):
        super().__init__()
        self.channel = ChannelAttention(channels, reduction)
        self.spatial = SpatialAttention(kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.spatial(self.channel(x))


class ConvNet(nn.Module):
    """A small classifier: blocks of 3 × 3 convolution, batch norm, ReLU and gate, halving the image between them.

    Args:
        num_classes: logits.
        in_channels: of the images.
        widths: channels after each block; the image must be at least 2^(blocks − 1) pixels high and wide.
        gate: called as `gate(width)` for each block, returns a module that keeps the shape (B, width, H, W), such as
            `SqueezeExcitation`; None is a network without gates.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        in_channels: int = 1,
        widths: Sequence[int] = (16, 32, 32),
        gate: Callable[[int], nn.Module] | None = None,
    ):
        super().__init__()
        if not isinstance(widths, Sequence | np.ndarray) or not len(widths):
            raise TypeError(f"widths: got {widths!r}; accepted is a list of one or more widths, one a block")
        num_classes, in_channels = whole_numbers(num_classes=num_classes, in_channels=in_channels)
        widths = whole_numbers(**{f"widths[{i}]": width for i, width in enumerate(widths)})
        if gate is not None and not callable(gate):
            raise TypeError(f"gate: got {gate!r}; accepted is a function of the width that returns a module, or None")
        self.in_channels = in_channels
        sizes = zip([in_channels, *widths[:-1]], widths, strict=True)
        self.blocks = nn.ModuleList(_block(before, after, gate) for before, after in sizes)
        self.head = nn.Linear(widths[-1], num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, num_classes) of images (B, in_channels, H, W)."""
        _check_map(images, self.in_channels, "images")
        smallest = 2 ** (len(self.blocks) - 1)
        if min(images.shape[2:]) < smallest:
            raise ValueError(
                f"images: got {images.shape[2]} × {images.shape[3]} pixels; accepted is at least {smallest} each way, "
                f"to be halved between {len(self.blocks)} blocks"
            )
        x = images
        for number, block in enumerate(self.blocks):
            x = block(x if number == 0 else nn.functional.max_pool2d(x, 2))
        return self.head(x.mean((2, 3)))


def _block(before: int, after: int, gate: Callable[[int], nn.Module] | None) -> nn.Sequential:
    block = nn.Sequential()
    block.add_module("conv", nn.Conv2d(before, after, 3, padding=1, bias=False))  # the norm has a bias
    block.add_module("norm", nn.BatchNorm2d(after))
    block.add_module("relu", nn.ReLU())
    if gate is not None:
        block.add_module("gate", gate(after))
    return block


def _widths(channels: int, reduction: int) -> tuple[int, int]:
    """Channels outside and inside of the two matrices, checked."""
    channels, reduction = whole_numbers(channels=channels, reduction=reduction)
    if channels % reduction:
        raise ValueError(f"reduction: got {reduction} for {channels} channels; accepted are {divisors(channels)}")
    return channels, channels // reduction


def _check_map(x: Tensor, channels: int | None = None, name: str = "x") -> None:
    check_tensors(**{name: x})
    wanted = f"(B, {'C' if channels is None else channels}, H, W)"
    if x.dim() != 4 or channels not in (None, x.shape[1]) or 0 in x.shape[1:]:
        raise ValueError(f"{name}: got shape {tuple(x.shape)}; accepted is {wanted}, none of C, H and W being 0")
