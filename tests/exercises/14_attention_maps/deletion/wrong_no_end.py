# finding: the last step is missing
# Who looks at N patches and makes N images.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.argsort(descending=True)[:-1]:
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)
