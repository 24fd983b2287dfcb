"""What is timed on a GPU, against which of torch's kernels.

Each of torch's kernels is asked for by name; one that refuses is noted with its reason. Every peer passes the gate of
`bench.gate` on the first sequence and key head before it is timed: its output, or its three gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import mhalib
from bench import gate
from bench.gate import Sizes
from bench.measure import Case, Goal, Outcome, measure

KERNELS = {
    "SDPA flash": SDPBackend.FLASH_ATTENTION,
    "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
    "SDPA memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
}
#: Decoding one token: 64 query heads share 8 key heads of 128.
DECODE = Sizes(1, 64, 8, 1, 16384, 128, 128)
Call = Callable[[], Tensor]


class Race(NamedTuple):
    """One request and who answers it, each with a function that returns the output. `backward`: the gradients are
    timed as well. `repeats`: calls between two looks at the clock, for those of a few microseconds."""

    name: str
    tensors: list[Tensor]
    options: dict[str, object]
    peers: dict[str, Call]
    goals: list[Goal]
    backward: bool = False
    repeats: int = 1


def inputs(size: Sizes, grad: bool = True) -> list[Tensor]:
    """Query, key and value in bfloat16 on the GPU."""
    shapes = (
        (size.batch, size.heads, size.lq, size.dim),
        (size.batch, size.kv_heads, size.lk, size.dim),
        (size.batch, size.kv_heads, size.lk, size.dv),
    )
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=grad) for shape in shapes]


def flash() -> str:
    """Which of its flash kernels torch takes, where it can say so."""
    named = getattr(torch.nn.attention, "current_flash_attention_impl", lambda: None)()
    return str(named or "FA2, as built in")


def captured(call: Call) -> tuple[Callable[[], None], Tensor]:
    """(replay, the tensor that each replay fills): a call captured in a CUDA graph, after it was warmed up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        output = call()
    return graph.replay, output


def by_kernel(kernel: SDPBackend, call: Call) -> Call:
    def run() -> Tensor:
        with sdpa_kernel(kernel):
            return call()

    return run


def in_a_graph(call: Call) -> Call:
    """The call as the replay of its graph, which is captured when it is first asked for."""
    capture = functools.cache(lambda: captured(call))

    def run() -> Tensor:
        replay, output = capture()
        replay()
        return output

    return run


def flex(query: Tensor, key: Tensor, value: Tensor, seen: Callable) -> Call:
    """FlexAttention, compiled when it is first asked for."""

    @functools.cache
    def compiled() -> tuple[Callable, object]:
        block_mask = create_block_mask(seen, None, None, query.shape[2], key.shape[2], device="cuda")
        return torch.compile(flex_attention, dynamic=False), block_mask

    def run() -> Tensor:
        function, block_mask = compiled()
        return function(query, key, value, block_mask=block_mask, enable_gqa=query.shape[1] != key.shape[1])

    return run


def dense(length: int, dim: int, causal: bool, backward: bool) -> Race:
    """Triton's own tutorial on fused attention, with as many tokens in all: 16,384, of 32 heads."""
    size = Sizes(max(1, 16384 // length), 32, 32, length, length, dim, dim)
    query, key, value = tensors = inputs(size)
    peers: dict[str, Call] = {"mhalib": lambda: mhalib.attention(query, key, value, causal=causal, backend="triton")}
    for name, kernel in KERNELS.items():
        peers[name] = by_kernel(kernel, lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal))
    if causal:
        peers["FlexAttention"] = flex(query, key, value, lambda b, h, i, j: i >= j)
    what = f"{'forward and backward' if backward else 'forward'}, {'causal' if causal else 'full'}"
    name = f"{what}, {length:,} tokens, 32 heads of {dim}, batch {size.batch}"
    return Race(name, tensors, {"causal": causal}, peers, [Goal("SDPA flash", 0.6 if backward else 1.0)], backward)


def window(backward: bool) -> Race:
    """A window of 1,024 in 8,192 tokens, against FlexAttention, which skips tiles too."""
    query, key, value = tensors = inputs(Sizes(2, 32, 8, 8192, 8192, 128, 128))
    peers: dict[str, Call] = {
        "mhalib": lambda: mhalib.attention(query, key, value, causal=True, window=1024, backend="triton"),
        "FlexAttention": flex(query, key, value, lambda b, h, i, j: (i >= j) & (i - j < 1024)),
    }
    name = f"{'forward and backward' if backward else 'forward'}, window of 1,024, 8,192 tokens, 32 heads on 8"
    return Race(name, tensors, {"causal": True, "window": 1024}, peers, [Goal("FlexAttention", 0.8)], backward)


def padded() -> Race:
    """A padded batch whose sequences are an eighth of the longest and more, against the mask that SDPA needs."""
    query, key, value = tensors = inputs(Sizes(8, 32, 32, 4096, 4096, 128, 128))
    lengths = torch.linspace(512, 4096, 8, device="cuda").long()
    mask = (torch.arange(4096, device="cuda") < lengths[:, None])[:, None, None, :]
    options = {"key_lengths": lengths, "query_lengths": lengths}
    blank = (torch.arange(4096, device="cuda") >= lengths[:, None])[:, None, :, None]
    peers: dict[str, Call] = {
        "mhalib": lambda: mhalib.attention(query, key, value, **options, backend="triton"),
        "SDPA with a mask": lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=mask).masked_fill(
            blank, 0.0
        ),
    }
    name = "forward and backward, padded batch of 8 up to 4,096 tokens, 32 heads of 128"
    return Race(name, tensors, options, peers, [Goal("SDPA with a mask", 1.0)], backward=True)


def decoding(keys: int) -> Race:
    query, key, value = tensors = inputs(DECODE._replace(lk=keys), grad=False)

    def ours() -> Tensor:
        return mhalib.attention(query, key, value, causal=True, backend="triton")

    def theirs() -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)

    peers = {
        "mhalib": ours,
        "mhalib, CUDA graph": in_a_graph(ours),
        "SDPA": theirs,
        "SDPA, CUDA graph": in_a_graph(theirs),
    }
    name = f"decoding one token ten times, 64 query heads on 8 of 128, {keys:,} keys"
    return Race(name, tensors, {"causal": True}, peers, [Goal("SDPA", 1.0)], repeats=10)


def float32() -> Race:
    """float32 by three TF32 products, against torch's kernel for it."""
    query, key, value = tensors = [x.detach().float() for x in inputs(Sizes(4, 16, 16, 4096, 4096, 64, 64))]
    peers: dict[str, Call] = {
        "mhalib": lambda: mhalib.attention(query, key, value, causal=True, backend="triton"),
        "SDPA memory-efficient": by_kernel(
            SDPBackend.EFFICIENT_ATTENTION, lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True)
        ),
    }
    name = "forward, float32, causal, 4,096 tokens, 16 heads of 64, batch 4"
    return Race(name, tensors, {"causal": True}, peers, [Goal("SDPA memory-efficient", 1.0)])


#: Most important first: the script may run out of time.
RACES: dict[str, Callable[[], Race]] = {
    "forward 128": lambda: dense(4096, 128, True, False),
    "backward 128": lambda: dense(4096, 128, True, True),
    "decode": lambda: decoding(16384),
    "window": lambda: window(False),
    "backward 64": lambda: dense(4096, 64, True, True),
    "padded": padded,
    "decode, long": lambda: decoding(65536),
    "float32": float32,
    "forward 128, full": lambda: dense(4096, 128, False, False),
    "forward 128, long": lambda: dense(16384, 128, True, False),
    "window, backward": lambda: window(True),
    "forward 64": lambda: dense(4096, 64, True, False),
    "backward 128, full": lambda: dense(4096, 128, False, True),
    "forward 64, short": lambda: dense(1024, 64, True, False),
}


def first_heads(race: Race) -> tuple[list[Tensor], dict[str, object], int]:
    """The first sequence's first key head and the query heads that share it, and the options for it."""
    query, key, value = race.tensors
    group = query.shape[1] // key.shape[1]
    options = {name: x[:1] if isinstance(x, Tensor) else x for name, x in race.options.items()}
    return [query[:1, :group], key[:1, :1], value[:1, :1]], options, group


def truth(race: Race) -> dict[str, Tensor]:
    """Output, and where they are timed the gradients, of that head in float64; the gradient that arrives is `arriving`
    of the whole output, of which the head's part is taken."""
    tensors, options, group = first_heads(race)
    leaves = [x.detach().double().requires_grad_(race.backward) for x in tensors]
    output = mhalib.attention(*leaves, **options, backend="reference")
    results = {"output": output.detach()}
    if race.backward:
        grad = arriving(race)[:1, :group].double()
        results |= zip(("dQ", "dK", "dV"), torch.autograd.grad(output, leaves, grad), strict=True)
    return results


def arriving(race: Race) -> Tensor:
    """The gradient that arrives at the output: unit normal, the same for every peer."""
    query, _, value = race.tensors
    generator = torch.Generator(query.device).manual_seed(1)
    shape = (*query.shape[:3], value.shape[3])
    return torch.randn(shape, generator=generator, device=query.device).to(query.dtype)


def answer(race: Race, call: Call, grad: Tensor | None) -> dict[str, Tensor]:
    """What one peer makes of it, cut to the head that `truth` is for."""
    output = call()
    _, _, group = first_heads(race)
    results = {"output": output[:1, :group].detach()}
    if grad is not None:
        gradients = torch.autograd.grad(output, race.tensors, grad)
        for name, x, heads in zip(("dQ", "dK", "dV"), gradients, (group, 1, 1), strict=True):
            results[name] = x[:1, :heads]
    return results


def run(race: Race, rounds: int, wait: Callable[[], None]) -> tuple[Outcome | None, dict[str, str]]:
    """(times of those that passed, or None where mhalib did not; who is not timed and why)."""
    want, grad = truth(race), arriving(race) if race.backward else None
    timed, refused = {}, {}
    for name, call in race.peers.items():
        try:
            found = gate.wrong(answer(race, call, grad), want, race.tensors[0].dtype)
        except Exception as error:  # a kernel that does not take the request, or does not compile
            found = {type(error).__name__: (str(error).strip().splitlines() or [""])[0]}
        if found:
            refused[name] = "; ".join(f"{what}: {why}" for what, why in found.items())
            continue

        def work(call: Call = call) -> Tensor:
            for _ in range(race.repeats):
                output = call()
                if grad is not None:
                    torch.autograd.grad(output, race.tensors, grad)
            return output

        timed[name] = work
    if "mhalib" not in timed:
        return None, refused
    goals = [goal for goal in race.goals if goal.peer in timed]
    case = Case(race.name, timed, None, goals)
    return measure(case, rounds, wait), refused
