# finding: kernel turned round
# Who remembers from signal processing that a convolution flips its kernel.
def as_convolution(matrix, channels, height, width):
    weight = matrix.reshape(-1, height, width, channels).movedim(-1, 1)
    return weight.flip(-1, -2)
