# Row by row: heads within a role, roles one under another.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    rows = [w[h, :, c] for w in (w_q, w_k, w_v) for h in range(len(w)) for c in range(w.shape[2])]
    columns = [w_o[h, c] for h in range(len(w_o)) for c in range(w_o.shape[1])]
    return {
        "in_proj_weight": torch.stack(rows),
        "in_proj_bias": torch.cat([b_q.reshape(-1), b_k.reshape(-1), b_v.reshape(-1)]),
        "out_proj.weight": torch.stack(columns, dim=1),
        "out_proj.bias": b_o.clone(),
    }
