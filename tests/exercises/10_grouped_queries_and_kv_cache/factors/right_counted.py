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
