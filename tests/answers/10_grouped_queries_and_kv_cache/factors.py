# %% right: counted
# Counted with the table of models.
from dataclasses import replace

from mhalib import configurations, counting


def predict_factors():
    new = configurations.get("Llama 3 8B")
    old = replace(new, num_kv_heads=32)
    cache = [configurations.cache_bytes(m, 1000) for m in (new, old)]
    read = [2 * (configurations.parameters(m) - configurations.parts(m)["embedding"]) for m in (new, old)]
    flops = [counting.attention_flops(4096, 4096, 32, heads) for heads in (8, 32)]
    return {
        "cache": cache[0] / cache[1],
        "projections": flops[0].projections / flops[1].projections,
        "scores": flops[0].scores / flops[1].scores,
        "step": (read[0] + cache[0]) / (read[1] + cache[1]),
    }


# %% right: fractions
# Counted on paper.
def predict_factors():
    return {"cache": 8 / 32, "projections": (32 + 8 + 8 + 32) / (4 * 32), "scores": 1, "step": 15.1 / 17.1}


# %% wrong: times less
# finding: how many times less
# Who gives savings as "four times".
def predict_factors():
    return {"cache": 4.0, "projections": 1.6, "scores": 1.0, "step": 1.13}


# %% wrong: eighth
# finding: always an eighth
# Who has read that grouping divides the cache by eight.
def predict_factors():
    return {"cache": 0.125, "projections": 0.625, "scores": 1.0, "step": 0.88}


# %% wrong: scores
# finding: cheaper scores
# Who expects prefill to become four times as fast.
def predict_factors():
    return {"cache": 0.25, "projections": 0.625, "scores": 0.25, "step": 0.88}


# %% wrong: whole layer
# finding: all projections shrink
# Who thinks that a quarter of the heads is a quarter of the layer.
def predict_factors():
    return {"cache": 0.25, "projections": 0.25, "scores": 1.0, "step": 0.88}


# %% wrong: projections stay
# finding: projections stay
# Who thinks of grouping as a way to store keys.
def predict_factors():
    return {"cache": 0.25, "projections": 1.0, "scores": 1.0, "step": 0.9}


# %% wrong: cache is all
# finding: the cache is all that is read
# Who has heard that decoding is bound by the cache.
def predict_factors():
    return {"cache": 0.25, "projections": 0.625, "scores": 1.0, "step": 0.25}


# %% wrong: weights stay
# finding: the weights stay as they were
# Who sees that the weights dominate and forgets that some of them are gone.
def predict_factors():
    return {"cache": 0.25, "projections": 0.625, "scores": 1.0, "step": 0.98}
