# finding: no scale in the scores
# Who makes the weights again from raw scores.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None] + grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output
