# finding: border dropped
# Who takes a whole-number division for a division.
import torch.nn.functional as F


def cut(images, height, width):
    return F.unfold(images, (height, width), stride=(height, width)).mT
