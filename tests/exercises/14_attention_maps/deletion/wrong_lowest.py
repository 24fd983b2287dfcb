# finding: lowest first
# Who sorts without saying which way.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.argsort():
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)
