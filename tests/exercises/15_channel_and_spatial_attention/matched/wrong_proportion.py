# finding: in proportion
# Who takes weights to grow with the width.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction)
    width = round(channels * gated / plain(channels))
    return {"gated": gated, "width": width, "plain": plain(width)}
