# finding: biases head by head
# Who tests with biases of 0, as a new layer has them, and sees no difference.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    return {
        "in_proj_weight": torch.cat([w.mT.flatten(0, 1) for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b_q, b_k, b_v], dim=1).flatten(),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }
