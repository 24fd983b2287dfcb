# finding: read by columns
# Who thinks that x comes before y in a list of pixels.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, width, height, channels).permute(0, 3, 2, 1)
