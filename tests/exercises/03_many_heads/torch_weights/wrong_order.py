# finding: another order of the three
# Who puts what is searched before what searches, as in a table of keys and values.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    return {
        "in_proj_weight": torch.cat([w.mT.flatten(0, 1) for w in (w_k, w_v, w_q)]),
        "in_proj_bias": torch.cat([b.flatten() for b in (b_k, b_v, b_q)]),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }
