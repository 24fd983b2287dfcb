# finding: reshape alone
# Who takes a weight of the right size for the right weight.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, channels, height, width)
