"""What this library's CPU paths are worth, against torch and the usual ways around it.

    python -m bench.cpu [--rounds 15] [--compiled] [--only NAME]

--compiled adds FlexAttention through torch.compile, which takes a compiler and a minute.
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mhalib
from bench.measure import Case, Goal, measure, table, write
from mhalib.masks import padding, window


def inputs(batch: int, heads: int, kv_heads: int, lq: int, lk: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    shapes = (batch, heads, lq, dim), (batch, kv_heads, lk, dim), (batch, kv_heads, lk, dim)
    return tuple(torch.randn(shape) for shape in shapes)


def exact(*tensors: Tensor, **options) -> Tensor:
    return mhalib.attention(*(x.double() for x in tensors), backend="reference", **options)


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1) @ value


def windowed(compiled: bool) -> Case:
    query, key, value = inputs(1, 8, 8, 8192, 8192, 64)
    mask = window(8192, 8192, 256)
    peers = {
        "mhalib": lambda: mhalib.attention(query, key, value, causal=True, window=256),
        "SDPA with a mask": lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        "SDPA causal (no window)": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True),
    }
    if compiled:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        blocks = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < 256), None, None, 8192, 8192, device="cpu")
        flex = torch.compile(flex_attention, dynamic=False)
        peers["FlexAttention, compiled"] = lambda: flex(query, key, value, block_mask=blocks)
    goals = [Goal("SDPA with a mask", 10), Goal("SDPA causal (no window)", 4)]
    # The reference would need a matrix of 4 GiB: the last 512 queries and the keys that they reach stand for the rest.
    tail = exact(query[:, :, -512:], key[:, :, -1024:], value[:, :, -1024:], causal=True, window=256)
    ends = {name: (lambda peer=peer: peer()) for name, peer in peers.items()}
    for name, peer in ends.items():
        if name != "SDPA causal (no window)" and (peer()[:, :, -512:].double() - tail).abs().max() > 1e-5:
            raise AssertionError(f"window: {name} is not exact")
    return Case("causal window of 256 keys, 8,192 tokens, 8 heads of 64", peers, None, goals)


def grouped_decode(compiled: bool) -> Case:
    query, key, value = inputs(1, 64, 8, 1, 16384, 128)

    def repeated() -> Tensor:
        return F.scaled_dot_product_attention(query, key.repeat_interleave(8, 1), value.repeat_interleave(8, 1))

    peers = {
        "mhalib": lambda: mhalib.attention(query, key, value, causal=True),
        "SDPA enable_gqa": lambda: F.scaled_dot_product_attention(query, key, value, enable_gqa=True),
        "SDPA on repeated keys": repeated,
    }
    goals = [Goal("SDPA enable_gqa", 4), Goal("SDPA on repeated keys", 15)]
    return Case(
        "decoding one token, 64 query heads, 8 key heads of 128, 16,384 keys",
        peers,
        exact(query, key, value, causal=True),
        goals,
    )


def padded(even: bool) -> Case:
    """Lengths that grow by the same factor, as a batch of texts has few long ones, or by the same step.

    In the second kind 38 % of the pairs are real, so that leaving out the others cannot save more than a factor 2.6.
    """
    query, key, value = inputs(8, 8, 8, 1024, 1024, 64)
    lengths = (torch.linspace(64, 1024, 8) if even else torch.logspace(6, 10, 8, base=2)).round().long()
    mask = padding(lengths, 1024)
    sizes = {"key_lengths": lengths, "query_lengths": lengths}
    peers = {
        "mhalib": lambda: mhalib.attention(query, key, value, **sizes),
        "mhalib, padded queries too": lambda: mhalib.attention(query, key, value, key_lengths=lengths),
        "SDPA with a mask": lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=mask),
    }
    goals = [] if even else [Goal("SDPA with a mask", 2.5)]
    # The padded queries' rows, which nobody reads, are blank in the first answer and computed in the others.
    read = mask.mT
    return Case(
        f"a padded batch of 8, lengths {', '.join(map(str, lengths.tolist()))}, 8 heads of 64",
        peers,
        exact(query, key, value, **sizes),
        goals,
        where=read,
    )


def dense(length: int) -> Case:
    query, key, value = inputs(1, 8, 8, length, length, 64)
    peers = {
        "mhalib": lambda: mhalib.attention(query, key, value),
        "SDPA": lambda: F.scaled_dot_product_attention(query, key, value),
        "softmax, written out": lambda: plain(query, key, value),
    }
    # The third fills the caches, after which the other two start slowly: the order is shuffled, so that both do.
    goal = Goal("SDPA", 0.97) if length >= 512 else Goal("SDPA", microseconds=30)
    return Case(f"all pairs, {length:,} tokens, 8 heads of 64", peers, exact(query, key, value), [goal])


def layer(training: bool) -> Case:
    theirs = nn.MultiheadAttention(512, 8, batch_first=True).train(training)
    ours = mhalib.MultiHeadAttention.from_torch(theirs)
    x = torch.randn(4, 512, 512)

    def step(call) -> Tensor:
        if not training:
            with torch.no_grad():
                return call()
        output = call()
        output.sum().backward()
        return output.detach()

    peers = {
        "mhalib": lambda: step(lambda: ours(x)[0]),
        "nn.MultiheadAttention": lambda: step(lambda: theirs(x, x, x, need_weights=False)[0]),
    }
    expected = peers["nn.MultiheadAttention"]().double()
    name = f"a layer 512 wide, 8 heads, 4 × 512 tokens, {'forward and backward' if training else 'inference'}"
    return Case(name, peers, expected, [Goal("nn.MultiheadAttention", 1.0)])


def tiled(compiled: bool) -> Case:
    query, key, value = inputs(1, 8, 8, 8192, 8192, 64)
    peers = {
        "mhalib": lambda: mhalib.attention(query, key, value, backend="tiled"),
        "SDPA": lambda: F.scaled_dot_product_attention(query, key, value),
        "softmax, written out": lambda: plain(query, key, value),
    }
    expected = F.scaled_dot_product_attention(query, key, value)
    return Case(
        "all pairs tile by tile in plain torch, 8,192 tokens, 8 heads of 64", peers, expected, [Goal("SDPA", 0.4)]
    )


CASES = {
    "window": windowed,
    "decode": grouped_decode,
    "padded": lambda compiled: padded(False),
    "padded-even": lambda compiled: padded(True),
    **{f"dense-{n}": (lambda compiled, n=n: dense(n)) for n in (64, 128, 256, 512, 1024, 2048)},
    "layer-inference": lambda compiled: layer(False),
    "layer-training": lambda compiled: layer(True),
    "tiled": tiled,
}
#: Short cases are repeated more often.
ROUNDS = {"window": 7, "tiled": 3, "layer-inference": 40, "layer-training": 40}
ROUNDS |= {
    "dense-64": 400,
    "dense-128": 400,
    "dense-256": 400,
    "dense-512": 300,
    "dense-1024": 100,
    "dense-2048": 40,
    "padded": 30,
    "padded-even": 30,
}


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="timed rounds of every case; default: by case")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--only", choices=CASES, action="append")
    arguments = parser.parse_args()
    outcomes = []
    for name in arguments.only or CASES:
        torch.manual_seed(0)
        rounds = arguments.rounds or ROUNDS.get(name, 15)
        with torch.set_grad_enabled(name == "layer-training"):
            outcomes.append(measure(CASES[name](arguments.compiled), rounds))
        print(table(outcomes[-1]), flush=True)
    if not arguments.only:
        print("written:", write(outcomes, f"cpu {processor()} {torch.get_num_threads()} threads"))
    return int(not all(met for outcome in outcomes for met in outcome.goals.values()))


if __name__ == "__main__":
    sys.exit(main())
