# finding: queries and keys exchanged
# Who leaves the axes as the runs come.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).abs().amax(dim=-1)
    return change > 1e-5
