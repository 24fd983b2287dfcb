# %% right: in turns
# The rows first, then the columns of what they leave.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    return rows + (places - rows).mean(dim=0, keepdim=True)


# %% right: least squares
# A least-squares problem with an unknown for each row and each column.
import torch


def factorise(places):
    height, width, _ = places.shape
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    design = torch.cat([torch.eye(height)[row.flatten()], torch.eye(width)[column.flatten()]], dim=1).to(places)
    return (design @ torch.linalg.pinv(design) @ places.flatten(0, 1)).view_as(places)


# %% right: means
# Row means and column means, less the mean that both hold.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return rows + columns - rows.mean(dim=0, keepdim=True)


# %% wrong: twice
# finding: the mean twice
# Who adds the two means and forgets that each holds the mean of all.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return rows + columns


# %% wrong: half
# finding: half of each
# Who sees that the sum is too large and takes the half.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return (rows + columns) / 2


# %% wrong: rows
# finding: rows alone
# Who thinks of positions as lines of text.
def factorise(places):
    return places.mean(dim=1, keepdim=True).expand_as(places)


# %% wrong: columns
# finding: columns alone
# Who counts the axes of a picture as x and y, and takes only the first.
def factorise(places):
    return places.mean(dim=0, keepdim=True).expand_as(places)


# %% wrong: first
# finding: first row and first column
# Who reads the table off its edges.
def factorise(places):
    return places[:, :1] + places[:1] - places[0, 0]


# %% wrong: one mean
# finding: one mean for all channels
# Who subtracts a mean without saying over which axes.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return rows + columns - places.mean()


# %% wrong: product
# finding: a product
# Who hears that something is factorised and multiplies.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return rows * columns / places.mean(dim=(0, 1))
