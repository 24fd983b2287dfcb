# finding: no scale
# Who learned attention as softmax(QKᵀ)V and took the scale for a detail of training.
def attend(query, key, value):
    scores = query @ key.mT
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
