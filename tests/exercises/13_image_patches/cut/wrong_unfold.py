# finding: numbers before patches
# Who finds the right function of torch and does not look at the shape that it returns.
import torch.nn.functional as F


def cut(images, height, width):
    if images.shape[2] % height or images.shape[3] % width:
        raise ValueError("the patches do not divide the image")
    return F.unfold(images, (height, width), stride=(height, width))
