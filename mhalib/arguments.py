"""The one place where arguments are checked: each refusal names the argument, what came, and what is accepted.

No other module asks whether something is a number, a whole number, a flag or a pair, or imports an optional package.
"""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

#: What pip calls a package that Python imports under another name.
DISTRIBUTIONS = {"skimage": "scikit-image", "sklearn": "scikit-learn"}


def kind(x: object) -> str:
    """What came, in a message: "a torch.int64 tensor", "str 'causal'"."""
    return f"a {x.dtype} tensor" if isinstance(x, Tensor) else f"{type(x).__name__} {x!r}"


def is_whole(x: object) -> bool:
    """Is it an integer, numpy's and torch's symbolic ones included? True and False are not."""
    return type(x) is int or (isinstance(x, numbers.Integral | torch.SymInt) and not isinstance(x, bool))


def is_number(x: object) -> bool:
    """Is it a real number, numpy's and torch's symbolic ones included? True and False, tensors and text are not."""
    symbolic = torch.SymInt | torch.SymFloat
    return type(x) in (int, float) or (isinstance(x, numbers.Real | symbolic) and not isinstance(x, bool))


def is_symbol(size: int) -> bool:
    """Does a size stand for many, while torch compiles or exports? Comparing it would fix the program to one answer."""
    if not torch.compiler.is_compiling():
        return isinstance(size, torch.SymInt)
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return not has_static_value(size)


def check_tensors(**tensors: Tensor) -> None:
    """Refuse everything that is not a tensor."""
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: got {type(x).__name__}; accepted is a tensor, see torch.as_tensor")


def check_whole(minimum: int = 1, **sizes: int) -> None:
    """Refuse every size that is not an integer of at least `minimum`."""
    for name, size in sizes.items():
        if not is_whole(size):
            raise TypeError(f"{name}: got {size!r}; accepted is an integer of at least {minimum}")
        if size < minimum:
            raise ValueError(f"{name}: got {size}; accepted is an integer of at least {minimum}")


def whole_numbers(minimum: int = 1, **sizes: int) -> tuple[int, ...]:
    """The sizes as Python's integers, which neither overflow nor print as "np.int64(8)"; see `check_whole`."""
    check_whole(minimum, **sizes)
    return tuple(int(size) for size in sizes.values())


def check_flags(**flags: bool) -> None:
    """Refuse everything that is neither True nor False: 1, None and "no" could be read in two ways."""
    for name, flag in flags.items():
        if flag is not True and flag is not False:
            raise TypeError(f"{name}: got {flag!r}; accepted are True and False")


def number(name: str, x: float, accepted: str, fits: Callable[[float], bool] = lambda x: True) -> float:
    """`x` as a Python float; refused unless it is a finite real number that `fits`.

    Args:
        name: the argument.
        accepted: the end of the sentence "accepted is …", such as "a probability from 0 up to, not including, 1".
        fits: whether a finite number is in range.
    """
    if not is_number(x):
        raise TypeError(f"{name}: got {kind(x)}; accepted is {accepted}")
    # Comparisons, because torch.compile follows them for symbolic numbers; NaN fails both.
    if not (-math.inf < x < math.inf and fits(x)):
        raise ValueError(f"{name}: got {x}; accepted is {accepted}")
    return float(x)


def probability(name: str, x: float) -> float:
    """`x` as a Python float; refused unless 0 ≤ x < 1, as the probability of a dropout must be."""
    return number(name, x, "a probability from 0 up to, not including, 1", lambda x: 0 <= x < 1)


def pair(name: str, value: int | tuple[int, int] | list[int]) -> tuple[int, int]:
    """(height, width) from a tuple or list of two whole numbers of at least 1, or from one number for both."""
    both = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2:
        raise ValueError(f"{name}: got {value!r}; accepted is (height, width), or one number for both")
    for one in both:
        if not is_whole(one):
            raise TypeError(f"{name}: got {value!r}; accepted is (height, width), or one number for both")
        check_whole(**{name: one})
    return int(both[0]), int(both[1])


def unwrapped(x: Tensor) -> Tensor | None:
    """The tensor inside `x`, where a transform of `torch.func` (vmap, grad, jvp …) has wrapped it; else None."""
    functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    return functorch.get_unwrapped(x) if functorch.is_functorch_wrapped_tensor(x) else None


def readable(x: Tensor) -> Tensor | None:
    """`x`, if its values can be read without waiting for a device, else None.

    They can be where it is a tensor on the CPU, which may be wrapped by `torch.func.vmap`. They cannot on a GPU, where
    every read waits for all that was started before; nor on the meta device, of a fake tensor, or while compiling.
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return None
    while (inner := unwrapped(x)) is not None:
        x = inner
    return x if type(x) in (Tensor, torch.nn.Parameter) else None


def assert_on_device(x: Tensor, fits: Callable[[Tensor], Tensor], message: str) -> None:
    """For a tensor that is not `readable`: refuse wrong values where they are, without reading them here.

    On CUDA and in a compiled program a wrong value stops the program with `message`; other devices cannot check it.

    Args:
        fits: from `x` to a bool tensor, all of which must be True.
    """
    if x.device.type in ("cuda", "meta") or torch.compiler.is_compiling():
        torch._assert_async(fits(x).all(), message)  # pyright: ignore[reportPrivateImportUsage]


def divisors(number: int) -> list[int]:
    """All divisors of `number`, ascending."""
    return [n for n in range(1, number + 1) if number % n == 0]


def check_kv_heads(num_heads: int, num_kv_heads: int) -> None:
    """Refuse key heads that do not divide the query heads."""
    if num_heads % num_kv_heads:
        raise ValueError(
            f"num_kv_heads: got {num_kv_heads} for num_heads={num_heads}; accepted are its divisors "
            f"{divisors(num_heads)}, so that each key head serves a whole group of query heads"
        )


def resolve_head_dim(d_model: int, num_heads: int, head_dim: int | None) -> int:
    """`head_dim`, or `d_model / num_heads` where it is None; refused when that is not whole."""
    if head_dim is not None:
        return head_dim
    if d_model % num_heads:
        raise ValueError(
            f"num_heads: got {num_heads} for d_model={d_model}; accepted are its divisors {divisors(d_model)}, "
            "or any number with an explicit head_dim"
        )
    return d_model // num_heads


def require(package: str, *, by: str, instead: str = "") -> ModuleType:
    """The optional package, imported; where it is missing, an ImportError that says what to install.

    Args:
        package: as it is imported, such as "matplotlib" or "safetensors.torch".
        by: what needs it, such as "mhalib.plots".
        instead: what can be done without it, if anything; the end of a sentence.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        # The package itself may be there and one that it needs missing: that one is to be installed.
        missing = (error.name or package).partition(".")[0]
        name = DISTRIBUTIONS.get(missing, missing)
        rest = f"; {instead}" if instead else ""
        raise ImportError(f"{by} needs {name}: pip install {name}{rest}") from error
