"""The most memory that one call takes, beyond its inputs: `peak` of a process of its own, `LiveBytes` of its tensors.

python -m bench.memory          # Linux and macOS
"""

from __future__ import annotations

import subprocess
import sys
import weakref

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB = 2**20


class LiveBytes(TorchDispatchMode):
    """`peak`: the most bytes alive at one time in tensors made inside the `with`, beside the `given` ones.

    It sees what each of torch's operators returns, on every system and to the byte; what an operator holds while it
    runs, only `peak` sees.
    """

    def __init__(self, *given: Tensor):
        super().__init__()
        self.now, self.peak = 0, 0
        self._known = {x.untyped_storage()._cdata for x in given}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for storage in [x.untyped_storage() for x in tree_leaves(result) if isinstance(x, Tensor)]:
            if storage._cdata not in self._known:  # a view has the storage of what it is a view of
                self._known.add(storage._cdata)
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())
        return result

    def _freed(self, storage: int, size: int) -> None:
        self._known.discard(storage)
        self.now -= size


CALLS = {
    "mhalib, tile by tile": "mhalib.attention(*qkv, backend='tiled')",
    "SDPA": "torch.nn.functional.scaled_dot_product_attention(*qkv)",
    "softmax, written out": "torch.softmax(qkv[0] @ qkv[1].mT / 8, dim=-1) @ qkv[2]",
}

# A small call first: what libraries set up once is not memory of the call. Linux keeps a peak of its own for each
# program and can set it back; elsewhere the peak since the start has to do.
PROGRAM = """
import resource, sys
from pathlib import Path
import torch, mhalib

def peak():
    if sys.platform == "linux":
        return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

torch.set_grad_enabled(False)
torch.manual_seed(0)
qkv = torch.randn(3, 1, {heads}, 64, 64)
{call}
qkv = torch.randn(3, 1, {heads}, {length}, 64)
if sys.platform == "linux":
    Path("/proc/self/clear_refs").write_text("5")
before = peak()
{call}
print(peak() - before)
"""


def peak(name: str, length: int, heads: int = 8) -> int:
    """Bytes that the call of `CALLS` takes at most, its output included, for `heads` heads of 64 in float32."""
    program = PROGRAM.format(call=CALLS[name], length=length, heads=heads)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(done.stdout)


def main() -> None:
    for length in (1024, 2048, 4096, 8192):
        for name in CALLS:
            print(f"{length:6,} tokens, 8 heads of 64   {name:24}{peak(name, length) / MIB:10.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
