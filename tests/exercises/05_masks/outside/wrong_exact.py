# finding: every rounding counts
# Who compares floating-point numbers with !=.
def seen(outputs):
    return (outputs[1:] != outputs[0]).any(dim=-1).T
