# finding: minus infinity from itself
# Who sees that the shares are a softmax over the parts, and asks no more.
def merge(outputs, lses):
    return (lses.softmax(dim=0)[..., None] * outputs).sum(dim=0), lses.logsumexp(dim=0)
