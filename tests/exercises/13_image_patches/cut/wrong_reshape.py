# finding: reshape alone
# Who counts the numbers, sees that they agree, and lets reshape do it.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    return images.reshape(len(images), rows * columns, -1)
