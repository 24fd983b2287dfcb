# finding: a patch for each channel
# Who cuts each channel and leaves the channels where they were.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 1, 2, 4, 3, 5).flatten(4).flatten(1, 3)
