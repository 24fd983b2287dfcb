# With the count of the library.
from mhalib import counting


def repaired(config, memory, sequences):
    one = counting.kv_cache_bytes(
        config["layers"], config["num_kv_heads"], config["head_dim"], tokens=1, batch_size=sequences
    )
    return max((memory - config["parameters"] * 2) // one, 0)
