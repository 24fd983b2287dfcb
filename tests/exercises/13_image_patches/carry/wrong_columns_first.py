# finding: columns before rows
# Who turns round all the axes but the first.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, height, width, channels).permute(0, 3, 2, 1)
