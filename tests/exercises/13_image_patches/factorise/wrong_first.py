# finding: first row and first column
# Who reads the table off its edges.
def factorise(places):
    return places[:, :1] + places[:1] - places[0, 0]
