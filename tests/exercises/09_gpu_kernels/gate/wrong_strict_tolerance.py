# finding: one tolerance for all
# Who takes 1e-5 and wonders about half precision.
def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 1e-5 * exact.abs().max())
