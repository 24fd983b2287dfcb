# %% right: by blocks
# What does not depend on the tiles first, then one sum over the blocks of queries.
import math


def moved(length, head_dim, block_q, block_k):
    ends = [min(length, (i + 1) * block_q) for i in range(math.ceil(length / block_q))]
    keys = sum(min(length, math.ceil(end / block_k) * block_k) for end in ends)
    return length * (2 * head_dim + 1) + 2 * head_dim * keys


# %% right: by tiles
# Tile by tile, as the kernel walks.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        total += (stop - start) * head_dim  # the queries
        for first in range(0, stop, block_k):
            total += 2 * (min(first + block_k, length) - first) * head_dim  # keys and values
        total += (stop - start) * (head_dim + 1)  # output and lse
    return total


# %% wrong: not causal
# finding: no tile is skipped
# Who takes the chapter's count, which has no mask.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = length
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total


# %% wrong: half
# finding: half of all
# Who halves everything, as the triangle is half of the square.
import math


def moved(length, head_dim, block_q, block_k):
    blocks = math.ceil(length / block_q)
    return length * (2 * head_dim + 1) + blocks * 2 * length * head_dim / 2


# %% wrong: no diagonal
# finding: the diagonal is forgotten
# Who counts whole tiles of the past, and leaves out those that need a mask.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = start // block_k * block_k
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total


# %% wrong: only seen
# finding: only the keys that are seen
# Who counts keys up to the last query, without tiles.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = stop
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total


# %% wrong: one for one
# finding: as many tiles as blocks of queries
# Who has square tiles in mind; jax pull request 17314 repaired such a bound for tall ones.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = min(length, (start // block_q + 1) * block_k)
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total


# %% wrong: full tile
# finding: the last tile is full
# Who multiplies the number of tiles by the size of one.
import math


def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = math.ceil(stop / block_k) * block_k
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total


# %% wrong: keys only
# finding: keys or values, not both
# Who thinks of the scores, which need keys only.
import math


def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = min(length, math.ceil(stop / block_k) * block_k)
        total += (stop - start) * (2 * head_dim + 1) + head_dim * keys
    return total


# %% wrong: no lse
# finding: the lse is forgotten
# Who counts matrices and forgets the vector.
import math


def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = min(length, math.ceil(stop / block_k) * block_k)
        total += (stop - start) * (2 * head_dim) + 2 * head_dim * keys
    return total


# %% wrong: queries again
# finding: queries loaded for each tile
# Who loads both operands of every product.
import math


def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = min(length, math.ceil(stop / block_k) * block_k)
        total += (stop - start) * (head_dim * math.ceil(keys / block_k) + head_dim + 1) + 2 * head_dim * keys
    return total
