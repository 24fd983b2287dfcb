# finding: True where nothing moved
# Who asks which outputs stay the same.
def seen(outputs):
    same = (outputs[1:] - outputs[0]).abs().amax(dim=-1) <= 1e-5
    return same.T
