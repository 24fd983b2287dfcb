# finding: columns alone
# Who counts the axes of a picture as x and y, and takes only the first.
def factorise(places):
    return places.mean(dim=0, keepdim=True).expand_as(places)
