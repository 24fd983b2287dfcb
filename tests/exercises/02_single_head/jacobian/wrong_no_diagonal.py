# finding: the diagonal is missing
# Who keeps the case m ≠ j only.
def jacobian(p):
    return -p.unsqueeze(-1) * p.unsqueeze(-2)
