"""The Triton kernels compiled for six chips, without a GPU: they fit, they use the tensor cores, and nothing changed.

The committed table was made by `python -m mhalib.backends.triton.ahead_of_time --write`. With the version of triton
that it names, compiling again must give it exactly: a change of a kernel or a configuration is a visible change of it.
"""

import functools
import os
import subprocess
import sys

import pytest

from mhalib.backends.triton import ahead_of_time, configs

pytest.importorskip("triton", reason="triton has wheels for Linux only")

#: Bytes of shared memory that one program may ask for (CUDA C++ Programming Guide, technical specifications).
SHARED_LIMIT = {75: 65536, 80: 166912, 89: 101376, 90: 232448, 100: 232448, 120: 101376}
#: Spills that are known and borne; a row beyond it has a configuration that should be smaller.
STACK_LIMIT = {75: 300, 80: 64, 89: 64, 90: 160, 100: 192, 120: 96}


def compile_here(*arguments):
    """Run Python in a process that compiles, whatever this one does."""
    inherited = {name: x for name, x in os.environ.items() if not name.startswith("TRITON")}
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=inherited, capture_output=True, encoding="utf-8", timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@functools.cache
def compiled():
    """The table as the installed triton gives it now."""
    return ahead_of_time.parse(compile_here("-m", "mhalib.backends.triton.ahead_of_time").splitlines())


def chips_and_kernels():
    return sorted({(chip, kernel) for chip, _, _, kernel in ahead_of_time.cases()})


def test_the_committed_table_is_what_the_compiler_gives():
    committed = ahead_of_time.read()
    (version,) = {row.triton for row in committed}
    if version != ahead_of_time.version():
        pytest.skip(f"the table was made by triton {version}, installed is {ahead_of_time.version()}")
    assert [",".join(map(str, row)) for row in compiled()] == [",".join(map(str, row)) for row in committed]


def test_every_case_is_in_the_table():
    committed = [(row.chip, row.dtype, row.head_dim, row.kernel) for row in ahead_of_time.read()]
    assert committed == list(ahead_of_time.cases())
    assert {row.chip for row in ahead_of_time.read()} == {75, 80, 89, 90, 100, 120}


@pytest.mark.parametrize("chip", SHARED_LIMIT)
def test_shared_memory_stays_within_the_chip(chip):
    """vllm #36802 (81920 of 65536 bytes on a T4), pytorch #133254, #180278: OutOfResources at the first launch."""
    rows = [row for row in compiled() if row.chip == chip]
    assert rows
    assert [row for row in rows if row.shared > SHARED_LIMIT[chip]] == []


@pytest.mark.parametrize("chip", STACK_LIMIT)
def test_few_registers_are_spilled(chip):
    assert [row for row in compiled() if row.chip == chip and row.stack > STACK_LIMIT[chip]] == []


@pytest.mark.parametrize("chip", SHARED_LIMIT)
def test_half_precision_is_multiplied_by_the_tensor_cores(chip):
    """From 8.0 on; for 7.5 triton has none, which is why `auto` takes torch's kernels there."""
    products = {
        (row.kernel, row.head_dim): row.product
        for row in compiled()
        if row.chip == chip and row.dtype != "fp32" and row.product != "none"
    }
    assert {kernel for kernel, _ in products} == {"forward", "key_value", "query", "decode"}
    if chip == 75:
        assert set(products.values()) == {"fma.rn.f32"}
        return
    assert set(products.values()) <= {"mma.sync", "wgmma.mma_async", "tcgen05.mma"}
    # The large products of Hopper and of data-centre Blackwell have instructions of their own.
    own = {90: "wgmma.mma_async", 100: "tcgen05.mma"}.get(chip, "mma.sync")
    assert all(products[kernel, 128] == own for kernel in ("forward", "key_value", "query"))


def test_float32_is_multiplied_by_three_products_of_tf32():
    """triton #1671, #8654; triton_docs_tutorials #6: one product of TF32, the default, loses 13 of the 23 bits."""
    products = {row.product for row in compiled() if row.dtype == "fp32" and row.product != "none"}
    assert products == {"mma.sync"}
    assert compile_here("-c", FLOAT32).split() == ["3.0"]


#: How many products of TF32 there are to one of float16 in the same tile.
FLOAT32 = """
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
from mhalib.backends.triton import ahead_of_time, configs

def code(chip, dtype):
    config = configs.Config(16, 32, 4, 1)
    return ahead_of_time.compile_kernel(chip, dtype, "decode", config, **configs.sizes(16, 16)).asm["ptx"]

three, half = code(80, "fp32"), code(80, "fp16")
assert "cvt.rna.tf32.f32" in three
# An instruction multiplies 8 numbers of TF32 in a row, and 16 of float16.
print(three.count("m16n8k8.row.col.f32.tf32") / half.count("m16n8k16.row.col.f32.f16") / 2)
"""


#: What a launch can ask for beside the plain case. The interpreter accepts code that the compiler does not.
VARIANTS = """
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
from mhalib.backends.triton import ahead_of_time, configs

sizes = r"|^(lq|lk|heads|kv_heads|window|splits|part)$"
variants = {
    "every size is 1": dict(ones="_d$" + sizes),
    "every size and stride is 1": dict(ones="_[bhld]$" + sizes),
    "no stride is 1": dict(ones="^$"),
    "not causal": dict(CAUSAL=False),
    "not causal, every size is 1": dict(CAUSAL=False, ones="_d$" + sizes),
    "window, both sides": dict(CAUSAL=False, WINDOWED=True, ones="_d$" + sizes),
    "everything": dict(WINDOWED=True, HAS_LENGTHS=True, HAS_QUERY_LENGTHS=True, CAPPED=True, WIDE=True, GROUP=1),
}
for kernel in ahead_of_time.KERNELS:
    for name, options in variants.items():
        for dtype in ("fp16", "fp32") if name == "everything" else ("fp16",):
            config = configs.Config(16, 16, 4, 1)
            ahead_of_time.compile_kernel(80, dtype, kernel, config, D=24, DV=16, PAD_D=32, PAD_DV=16, **options)
            print(kernel, "|", name, "|", dtype)
"""


def test_every_option_compiles():
    lines = compile_here("-c", VARIANTS).splitlines()
    assert len(lines) == len(set(lines)) == len(ahead_of_time.KERNELS) * 8


#: The largest tiles of each kernel for the dtypes and head sizes that the table leaves out.
REST = """
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
from mhalib.backends.triton import ahead_of_time, configs

for chip, dtype, head_dim, kernel in (
    (75, "fp16", 128, "forward"), (75, "fp16", 256, "decode"), (75, "bf16", 64, "decode"), (75, "fp32", 64, "forward"),
    (75, "fp32", 128, "query"), (75, "fp32", 128, "key_value"),
    (89, "fp32", 256, "query"), (89, "fp32", 256, "key_value"), (89, "fp32", 256, "forward"),
    (120, "bf16", 128, "forward"), (100, "bf16", 128, "query"),
):
    print(*ahead_of_time.compile_row(chip, dtype, head_dim, kernel), sep=",")
for chip in (80, 89, 90):
    for head_dim in (64, 128, 256):
        config = configs.look_up("decode", chip, None, head_dim)._replace(block_q=configs.DECODE_ROWS)
        print(*ahead_of_time.compile_row(chip, "fp16", head_dim, "decode", config), sep=",")
"""


def test_what_the_table_leaves_out_fits_too():
    """Also pytorch #164813, fla #458: compiling for Turing aborted in older compilers, with bfloat16 for one."""
    lines = compile_here("-c", REST).splitlines()
    rows = ahead_of_time.parse([",".join(ahead_of_time.Row._fields), *lines])
    assert len(rows) == 11 + 9
    assert [row for row in rows if row.shared > SHARED_LIMIT[row.chip]] == []
    products = {(row.chip, row.product) for row in rows if row.dtype == "fp32"}
    assert products == {(75, "fma.rn.f32"), (89, "mma.sync")}


def test_a_chip_that_is_not_listed_takes_the_row_of_a_smaller_one():
    half = configs.look_up("forward", 80, None, 128), configs.look_up("forward", 89, None, 128)
    assert half[0] != half[1]
    assert configs.look_up("forward", 87, None, 128) == half[0]
    assert configs.look_up("forward", 86, None, 128) == half[1]
    assert configs.look_up("forward", 103, None, 128) == configs.look_up("forward", 100, None, 128)
    assert configs.look_up("forward", 121, None, 128) == configs.look_up("forward", 120, None, 128)
    assert configs.look_up("forward", 90, None, 64) != configs.look_up("forward", 90, None, 65)
