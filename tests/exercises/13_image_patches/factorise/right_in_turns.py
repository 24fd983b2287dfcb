# The rows first, then the columns of what they leave.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    return rows + (places - rows).mean(dim=0, keepdim=True)
