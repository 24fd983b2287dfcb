# %% right: quadratic
# The quadratic equation solved, then its two neighbours compared.
import math


def matched(channels, reduction, in_channels, num_classes):
    linear = 9 * in_channels + 4 + num_classes

    def plain(width):
        return 9 * width**2 + linear * width + num_classes

    gated = plain(channels) + 4 * channels**2 // reduction
    exact = (-linear + math.sqrt(linear**2 + 36 * (gated - num_classes))) / 18
    width = min((math.floor(exact), math.ceil(exact)), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% right: search
# All widths tried.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction)
    width = min(range(channels, 2 * channels), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: one gate
# finding: half the gates' weights
# Who counts the gate once, as the formula stands in the paper.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * channels**2 // reduction
    width = min(range(channels, 2 * channels), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: one matrix
# finding: half the gates' weights
# Who counts the squeeze and forgets the way back.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (channels**2 // reduction)
    width = min(range(channels, 2 * channels), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: biases
# finding: biases in the gate
# Who counts what a linear layer has by default.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction + channels // reduction + channels)
    width = min(range(channels, 2 * channels), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: no reduction
# finding: no reduction
# Who takes the gate for two full matrices.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2)
    width = min(range(channels, 2 * channels), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: norms
# finding: norms forgotten
# Who thinks that a norm only divides.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction)
    width = min(range(channels, 2 * channels), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: down
# finding: rounded down
# Who wants the plain network never to have the advantage.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction)
    width = max(w for w in range(channels, 2 * channels) if plain(w) <= gated)
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: proportion
# finding: in proportion
# Who takes weights to grow with the width.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction)
    width = round(channels * gated / plain(channels))
    return {"gated": gated, "width": width, "plain": plain(width)}


# %% wrong: same width
# finding: no wider
# Who compares a block with the same network without it.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction)
    width = channels
    return {"gated": gated, "width": width, "plain": plain(width)}
