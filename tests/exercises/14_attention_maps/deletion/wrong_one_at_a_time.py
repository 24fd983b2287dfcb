# finding: one at a time
# Who asks what each patch is worth alone.
import torch


def deletion(patches, scores, baseline):
    images = [patches]
    for index in scores.argsort(descending=True):
        image = patches.clone()
        image[index] = baseline
        images.append(image)
    return torch.stack(images)
