# finding: rounded down
# Who wants the plain network never to have the advantage.
def matched(channels, reduction, in_channels, num_classes):
    def plain(width):
        return 9 * in_channels * width + 9 * width**2 + 4 * width + (width + 1) * num_classes

    gated = plain(channels) + 2 * (2 * channels**2 // reduction)
    width = max(w for w in range(channels, 2 * channels) if plain(w) <= gated)
    return {"gated": gated, "width": width, "plain": plain(width)}
