# The scale on the query, and a softmax by hand that subtracts the largest score.
def attend(query, key, value):
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    e = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = e / e.sum(dim=-1, keepdim=True)
    return weights @ value, weights
