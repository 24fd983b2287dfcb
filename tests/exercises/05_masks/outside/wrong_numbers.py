# finding: numbers for truth values
# Who returns ones and zeros, to draw them.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).abs().amax(dim=-1)
    return (change > 1e-5).T.float()
