# finding: outputs last
# Who learned the layout of another framework.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, height, width, channels).permute(1, 2, 3, 0)
