# finding: every number has to move
# Who takes all for any.
def seen(outputs):
    return ((outputs[1:] - outputs[0]).abs() > 1e-5).all(dim=-1).T
