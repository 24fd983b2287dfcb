"""The Triton kernels on this machine's GPU, against torch's kernels there.

    python -m bench.gpu [--rounds 30]

The shapes are those of Triton's own tutorial on fused attention: batch 4, 32 heads of 64 or 128, up to 16,384 tokens,
in bfloat16. Each of torch's kernels is asked for by name; one that refuses is left out, and said to be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import mhalib
from bench.measure import Case, Goal, measure, table, write

KERNELS = {
    "SDPA flash": SDPBackend.FLASH_ATTENTION,
    "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
    "SDPA memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
}
#: bfloat16 keeps 8 bits; outputs here are means of unit normal values, well below 4.
TOLERANCE = 4 * 2**-8


def inputs(heads: int, kv_heads: int, lq: int, lk: int, dim: int, batch: int = 4) -> list[Tensor]:
    shapes = (batch, heads, lq, dim), (batch, kv_heads, lk, dim), (batch, kv_heads, lk, dim)
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for shape in shapes]


def forward_and_backward(call: Callable[[], Tensor], tensors: list[Tensor]) -> Tensor:
    output = call()
    gradients = torch.autograd.grad(output, tensors, torch.ones_like(output))
    return gradients[0]


def available(peers: dict[str, Callable[[], Tensor]], case: str) -> dict[str, Callable[[], Tensor]]:
    kept = {}
    for name, peer in peers.items():
        try:
            peer()
        except RuntimeError as error:
            print(f"{case}: {name} is not available: {str(error).splitlines()[0]}")
        else:
            kept[name] = peer
    return kept


def named(kernel: SDPBackend, call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    def run() -> Tensor:
        with sdpa_kernel(kernel):
            return call()

    return run


def dense(length: int, dim: int, causal: bool, backward: bool) -> Case:
    tensors = inputs(32, 32, length, length, dim)
    query, key, value = tensors
    calls = {"mhalib": lambda: mhalib.attention(query, key, value, causal=causal, backend="triton")}
    for name, kernel in KERNELS.items():
        calls[name] = named(kernel, lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal))
    if backward:
        calls = {name: (lambda call=call: forward_and_backward(call, tensors)) for name, call in calls.items()}
    what = f"{'forward and backward' if backward else 'forward'}, {'causal' if causal else 'full'}"
    name = f"{what}, {length:,} tokens, 32 heads of {dim}, batch 4"
    peers = available(calls, name)
    expected = peers["SDPA flash"]().detach() if "SDPA flash" in peers else None
    goals = [Goal("SDPA flash", 0.6 if backward else 1.0)] if "SDPA flash" in peers else []
    return Case(name, peers, expected, goals, tolerance=TOLERANCE * (4 if backward else 1))


def decode(keys: int) -> Case:
    query, key, value = inputs(64, 8, 1, keys, 128, batch=1)
    peers = available(
        {
            "mhalib": lambda: mhalib.attention(query, key, value, causal=True, backend="triton"),
            "SDPA enable_gqa": lambda: F.scaled_dot_product_attention(query, key, value, enable_gqa=True),
        },
        "decode",
    )
    expected = mhalib.attention(query.double(), key.double(), value.double(), backend="reference")
    name = f"decoding one token, 64 query heads, 8 key heads of 128, {keys:,} keys"
    return Case(name, peers, expected, [Goal("SDPA enable_gqa", 1.0)], tolerance=TOLERANCE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no CUDA device here; `python -m bench.cpu` needs none.", file=sys.stderr)
        return 2
    outcomes = []
    lengths, dims = (1024, 4096, 16384), (64, 128)
    cases = [
        lambda length=length, dim=dim, causal=causal, backward=backward: dense(length, dim, causal, backward)
        for length in lengths
        for dim in dims
        for causal in (False, True)
        for backward in (False, True)
    ]
    cases += [lambda keys=keys: decode(keys) for keys in (16384, 65536)]
    for build in cases:
        torch.manual_seed(0)
        outcomes.append(measure(build(), arguments.rounds, torch.cuda.synchronize))
        print(table(outcomes[-1]), flush=True)
    print("written:", write(outcomes, torch.cuda.get_device_name()))
    return int(not all(met for outcome in outcomes for met in outcome.goals.values()))


if __name__ == "__main__":
    sys.exit(main())
