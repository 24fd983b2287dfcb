# finding: the mean twice
# Who adds the two means and forgets that each holds the mean of all.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return rows + columns
