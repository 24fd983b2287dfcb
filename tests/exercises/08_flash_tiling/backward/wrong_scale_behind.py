# finding: no scale on the way back
# Who scales the scores and forgets that this has a derivative.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None] + grad_lse[:, None])
    return dS @ key, dS.T @ query, P.T @ grad_output
