"""Checks that several modules share; each names the argument, what came, and what is accepted."""

from __future__ import annotations

from torch import Tensor


def check_tensors(**tensors: Tensor) -> None:
    """Refuse everything that is not a tensor."""
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: got {type(x).__name__}; accepted is a tensor, see torch.as_tensor")


def check_whole(minimum: int = 1, **sizes: int) -> None:
    """Refuse every size that is not an integer of at least `minimum`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"{name}: got {size!r}; accepted is an integer of at least {minimum}")
        if size < minimum:
            raise ValueError(f"{name}: got {size}; accepted is an integer of at least {minimum}")


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
