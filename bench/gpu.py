"""The Triton kernels on this machine's GPU: first whether they are right, then how fast against torch's kernels there.

    python -m bench.gpu [--budget 450] [--rounds 20]

One script for a GPU that is lent for some minutes. Its stages stand in order of importance: correctness in float16,
bfloat16 and float32 (`bench.gate`), capture in a CUDA graph, then times. No stage starts past the budget, in seconds;
what has been found is written to bench/results/<device>.json after each stage, with the peers that refused and why,
and the stages that were left out.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

import torch

import mhalib
from bench import gate, gpu_cases
from bench.measure import Outcome, table, write

#: Lengths and head sizes of the correctness checks: a head of each row of the table of tiles.
GATE_SIZES = ((1024, 64), (1024, 128), (512, 200))


@dataclass
class Record:
    """What has been found so far; `save` writes all of it."""

    device: str
    outcomes: list[Outcome] = field(default_factory=list)
    notes: dict[str, dict[str, object]] = field(default_factory=lambda: {"gate": {}, "refused": {}, "stages": {}})

    def save(self) -> str:
        return str(write(self.outcomes, self.device, **self.notes))


def correctness(record: Record, deadline: float, sizes=GATE_SIZES, device: str = "cuda", workers: int = 12) -> bool:
    """Every check in every dtype. Several processes share the GPU, since nearly all of the time goes into compiling."""
    wanted = [
        (name, check, dtype, f"{name}, head size {dim}, {str(dtype).removeprefix('torch.')}")
        for (length, dim), dtype in itertools.product(sizes, gate.DTYPES)
        for name, check in gate.checks(length, dim).items()
        if check.sizes.dim <= 256
    ]
    found = record.notes["gate"]
    found.update(dict.fromkeys((title for *_, title in wanted), "not reached"))
    if workers == 0:
        for _, check, dtype, title in wanted:
            found[title] = gate.hold(check, dtype, device) or "passed"
        return all(verdict == "passed" for verdict in found.values())
    # Each process has one core. When the time is up those under way are let finish, and the others not begun.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    pool = ProcessPoolExecutor(min(workers, os.cpu_count() or 1), mp_context=multiprocessing.get_context("spawn"))
    running = {pool.submit(gate.hold, check, dtype, device): title for _, check, dtype, title in wanted}
    try:
        for done in as_completed(running, timeout=max(1.0, deadline - time.monotonic())):
            title = running[done]
            found[title] = done.result() or "passed"
            if found[title] != "passed":
                print(f"WRONG: {title}: {found[title]}", flush=True)
    except TimeoutError:
        print("the checks that are not done yet are left out: their time is up", flush=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    print(f"{list(found.values()).count('passed')} of {len(found)} checks passed", flush=True)
    return all(verdict in ("passed", "not reached") for verdict in found.values())


def graph(record: Record) -> bool:
    """Decoding captured in a CUDA graph, which nothing that waits for the GPU survives, and replayed on other numbers.

    The lengths are read by the kernel, so that they may change between replays.
    """
    query, key, value = gpu_cases.inputs(gpu_cases.DECODE._replace(lk=4096), grad=False)
    lengths = torch.full((query.shape[0],), 1000, device="cuda")

    def step() -> torch.Tensor:
        return mhalib.attention(query, key, value, key_lengths=lengths, backend="triton")

    replay, captured = gpu_cases.captured(step)
    for new in (4096, 17):
        lengths.fill_(new)
        query.normal_()
        replay()
        exact = mhalib.attention(*(x.double() for x in (query, key, value)), key_lengths=lengths, backend="reference")
        found = gate.wrong({"output": captured}, {"output": exact}, query.dtype)
        record.notes["gate"][f"CUDA graph of decoding, replayed with {new} keys"] = found or "passed"
        if found:
            return False
    return True


def timing(
    build: Callable[[], gpu_cases.Race], rounds: int, wait: Callable[[], None] = torch.cuda.synchronize
) -> Callable[[Record], bool]:
    """A stage that times one case; whoever refuses, or is wrong, is not timed and noted."""

    def stage(record: Record) -> bool:
        torch.manual_seed(0)
        race = build()
        outcome, refused = gpu_cases.run(race, rounds, wait)
        record.notes["refused"].update({f"{race.name}: {peer}": why for peer, why in refused.items()})
        for peer, why in refused.items():
            print(f"{race.name}: {peer} is not timed: {why}")
        if outcome is None:
            return False
        record.outcomes.append(outcome)
        print(table(outcome), flush=True)
        return True

    return stage


def run(stages: dict[str, Callable[[Record], bool]], record: Record, deadline: float) -> bool:
    """The stages one after the other, until the deadline. One that raises is noted, and the next one is tried."""
    for name, stage in stages.items():
        if time.monotonic() >= deadline:
            record.notes["stages"][name] = "left out: the time was up"
            continue
        start = time.monotonic()
        try:
            verdict = "done" if stage(record) else "FAILED"
        except Exception as error:
            verdict = "FAILED: " + "".join(traceback.format_exception_only(error)).strip()
        record.notes["stages"][name] = f"{verdict}, {time.monotonic() - start:.0f} s"
        print(f"[{name}: {record.notes['stages'][name]}]", flush=True)
        record.save()
    record.save()
    return all(verdict.startswith("done") for verdict in record.notes["stages"].values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=450, help="seconds after which no stage starts")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no CUDA device here; `python -m bench.cpu` needs none.", file=sys.stderr)
        return 2
    start = time.monotonic()
    deadline = start + arguments.budget
    stages = {"correctness": lambda record: correctness(record, start + 0.45 * arguments.budget), "CUDA graph": graph}
    stages |= {name: timing(build, arguments.rounds) for name, build in gpu_cases.RACES.items()}
    record = Record(torch.cuda.get_device_name())
    print(f"{record.device}, torch {torch.__version__}, flash: {gpu_cases.flash()}", flush=True)
    met = run(stages, record, deadline)
    print("written:", record.save())
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
