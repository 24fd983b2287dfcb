"""What the compiler makes of the kernels for each chip, without a GPU.

    python -m mhalib.backends.triton.ahead_of_time            print the table
    python -m mhalib.backends.triton.ahead_of_time --write    and write it to ahead_of_time.csv beside this file

Each row is one kernel with the configuration that `configs` has for a chip, dtype and head size, under `causal`:
shared memory, registers a thread, bytes of stack a thread (registers that were spilled to memory), and the instruction
that does the matrix products. The wheel of triton brings all that is needed: no GPU, driver or CUDA toolkit.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from mhalib.backends.triton import configs

TABLE = Path(__file__).with_suffix(".csv")
KERNELS = ("forward", "key_value", "query", "decode", "delta", "combine")
CHIPS = (75, 80, 89, 90, 100, 120)
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
#: The instruction that multiplies matrices, in the order in which it is looked for.
INSTRUCTIONS = ("tcgen05.mma", "wgmma.mma_async", "mma.sync", "fma.rn.f32")


class Row(NamedTuple):
    """One compiled kernel: bytes of shared memory a program, registers and bytes of stack a thread, the instruction."""

    triton: str
    chip: int
    dtype: str
    head_dim: int
    kernel: str
    block_q: int
    block_k: int
    warps: int
    stages: int
    shared: int
    registers: int
    stack: int
    product: str


def cases() -> Iterator[tuple[int, str, int, str]]:
    """(chip, dtype, head size, kernel) of every row, in the order of the table.

    bfloat16 compiles to the same figures as float16 from chip 80 on and is listed for one chip and head size, and the
    tiles of float32 are the same on each chip; for chip 75, where `auto` takes torch's kernels and compiling takes
    longest, one head size stands for all.
    """
    for chip in CHIPS:
        for dtype in DTYPES:
            for head_dim in (64, 128, 256):
                if dtype == "bf16" and (chip != 90 or head_dim != 128):
                    continue
                if dtype == "fp32" and (chip != 80 or head_dim == 256):
                    continue
                if chip == 75 and (dtype != "fp16" or head_dim != 64):
                    continue
                for kernel in KERNELS:
                    if dtype == "fp16" or kernel not in ("delta", "combine"):
                        yield chip, dtype, head_dim, kernel


def compile_row(chip: int, dtype: str, head_dim: int, kernel: str, config: configs.Config | None = None) -> Row:
    """Compile one kernel for one chip; `config` replaces that of the table."""
    config = config or configs.look_up(kernel, chip, getattr(torch, DTYPES[dtype]), head_dim)
    compiled = compile_kernel(chip, dtype, kernel, config, **configs.sizes(head_dim, head_dim))
    registers, stack = _resources(compiled.asm["cubin"])
    product = "none"
    if kernel not in ("delta", "combine"):
        product = next((name for name in INSTRUCTIONS if name in compiled.asm["ptx"]), "none")
    shared = compiled.metadata.shared
    return Row(version(), chip, dtype, head_dim, kernel, *config, shared, registers, stack, product)


def compile_kernel(chip: int, dtype: str, kernel: str, config: configs.Config, *, ones: str = "_d$", **constants):
    """Compile a kernel as a launch would; `ones`: a pattern of the arguments that are 1, which a launch makes constant.

    `constants` are D, DV, PAD_D and PAD_DV, and what differs from: causal, four query heads to a key head, no window,
    no lengths, no softcap.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from mhalib.backends.triton import backward, common, decode, forward

    if common.INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set: this process interprets kernels and cannot compile them; unset it")
    function = {
        "forward": forward.forward_kernel,
        "key_value": backward.key_value_kernel,
        "query": backward.query_kernel,
        "decode": decode.decode_kernel,
        "delta": backward.delta_kernel,
        "combine": decode.combine_kernel,
    }[kernel]
    constants = {
        "GROUP": 4,
        "BLOCK_Q": config.block_q,
        "BLOCK_K": config.block_k,
        "CAUSAL": True,
        "WINDOWED": False,
        "HAS_LENGTHS": False,
        "HAS_QUERY_LENGTHS": False,
        "CAPPED": False,
        "WIDE": False,
        "PRECISION": configs.precision_of(chip, getattr(torch, DTYPES[dtype])),
        "PAD_SPLITS": configs.MAX_SPLITS,
        "CHUNK": configs.CHUNK,
    } | constants
    signature, attributes, constant_arguments = {}, {}, {}
    for index, name in enumerate(function.arg_names):
        if name in constants or re.search(ones, name):
            signature[name] = "constexpr"
            constant_arguments[(index,)] = constants.get(name, 1)
            continue
        signature[name] = _type_of(name, kernel, dtype)
        # What a launch finds out about its arguments: pointers, and strides between rows, are multiples of 16.
        if name.isupper() or name.endswith(("_b", "_h", "_l")):
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=function, signature=signature, constexprs=constant_arguments, attrs=attributes)
    launch = config.launch()
    options = {name: launch[name] for name in ("num_warps", "num_stages", "enable_fp_fusion")}
    return triton.compile(source, target=GPUTarget("cuda", chip, 32), options=options)


def version() -> str:
    """The version of triton that is installed."""
    return importlib.metadata.version("triton")


def _type_of(name: str, kernel: str, dtype: str) -> str:
    if name in ("LENGTHS", "QUERY_LENGTHS"):
        return "*i32"
    if name in ("LSE", "GRAD_LSE", "DELTA", "LSES", "PARTS") or (name == "OUT" and kernel == "decode"):
        return "*fp32"
    if name.isupper():
        return f"*{dtype}"
    return "fp32" if name in ("factor", "inner", "cap", "scale") else "i32"


def _resources(cubin: bytes) -> tuple[int, int]:
    """(registers, bytes of stack) a thread, as the assembler left them."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [str(tool), "--dump-resource-usage", str(path)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+).*?STACK:(\d+)", text)
    if not found:
        raise RuntimeError(f"cuobjdump printed no resource usage: {text!r}")
    return int(found[1]), int(found[2])


def read() -> list[Row]:
    """The table as it was last written."""
    return parse(TABLE.read_text("utf-8").splitlines())


def parse(lines: list[str]) -> list[Row]:
    """The rows of a table in CSV, its header included."""
    texts = {"triton", "dtype", "kernel", "product"}
    records = csv.DictReader(lines)
    return [Row._make(r[name] if name in texts else int(r[name]) for name in Row._fields) for r in records]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ahead_of_time", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write the table to {TABLE.name}")
    parser.add_argument("--chips", help="only these, for example 80,90", default=",".join(map(str, CHIPS)))
    options = parser.parse_args(arguments)
    chips = {int(chip) for chip in options.chips.split(",")}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache  # what an earlier version of a kernel left is not looked at
        rows = []
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(Row._fields)
        for case in cases():
            if case[0] in chips:
                rows.append(compile_row(*case))
                writer.writerow(rows[-1])
                sys.stdout.flush()
    if options.write:
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Row._fields)
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
