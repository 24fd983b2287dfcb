# finding: reshaped, not turned
# Who makes the shape fit with reshape.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    d_model = w_q.shape[1]
    return {
        "in_proj_weight": torch.cat([w.reshape(d_model, d_model) for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b.flatten() for b in (b_q, b_k, b_v)]),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }
