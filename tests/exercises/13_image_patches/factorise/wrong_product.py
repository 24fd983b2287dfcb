# finding: a product
# Who hears that something is factorised and multiplies.
def factorise(places):
    rows = places.mean(dim=1, keepdim=True)
    columns = places.mean(dim=0, keepdim=True)
    return rows * columns / places.mean(dim=(0, 1))
