# finding: one tolerance for all
# Who takes 1e-3, since it has always been enough.
def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 1e-3 * exact.abs().max())
