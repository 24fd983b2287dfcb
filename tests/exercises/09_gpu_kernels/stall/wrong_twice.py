# finding: twice as far
# Who waits until a 1 is less than half of the distance.
def predict_stall():
    return {"float16": 4096, "bfloat16": 512, "float32": 2**25}
