# A least-squares problem with an unknown for each row and each column.
import torch


def factorise(places):
    height, width, _ = places.shape
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    design = torch.cat([torch.eye(height)[row.flatten()], torch.eye(width)[column.flatten()]], dim=1).to(places)
    return (design @ torch.linalg.pinv(design) @ places.flatten(0, 1)).view_as(places)
