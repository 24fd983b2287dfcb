# finding: changes cancelled
# Who sums the differences, and then takes the absolute value.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).sum(dim=-1).abs()
    return (change > 1e-5).T
