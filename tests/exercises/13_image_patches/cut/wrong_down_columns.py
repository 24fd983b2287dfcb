# finding: down the columns
# Who thinks of x before y, and so numbers the grid along x last.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 4, 2, 1, 3, 5).flatten(3).flatten(1, 2)
