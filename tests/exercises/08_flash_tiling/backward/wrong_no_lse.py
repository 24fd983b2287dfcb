# finding: the gradient of the lse omitted
# Who copies the chapter's tile, where the loss used the output alone.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output
