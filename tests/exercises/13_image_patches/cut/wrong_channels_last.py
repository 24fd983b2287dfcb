# finding: channels last
# Who comes from images as files have them, pixel by pixel.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
