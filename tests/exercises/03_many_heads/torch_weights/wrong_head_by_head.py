# finding: head by head
# Who has converted BLOOM or GPT-NeoX, whose fused matrix holds q, k, v of one head after another.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    heads = range(len(w_q))
    return {
        "in_proj_weight": torch.cat([w[h].T for h in heads for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b[h] for h in heads for b in (b_q, b_k, b_v)]),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }
