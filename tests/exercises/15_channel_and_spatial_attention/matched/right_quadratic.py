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
