"""Faults of forward mode, second derivatives, autocast, and of what arrives at rows that see no key."""

from engine import Fault

REFERENCE = "backends/reference.py"
KERNEL = "backends/torch_kernel.py"
TILED = "backends/tiled.py"
OPERATOR = "backends/tiled_op.py"
DERIVATIVES = "backends/derivatives.py"
MIXED = "backends/mixed_precision.py"
FUNCTIONAL = "functional.py"
POSITIONS = "positions/rotary.py"

FAULTS = [
    Fault(
        "in forward mode auto takes a backend that has none",
        FUNCTIONAL,
        "_choose",
        "derivatives.in_forward_mode(request)",
        "False",
        "test_transforms.py::what_auto_takes",
    ),
    Fault(
        "forward mode is not refused by name",
        FUNCTIONAL,
        "_named",
        "derivatives.in_forward_mode(request)",
        "False",
        "test_transforms.py::forward_mode_is_right_or_refused and plain",
    ),
    Fault(
        "tiled.attention does not refuse forward mode",
        TILED,
        "attention",
        "derivatives.in_forward_mode(request)",
        "False",
        "test_transforms.py::tiles_refuse_forward_mode",
    ),
    Fault(
        "the short cut is taken in forward mode",
        FUNCTIONAL,
        "attention",
        "lower is None and (not derivatives.forward_mode_on())",
        "lower is None",
        "test_short_cut.py::forward_mode",
    ),
    Fault(
        "forward mode is seen in the query alone",
        DERIVATIVES,
        "in_forward_mode",
        "(request.query, request.key, request.value, request.bias)",
        "(request.query,)",
        "test_transforms.py::what_auto_takes",
    ),
    Fault(
        "forward mode is refused where no input carries a tangent",
        DERIVATIVES,
        "in_forward_mode",
        "any((_has_tangent(x) for x in (request.query, request.key, request.value, request.bias) if x is not None))",
        "True",
        "test_transforms.py::what_auto_takes",
    ),
    Fault(
        "inside torch.func auto takes torch's kernel for lengths, which it cannot read there",
        DERIVATIVES,
        "refusal_of_torch",
        "request.key_lengths is not None or request.query_lengths is not None",
        "False",
        "test_transforms.py::what_auto_takes",
    ),
    Fault(
        "second derivatives forget that the future is hidden",
        DERIVATIVES,
        "_by_the_formula",
        "rest._asdict()",
        "rest._replace(causal=False)._asdict()",
        "test_transforms.py::derivatives_of_any_order and tiled and causal",
    ),
    Fault(
        "second derivatives leave out the log-sum-exp",
        DERIVATIVES,
        "_by_the_formula",
        "(grad_output, grad_lse)",
        "(grad_output, None)",
        "test_transforms.py::derivatives_of_any_order and tiled and True",
    ),
    Fault(
        "second derivatives are computed with other weights dropped",
        DERIVATIVES,
        "_AnyOrder.backward",
        """\
if rest.dropout:
    ...
""",
        """\
if False:
    ...
""",
        "test_transforms.py::with_dropout_are_refused",
    ),
    Fault(
        "under autocast second derivatives are rounded",
        DERIVATIVES,
        "_by_the_formula",
        """\
with autocast_off(present[0]):
    ...
""",
        """\
if True:
    ...
""",
        "test_modes.py::backward_under_autocast",
    ),
    Fault(
        "autocast is not switched off for the backends",
        FUNCTIONAL,
        "attention",
        "mixed_precision.autocast_off(query) if lower is not None else contextlib.nullcontext()",
        "contextlib.nullcontext()",
        "test_modes.py::one_conversion and reference and plain",
    ),
    Fault(
        "switching autocast off leaves it on",
        MIXED,
        "autocast_off",
        "torch.autocast(x.device.type, enabled=False)",
        "torch.autocast(x.device.type, enabled=torch.is_autocast_enabled(x.device.type))",
        "test_modes.py::one_conversion and reference and plain",
    ),
    Fault(
        "the backward of tiles runs under autocast",
        OPERATOR,
        "backward",
        """\
with autocast_off(query):
    ...
""",
        """\
if True:
    ...
""",
        "test_modes.py::backward_under_autocast",
    ),
    Fault(
        "autocast converts float64",
        MIXED,
        "convert",
        "x.dtype in CONVERTED",
        "x.is_floating_point()",
        "test_modes.py::one_conversion and reference and plain",
    ),
    Fault(
        "autocast converts nothing",
        MIXED,
        "convert",
        "x.to(dtype) if isinstance(x, Tensor) and x.dtype in CONVERTED else x",
        "x",
        "test_modes.py::one_conversion and reference and plain",
    ),
    Fault(
        "autocast converts for the output alone",
        FUNCTIONAL,
        "attention",
        """\
if lower is not None:
    ...
""",
        """\
if lower is not None and not return_weights:
    ...
""",
        "test_modes.py::one_conversion and reference and plain",
        given=("asked = (True, return_weights, return_lse)",),
    ),
    Fault(
        "autocast stays on where weights are wanted, so that a layer's output depends on need_weights",
        FUNCTIONAL,
        "attention",
        "mixed_precision.autocast_off(query) if lower is not None else contextlib.nullcontext()",
        "mixed_precision.autocast_off(query) if lower is not None and not return_weights else contextlib.nullcontext()",
        "test_modes.py::need_weights",
        given=("asked = (True, return_weights, return_lse)",),
    ),
    Fault(
        "explain_backend forgets what autocast converts",
        FUNCTIONAL,
        "explain_backend",
        "lower is not None",
        "False",
        "test_modes.py::explained_under_autocast",
    ),
    Fault(
        "reference: NaN that arrives at a dead row spreads",
        REFERENCE,
        "run",
        "torch.einsum('bkgqs,bksd->bkgqd', grouped, value).flatten(1, 2).masked_fill(dead, 0.0)",
        "torch.einsum('bkgqs,bksd->bkgqd', grouped, value).flatten(1, 2)",
        "test_modes.py::arrives_at_a_dead_row and reference",
    ),
    Fault(
        "sdpa: NaN that arrives at a dead row spreads",
        KERNEL,
        "blank",
        "result.output.masked_fill(rows, 0.0)",
        "result.output * ~rows",
        "test_modes.py::arrives_at_a_dead_row and sdpa",
    ),
    Fault(
        "sdpa: NaN that arrives at the log-sum-exp of a dead row spreads",
        KERNEL,
        "blank",
        "result.lse.masked_fill(rows.squeeze(-1), -torch.inf)",
        "result.lse + torch.zeros_like(result.lse).masked_fill(rows.squeeze(-1), -torch.inf)",
        "test_modes.py::arrives_at_a_dead_row and sdpa",
    ),
    Fault(
        "tiled: NaN that arrives at a dead row spreads",
        OPERATOR,
        "backward",
        "grad_output.to(tiles.dtype).masked_fill(dead[..., None], 0.0)",
        "grad_output.to(tiles.dtype)",
        "test_modes.py::arrives_at_a_dead_row and tiled",
    ),
    Fault(
        "tiled: NaN that arrives at the log-sum-exp of a dead row spreads",
        OPERATOR,
        "backward",
        "grad_lse.masked_fill(dead, 0.0)",
        "grad_lse",
        "test_modes.py::arrives_at_a_dead_row and tiled",
    ),
    Fault(
        "merge: NaN that arrives at a dead row spreads",
        TILED,
        "merge",
        "sum(others, first).masked_fill(dead[..., None], 0.0)",
        "sum(others, first)",
        "test_modes.py::merge",
    ),
    Fault(
        "merge: what arrives at the log-sum-exp of a dead row spreads",
        TILED,
        "merge",
        "torch.logsumexp(lses.masked_fill(dead, 0.0), dim=0)",
        "torch.logsumexp(lses, dim=0).masked_fill(dead, 0.0)",
        "test_modes.py::merge",
    ),
    Fault(
        "vmap over tiles takes the first axis, whichever was meant",
        OPERATOR,
        "one_by_one",
        "x.select(dim, n)",
        "x.select(0, n)",
        "test_transforms.py::vmap_over_the_tiles",
    ),
    Fault(
        "rotary angles are computed in float32",
        POSITIONS,
        "RotaryEmbedding.forward",
        "torch.float32 if x.device.type == 'mps' else torch.float64",
        "torch.float32",
        "test_positions.py::multiplication_by_a_complex_number",
    ),
]
