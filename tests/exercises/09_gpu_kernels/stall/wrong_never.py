# finding: float32 never stops
# Who knows that one accumulates in float32 and takes it for exact.
import math


def predict_stall():
    return {"float16": 2048, "bfloat16": 256, "float32": math.inf}
