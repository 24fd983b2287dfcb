# finding: bfloat16 for float32
# Who has read that bfloat16 behaves like float32.
def predict_stall():
    return {"float16": 2048, "bfloat16": 2**24, "float32": 2**24}
