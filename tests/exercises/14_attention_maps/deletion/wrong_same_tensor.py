# finding: one image many times
# Who appends the tensor that the loop goes on changing.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image]
    for index in scores.argsort(descending=True):
        image[index] = baseline
        images.append(image)
    return torch.stack(images)
