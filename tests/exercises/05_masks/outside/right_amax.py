# Largest change of each output, turned so that a row is an output.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).abs().amax(dim=-1)
    return (change > 1e-5).mT
