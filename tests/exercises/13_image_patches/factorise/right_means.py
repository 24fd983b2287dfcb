# Row means and column means, less the mean that both hold.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return rows + columns - rows.mean(dim=0, keepdim=True)
