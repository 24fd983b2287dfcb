# %% right: loop
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


# %% right: side by side
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


# %% wrong: order
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


# %% wrong: head by head
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


# %% wrong: biases
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


# %% wrong: reshaped
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


# %% wrong: not turned
# finding: stored as in × out
# Who lays the matrices side by side and forgets that nn.Linear multiplies by the transpose.
import torch


def torch_weights(w_q, w_k, w_v, b_q, b_k, b_v, w_o, b_o):
    return {
        "in_proj_weight": torch.cat([torch.cat(list(w), dim=1) for w in (w_q, w_k, w_v)]),
        "in_proj_bias": torch.cat([b.flatten() for b in (b_q, b_k, b_v)]),
        "out_proj.weight": w_o.flatten(0, 1).T,
        "out_proj.bias": b_o,
    }


# %% wrong: interleaved
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


# %% wrong: out proj
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
