# finding: the two halves exchanged
# Who gives the newer format the more digits.
def predict_stall():
    return {"float16": 256, "bfloat16": 2048, "float32": 2**24}
