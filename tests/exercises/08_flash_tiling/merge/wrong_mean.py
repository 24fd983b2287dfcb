# finding: averaged
# Who lets every worker count the same.
def merge(outputs, lses):
    return outputs.mean(dim=0), lses.logsumexp(dim=0)
