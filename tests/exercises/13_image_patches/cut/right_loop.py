# A slice for each patch.
import torch


def cut(images, height, width):
    down, across = images.shape[2:]
    if down % height or across % width:
        raise ValueError(f"{down} × {across} pixels cannot be cut into {height} × {width}")
    corners = [(top, left) for top in range(0, down, height) for left in range(0, across, width)]
    return torch.stack([images[:, :, y : y + height, x : x + width].flatten(1) for y, x in corners], dim=1)
