# finding: nothing changed
# Who takes expand for something else than repeat, and changes only that.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.view(batch, length, num_heads, size).transpose(1, 2)
    key, value = (x.view(batch, -1, 1, num_kv_heads, size) for x in (key, value))
    key, value = (x.expand(-1, -1, group, -1, -1).flatten(2, 3).transpose(1, 2) for x in (key, value))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).reshape(batch, length, width)
