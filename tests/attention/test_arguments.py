"""Wrong input is refused, and the message names the argument, what came, and what to do. Nothing is broadcast."""

import math
import re

import numpy as np
import pytest
import torch
from oracle import SMALL, inputs

import mhalib
from mhalib import MultiHeadAttention, RotaryEmbedding

Q, K, V = inputs(SMALL, torch.float32)  # (2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)
KEEP = torch.ones(5, 7, dtype=torch.bool)
ZERO = torch.zeros(5, 7)
META = {"device": "meta"}  # a second device that every machine has


def refused(call, error, *words):
    """`call` raises `error` itself, not a subclass, and its message matches each of the patterns."""
    with pytest.raises(error) as caught:
        call()
    assert caught.type is error
    for word in words:
        assert re.search(word, str(caught.value)), f"{word!r} is not in: {caught.value}"


def cases(*rows):
    """(id, changes, error, argument, what came, remedy)"""
    return pytest.mark.parametrize(
        ("changes", "error", "argument", "came", "remedy"), [row[1:] for row in rows], ids=[row[0] for row in rows]
    )


def a_mask(*size, **options):
    return torch.ones(size, dtype=torch.bool, **options)


FLOATS = r"accepted are float16, bfloat16, float32 and float64"
EXPAND = r"nothing is broadcast, expand them"
MOVE = r"move one of them with \.to\(\)"
BUILT = "'auto', 'reference', 'tiled', 'sdpa', 'triton'"
FULL = r"accepted are \(Lq, Lk\) = \(5, 7\) and .* = \(2, 6, 5, 7\)"
SHAPES = r"query \(2, 6, 5, 8\)"


@cases(
    ("query list", {"query": [[1.0]]}, TypeError, "query", "got list", r"accepted is a tensor \(B, H, L, D\)"),
    ("query numpy", {"query": Q.numpy()}, TypeError, "query", "got ndarray", r"accepted is a tensor \(B, H, L, D\)"),
    ("key numpy", {"key": K.numpy()}, TypeError, "key", "got ndarray", r"accepted is a tensor"),
    ("value None", {"value": None}, TypeError, "value", "got NoneType", r"accepted is a tensor"),
    ("query int", {"query": Q.long()}, TypeError, "query", "got torch.int64", FLOATS),
    ("query bool", {"query": Q > 0}, TypeError, "query", "got torch.bool", FLOATS),
    ("value complex", {"value": V.to(torch.complex64)}, TypeError, "value", "got torch.complex64", FLOATS),
    ("query 3-D", {"query": Q[0]}, ValueError, "query", r"got shape \(6, 5, 8\)", r"one head is query\[:, None\]"),
    ("key 3-D", {"key": K[0]}, ValueError, "key", r"got shape \(2, 7, 8\)", r"one head is key\[:, None\]"),
    (
        "value 2-D",
        {"value": V[0, 0]},
        ValueError,
        "value",
        r"got shape \(7, 6\)",
        r"one head of one sequence is value\[None, None\]",
    ),
    (
        "query 5-D",
        {"query": Q[None]},
        ValueError,
        "query",
        r"got shape \(1, 2, 6, 5, 8\)",
        r"accepted is \(B, H, L, D\)",
    ),
    ("key half", {"key": K.half()}, TypeError, "key", "got torch.float16 where query is torch.float32", r"\.to\(\)"),
    ("value double", {"value": V.double()}, TypeError, "value", "got torch.float64 where query is", r"\.to\(\)"),
    ("key device", {"key": K.to("meta")}, ValueError, "key", "on meta, query on cpu", MOVE),
    ("value device", {"value": V.to("meta")}, ValueError, "value", "on meta, query on cpu", MOVE),
    ("batch of key and value", {"key": K[:1], "value": V[:1]}, ValueError, "key", r"batch sizes in .*\(1, 2,", EXPAND),
    ("batch of query", {"query": Q[:1]}, ValueError, "query", r"query \(1, 6, 5, 8\), key \(2, 2", EXPAND),
    ("batch of value", {"value": V[:1]}, ValueError, "value", r"value \(1, 2, 7, 6\)", EXPAND),
    ("lengths of key and value", {"value": V[:, :, :6]}, ValueError, "key, value", r"value \(2, 2, 6, 6\)", "equal"),
    ("heads of key and value", {"value": V[:, :1]}, ValueError, "key, value", r"value \(2, 1, 7, 6\)", "must be equal"),
    ("one value row", {"value": V[:, :, :1]}, ValueError, "key, value", r"value \(2, 2, 1, 6\)", "must be equal"),
    ("head size", {"key": K[..., :7]}, ValueError, "query, key", r"key \(2, 2, 7, 7\)", "must be equal"),
    (
        "head size 0",
        {"query": Q[..., :0], "key": K[..., :0]},
        ValueError,
        "query, key",
        r"\(2, 6, 5, 0\)",
        "at least 1",
    ),
    (
        "3 key heads for 4 query heads",
        {"query": Q[:, :4], "key": torch.ones(2, 3, 7, 8), "value": torch.ones(2, 3, 7, 6)},
        ValueError,
        "query, key",
        "got 4 query heads and 3 key heads",
        r"accepted are \[1, 2, 4\] key heads",
    ),
    (
        "more key heads than query heads",
        {"query": Q[:, :1]},
        ValueError,
        "query, key",
        "got 1 query heads and 2 key heads",
        r"accepted are \[1\] key heads",
    ),
    (
        "no key head",
        {"key": K[:, :0], "value": V[:, :0]},
        ValueError,
        "query, key",
        "got 6 query heads and 0 key heads",
        r"accepted are \[1, 2, 3, 6\]",
    ),
)
def test_query_key_value(changes, error, argument, came, remedy):
    arguments = {"query": Q, "key": K, "value": V} | changes
    refused(lambda: mhalib.attention(**arguments), error, argument, came, remedy)
    refused(lambda: mhalib.explain_backend(**arguments), error, argument, came, remedy)


BOOL = r"accepted is a bool tensor, True = may attend"


@cases(
    ("mask float", {"mask": ZERO}, TypeError, "mask", "got a torch.float32 tensor", "go to bias="),
    ("mask int", {"mask": KEEP.int()}, TypeError, "mask", "got a torch.int32 tensor", r"mhalib\.masks\.from_"),
    ("mask long", {"mask": KEEP.long()}, TypeError, "mask", "got a torch.int64 tensor", BOOL),
    ("mask uint8", {"mask": KEEP.byte()}, TypeError, "mask", "got a torch.uint8 tensor", BOOL),
    ("mask numpy", {"mask": KEEP.numpy()}, TypeError, "mask", "got ndarray", BOOL),
    ("mask list", {"mask": [[True] * 7] * 5}, TypeError, "mask", "got list", BOOL),
    ("mask flag", {"mask": True}, TypeError, "mask", "got bool True", BOOL),
    ("mask 0-D", {"mask": a_mask()}, ValueError, "mask", r"got shape \(\)", FULL),
    ("mask 1-D", {"mask": KEEP[0]}, ValueError, "mask", r"got shape \(7,\)", FULL),
    (
        "mask 3-D",
        {"mask": a_mask(2, 5, 7)},
        ValueError,
        "mask",
        r"got shape \(2, 5, 7\)",
        r"batch or heads: write mask\[",
    ),
    (
        "mask of heads, 3-D",
        {"mask": a_mask(6, 5, 7)},
        ValueError,
        "mask",
        r"\(6, 5, 7\)",
        r"mask\[:, None\] or mask\[None\]",
    ),
    ("mask 5-D", {"mask": a_mask(1, 2, 6, 5, 7)}, ValueError, "mask", r"got shape \(1, 2, 6, 5, 7\)", FULL),
    (
        "mask (B, Lk)",
        {"mask": a_mask(2, 7)},
        ValueError,
        "mask",
        r"got shape \(2, 7\)",
        r"mask\[:, None, None, :\], or key_l",
    ),
    ("mask (1, Lk)", {"mask": a_mask(1, 7)}, ValueError, "mask", r"got shape \(1, 7\)", FULL),
    ("mask (Lq, 1)", {"mask": a_mask(5, 1)}, ValueError, "mask", r"got shape \(5, 1\)", FULL),
    ("mask transposed", {"mask": KEEP.T}, ValueError, "mask", r"got shape \(7, 5\)", FULL),
    ("mask one key more", {"mask": a_mask(5, 8)}, ValueError, "mask", r"got shape \(5, 8\)", FULL),
    ("mask one query less", {"mask": a_mask(4, 7)}, ValueError, "mask", r"got shape \(4, 7\)", FULL),
    ("mask one head more", {"mask": a_mask(2, 7, 5, 7)}, ValueError, "mask", r"got shape \(2, 7, 5, 7\)", FULL),
    ("mask of key heads", {"mask": a_mask(2, 2, 5, 7)}, ValueError, "mask", r"got shape \(2, 2, 5, 7\)", FULL),
    ("mask of 3 sequences", {"mask": a_mask(3, 1, 5, 7)}, ValueError, "mask", r"got shape \(3, 1, 5, 7\)", FULL),
    ("mask (B·H, Lq, Lk)", {"mask": a_mask(12, 5, 7)}, ValueError, "mask", r"got shape \(12, 5, 7\)", FULL),
    ("mask device", {"mask": KEEP.to("meta")}, ValueError, "mask", "on meta, query on cpu", MOVE),
    ("bias bool", {"bias": KEEP}, TypeError, "bias", "got a torch.bool tensor", "A bool mask goes to mask="),
    ("bias int", {"bias": KEEP.int()}, TypeError, "bias", "got a torch.int32 tensor", "floating tensor"),
    ("bias number", {"bias": 0.5}, TypeError, "bias", r"got float 0\.5", "accepted is a floating tensor"),
    ("bias numpy", {"bias": ZERO.numpy()}, TypeError, "bias", "got ndarray", "accepted is a floating tensor"),
    ("bias too precise", {"bias": ZERO.double()}, TypeError, "bias", "got torch.float64", r"\.to\(torch.float32\)"),
    ("bias (1, Lk)", {"bias": ZERO[:1]}, ValueError, "bias", r"got shape \(1, 7\)", FULL),
    ("bias 1-D", {"bias": ZERO[0]}, ValueError, "bias", r"got shape \(7,\)", FULL),
    (
        "bias 3-D",
        {"bias": ZERO[None]},
        ValueError,
        "bias",
        r"got shape \(1, 5, 7\)",
        r"bias\[:, None\] or bias\[None\]",
    ),
    ("bias (B, Lk)", {"bias": ZERO[:2]}, ValueError, "bias", r"got shape \(2, 7\)", r"bias\[:, None, None, :\]"),
    ("bias one key less", {"bias": ZERO[:, :6]}, ValueError, "bias", r"got shape \(5, 6\)", FULL),
    ("bias of 5 heads", {"bias": torch.zeros(1, 5, 5, 7)}, ValueError, "bias", r"got shape \(1, 5, 5, 7\)", FULL),
    ("bias device", {"bias": ZERO.to("meta")}, ValueError, "bias", "on meta, query on cpu", MOVE),
)
def test_mask_and_bias(changes, error, argument, came, remedy):
    refused(lambda: mhalib.attention(Q, K, V, **changes), error, f"^{argument}: ", came, remedy)


WHOLE = "accepted is an integer of at least 1"
FLAG = "accepted are True and False"


@cases(
    ("window 0", {"window": 0}, ValueError, "window", "got 0", WHOLE),
    ("window -1", {"window": -1, "causal": True}, ValueError, "window", "got -1", WHOLE),
    ("window bool", {"window": True}, TypeError, "window", "got True", WHOLE),
    ("window float", {"window": 3.0}, TypeError, "window", r"got 3\.0", WHOLE),
    ("window pair", {"window": (3, 0)}, TypeError, "window", r"got \(3, 0\)", WHOLE),
    ("window tensor", {"window": torch.tensor(3)}, TypeError, "window", r"got tensor\(3\)", WHOLE),
    ("causal int", {"causal": 1}, TypeError, "causal", "got 1", FLAG),
    ("causal None", {"causal": None}, TypeError, "causal", "got None", FLAG),
    ("causal text", {"causal": "top-left"}, TypeError, "causal", "got 'top-left'", FLAG),
    ("causal mask", {"causal": KEEP}, TypeError, "causal", "got tensor", FLAG),
    ("return_weights", {"return_weights": 1}, TypeError, "return_weights", "got 1", FLAG),
    ("return_lse", {"return_lse": "yes"}, TypeError, "return_lse", "got 'yes'", FLAG),
    ("scale nan", {"scale": math.nan}, ValueError, "scale", "got nan", "a finite number, or None for 1/√D"),
    ("scale inf", {"scale": math.inf}, ValueError, "scale", "got inf", "a finite number"),
    ("scale bool", {"scale": True}, TypeError, "scale", "got bool True", "a finite number"),
    ("scale text", {"scale": "1/8"}, TypeError, "scale", "got str '1/8'", "a finite number"),
    ("scale tensor", {"scale": torch.tensor(0.1)}, TypeError, "scale", "got a torch.float32 tensor", "a finite number"),
    ("softcap 0", {"softcap": 0}, ValueError, "softcap", "got 0", "a number above 0, or None for no cap"),
    ("softcap -1", {"softcap": -1.0}, ValueError, "softcap", r"got -1\.0", "a number above 0"),
    ("softcap inf", {"softcap": math.inf}, ValueError, "softcap", "got inf", "None for no cap"),
    ("softcap nan", {"softcap": math.nan}, ValueError, "softcap", "got nan", "a number above 0"),
    ("softcap bool", {"softcap": False}, TypeError, "softcap", "got bool False", "a number above 0"),
    ("dropout 1", {"dropout": 1}, ValueError, "dropout", "got 1", "from 0 up to, not including, 1"),
    ("dropout -0.1", {"dropout": -0.1}, ValueError, "dropout", r"got -0\.1", "a probability from 0"),
    ("dropout per cent", {"dropout": 10}, ValueError, "dropout", "got 10", "a probability"),
    ("dropout nan", {"dropout": math.nan}, ValueError, "dropout", "got nan", "a probability"),
    ("dropout flag", {"dropout": True}, TypeError, "dropout", "got bool True", "a probability"),
    ("dropout None", {"dropout": None}, TypeError, "dropout", "got NoneType None", "a probability"),
    (
        "key_lengths float",
        {"key_lengths": torch.tensor([7.0, 3.0])},
        TypeError,
        "key_lengths",
        "got torch.float32",
        "accepted is an integer dtype",
    ),
    ("key_lengths mask", {"key_lengths": a_mask(2)}, TypeError, "key_lengths", "got torch.bool", "integer dtype"),
    (
        "key_lengths list",
        {"key_lengths": [7, 3]},
        TypeError,
        "key_lengths",
        "got list",
        r"integer tensor of shape \(B,\)",
    ),
    (
        "key_lengths numpy",
        {"key_lengths": np.array([7, 3])},
        TypeError,
        "key_lengths",
        "got ndarray",
        "accepted is an integer tensor",
    ),
    (
        "key_lengths too long",
        {"key_lengths": torch.tensor([8, 3])},
        ValueError,
        "key_lengths",
        "got values from 3 to 8",
        "accepted are 0 to 7",
    ),
    (
        "key_lengths negative",
        {"key_lengths": torch.tensor([7, -1])},
        ValueError,
        "key_lengths",
        "got values from -1 to 7",
        "accepted are 0 to 7",
    ),
    (
        "key_lengths of 3",
        {"key_lengths": torch.tensor([7, 3, 1])},
        ValueError,
        "key_lengths",
        r"got shape \(3,\)",
        r"accepted is \(2,\), one per sequence",
    ),
    ("key_lengths of 1", {"key_lengths": torch.tensor([7])}, ValueError, "key_lengths", r"got shape \(1,\)", r"\(2,\)"),
    (
        "key_lengths 2-D",
        {"key_lengths": torch.tensor([[7], [3]])},
        ValueError,
        "key_lengths",
        r"got shape \(2, 1\)",
        r"accepted is \(2,\)",
    ),
    ("key_lengths number", {"key_lengths": torch.tensor(7)}, ValueError, "key_lengths", r"shape \(\)", r"\(2,\)"),
    (
        "key_lengths device",
        {"key_lengths": torch.ones(2, dtype=int, **META)},
        ValueError,
        "key_lengths",
        "on meta",
        MOVE,
    ),
    (
        "query_lengths too long",
        {"query_lengths": torch.tensor([6, 3])},
        ValueError,
        "query_lengths",
        "got values from 3 to 6",
        "accepted are 0 to 5, the queries given",
    ),
    (
        "query_lengths float",
        {"query_lengths": torch.tensor([5.0, 3.0])},
        TypeError,
        "query_lengths",
        "got torch.float32",
        "how many queries are real",
    ),
    (
        "query_lengths of 3",
        {"query_lengths": torch.tensor([5, 3, 1])},
        ValueError,
        "query_lengths",
        r"got shape \(3,\)",
        r"accepted is \(2,\)",
    ),
    ("query_lengths list", {"query_lengths": [5, 3]}, TypeError, "query_lengths", "got list", "integer tensor"),
    (
        "query_lengths device",
        {"query_lengths": torch.ones(2, dtype=int, **META)},
        ValueError,
        "query_lengths",
        "on meta",
        MOVE,
    ),
    ("backend unknown", {"backend": "flash"}, ValueError, "backend", "got 'flash'", BUILT),
    ("backend None", {"backend": None}, TypeError, "backend", "got None", BUILT),
    ("backend case", {"backend": "SDPA"}, ValueError, "backend", "got 'SDPA'", BUILT),
    ("backend list", {"backend": ["sdpa"]}, TypeError, "backend", r"got \['sdpa'\]", BUILT),
)
def test_other_options(changes, error, argument, came, remedy):
    refused(lambda: mhalib.attention(Q, K, V, **changes), error, f"^{argument}: ", came, remedy)
    refused(lambda: mhalib.explain_backend(Q, K, V, **changes), error, f"^{argument}: ", came, remedy)


def test_an_option_that_does_not_exist():
    """A slip of the pen (`is_causal`, `attn_mask`) is not swallowed."""
    for name in ("is_causal", "attn_mask", "dropout_p", "enable_gqa", "key_padding_mask"):
        refused(lambda name=name: mhalib.attention(Q, K, V, **{name: None}), TypeError, f"unexpected .*'{name}'")
        refused(lambda name=name: mhalib.explain_backend(Q, K, V, **{name: None}), TypeError, f"unexpected .*'{name}'")


def test_options_are_named_never_counted():
    refused(lambda: mhalib.attention(Q, K, V, KEEP), TypeError, "takes 3 positional arguments")


def test_what_looks_wrong_and_is_right():
    """Accepted on purpose: a scale of 0 or below, an integer scale, whole-row masks, lengths of any integer dtype."""
    uniform = mhalib.attention(Q, K, V, scale=0)
    # A mean of 7 values of size about 1.
    assert torch.allclose(uniform, V.mean(2, keepdim=True).repeat_interleave(3, 1), rtol=0, atol=1e-6)
    assert torch.equal(mhalib.attention(Q, K, V, scale=-1), mhalib.attention(Q, K, V, scale=-1.0))
    for dtype in (torch.uint8, torch.int16, torch.int32):
        lengths = torch.tensor([7, 3])
        expected = mhalib.attention(Q, K, V, key_lengths=lengths)
        assert torch.equal(mhalib.attention(Q, K, V, key_lengths=lengths.to(dtype)), expected)


# -------------------------------------------------------------------------------------------------- the layer


@cases(
    ("d_model 0", {"d_model": 0}, ValueError, "d_model", "got 0", WHOLE),
    ("d_model float", {"d_model": 12.0}, TypeError, "d_model", r"got 12\.0", WHOLE),
    ("num_heads 0", {"num_heads": 0}, ValueError, "num_heads", "got 0", WHOLE),
    ("num_heads -2", {"num_heads": -2}, ValueError, "num_heads", "got -2", WHOLE),
    ("num_heads 5", {"num_heads": 5}, ValueError, "num_heads", "got 5 for d_model=12", r"\[1, 2, 3, 4, 6, 12\]"),
    ("num_kv_heads 0", {"num_kv_heads": 0}, ValueError, "num_kv_heads", "got 0", WHOLE),
    ("num_kv_heads 3", {"num_kv_heads": 3}, ValueError, "num_kv_heads", "got 3 for num_heads=4", r"\[1, 2, 4\]"),
    ("num_kv_heads 8", {"num_kv_heads": 8}, ValueError, "num_kv_heads", "got 8 for num_heads=4", r"\[1, 2, 4\]"),
    ("num_kv_heads bool", {"num_kv_heads": True}, TypeError, "num_kv_heads", "got True", WHOLE),
    ("head_dim 0", {"head_dim": 0}, ValueError, "head_dim", "got 0", WHOLE),
    ("head_dim float", {"head_dim": 3.0}, TypeError, "head_dim", r"got 3\.0", WHOLE),
    ("dropout 1", {"dropout": 1.0}, ValueError, "dropout", r"got 1\.0", "not including, 1"),
    ("dropout -0.1", {"dropout": -0.1}, ValueError, "dropout", r"got -0\.1", "from 0"),
    ("dropout None", {"dropout": None}, TypeError, "dropout", "got NoneType", "a probability"),
    ("window 0", {"window": 0}, ValueError, "window", "got 0", WHOLE),
    ("window bool", {"window": True}, TypeError, "window", "got True", WHOLE),
    (
        "rotary size",
        {"head_dim": 6, "rotary": RotaryEmbedding(4)},
        ValueError,
        "rotary",
        "got head_dim=4",
        "accepted .* 6",
    ),
    ("rotary flag", {"rotary": True}, TypeError, "rotary", "got bool", r"accepted is a mhalib\.RotaryEmbedding"),
)
def test_constructing_a_layer(changes, error, argument, came, remedy):
    arguments = {"d_model": 12, "num_heads": 4} | changes
    refused(lambda: MultiHeadAttention(**arguments), error, f"^{argument}: ", came, remedy)


X, Y = torch.ones(2, 5, 12), torch.ones(2, 7, 12)
POSITIONS = "positions"


@cases(
    ("query numpy", {"query": X.numpy()}, TypeError, "query", "got ndarray", "accepted is a tensor"),
    ("query 2-D", {"query": X[0]}, ValueError, "query", r"got shape \(5, 12\)", r"accepted is \(B, L, 12\)"),
    ("query 4-D", {"query": X[None]}, ValueError, "query", r"got shape \(1, 2, 5, 12\)", r"accepted is \(B, L, 12\)"),
    ("query width", {"query": X[..., :8]}, ValueError, "query", r"got shape \(2, 5, 8\)", r"accepted is \(B, L, 12\)"),
    (
        "query dtype",
        {"query": X.double()},
        TypeError,
        "query",
        "got torch.float64 where the layer is torch.float32",
        r"\.to\(",
    ),
    ("query device", {"query": X.to("meta")}, ValueError, "query", "on meta, the layer on cpu", MOVE),
    ("key width", {"key": Y[..., :8]}, ValueError, "key", r"got shape \(2, 7, 8\)", r"accepted is \(B, L, 12\)"),
    ("key dtype", {"key": Y.half()}, TypeError, "key", "got torch.float16", r"convert one of them with \.to\(\)"),
    ("key numpy", {"key": Y.numpy()}, TypeError, "key", "got ndarray", "accepted is a tensor"),
    ("value alone", {"value": Y}, ValueError, "key", "got None with a value", "give both, or neither"),
    ("value length", {"key": Y, "value": X}, ValueError, "key, value", r"value \(2, 4, 5, 3\)", "must be equal"),
    ("value device", {"key": Y, "value": Y.to("meta")}, ValueError, "value", "on meta", MOVE),
    ("key batch", {"key": Y[:1]}, ValueError, "query, key, value", r"key \(1, 4, 7, 3\)", EXPAND),
    ("mask (B, Lk)", {"mask": a_mask(2, 5)}, ValueError, "mask", r"got shape \(2, 5\)", "key_lengths="),
    ("mask float", {"mask": torch.ones(5, 5)}, TypeError, "mask", "got a torch.float32 tensor", "bias="),
    ("causal", {"causal": 1}, TypeError, "causal", "got 1", FLAG),
    ("need_weights", {"need_weights": "mean"}, TypeError, "need_weights", "got 'mean'", FLAG),
    ("positions", {POSITIONS: torch.arange(5)}, ValueError, POSITIONS, "no rotary embedding", "leave them out"),
)
def test_calling_a_layer(changes, error, argument, came, remedy):
    layer = MultiHeadAttention(12, 4)
    refused(lambda: layer(**({"query": X} | changes)), error, f"^{argument}.*: ", came, remedy)


@cases(
    ("another sequence", {"key": Y}, ValueError, "rotary", "different sequences", "defined for self-attention"),
    ("float", {POSITIONS: torch.ones(5)}, TypeError, POSITIONS, "got torch.float32", "accepted is an integer tensor"),
    ("bool", {POSITIONS: a_mask(5)}, TypeError, POSITIONS, "got torch.bool", "accepted is an integer tensor"),
    ("list", {POSITIONS: [0, 1, 2, 3, 4]}, TypeError, POSITIONS, "got list", "accepted is an integer tensor"),
    (
        "too few",
        {POSITIONS: torch.arange(4)},
        ValueError,
        POSITIONS,
        r"got shape \(4,\)",
        r"accepted are \(5,\) and \(2, 5\)",
    ),
    (
        "one row",
        {POSITIONS: torch.arange(5)[None]},
        ValueError,
        POSITIONS,
        r"got shape \(1, 5\)",
        r"\(5,\) and \(2, 5\)",
    ),
    ("device", {POSITIONS: torch.arange(5, **META)}, ValueError, POSITIONS, "on meta, the tokens on cpu", MOVE),
)
def test_positions_of_a_rotary_layer(changes, error, argument, came, remedy):
    layer = MultiHeadAttention(16, 4, rotary=RotaryEmbedding(4))
    x = torch.ones(2, 5, 16)
    changes = changes | ({"key": torch.ones(2, 7, 16)} if "key" in changes else {})
    refused(lambda: layer(x, **changes), error, f"^{argument}: ", came, remedy)


def test_a_layer_in_half_precision_refuses_float32():
    layer = MultiHeadAttention(12, 4, dtype=torch.bfloat16)
    refused(lambda: layer(X), TypeError, "query: got torch.float32 where the layer is torch.bfloat16", r"\.to\(\)")


def test_under_autocast_the_layer_takes_what_autocast_converts():
    layer = MultiHeadAttention(12, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(X)
    assert output.dtype == torch.bfloat16
