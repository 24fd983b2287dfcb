"""A sample of small random changes of mhalib, each run against the tests of its module: which of them does no test see?

    python tests/faults/mutants.py --sample 300 --seed 1

Survivors are printed with what changed. One that changes nothing that can be observed belongs in `equivalent.txt`, with
the reason, and is not reported again. The fixed faults of this folder say what must be caught; this says what is not.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import random
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from engine import LIBRARY
from operators import changes
from server import Server, path_of
from tested_by import TESTED_BY

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


class Mutant(NamedTuple):
    file: str
    number: int
    line: int
    what: str

    @property
    def key(self) -> str:
        """The same as long as this code is."""
        return f"{self.file}: {self.what}"


def mutants(file: str) -> list[Mutant]:
    module = ast.parse((LIBRARY / file).read_text("utf-8"))
    found = []
    for number, (statement, owner, field, at, new) in enumerate(changes(module)):
        old = getattr(owner, field) if at is None else getattr(owner, field)[at]
        before, after = _short(old), "(nothing)" if new is None else _short(new)
        where = f"    in {_short(statement)}" if statement is not old else ""
        found.append(Mutant(file, number, statement.lineno, f"{before}  →  {after}{where}"))
    return found


def _short(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def text_of(mutant: Mutant) -> str:
    module = ast.parse((LIBRARY / mutant.file).read_text("utf-8"))
    _, owner, field, at, new = next(c for n, c in enumerate(changes(module)) if n == mutant.number)
    if at is None:
        setattr(owner, field, new)
    else:
        getattr(owner, field)[at] = ast.Pass() if new is None else new
    return ast.unparse(ast.fix_missing_locations(module)) + "\n"


def known() -> set[str]:
    lines = EQUIVALENT.read_text("utf-8").splitlines() if EQUIVALENT.exists() else []
    return {line.partition("  # ")[0].strip() for line in lines if line and not line.startswith("#")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", nargs="*", default=sorted(TESTED_BY))
    parser.add_argument("--limit", type=float, default=300, help="seconds for one mutant")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    everything = [mutant for file in given.files for mutant in mutants(file)]
    equivalent = known()
    chosen = random.Random(given.seed).sample(everything, min(given.sample, len(everything)))
    chosen = [mutant for mutant in chosen if mutant.key not in equivalent]
    print(f"{len(everything)} mutants of {len(given.files)} modules; {len(chosen)} chosen", flush=True)
    waiting, survivors = queue.SimpleQueue(), []
    for mutant in chosen:
        waiting.put(mutant)

    def work() -> None:
        server = Server()
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return server.close()
            outcome = server.run(
                [*map(path_of, TESTED_BY[mutant.file])], file=mutant.file, text=text_of(mutant), limit_s=given.limit
            )
            if outcome.status == 0:
                survivors.append(mutant)
            verdict = "SURVIVED" if outcome.status == 0 else "killed" if outcome.status else "out of time"
            print(f"{verdict:12}{outcome.seconds:6.1f} s  {mutant.file}:{mutant.line}  {mutant.what}", flush=True)

    start = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(given.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"\n{len(chosen)} mutants in {time.monotonic() - start:.0f} s; {len(survivors)} survived:")
    for mutant in sorted(survivors):
        print(f"mhalib/{mutant.file}:{mutant.line}\n    {mutant.key}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
