# finding: values still tiled
# Who thinks of the scores when reading "grouped", and leaves the values as they are.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.view(batch, length, num_heads, size).transpose(1, 2)
    key, value = (x.view(batch, -1, num_kv_heads, size).transpose(1, 2) for x in (key, value))
    key, value = key.repeat_interleave(group, dim=1), value.repeat(1, group, 1, 1)
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, length, width)
