# %% right: largest
# The largest lse is subtracted by hand, and a sum of 0 divides as 1.
def merge(outputs, lses):
    largest = lses.amax(dim=0)
    weight = (lses - largest.masked_fill(largest.isinf(), 0.0)).exp()
    total = weight.sum(dim=0)
    output = (weight[..., None] * outputs).sum(dim=0) / total.masked_fill(total == 0, 1.0)[:, None]
    return output, largest + total.log()


# %% right: pairwise
# One part after the other, by the formula for two.
import torch


def merge(outputs, lses):
    output, lse = outputs[0], lses[0]
    for other, other_lse in zip(outputs[1:], lses[1:], strict=True):
        total = torch.logaddexp(lse, other_lse)
        shift = total.nan_to_num(neginf=0.0)
        output = (lse - shift).exp()[:, None] * output + (other_lse - shift).exp()[:, None] * other
        lse = total
    return output, lse


# %% right: softmax
# A softmax over the parts, whose NaN become 0.
import torch


def merge(outputs, lses):
    shares = lses.softmax(dim=0).nan_to_num()
    return torch.einsum("pl,pld->ld", shares, outputs), lses.logsumexp(dim=0)


# %% wrong: mean
# finding: averaged
# Who lets every worker count the same.
def merge(outputs, lses):
    return outputs.mean(dim=0), lses.logsumexp(dim=0)


# %% wrong: exponentials
# finding: exponentials overflow
# Who goes back to the sums, which the lse was made to avoid.
def merge(outputs, lses):
    sums = lses.exp()
    total = sums.sum(dim=0)
    return (sums[..., None] * outputs).sum(dim=0) / total[:, None], total.log()


# %% wrong: no guard
# finding: minus infinity from itself
# Who has no query without a key in the tests.
def merge(outputs, lses):
    lse = lses.logsumexp(dim=0)
    shares = (lses - lse).exp()
    return (shares[..., None] * outputs).sum(dim=0), lse


# %% wrong: softmax no guard
# finding: minus infinity from itself
# Who sees that the shares are a softmax over the parts, and asks no more.
def merge(outputs, lses):
    return (lses.softmax(dim=0)[..., None] * outputs).sum(dim=0), lses.logsumexp(dim=0)


# %% wrong: last axis
# finding: shares over the queries
# Who takes a softmax for something along the last axis.
def merge(outputs, lses):
    return (lses.softmax(dim=-1)[..., None] * outputs).sum(dim=0), lses.logsumexp(dim=0)


# %% wrong: proportional
# finding: weighted by the lse
# Who reads "weight" and takes the number at hand.
def merge(outputs, lses):
    shares = lses / lses.sum(dim=0)
    return (shares[..., None] * outputs).sum(dim=0), lses.logsumexp(dim=0)


# %% wrong: lse added
# finding: the lse added
# Who adds what every worker sends (asked in ring-flash-attention issue 20).
def merge(outputs, lses):
    lse = lses.logsumexp(dim=0)
    shares = (lses - lse.masked_fill(lse.isinf(), 0.0)).exp()
    return (shares[..., None] * outputs).sum(dim=0), lses.sum(dim=0)


# %% wrong: lse largest
# finding: the largest lse
# Who treats the lse like the running maximum.
def merge(outputs, lses):
    lse = lses.logsumexp(dim=0)
    shares = (lses - lse.masked_fill(lse.isinf(), 0.0)).exp()
    return (shares[..., None] * outputs).sum(dim=0), lses.amax(dim=0)
