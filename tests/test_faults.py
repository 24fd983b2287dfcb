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


LOOPS, DTYPES, ANY_TILES = "equals_the_loops", "test_output_and_gradients", "any_tile_sizes and 64"

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
        "query heads folded as if keys were tiled, sdpa",
        "backends/sdpa.py",
        "query = query.unflatten(1, (request.num_kv_heads, -1)).flatten(2, 3)",
        "query = query.unflatten(1, (-1, request.num_kv_heads)).transpose(1, 2).flatten(2, 3)",
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
        "if only_causal and request.bias is None and request.lq == request.lk:",
        "if only_causal and request.bias is None:",
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
        "return output if dead is None else output.masked_fill(dead, 0.0)",
        "return output",
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
        "test_known_bugs.py",
        "o24_fused_kernels",
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
        "            q, k = self._rotate(q, k, positions, same, 0 if cache is None else cache.length)\n",
        "            q, k = self._rotate(q, k, positions, same, 0)\n"
        "            v = self._rotate(v, v, positions, same, 0)[0]\n",
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
        "if not batch == key_batch == value_batch:",
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
        "if low < 0 or high > full:",
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
    # -------------------------------------------------------------------------------------- tiles
    Fault(
        "sum not rescaled when the maximum grows",
        "backends/tiled.py",
        "total = rescale * total + weights.sum(-1)",
        "total = total + weights.sum(-1)",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "output not rescaled when the maximum grows",
        "backends/tiled.py",
        "output = rescale[..., None] * output +",
        "output = output +",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "no running maximum",
        "backends/tiled.py",
        "shift = new_maximum.masked_fill(new_maximum == -torch.inf, 0.0)",
        "shift = torch.zeros_like(new_maximum)",
        "test_tiled.py",
        "too_large_for_exp",
    ),
    Fault(
        "−inf − −inf while a row has seen no key",
        "backends/tiled.py",
        "shift = new_maximum.masked_fill(new_maximum == -torch.inf, 0.0)",
        "shift = new_maximum",
        "test_tiled.py",
        f"{ANY_TILES} and causal",
    ),
    Fault(
        "−inf − −inf in the backward of a dead row",
        "backends/tiled.py",
        "lse.masked_fill(lse == -torch.inf, torch.inf)",
        "lse",
        "test_tiled.py",
        f"{ANY_TILES} and causal",
    ),
    Fault(
        "division by the sum of a dead row",
        "backends/tiled.py",
        "output / total.masked_fill(total == 0, 1.0)[..., None]",
        "output / total[..., None]",
        "test_tiled.py",
        f"{ANY_TILES} and causal",
    ),
    Fault(
        "delta omitted",
        "backends/tiled.py",
        "(grad_weights - delta[..., rows, None])",
        "grad_weights",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "gradient of the log-sum-exp ignored",
        "backends/tiled.py",
        "(grad_output * output).sum(-1) - grad_lse",
        "(grad_output * output).sum(-1)",
        "test_tiled.py",
        "arrives_at_lse",
    ),
    Fault(
        "log-sum-exp without its shift",
        "backends/tiled.py",
        "shift + total.log()",
        "total.log()",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "log-sum-exp of tiles in base 2",
        "backends/tiled.py",
        "shift + total.log()",
        "shift + total.log2()",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "tile on the diagonal unmasked",
        "backends/tiled.py",
        "cols.stop - 1 > rows.start + request.lk - request.lq",
        "cols.start > rows.start + request.lk - request.lq",
        "test_tiled.py",
        f"{ANY_TILES} and causal",
    ),
    Fault(
        "last tile unmasked",
        "backends/tiled.py",
        "        if request.key_lengths is not None:\n",
        "        if request.key_lengths is not None and cols.stop < request.lk:\n",
        "test_tiled.py",
        f"{ANY_TILES} and key_lengths",
    ),
    Fault(
        "one causal tile too few",
        "backends/tiled.py",
        "last = min(last, rows.stop + offset)",
        "last = min(last, rows.stop + offset - 1)",
        "test_tiled.py",
        "shows_something and 19",
    ),
    Fault(
        "one causal tile too many",
        "backends/tiled.py",
        "last = min(last, rows.stop + offset)",
        "last = min(last, rows.stop + offset + self.block_k)",
        "test_tiled.py",
        "shows_something and 19",
    ),
    Fault(
        "window tiles begin too late",
        "backends/tiled.py",
        "rows.start + offset - request.window + 1)",
        "rows.start + offset - request.window + 2)",
        "test_tiled.py",
        "shows_something and 19",
    ),
    Fault(
        "window tiles begin too early",
        "backends/tiled.py",
        "rows.start + offset - request.window + 1)",
        "rows.start + offset - request.window + 1 - self.block_k)",
        "test_tiled.py",
        "shows_something and 19",
    ),
    Fault(
        "window tiles end too early",
        "backends/tiled.py",
        "rows.stop + offset + request.window - 1)",
        "rows.stop + offset + request.window - 2)",
        "test_tiled.py",
        "shows_something and 19",
    ),
    Fault(
        "window tiles end too late",
        "backends/tiled.py",
        "rows.stop + offset + request.window - 1)",
        "rows.stop + offset + request.window + self.block_k)",
        "test_tiled.py",
        "shows_something and 19",
    ),
    Fault(
        "tiles of the shortest sequence only",
        "backends/tiled.py",
        "request.key_lengths.max()",
        "request.key_lengths.min()",
        "test_tiled.py",
        "shows_something and 19",
    ),
    Fault(
        "heads of tiles grouped as if keys were tiled",
        "backends/tiled.py",
        "return x.unflatten(1, (self.request.num_kv_heads, -1))",
        "return x.unflatten(1, (-1, self.request.num_kv_heads)).transpose(1, 2)",
        "test_parity.py",
        "test_grouped_heads and tiled",
    ),
    Fault(
        "wrong group map in dK and dV",
        "backends/tiled.py",
        "tile.flatten(2, 3).transpose(-2, -1) @ rows.flatten(2, 3)",
        "(tile.flatten(1, 2).unflatten(1, (-1, tile.shape[1])).transpose(1, 2).flatten(2, 3).transpose(-2, -1)"
        " @ rows.flatten(1, 2).unflatten(1, (-1, rows.shape[1])).transpose(1, 2).flatten(2, 3))",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "dK and dV from one head of each group",
        "backends/tiled.py",
        "tile.flatten(2, 3).transpose(-2, -1) @ rows.flatten(2, 3)",
        "tile[:, :, 0].transpose(-2, -1) @ rows[:, :, 0]",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "tiles aligned at the top left",
        "backends/tiled.py",
        "torch.arange(rows.start, rows.stop, device=device) + (request.lk - request.lq)",
        "torch.arange(rows.start, rows.stop, device=device)",
        "test_no_future_leak.py",
        "sees_the_keys_up_to_its_own and tiled",
    ),
    Fault(
        "softcap without its slope in the backward",
        "backends/tiled.py",
        "slope = 1 - (tile / cap) ** 2",
        "slope = torch.ones_like(tile)",
        "test_tiled.py",
        f"{ANY_TILES} and softcap",
    ),
    Fault(
        "scale missing from the gradients of tiles",
        "backends/tiled.py",
        "tiles.request.scale if slope is None",
        "1.0 if slope is None",
        "test_tiled.py",
        f"{ANY_TILES} and plain",
    ),
    Fault(
        "gradient of a bias from its last tile",
        "backends/tiled.py",
        "target += grad_scores.sum_to_size(target.shape)",
        "target.copy_(grad_scores.sum_to_size(target.shape))",
        "test_tiled.py",
        "bias_in_each_shape",
    ),
    Fault(
        "dropout drawn anew in the backward",
        "backends/tiled.py",
        "ctx.blocks, ctx.seed, ctx.needs_input_grad[3]",
        "ctx.blocks, None, ctx.needs_input_grad[3]",
        "test_tiled.py",
        "gradients_with_dropout",
    ),
    Fault(
        "dropout forgotten in the gradient of the weights",
        "backends/tiled.py",
        "grad_weights = tiles.drop(tiles.outer(grad_rows, tiles.value, cols), rows, cols)",
        "grad_weights = tiles.outer(grad_rows, tiles.value, cols)",
        "test_tiled.py",
        "gradients_with_dropout",
    ),
    Fault(
        "the same dropout in every tile",
        "backends/tiled.py",
        "hash((self.seed, rows.start, cols.start))",
        "hash(self.seed)",
        "test_tiled.py",
        "drop_different",
    ),
    Fault(
        "dropout before the softmax",
        "backends/tiled.py",
        "total = rescale * total + weights.sum(-1)",
        "total = rescale * total + tiles.drop(weights, rows, cols).sum(-1)",
        "test_tiled.py",
        "same_seed",
    ),
    Fault(
        "scores of tiles rounded by autocast",
        "backends/tiled.py",
        "torch.autocast(x.device.type, enabled=False)",
        "torch.autocast(x.device.type, enabled=torch.is_autocast_enabled(x.device.type))",
        "test_tiled.py",
        "autocast",
    ),
    Fault(
        "merge that takes the mean",
        "backends/tiled.py",
        "shares = torch.exp(lses - shift)",
        "shares = torch.full_like(lses, 1 / len(parts))",
        "test_tiled.py",
        "merged_parts",
    ),
    Fault(
        "merge of parts that saw no key",
        "backends/tiled.py",
        "shift = torch.where(total == -torch.inf, 0.0, total)",
        "shift = total",
        "test_tiled.py",
        "saw_no_key",
    ),
    Fault(
        "a softmax as large as the scores, in tiles",
        "backends/tiled.py",
        "            output[:, :, rows] = tile_output.flatten(1, 2)\n",
        "            output[:, :, rows] = tile_output.flatten(1, 2) + 0 * (query @ query.mT).sum()\n",
        "test_tiled.py",
        "lq_times_lk",
    ),
    # -------------------------------------------------------------------------------------- paths of sdpa on the CPU
    Fault(
        "band that begins one key too late",
        "backends/sdpa.py",
        "start + offset - request.window + 1",
        "start + offset - request.window + 2",
        "test_cpu_paths.py",
        "test_bands and 257",
    ),
    Fault(
        "band aligned at the top left",
        "backends/sdpa.py",
        "    offset = request.lk - request.lq\n",
        "    offset = 0\n",
        "test_cpu_paths.py",
        "test_bands and 257",
    ),
    Fault(
        "band one key too wide",
        "backends/sdpa.py",
        "distance.abs() < request.window",
        "distance.abs() <= request.window",
        "test_cpu_paths.py",
        "test_bands and 257",
    ),
    Fault(
        "band that sees the future",
        "backends/sdpa.py",
        "band & (distance <= 0) if request.causal else band",
        "band",
        "test_cpu_paths.py",
        "test_bands and 257",
    ),
    Fault(
        "band that reads all keys",
        "backends/sdpa.py",
        "    keys = slice(first, max(first, min(last, request.lk)))",
        "    keys = slice(0, request.lk)",
        "test_cpu_paths.py",
        "number_of_keys",
    ),
    Fault(
        "each sequence one key short",
        "backends/sdpa.py",
        "key=request.key[b : b + 1, :, :keys],\n        value=request.value[b : b + 1, :, :keys],",
        "key=request.key[b : b + 1, :, : keys - 1],\n        value=request.value[b : b + 1, :, : keys - 1],",
        "test_cpu_paths.py",
        "test_padded_batches and 33",
    ),
    Fault(
        "lengths of the other sequences",
        "backends/sdpa.py",
        "else lengths.tolist()",
        "else lengths.flip(0).tolist()",
        "test_cpu_paths.py",
        "test_padded_batches and 33",
    ),
    Fault(
        "causal forgotten sequence by sequence",
        "backends/sdpa.py",
        "    if not request.causal:\n",
        "    if True:\n",
        "test_cpu_paths.py",
        "test_padded_batches and 33",
    ),
    Fault(
        "torch's causal flag sequence by sequence where the lengths differ",
        "backends/sdpa.py",
        "if request.lq == request.lk and queries and keys:",
        "if queries and keys:",
        "test_cpu_paths.py",
        "test_padded_batches and 33",
    ),
    Fault(
        "padded queries of the others",
        "backends/sdpa.py",
        "query=request.query[b : b + 1, :, :queries],",
        "query=request.query[b : b + 1, :, request.lq - queries :],",
        "test_cpu_paths.py",
        "padded_queries",
    ),
    Fault(
        "padded queries of a window not blanked",
        "backends/sdpa.py",
        ".output.masked_fill(padded, 0.0))",
        ".output)",
        "test_parity.py",
        "test_output_and_gradients and sdpa and query_lengths",
    ),
    Fault(
        "query_lengths ignored by the reference",
        "backends/request.py",
        "parts.append(~self.padded_queries())",
        "pass",
        "test_parity.py",
        f"{LOOPS} and query_lengths",
    ),
    Fault(
        "query_lengths ignored tile by tile",
        "backends/tiled.py",
        "yield (places >= request.query_lengths[:, None])",
        "yield (places < 0 * request.query_lengths[:, None])",
        "test_parity.py",
        "test_output_and_gradients and tiled and query_lengths",
    ),
    Fault(
        "the short cut forgets causal",
        "functional.py",
        'backend == "auto" and causal is return_weights is return_lse is False',
        'backend == "auto" and return_weights is return_lse is False',
        "test_short_cut.py",
        "any_option",
    ),
    Fault(
        "the short cut broadcasts heads",
        "backends/request.py",
        "of_query[:2] == of_key[:2] == of_value[:2]",
        "of_query[:1] == of_key[:1] == of_value[:1]",
        "test_short_cut.py",
        "one_size",
    ),
    Fault(
        "key_lengths after the padding of a cache",
        "layers.py",
        "if key_lengths is not None and cache.length:",
        "if False:",
        "test_cache.py",
        "key_lengths_are_refused",
    ),
    Fault(
        "query_lengths not handed on by the layer",
        "layers.py",
        "                query_lengths=query_lengths,\n",
        "",
        "test_layers.py",
        "all_options_reach",
    ),
    Fault(
        "rows of a mask folded as if keys were tiled",
        "backends/sdpa.py",
        "attn_mask = every_head.unflatten(1, (request.num_kv_heads, -1)).flatten(2, 3)",
        "attn_mask = every_head.unflatten(1, (-1, request.num_kv_heads)).transpose(1, 2).flatten(2, 3)",
        "test_cpu_paths.py",
        "decoding_with_grouped and heads",
    ),
    Fault(
        "a path that is never taken",
        "backends/sdpa.py",
        'return "folded" if _folds(request) else "whole"',
        'return "whole"',
        "test_cpu_paths.py",
        "which_way",
    ),
    # -------------------------------------------------------------------------------------- cache, groups, latent
    Fault(
        "positions of new tokens start at 0",
        "layers.py",
        "0 if cache is None else cache.length)",
        "0)",
        "test_cache.py",
        "equals_the_full_forward and half",
    ),
    Fault(
        "new tokens overwrite the first",
        "cache.py",
        "self._key[:, :, self._stop : stop] = key",
        "self._key[:, :, : key.shape[2]] = key",
        "test_cache.py",
        "equals_the_full_forward and None",
    ),
    Fault(
        "values stored one token late",
        "cache.py",
        "self._value[:, :, self._stop : stop] = value",
        "self._value[:, :, self._stop : stop] = value.roll(1, 2)",
        "test_cache.py",
        "equals_the_full_forward and None",
    ),
    Fault(
        "rolling window one key short",
        "cache.py",
        "self.max_length - 1)",
        "max(self.max_length - 2, 0))",
        "test_cache.py",
        "rolling",
    ),
    Fault(
        "rolling cache that keeps everything",
        "cache.py",
        "keep = min(self._stop - self._start, self.max_length - 1)",
        "keep = self._stop",
        "test_cache.py",
        "memory_of_a_rolling",
    ),
    Fault(
        "rolling cache that loses what it moves",
        "cache.py",
        "            fresh[:, :, :keep] = old[:, :, self._start : self._stop]\n",
        "            fresh.zero_()\n",
        "test_cache.py",
        "rolling_append",
    ),
    Fault(
        "beams not reordered",
        "cache.py",
        "            buffer[:, :, kept] = buffer[index, :, kept]\n",
        "            pass\n",
        "test_cache.py",
        "reorder",
    ),
    Fault(
        "keys of beams reordered and not values",
        "cache.py",
        "for buffer in (self._key, self._value):",
        "for buffer in (self._key,):",
        "test_cache.py",
        "reorder_equals",
    ),
    Fault(
        "reset that keeps the length",
        "cache.py",
        "self._start = self._stop = self.length = 0",
        "self._start = self._stop = 0",
        "test_cache.py",
        "test_reset",
    ),
    Fault(
        "tokens of a refused call left in the cache",
        "layers.py",
        "cache.take_back(query.shape[1])",
        "pass",
        "test_cache.py",
        "refused_call",
    ),
    Fault(
        "rolling cache of another window accepted",
        "layers.py",
        "not (causal and self.window == cache.max_length)",
        "not causal",
        "test_cache.py",
        "own_causal_window",
    ),
    Fault(
        "keys repeated for each query head in the cache",
        "cache.py",
        "return self._key[:, :, self._start : stop], self._value",
        "return self._key[:, :, self._start : stop].clone(), self._value",
        "test_cache.py",
        "are_views",
    ),
    Fault(
        "mean pooling as if keys were tiled",
        "layers.py",
        "source.unflatten(0, (num_kv_heads, -1, self.head_dim)).mean(1)",
        "source.unflatten(0, (-1, num_kv_heads, self.head_dim)).mean(0)",
        "test_grouping.py",
        "each_new_head",
    ),
    Fault(
        "first head of a group instead of the mean",
        "layers.py",
        "(num_kv_heads, -1, self.head_dim)).mean(1)",
        "(num_kv_heads, -1, self.head_dim))[:, 0]",
        "test_grouping.py",
        "each_new_head",
    ),
    Fault(
        "grouping changes the old layer",
        "layers.py",
        "layer = copy.deepcopy(self)",
        "layer = self",
        "test_grouping.py",
        "is_a_copy",
    ),
    Fault(
        "absorbed scores scaled by another size",
        "latent.py",
        "(self.head_dim + self.rotary.head_dim) ** -0.5",
        "self.kv_rank**-0.5",
        "test_latent.py",
        "absorbed_equals_plain",
    ),
    Fault(
        "latent queries placed at the first tokens",
        "latent.py",
        "torch.arange(cached.shape[1] - x.shape[1], cached.shape[1], device=x.device)",
        "torch.arange(x.shape[1], device=x.device)",
        "test_latent.py",
        "decoding_from",
    ),
    Fault(
        "rotated key of its own left out",
        "latent.py",
        "return torch.cat((self.kv_down(x), key), dim=-1)",
        "return torch.cat((self.kv_down(x), 0 * key), dim=-1)",
        "test_latent.py",
        "by_loops",
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
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 120
