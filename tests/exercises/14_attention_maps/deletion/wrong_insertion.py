# finding: put back
# Who has read about insertion, and begins with nothing.
import torch


def deletion(patches, scores, baseline):
    image = torch.full_like(patches, baseline)
    images = [image.clone()]
    for index in scores.argsort(descending=True):
        image[index] = patches[index]
        images.append(image.clone())
    return torch.stack(images)
