# finding: the largest number
# Who thinks of overflow.
def predict_stall():
    return {"float16": 65504, "bfloat16": 3.39e38, "float32": 3.4e38}
