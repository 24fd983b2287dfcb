# Windows from Tensor.unfold, one axis at a time.
def cut(images, height, width):
    if images.shape[2] % height or images.shape[3] % width:
        raise ValueError("the patches do not divide the image")
    windows = images.unfold(2, height, height).unfold(3, width, width)  # (B, C, rows, columns, height, width)
    return windows.movedim(1, 3).flatten(3).flatten(1, 2)
