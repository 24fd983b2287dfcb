# finding: rows alone
# Who thinks of positions as lines of text.
def factorise(places):
    return places.mean(dim=1, keepdim=True).expand_as(places)
