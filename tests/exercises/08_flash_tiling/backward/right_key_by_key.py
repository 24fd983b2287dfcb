# One key at a time, without any matrix of weights.
import torch


def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    delta = (grad_output * output).sum(dim=1)
    grad_query, grad_key, grad_value = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    for j in range(len(key)):
        p = (tau * query @ key[j] - lse).exp()
        ds = p * (grad_output @ value[j] - delta + grad_lse)
        grad_query += tau * ds[:, None] * key[j]
        grad_key[j] = tau * ds @ query
        grad_value[j] = p @ grad_output
    return grad_query, grad_key, grad_value
