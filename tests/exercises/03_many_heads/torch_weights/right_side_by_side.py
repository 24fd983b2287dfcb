# Side by side for x @ W, as in the chapter, and then the transpose.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    wide = torch.cat([torch.cat(list(w), dim=1) for w in (w_q, w_k, w_v)], dim=1)
    return {
        "out_proj.bias": b_o,
        "out_proj.weight": torch.cat(list(w_o)).T.contiguous(),
        "in_proj_bias": torch.stack([b_q, b_k, b_v]).flatten(),
        "in_proj_weight": wide.T.contiguous(),
    }
