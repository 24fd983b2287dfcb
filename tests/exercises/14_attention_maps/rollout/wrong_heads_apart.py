# finding: heads apart to the end
# Who follows each head through the layers, as if heads of one number were connected.
import torch


def rollout(maps, fusion):
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    heads = []
    for head in maps.unbind(1):
        joint = identity
        for layer in head:
            joint = (layer + identity) / 2 @ joint
        heads.append(joint)
    heads = torch.stack(heads)
    return {"mean": heads.mean, "max": heads.amax, "min": heads.amin}[fusion](0)
