# finding: half of each
# Who sees that the sum is too large and takes the half.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return (rows + columns) / 2
