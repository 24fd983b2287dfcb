# finding: another error
# Who lets the reshape complain.
def cut(images, height, width):
    batch, channels, rows, columns = images.shape
    parts = images.reshape(batch, channels, rows // height, height, columns // width, width)
    return parts.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * height * width)
