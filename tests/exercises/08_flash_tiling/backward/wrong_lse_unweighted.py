# finding: the lse pulls at all keys alike
# Who adds the gradient of the lse to the scores as it comes.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None]) + grad_lse[:, None]
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output
