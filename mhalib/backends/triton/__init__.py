"""Kernels for NVIDIA GPUs, written in Triton: forward, backward, and decoding that splits the keys.

Optional (`pip install triton`, wheels for Linux), and imported when it is first used. On a machine without a GPU the
same kernels run, slowly, in Triton's interpreter: set TRITON_INTERPRET=1 before Python starts.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import torch

from mhalib.backends.request import Request, Result
from mhalib.backends.triton import configs

#: Below this compute capability Triton does not compile. (7, 5) is Turing, the T4.
MIN_CAPABILITY = (7, 5)
#: From this one on Triton's products use the tensor cores.
TENSOR_CORES = (8, 0)


def refusal(request: Request) -> str | None:
    """Why this request cannot be served here: first what no machine could serve, then what this one lacks."""
    for name in ("mask", "bias"):
        if getattr(request, name) is not None:
            return f"its kernels know causal, window and key_lengths, and read no {name} from memory"
    if request.return_weights:
        return "its kernels never form the weights"
    if request.dropout:
        return "its kernels have no dropout"
    if request.query.dtype == torch.float64:
        return "its kernels compute in float32 and would lose half of the digits of torch.float64"
    largest = max(request.query.shape[3], request.value.shape[3])
    if largest > configs.MAX_HEAD_DIM:
        return f"its tiles hold head sizes up to {configs.MAX_HEAD_DIM}, and this one is {largest}"
    if request.value.shape[3] == 0:
        return "its kernels are not defined on empty values"
    missing = _missing(request.query.device)
    found = None if missing or interpreting() else capability(request.query.device)
    if found and configs.too_large(10 * found[0] + found[1], request.query.dtype, largest):
        return f"its smallest tile of float32 with head size {largest} does not fit the shared memory of this GPU"
    return missing


def _missing(device: torch.device) -> str | None:
    """What this machine lacks for tensors on `device`; None if nothing."""
    if importlib.util.find_spec("triton") is None:
        system = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform)
        if system == "macOS":
            return "triton is not installed, and there is none for macOS; it needs Linux and an NVIDIA GPU"
        if system == "Windows":
            return "triton is not installed; on Windows the package is triton-windows"
        return "triton is not installed: pip install triton (or mhalib's extra, mhalib[kernels])"
    if interpreting():
        return None
    if _asked_to_interpret():
        return (
            "TRITON_INTERPRET was set after triton had been imported, and triton decides on import; set it before "
            "Python starts"
        )
    if device.type != "cuda":
        return (
            f"the tensors are on {device}, and its kernels need an NVIDIA GPU; to run them in Triton's interpreter, "
            "which is slow, set TRITON_INTERPRET=1 before Python starts"
        )
    if torch.version.hip is not None:
        return "its kernels have not been tried on AMD GPUs"
    found = capability(device)
    if found is not None and found < MIN_CAPABILITY:
        return f"this GPU has compute capability {found[0]}.{found[1]}, and Triton needs 7.5 or newer"
    return None


def interpreting() -> bool:
    """Do kernels run in the interpreter? Triton settles it when it is imported; until then the environment decides."""
    language = sys.modules.get("triton.language")
    if language is None:
        return _asked_to_interpret()
    return type(language.sum).__name__ == "InterpretedFunction"


def _asked_to_interpret() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


def capability(device: torch.device) -> tuple[int, ...] | None:
    """The compute capability of the GPU that `device` names, or None where it names none."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else None


def for_auto(request: Request) -> tuple[bool, str]:
    """(should `auto` take these kernels, why or why not).

    The other choice is torch's `scaled_dot_product_attention`, whose kernels are the fastest where they need no mask of
    Lq × Lk: those of Triton are for what it cannot do without one, or not at all. (torch 2.13 has a second function for
    half precision, `torch.nn.attention.varlen.varlen_attn`, with windows, lengths and the log-sum-exp, and a bias
    `causal_lower_right` for the mask of bottom-right alignment. This library calls neither.) Not measured on each
    chip; the sides of this choice are equal in their results.
    """
    reason = refusal(request)
    if reason:
        return False, reason
    if interpreting():
        return False, "Triton's interpreter is for trying kernels, not for speed"
    if (capability(request.query.device) or (0, 0)) < TENSOR_CORES:
        return False, (
            "Triton compiles no tensor-core instructions for compute capability 7.5 (T4), so that torch's kernels "
            "are faster there"
        )
    if request.window is not None:
        return True, (
            "a window is walked tile by tile, where torch's scaled_dot_product_attention would read a mask of Lq × Lk"
        )
    if request.key_lengths is not None:
        return True, (
            "keys past each length are not read, where torch's scaled_dot_product_attention would read them and a mask"
        )
    if request.query_lengths is not None:
        return True, "queries past each length are not computed, where torch's scaled_dot_product_attention would"
    if request.causal and request.lq != request.lk:
        return True, (
            "the causal flag of torch's scaled_dot_product_attention is aligned at the top left, so that it would read "
            "a mask"
        )
    if request.softcap is not None:
        return True, "scores are capped inside the tile, and torch's scaled_dot_product_attention has no softcap"
    if request.return_lse:
        return True, (
            "the log-sum-exp comes with the output, and torch's scaled_dot_product_attention does not return it"
        )
    return False, "torch's scaled_dot_product_attention serves this request without a mask"


def run(request: Request) -> Result:
    from mhalib.backends.triton import op

    output, lse = op.attend(
        request.query,
        request.key,
        request.value,
        request.key_lengths,
        request.query_lengths,
        causal=request.causal,
        window=request.window,
        scale=request.scale,
        softcap=request.softcap,
    )
    return Result(output, None, lse if request.return_lse else None)
