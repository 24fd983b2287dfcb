# finding: the maximum of this tile
# Who subtracts the maximum of the tile at hand, as in a softmax of the tile.
def step(state, scores):
    m, total, moment = state
    new_m = scores.amax(-1)
    shift = new_m.masked_fill(new_m.isinf(), 0.0)
    p = (scores - shift[:, None]).exp()
    finite = scores.masked_fill(scores.isinf(), 0.0)
    old = (m - shift).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * finite).sum(-1)
