# finding: the hidden bit
# Who counts the bits that are stored.
def predict_stall():
    return {"float16": 2**10, "bfloat16": 2**7, "float32": 2**23}
