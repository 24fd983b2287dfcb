# finding: delta omitted
# Who multiplies by the weights and takes that for the derivative of a softmax.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    dS = P * (dP + grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output
