# finding: shares over the queries
# Who takes a softmax for something along the last axis.
def merge(outputs, lses):
    return (lses.softmax(dim=-1)[..., None] * outputs).sum(dim=0), lses.logsumexp(dim=0)
