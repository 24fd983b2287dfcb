"""The suite can fail: each fault of this list, put into a copy of mhalib alone, is caught by the tests named for it."""

import multiprocessing
import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parent / "mhalib"

# Where the system can fork, every process starts with torch already imported: half a second instead of three.
PROCESSES = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)
if PROCESSES.get_start_method() == "forkserver":
    PROCESSES.set_forkserver_preload(["hypothesis.strategies", "numpy", "pytest", "torch"])


class Fault(NamedTuple):
    """In `file`, `old` (which stands there once) becomes `new`; the tests of `test_file` that match `only` fail."""

    name: str
    file: str
    old: str
    new: str
    test_file: str
    only: str


LOOPS, DTYPES = "equals_the_loops", "test_output_and_gradients"

FAULTS = [
    # -------------------------------------------------------------------------------------- scale and softmax
    Fault(
        "no scale", "backends/request.py", "1.0 / math.sqrt(head_dim)", "1.0", "test_parity.py", f"{LOOPS} and plain"
    ),
    Fault(
        "scale 1/D instead of 1/√D",
        "backends/request.py",
        "1.0 / math.sqrt(head_dim)",
        "1.0 / head_dim",
        "test_parity.py",
        f"{LOOPS} and plain",
    ),
    Fault(
        "scale given by the caller ignored",
        "backends/request.py",
        "    if scale is None:\n        return 1.0",
        "    if True:\n        return 1.0",
        "test_parity.py",
        f"{LOOPS} and scale",
    ),
    Fault(
        "softmax over the queries",
        "backends/reference.py",
        "torch.softmax(safe, dim=-1)",
        "torch.softmax(safe, dim=-2)",
        "test_parity.py",
        f"{LOOPS} and plain",
    ),
    Fault(
        "log-sum-exp in base 2",
        "backends/reference.py",
        "torch.logsumexp(safe, dim=-1)",
        "torch.logsumexp(safe, dim=-1).div(0.6931471805599453)",
        "test_parity.py",
        f"{LOOPS} and plain",
    ),
    Fault(
        "softcap missing",
        "backends/reference.py",
        "result = request.softcap * torch.tanh(result / request.softcap)",
        "pass",
        "test_parity.py",
        f"{LOOPS} and softcap",
    ),
    Fault(
        "softcap after the bias",
        "backends/reference.py",
        """    if request.softcap is not None:
        result = request.softcap * torch.tanh(result / request.softcap)
    if request.bias is not None:
        result = result + request.bias.to(result.dtype)
""",
        """    if request.bias is not None:
        result = result + request.bias.to(result.dtype)
    if request.softcap is not None:
        result = request.softcap * torch.tanh(result / request.softcap)
""",
        "test_parity.py",
        f"{LOOPS} and softcap and bias",
    ),
    Fault(
        "softcap after masking",
        "backends/reference.py",
        """    if request.softcap is not None:
        result = request.softcap * torch.tanh(result / request.softcap)
    if request.bias is not None:
        result = result + request.bias.to(result.dtype)
    allowed = request.allowed()
    return result if allowed is None else result.masked_fill(~allowed, float("-inf"))
""",
        """    if request.bias is not None:
        result = result + request.bias.to(result.dtype)
    allowed = request.allowed()
    result = result if allowed is None else result.masked_fill(~allowed, float("-inf"))
    return result if request.softcap is None else request.softcap * torch.tanh(result / request.softcap)
""",
        "test_parity.py",
        f"{LOOPS} and everything",
    ),
    # -------------------------------------------------------------------------------------- heads
    Fault(
        "heads split without the transpose",
        "layers.py",
        "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)",
        "x.reshape(x.shape[0], num_heads, x.shape[1], -1)",
        "test_layers.py",
        "against_their_projections",
    ),
    Fault(
        "heads joined without the transpose",
        "layers.py",
        "x.transpose(1, 2).flatten(2)",
        "x.reshape(x.shape[0], x.shape[2], -1)",
        "test_layers.py",
        "against_their_projections",
    ),
    Fault(
        "keys tiled instead of repeated, reference",
        "backends/reference.py",
        'torch.einsum("bkgqd,bksd->bkgqs", query, key).flatten(1, 2)',
        "(query.flatten(1, 2) @ key.repeat(1, groups, 1, 1).mT)",
        "test_parity.py",
        "test_grouped_heads and reference",
    ),
    Fault(
        "values tiled instead of repeated, reference",
        "backends/reference.py",
        'torch.einsum("bkgqs,bksd->bkgqd", grouped, value).flatten(1, 2)',
        "dropped @ value.repeat(1, groups, 1, 1)",
        "test_parity.py",
        "test_grouped_heads and reference",
    ),
    Fault(
        "keys and values tiled instead of repeated, sdpa",
        "backends/sdpa.py",
        "        request.key,\n        request.value,\n",
        "        request.key.repeat(1, request.num_heads // request.num_kv_heads, 1, 1),\n"
        "        request.value.repeat(1, request.num_heads // request.num_kv_heads, 1, 1),\n",
        "test_parity.py",
        "test_grouped_heads and sdpa",
    ),
    Fault(
        "weights averaged over the heads",
        "layers.py",
        "return self.out_proj(join_heads(output)), weights",
        "return self.out_proj(join_heads(output)), weights.mean(1, True).expand_as(weights) if need_weights else None",
        "test_layers.py",
        "weights_are_per_head",
    ),
    # -------------------------------------------------------------------------------------- masks
    Fault(
        "mask polarity flipped, reference",
        "backends/reference.py",
        'result.masked_fill(~allowed, float("-inf"))',
        'result.masked_fill(allowed, float("-inf"))',
        "test_parity.py",
        "each_accepted_shape and mask and reference",
    ),
    Fault(
        "mask polarity flipped, sdpa",
        "backends/sdpa.py",
        "_expand(allowed | dead, request)",
        "_expand(~allowed | dead, request)",
        "test_parity.py",
        "each_accepted_shape and mask and sdpa",
    ),
    Fault(
        "mask ignored",
        "backends/request.py",
        "parts.append(self.mask)",
        "pass",
        "test_parity.py",
        "each_accepted_shape and mask and reference",
    ),
    Fault(
        "restrictions combined with OR",
        "backends/request.py",
        "combined = combined & part",
        "combined = combined | part",
        "test_parity.py",
        f"{LOOPS} and everything",
    ),
    Fault(
        "the caller's mask changed in place",
        "backends/request.py",
        "combined = combined & part",
        "combined &= part",
        "test_strides_and_empties.py",
        "never_changed",
    ),
    Fault(
        "causal aligned at the top left",
        "masks.py",
        "torch.arange(lq, device=device) + (lk - lq)",
        "torch.arange(lq, device=device)",
        "test_no_future_leak.py",
        "sees_the_keys_up_to_its_own",
    ),
    Fault(
        "causal shows one key of the future",
        "masks.py",
        "return _key_minus_query(lq, lk, device) <= 0",
        "return _key_minus_query(lq, lk, device) <= 1",
        "test_no_future_leak.py",
        "sees_the_keys_up_to_its_own",
    ),
    Fault(
        "causal hides the query's own key",
        "masks.py",
        "return _key_minus_query(lq, lk, device) <= 0",
        "return _key_minus_query(lq, lk, device) < 0",
        "test_no_future_leak.py",
        "sees_the_keys_up_to_its_own",
    ),
    Fault(
        "causal ignored by the layer",
        "layers.py",
        "            causal=causal,\n",
        "            causal=False,\n",
        "test_no_future_leak.py",
        "layer_leaks_nothing",
    ),
    Fault(
        "torch's causal flag where the lengths differ",
        "backends/sdpa.py",
        "request.causal and request.lq == request.lk:",
        "request.causal:",
        "test_no_future_leak.py",
        "sees_the_keys_up_to_its_own and sdpa",
    ),
    Fault(
        "torch's causal flag and the other restrictions forgotten",
        "backends/sdpa.py",
        "only_causal = request.mask is None and request.window is None and request.key_lengths is None",
        "only_causal = True",
        "test_parity.py",
        f"{DTYPES} and sdpa and float64 and window_past",
    ),
    Fault(
        "window one key too wide",
        "masks.py",
        "near = offset.abs() < width",
        "near = offset.abs() <= width",
        "test_masks.py",
        "window_counts",
    ),
    Fault(
        "window without its bound in the past",
        "masks.py",
        "return near & (offset <= 0) if causal else near",
        "return offset <= 0 if causal else near",
        "test_masks.py",
        "window_counts",
    ),
    Fault(
        "causal window that sees the future",
        "masks.py",
        "return near & (offset <= 0) if causal else near",
        "return near",
        "test_no_future_leak.py",
        "sees_the_keys_up_to_its_own",
    ),
    Fault(
        "window of the layer forgotten",
        "layers.py",
        "            window=self.window,\n",
        "",
        "test_layers.py",
        "window_of_the_layer",
    ),
    Fault(
        "key_lengths ignored",
        "backends/request.py",
        "parts.append(masks.padding(self.key_lengths, self.lk))",
        "pass",
        "test_parity.py",
        f"{LOOPS} and key_lengths",
    ),
    Fault(
        "key_lengths one key too long",
        "masks.py",
        "(torch.arange(lk, device=lengths.device) < lengths[:, None])",
        "(torch.arange(lk, device=lengths.device) <= lengths[:, None])",
        "test_masks.py",
        "padding_keeps",
    ),
    Fault(
        "torch's masks taken over without inversion",
        "masks.py",
        "allowed = ~attn_mask",
        "allowed = attn_mask",
        "test_masks.py",
        "parts_are_joined",
    ),
    Fault(
        "torch's padding taken over without inversion",
        "masks.py",
        "real = ~key_padding_mask[:, None, None, :]",
        "real = key_padding_mask[:, None, None, :]",
        "test_masks.py",
        "read_by_two_libraries",
    ),
    Fault(
        "Hugging Face's padding read the other way round",
        "masks.py",
        "return attention_mask.bool()[:, None, None, :]",
        "return ~attention_mask.bool()[:, None, None, :]",
        "test_masks.py",
        "hugging_face",
    ),
    Fault(
        "padding cleared by multiplication",
        "masks.py",
        "torch.where(real, x, torch.zeros((), dtype=x.dtype, device=x.device))",
        "x * real",
        "test_masks.py",
        "zero_padding_removes",
    ),
    # -------------------------------------------------------------------------------------- rows without a key
    Fault(
        "−1e9 instead of −inf",
        "backends/reference.py",
        'result.masked_fill(~allowed, float("-inf"))',
        "result.masked_fill(~allowed, -1e9)",
        "test_dead_rows.py",
        "test_output_is_zero and reference and float32",
    ),
    Fault(
        "dead rows not blanked, reference",
        "backends/reference.py",
        "torch.softmax(safe, dim=-1).masked_fill(dead, 0.0)",
        "torch.softmax(safe, dim=-1)",
        "test_dead_rows.py",
        "test_output_is_zero and reference and float32",
    ),
    Fault(
        "NaN in the gradients of dead rows, reference",
        "backends/reference.py",
        "safe = raw.masked_fill(dead, 0.0)",
        "safe = raw",
        "test_known_bugs.py",
        "o01 and reference",
    ),
    Fault(
        "dead rows not blanked, sdpa",
        "backends/sdpa.py",
        "Result(output if dead is None else output.masked_fill(dead, 0.0))",
        "Result(output)",
        "test_dead_rows.py",
        "test_output_is_zero and sdpa and float32",
    ),
    Fault(
        "log-sum-exp of dead rows finite",
        "backends/reference.py",
        '.masked_fill(dead.squeeze(-1), float("-inf"))',
        "",
        "test_dead_rows.py",
        "lse_is_minus_infinity and reference and float32",
    ),
    # -------------------------------------------------------------------------------------- bias and precision
    Fault(
        "bias ignored, reference",
        "backends/reference.py",
        "result = result + request.bias.to(result.dtype)",
        "pass",
        "test_parity.py",
        f"{LOOPS} and bias_full",
    ),
    Fault(
        "bias ignored, sdpa",
        "backends/sdpa.py",
        "bias = request.bias.to(request.query.dtype)",
        "bias = request.bias.to(request.query.dtype) * 0",
        "test_parity.py",
        f"{DTYPES} and sdpa and float64 and bias_full",
    ),
    Fault(
        "bias rounded to half, reference",
        "backends/reference.py",
        "request.bias.to(result.dtype)",
        "request.bias.to(request.query.dtype)",
        "test_parity.py",
        f"{DTYPES} and reference and float16 and bias_fine",
    ),
    Fault(
        "bias rounded to half, sdpa",
        "backends/sdpa.py",
        "if bias is not None and torch.promote_types(bias.dtype, dtype) != dtype:",
        "if False:",
        "test_parity.py",
        f"{DTYPES} and sdpa and float16 and bias_fine",
    ),
    Fault(
        "half precision accumulated in half precision",
        "backends/request.py",
        "return torch.promote_types(self.query.dtype, torch.float32)",
        "return self.query.dtype",
        "test_parity.py",
        f"{DTYPES} and reference and float16 and steep",
    ),
    Fault(
        "output left in float32",
        "backends/reference.py",
        "Result(output.to(dtype), ",
        "Result(output, ",
        "test_parity.py",
        f"{DTYPES} and reference and float16 and plain",
    ),
    # -------------------------------------------------------------------------------------- dropout and weights
    Fault(
        "dropout in evaluation",
        "layers.py",
        "dropout=self.dropout if self.training else 0.0",
        "dropout=self.dropout",
        "test_layers.py",
        "dropout_is_off",
    ),
    Fault(
        "dropout without rescaling",
        "backends/reference.py",
        "torch.nn.functional.dropout(weights, request.dropout)",
        "torch.nn.functional.dropout(weights, request.dropout) * (1 - request.dropout)",
        "test_properties.py",
        "sets_weights_to_zero and reference",
    ),
    Fault(
        "weights returned after dropout",
        "backends/reference.py",
        "weights.to(dtype) if request.return_weights",
        "dropped.to(dtype) if request.return_weights",
        "test_properties.py",
        "returned_before_dropout",
    ),
    Fault(
        "weights asked of the fused kernel, and none returned",
        "backends/sdpa.py",
        "if request.return_weights:",
        "if False:",
        "test_backend_choice.py",
        "takes_the_reference_where",
    ),
    # -------------------------------------------------------------------------------------- torch's layer
    Fault(
        "key and value swapped on the way from torch",
        "layers.py",
        "projections = (layer.q_proj, layer.k_proj, layer.v_proj)",
        "projections = (layer.q_proj, layer.v_proj, layer.k_proj)",
        "test_parity.py",
        "test_torch_multihead_attention and from_torch and train",
    ),
    Fault(
        "biases lost on the way from torch",
        "layers.py",
        "layer.out_proj.bias.copy_(module.out_proj.bias)",
        "pass",
        "test_parity.py",
        "test_torch_multihead_attention and from_torch and train",
    ),
    Fault(
        "torch's layer with batch_first=False accepted",
        "layers.py",
        "if not module.batch_first:",
        "if False:",
        "test_layers.py",
        "without_a_counterpart",
    ),
    # -------------------------------------------------------------------------------------- positions
    Fault(
        "rotary layouts swapped",
        "positions.py",
        "self.head_dim, self.base, self.layout = head_dim, float(base), layout",
        "self.head_dim, self.base, self.layout = head_dim, float(base), LAYOUTS[1 - LAYOUTS.index(layout)]",
        "test_layers.py",
        "which_channels_turn_together",
    ),
    Fault(
        "rotary turns the values",
        "layers.py",
        "            q, k = self._rotate(q, k, positions, same)\n",
        "            q, k = self._rotate(q, k, positions, same)\n"
        "            v = self._rotate(v, v, positions, same)[0]\n",
        "test_layers.py",
        "turns_queries_and_keys_and_not_values",
    ),
    Fault(
        "rotary turns the queries only",
        "layers.py",
        "return self.rotary(q, positions), self.rotary(k, positions)",
        "return self.rotary(q, positions), k",
        "test_layers.py",
        "only_distances_matter",
    ),
    Fault(
        "rotary ignores the positions it is given",
        "layers.py",
        "        if positions is None:\n",
        "        if True:\n",
        "test_layers.py",
        "take_their_positions or order_is_invisible",
    ),
    Fault(
        "rotary angles in the dtype of the input",
        "positions.py",
        "dtype = torch.promote_types(x.dtype, torch.float32)",
        "dtype = x.dtype",
        "test_known_bugs.py",
        "o18",
    ),
    Fault(
        "ALiBi exponent off by one",
        "positions.py",
        "for head in range(1, power + 1)]",
        "for head in range(power)]",
        "test_known_bugs.py",
        "o19",
    ),
    # -------------------------------------------------------------------------------------- refusals
    Fault(
        "heads that do not divide accepted",
        "arguments.py",
        "if d_model % num_heads:",
        "if False:",
        "test_arguments.py",
        "constructing_a_layer",
    ),
    Fault(
        "key heads that do not divide accepted",
        "arguments.py",
        "if num_heads % num_kv_heads:",
        "if False:",
        "test_arguments.py",
        "constructing_a_layer",
    ),
    Fault(
        "batch broadcast",
        "backends/request.py",
        "if not query.shape[0] == key.shape[0] == value.shape[0]:",
        "if False:",
        "test_arguments.py",
        "test_query_key_value and batch",
    ),
    Fault(
        "mask broadcast from one row",
        "backends/request.py",
        "fits = tuple(x.shape) == full[2:]",
        "fits = all(n in (1, size) for n, size in zip(x.shape, full[2:], strict=True))",
        "test_arguments.py",
        "test_mask_and_bias",
    ),
    Fault(
        "three dimensions read as batch",
        "backends/request.py",
        '_check_score_shape("mask", mask, query, key)',
        'mask = mask[:, None] if mask.dim() == 3 else mask\n        _check_score_shape("mask", mask, query, key)',
        "test_arguments.py",
        "test_mask_and_bias",
    ),
    Fault(
        "lengths beyond the keys accepted",
        "masks.py",
        "if low < 0 or high > lk:",
        "if low < 0:",
        "test_arguments.py",
        "test_other_options and key_lengths",
    ),
    Fault(
        "negative window accepted",
        "backends/request.py",
        "check_whole(window=window)",
        "check_whole(-9, window=window)",
        "test_arguments.py",
        "test_other_options and window",
    ),
]


def lay_out(folder: Path, test_files: set[str], fault: Fault | None = None) -> None:
    """A copy of mhalib, with the fault, beside the tests; a conftest refuses any other mhalib."""
    shutil.copytree(LIBRARY, folder / "mhalib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("oracle.py", *test_files):
        shutil.copy(HERE / name, folder / name)
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "conftest.py").write_text(
        "from pathlib import Path\n\nimport mhalib\n\n"
        "assert Path(mhalib.__file__).parent == Path(__file__).parent / 'mhalib', mhalib.__file__\n",
        "utf-8",
    )
    if fault:
        path = folder / "mhalib" / fault.file
        text = path.read_text("utf-8")
        times = text.count(fault.old)
        assert times == 1, f"stale fault: {fault.old!r} stands {times} times in mhalib/{fault.file}, not once"
        path.write_text(text.replace(fault.old, fault.new), "utf-8")


def run(folder: Path, test_files: set[str], only: str) -> tuple[int, str]:
    """The exit status and the report of pytest on the copy, in a process of its own."""
    report = folder / "report.txt"
    process = PROCESSES.Process(target=_run_here, args=(folder, sorted(test_files), only, report))
    process.start()
    process.join(timeout=600)
    assert process.exitcode is not None, f"no end after ten minutes\n{report.read_text('utf-8')}"
    return process.exitcode, report.read_text("utf-8")


def _run_here(folder: Path, test_files: list[str], only: str, report: Path) -> None:
    with report.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    assert "mhalib" not in sys.modules
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith("PYTEST")]:
        del os.environ[name]
    # No plugin that is installed takes part; the property tests draw the same examples every time.
    os.environ |= {"PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1", "CI": "1"}
    sys.exit(pytest.main(["-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-k", only, *test_files]))


def test_without_a_fault_the_same_tests_pass(tmp_path):
    test_files = {fault.test_file for fault in FAULTS}
    lay_out(tmp_path, test_files)
    status, report = run(tmp_path, test_files, " or ".join(sorted({f"({fault.only})" for fault in FAULTS})))
    assert status == 0, report
    assert re.search(r"^\d+ passed", report, re.MULTILINE)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_caught(fault, tmp_path):
    assert fault.old != fault.new
    lay_out(tmp_path, {fault.test_file}, fault)
    status, report = run(tmp_path, {fault.test_file}, fault.only)
    assert status == 1, f"exit status {status}: not caught, or not run\n{report}"
    summary = report.strip().splitlines()[-1]
    assert re.search(r"\b1 failed\b", summary), report
    assert "error" not in summary, f"an error, not a failed assertion\n{report}"
    assert re.search(r"^E +(AssertionError|assert |Failed: DID NOT RAISE)", report, re.MULTILINE), report


def test_the_names_are_different_and_none_was_lost():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
