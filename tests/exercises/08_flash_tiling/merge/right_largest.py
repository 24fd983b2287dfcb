# The largest lse is subtracted by hand, and a sum of 0 divides as 1.
def merge(outputs, lses):
    largest = lses.amax(dim=0)
    weight = (lses - largest.masked_fill(largest.isinf(), 0.0)).exp()
    total = weight.sum(dim=0)
    output = (weight[..., None] * outputs).sum(dim=0) / total.masked_fill(total == 0, 1.0)[:, None]
    return output, largest + total.log()
