# finding: the first that cannot be held
# Who names the number that is missing.
def predict_stall():
    return {"float16": 2049, "bfloat16": 257, "float32": 2**24 + 1}
