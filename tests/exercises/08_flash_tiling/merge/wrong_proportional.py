# finding: weighted by the lse
# Who reads "weight" and takes the number at hand.
def merge(outputs, lses):
    shares = lses / lses.sum(dim=0)
    return (shares[..., None] * outputs).sum(dim=0), lses.logsumexp(dim=0)
