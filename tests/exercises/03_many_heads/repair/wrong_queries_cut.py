# finding: queries cut to fit
# Who sees that the way in and the way out do not match, and changes the wrong one of them.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.reshape(batch, num_heads, length, size)
    key, value = (x.view(batch, -1, num_kv_heads, size).transpose(1, 2) for x in (key, value))
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).reshape(batch, length, width)
