# finding: biases in the gate
# Who counts what a linear layer has by default.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction + channels // reduction + channels)
    width = min(range(channels, 2 * channels), key=lambda w: abs(plain(w) - gated))
    return {"gated": gated, "width": width, "plain": plain(width)}
