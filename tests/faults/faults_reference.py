"""Faults of scores, softmax, heads, dead rows, bias, precision and dropout."""

from engine import Fault

REQUEST = "backends/request.py"
REFERENCE = "backends/reference.py"
LAYERS = "layers.py"
SDPA = "backends/sdpa.py"
KERNEL = "backends/torch_kernel.py"

FAULTS = [
    Fault(
        "the scores are not scaled",
        REQUEST,
        "validate",
        "1.0 / math.sqrt(query.shape[3])",
        "1.0",
        "test_parity.py::equals_the_loops and plain",
    ),
    Fault(
        "the scores are divided by D, not by √D",
        REQUEST,
        "validate",
        "math.sqrt(query.shape[3])",
        "query.shape[3]",
        "test_parity.py::equals_the_loops and plain",
    ),
    Fault(
        "a scale that the caller gives is ignored",
        REQUEST,
        "validate",
        "1.0 / math.sqrt(query.shape[3]) if scale is None else _checked_scale(scale, computed)",
        "1.0 / math.sqrt(query.shape[3])",
        "test_parity.py::equals_the_loops and scale",
    ),
    Fault(
        "the softmax runs over the queries",
        REFERENCE,
        "run",
        "torch.softmax(safe, dim=-1)",
        "torch.softmax(safe, dim=-2)",
        "test_parity.py::equals_the_loops and plain",
    ),
    Fault(
        "the log-sum-exp is in base 2",
        REFERENCE,
        "run",
        "torch.logsumexp(safe, dim=-1)",
        "torch.logsumexp(safe, dim=-1).div(0.6931471805599453)",
        "test_parity.py::equals_the_loops and plain",
    ),
    Fault(
        "the softcap is left out",
        REFERENCE,
        "scores",
        "result = request.softcap * torch.tanh(result / request.softcap)",
        "pass",
        "test_parity.py::equals_the_loops and softcap",
    ),
    Fault(
        "the softcap bends the bias too",
        REFERENCE,
        "scores",
        """\
if request.softcap is not None:
    result = request.softcap * torch.tanh(result / request.softcap)
if request.bias is not None:
    result = result + request.bias.to(result.dtype)
""",
        """\
if request.bias is not None:
    result = result + request.bias.to(result.dtype)
if request.softcap is not None:
    result = request.softcap * torch.tanh(result / request.softcap)
""",
        "test_parity.py::equals_the_loops and softcap and bias",
    ),
    Fault(
        "the softcap bends what a mask has hidden",
        REFERENCE,
        "scores",
        """\
if request.softcap is not None:
    result = request.softcap * torch.tanh(result / request.softcap)
if request.bias is not None:
    result = result + request.bias.to(result.dtype)
allowed = request.allowed()
return result if allowed is None else result.masked_fill(~allowed, float('-inf'))
""",
        """\
if request.bias is not None:
    result = result + request.bias.to(result.dtype)
allowed = request.allowed()
result = result if allowed is None else result.masked_fill(~allowed, float('-inf'))
return result if request.softcap is None else request.softcap * torch.tanh(result / request.softcap)
""",
        "test_parity.py::equals_the_loops and everything",
    ),
    Fault(
        "heads are split without a transpose",
        LAYERS,
        "split_heads",
        "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)",
        "x.reshape(x.shape[0], num_heads, x.shape[1], -1)",
        "test_layers.py::against_their_projections",
    ),
    Fault(
        "heads are joined without a transpose",
        LAYERS,
        "join_heads",
        "x.transpose(1, 2).flatten(2)",
        "x.reshape(x.shape[0], x.shape[2], -1)",
        "test_layers.py::against_their_projections",
    ),
    Fault(
        "reference: keys of a group are tiled, not repeated",
        REFERENCE,
        "scores",
        "torch.einsum('bkgqd,bksd->bkgqs', query, key).flatten(1, 2)",
        "query.flatten(1, 2) @ key.repeat(1, groups, 1, 1).mT",
        "test_parity.py::test_grouped_heads and reference",
        given=("(request.num_kv_heads, groups)",),
    ),
    Fault(
        "reference: values of a group are tiled, not repeated",
        REFERENCE,
        "run",
        "torch.einsum('bkgqs,bksd->bkgqd', grouped, value).flatten(1, 2)",
        "dropped @ value.repeat(1, groups, 1, 1)",
        "test_parity.py::test_grouped_heads and reference",
        given=("dropped.unflatten(1, (request.num_kv_heads, groups))",),
    ),
    Fault(
        "sdpa: query heads are folded as if keys were tiled",
        KERNEL,
        "attend",
        "query = query.unflatten(1, (request.num_kv_heads, -1)).flatten(2, 3)",
        "query = query.unflatten(1, (-1, request.num_kv_heads)).transpose(1, 2).flatten(2, 3)",
        "test_parity.py::test_grouped_heads and sdpa",
    ),
    Fault(
        "the layer returns weights averaged over the heads",
        LAYERS,
        "MultiHeadAttention.forward",
        "(self.out_proj(join_heads(output)), weights)",
        "(self.out_proj(join_heads(output)), weights.mean(1, True).expand_as(weights) if need_weights else None)",
        "test_layers.py::weights_are_per_head",
        given=("attention(..., return_weights=need_weights)",),
    ),
    Fault(
        "hidden scores are −1e9 instead of −inf",
        REFERENCE,
        "scores",
        "float('-inf')",
        "-1000000000.0",
        "test_dead_rows.py::test_output_is_zero and reference and float32",
    ),
    Fault(
        "reference: the weights of a dead row are not set to 0",
        REFERENCE,
        "run",
        "torch.softmax(safe, dim=-1).masked_fill(dead, 0.0)",
        "torch.softmax(safe, dim=-1)",
        "test_dead_rows.py::weights_are_zero and reference and float32",
    ),
    Fault(
        "reference: the gradients of a dead row are NaN",
        REFERENCE,
        "run",
        "raw.masked_fill(dead, 0.0)",
        "raw",
        "test_known_bugs.py::o01 and reference",
    ),
    Fault(
        "sdpa: the output of a dead row is not set to 0",
        SDPA,
        "_whole",
        "result if dead is None else torch_kernel.blank(result, dead)",
        "result",
        "test_dead_rows.py::test_output_is_zero and sdpa and float32",
    ),
    Fault(
        "the log-sum-exp of a dead row is finite",
        REFERENCE,
        "run",
        "torch.logsumexp(safe, dim=-1).masked_fill(dead.squeeze(-1), float('-inf'))",
        "torch.logsumexp(safe, dim=-1)",
        "test_dead_rows.py::lse_is_minus_infinity and reference and float32",
    ),
    Fault(
        "reference: the bias is ignored",
        REFERENCE,
        "scores",
        "result = result + request.bias.to(result.dtype)",
        "pass",
        "test_parity.py::equals_the_loops and bias_full",
    ),
    Fault(
        "sdpa: the bias is multiplied by 0",
        SDPA,
        "_restrictions",
        "request.bias.to(request.query.dtype)",
        "request.bias.to(request.query.dtype) * 0",
        "test_parity.py::test_output_and_gradients and sdpa and float64 and bias_full",
    ),
    Fault(
        "reference: a fine bias is rounded to half precision",
        REFERENCE,
        "scores",
        "request.bias.to(result.dtype)",
        "request.bias.to(request.query.dtype)",
        "test_parity.py::test_output_and_gradients and reference and float16 and bias_fine",
    ),
    Fault(
        "sdpa: a fine bias is rounded to half precision",
        SDPA,
        "refusal",
        "bias is not None and torch.promote_types(bias.dtype, dtype) != dtype",
        "False",
        "test_parity.py::test_output_and_gradients and sdpa and float16 and bias_fine",
    ),
    Fault(
        "half precision is accumulated in half precision",
        REQUEST,
        "compute_dtype",
        "torch.promote_types(x.dtype, torch.float32)",
        "x.dtype",
        "test_parity.py::test_output_and_gradients and reference and float16 and steep",
    ),
    Fault(
        "the output stays in float32",
        REFERENCE,
        "run",
        "Result(output.to(dtype), ...)",
        "Result(output, ...)",
        "test_parity.py::test_output_and_gradients and reference and float16 and plain",
    ),
    Fault(
        "the layer drops weights in evaluation",
        LAYERS,
        "MultiHeadAttention.forward",
        "self.dropout if self.training else 0.0",
        "self.dropout",
        "test_layers.py::dropout_is_off",
    ),
    Fault(
        "dropout does not scale up what it keeps",
        REFERENCE,
        "run",
        "torch.nn.functional.dropout(weights, request.dropout)",
        "torch.nn.functional.dropout(weights, request.dropout) * (1 - request.dropout)",
        "test_properties.py::sets_weights_to_zero and reference",
    ),
    Fault(
        "the weights are returned after dropout",
        REFERENCE,
        "run",
        "weights.to(dtype) if request.return_weights else None",
        "dropped.to(dtype) if request.return_weights else None",
        "test_properties.py::returned_before_dropout",
        given=("dropped.unflatten",),
    ),
    Fault(
        "sdpa accepts a request for weights and returns none",
        SDPA,
        "refusal",
        """\
if request.return_weights:
    ...
""",
        """\
if False:
    ...
""",
        "test_known_bugs.py::o24_fused_kernels",
    ),
]
