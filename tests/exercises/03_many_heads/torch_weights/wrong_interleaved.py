# finding: heads interleaved
# Who moves the last axis to the front and flattens, so that the heads alternate.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    return {
        "in_proj_weight": torch.cat([w.permute(2, 0, 1).flatten(0, 1) for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b.flatten() for b in (b_q, b_k, b_v)]),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }
