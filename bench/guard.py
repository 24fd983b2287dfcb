"""A grid of requests, small ones too, on which `auto` must not be slower than the plain torch call for the same.

    python -m bench.guard [--rounds 20] [--only WORD]

The plain call is `scaled_dot_product_attention` with its mask built beforehand, or with `is_causal` where that is the
same; for the log-sum-exp the operator of torch that returns it. A goal is met by 1.2 times its time, or by so many
microseconds more: the checks of the arguments take some, however short the kernel is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import mhalib
from bench.cpu import processor
from bench.measure import Case, Goal, measure, table, write
from mhalib.backends.request import Request, validate

#: `auto` takes up to so many times as long as the plain call, or up to so many microseconds more: for what the short
#: cut serves; for all else, which is checked, planned and given its mask; and for a node of autograd's graph.
RATIO, SHORT_CUT, LONG_WAY, TRAINING = 1.2, 30.0, 150.0, 120.0


class Row(NamedTuple):
    """(B, Hq, Hkv, Lq, Lk, D) and options; lengths are a share of the full length, from and to, drawn evenly."""

    way: str
    batch: int
    heads: int
    kv_heads: int
    lq: int
    lk: int
    dim: int
    options: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    key_share: tuple[float, float] | None = None
    query_share: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        size = f"B {self.batch}, heads {self.heads}/{self.kv_heads}, {self.lq} × {self.lk}, d {self.dim}"
        options = [f"{name} {value}" for name, value in self.options.items()]
        for name, share in (("keys", self.key_share), ("queries", self.query_share)):
            options += [] if share is None else [f"{name} {share[0]:.0%} to {share[1]:.0%} real"]
        return f"{size}: {', '.join(options) or 'plain'}"

    def inputs(self) -> tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any]]:
        """Query, key, value and the options with lengths as tensors; the same at each call."""
        generator = torch.Generator().manual_seed(0)

        def normal(heads: int, length: int) -> Tensor:
            return torch.randn(self.batch, heads, length, self.dim, generator=generator)

        qkv = normal(self.heads, self.lq), normal(self.kv_heads, self.lk), normal(self.kv_heads, self.lk)
        options = dict(self.options)
        for name, share, full in (
            ("key_lengths", self.key_share, self.lk),
            ("query_lengths", self.query_share, self.lq),
        ):
            if share is not None:
                low, high = (max(1, round(part * full)) for part in share)
                options[name] = torch.linspace(low, high, self.batch).round().long()
        return qkv, options


ANY, MILD, FULL = (0.05, 1.0), (0.8, 1.0), (1.0, 1.0)
CAUSAL = {"causal": True}

#: The way is that of one thread.
GRID = [
    # Many short sequences, where a call for each costs more than the padding.
    Row("whole", 2, 4, 4, 16, 16, 32, {}, ANY, ANY),
    Row("whole", 8, 4, 4, 16, 16, 32, {}, ANY),
    Row("whole", 32, 4, 4, 16, 16, 32, {}, ANY, ANY),
    Row("whole", 256, 2, 2, 8, 8, 16, {}, ANY, ANY),
    Row("whole", 64, 8, 8, 32, 32, 64, {}, ANY, ANY),
    Row("whole", 64, 4, 4, 64, 64, 32, {}, MILD),
    Row("whole", 32, 8, 8, 64, 64, 64, {}, FULL, FULL),
    Row("whole", 16, 8, 8, 128, 128, 64, CAUSAL, FULL),
    # Long ones, where it does not.
    Row("by length", 8, 8, 8, 512, 512, 64, {}, ANY, ANY),
    Row("by length", 8, 8, 8, 512, 512, 64, CAUSAL, ANY),
    Row("by length", 4, 8, 2, 1024, 1024, 64, {"causal": True, "window": 64}, ANY, ANY),
    # Decoding.
    Row("folded", 64, 8, 2, 1, 128, 32, {}, (0.5, 1.0)),
    Row("whole", 8, 8, 8, 1, 64, 64, {}, (0.5, 1.0)),
    Row("whole", 32, 8, 8, 1, 256, 64, CAUSAL, (0.5, 1.0)),
    Row("folded", 1, 32, 8, 1, 512, 64, CAUSAL),
    Row("folded", 1, 32, 8, 16, 1024, 64, CAUSAL),
    Row("whole", 1, 8, 8, 1, 16, 64, CAUSAL),
    # Windows.
    Row("whole", 1, 4, 4, 2048, 2048, 64, {"causal": True, "window": 4096}),
    Row("whole", 1, 4, 4, 1024, 1024, 64, {"causal": True, "window": 2048}),
    Row("whole", 1, 4, 4, 256, 256, 64, {"window": 256}),
    Row("banded", 1, 4, 4, 1024, 1024, 64, {"causal": True, "window": 64}),
    Row("banded", 1, 4, 4, 1024, 1024, 64, {"causal": True, "window": 300}),
    Row("banded", 1, 4, 4, 1024, 1024, 64, {"causal": True, "window": 512}),
    Row("banded", 1, 4, 4, 1024, 1024, 64, {"causal": True, "window": 1000}),
    Row("banded", 1, 4, 4, 1024, 1024, 64, {"window": 300}),
    Row("banded", 1, 8, 2, 1024, 1024, 64, {"causal": True, "window": 128}),
    Row("whole", 2, 4, 4, 64, 64, 32, {"causal": True, "window": 4}),
    Row("banded", 2, 4, 4, 600, 600, 32, {"causal": True, "window": 16}),
    # Causal, grouped, plain.
    Row("whole", 1, 1, 1, 1, 1, 8, CAUSAL),
    Row("whole", 1, 8, 8, 16, 16, 64, CAUSAL),
    Row("whole", 1, 8, 8, 16, 16, 64),
    Row("whole", 1, 4, 4, 256, 1024, 64, CAUSAL),
    Row("whole", 1, 8, 2, 256, 256, 64, CAUSAL),
    Row("folded", 1, 8, 1, 512, 512, 64),
    # The log-sum-exp.
    *(Row("whole", 1, 4, 4, n, n, 64, {"return_lse": True}) for n in (16, 256, 1024)),
    *(Row("whole", 1, 4, 4, n, n, 64, {"causal": True, "return_lse": True}) for n in (16, 256, 1024)),
    # What torch has no fused kernel for.
    Row("whole", 2, 8, 8, 128, 128, 64, {"dropout": 0.1}),
]


def plain(request: Request) -> Callable[[], Tensor]:
    """The plain torch call for this request, its mask built already."""
    query, key, value = request.query, request.key, request.value
    options: dict[str, Any] = {"scale": request.scale}
    allowed = request._replace(query_lengths=None).allowed()
    behind = request.lk if request.causal else max(request.lq, request.lk)
    nothing_else = request.mask is None and request.key_lengths is None
    if request.window is not None and request.window < behind:
        nothing_else = False
    if request.causal and request.lq == request.lk and nothing_else:
        options["is_causal"] = True
    elif allowed is not None and not (request.lq == 1 and nothing_else):
        options["attn_mask"] = allowed | ~allowed.any(-1, keepdim=True)
    if request.return_lse:
        call = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return lambda: call(query, key, value, **options)[0]
    options |= {"dropout_p": request.dropout, "enable_gqa": request.num_heads != request.num_kv_heads}
    return lambda: F.scaled_dot_product_attention(query, key, value, **options)


def case(row: Row, training: bool = False) -> Case:
    qkv, options = row.inputs()
    qkv = tuple(x.requires_grad_(training) for x in qkv)
    request = validate(*qkv, **options)

    def ours() -> Tensor:
        result = mhalib.attention(*qkv, **options)
        return result[0] if isinstance(result, tuple) else result

    def step(call: Callable[[], Tensor]) -> Tensor:
        output = call()
        if training:
            torch.autograd.grad(output, qkv, torch.ones_like(output))
        return output.detach()

    theirs, padded = plain(request), request.padded_queries()
    plain_options = set(options) <= {"causal"} and request.num_heads == request.num_kv_heads
    behind = (SHORT_CUT if plain_options else LONG_WAY) + (TRAINING if training else 0.0)
    return Case(
        f"{row.name}{', training' if training else ''}",
        {"mhalib": lambda: step(ours), "torch": lambda: step(theirs)},
        expected=None if request.dropout else theirs().detach(),
        goals=[Goal("torch", 1 / RATIO, behind)],
        where=None if padded is None else ~padded,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", help="rows whose name holds this word")
    arguments = parser.parse_args()
    outcomes = []
    for training in (False, True):
        for row in GRID:
            if arguments.only and arguments.only not in row.name:
                continue
            with torch.set_grad_enabled(training):
                outcomes.append(measure(case(row, training), arguments.rounds))
            print(table(outcomes[-1]), flush=True)
    if not arguments.only:
        print("written:", write(outcomes, f"guard cpu {processor()} {torch.get_num_threads()} threads"))
    missed = [outcome for outcome in outcomes if not all(outcome.goals.values())]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} goals met")
    for outcome in missed:
        print(f"missed: {outcome.name}: {1 / outcome.ratios['torch']:.2f} times as long")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
