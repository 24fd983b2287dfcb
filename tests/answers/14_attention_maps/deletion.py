# %% right: loop
# One patch after the other, each image copied.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)


# %% right: ranks
# All images at once, from the rank of each patch.
import torch


def deletion(patches, scores, baseline):
    rank = (scores[None] > scores[:, None]).sum(dim=1)
    gone = rank < torch.arange(len(scores) + 1)[:, None]
    return torch.where(gone[..., None], baseline, patches)


# %% right: threshold
# A patch is gone if its score is among the k highest.
import torch


def deletion(patches, scores, baseline):
    highest = scores.sort(descending=True).values
    images = [patches.masked_fill((scores >= threshold)[:, None], baseline) for threshold in highest]
    return torch.stack([patches, *images])


# %% wrong: in place
# finding: writes into the patches
# Who copies each image for the list, and not the first one.
import torch


def deletion(patches, scores, baseline):
    image = patches
    images = [image.clone()]
    for index in scores.argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)


# %% wrong: lowest
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


# %% wrong: absolute
# finding: by size
# Who takes a strong score of either sign for an important patch.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.abs().argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)


# %% wrong: order as rank
# finding: an order taken for ranks
# Who sorts once where ranks need it twice.
import torch


def deletion(patches, scores, baseline):
    rank = scores.argsort(descending=True)
    gone = rank < torch.arange(len(scores) + 1)[:, None]
    return torch.where(gone[..., None], baseline, patches)


# %% wrong: no start
# finding: the whole image is missing
# Who appends after each step only.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = []
    for index in scores.argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)


# %% wrong: no end
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


# %% wrong: one at a time
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


# %% wrong: black
# finding: always black
# Who multiplies with a mask.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.argsort(descending=True):
        image[index] = 0
        images.append(image.clone())
    return torch.stack(images)


# %% wrong: insertion
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


# %% wrong: same tensor
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
