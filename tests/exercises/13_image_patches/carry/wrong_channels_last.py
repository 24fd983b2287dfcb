# finding: channels still last
# Who names the axes of the matrix and stops there.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, height, width, channels)
