# finding: out_proj not turned
# Who turns the three matrices on the way in and not the one on the way out.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    return {
        "in_proj_weight": torch.cat([w.mT.flatten(0, 1) for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b.flatten() for b in (b_q, b_k, b_v)]),
        "out_proj.weight": torch.cat(list(w_o)),
        "out_proj.bias": b_o,
    }
