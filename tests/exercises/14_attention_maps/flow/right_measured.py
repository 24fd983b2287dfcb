# By multiplying the matrices; the head is known from the order of computation.
import torch


def predict_flow():
    mixed = (torch.full((9, 9), 1 / 9) + torch.eye(9)) / 2
    own = {f"{depth} layers": torch.linalg.matrix_power(mixed, depth)[0, 0].item() for depth in (2, 12)}
    return own | {"head shuffled": 1.0}
