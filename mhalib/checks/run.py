"""Run an answer on cases and note what it did. Used in the notebook, and in the process that runs students' code."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mhalib.checks.compare import difference
from mhalib.checks.data import Case, Outcome, plain, plain_tensor

MAX_MESSAGE = 500  # characters of an error's message


def run(answer: object, cases: Sequence[Case]) -> list[Outcome]:
    """What `answer` does with each case.

    Each call gets copies of the inputs and the same random seed; the caller's random state stays as it was. An
    exception becomes an outcome, SystemExit too; KeyboardInterrupt does not, so that a reader can stop an endless loop.
    An answer that cannot be called is its own value, on cases without arguments.
    """
    with torch.random.fork_rng(devices=[]):
        return [_outcome(answer, case) for case in cases]


def _outcome(answer: object, case: Case) -> Outcome:
    try:
        arguments = copy.deepcopy(case.arguments)
        value = plain(_call(answer, case, arguments))
        gradients = _gradients(answer, case) if case.gradients else {}
    except (Exception, SystemExit) as error:
        return Outcome(error=_describe(error))
    changed = tuple(name for name, was in case.arguments.items() if difference(arguments[name], was, {}))
    return Outcome(value, gradients, changed=changed)


def _call(answer: Any, case: Case, arguments: dict[str, Any]) -> object:
    torch.manual_seed(0)
    if case.construct is not None:
        answer = answer(**copy.deepcopy(case.construct))
        if case.state is not None:
            answer.load_state_dict(copy.deepcopy(case.state))
        if isinstance(answer, torch.nn.Module):
            answer.eval()
    elif not callable(answer) and not arguments:
        return answer
    return answer(**arguments)


def _gradients(answer: object, case: Case) -> dict[str, Tensor]:
    """Derivatives of sum(output · cotangent), 0 where the output does not depend on an argument."""
    arguments = copy.deepcopy(case.arguments)
    leaves = {name: arguments[name].requires_grad_() for name in case.gradients}
    arguments |= {name: leaf.clone() for name, leaf in leaves.items()}  # an answer may write into these
    outputs = [x for x in _tensors(_call(answer, case, arguments)) if x.is_floating_point()]
    total = sum((x * cotangent(x)).sum() for x in outputs)
    if not (isinstance(total, Tensor) and total.requires_grad):
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return {name: plain_tensor(gradient) for name, gradient in zip(leaves, found, strict=True)}


def cotangent(x: Tensor) -> Tensor:
    """Fixed numbers in the shape of `x`, no two neighbours alike: what the gradients are taken with."""
    return torch.arange(x.numel(), dtype=torch.float64).mul(1.7).cos().reshape(x.shape).to(x)


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for item in value for x in _tensors(item)] if isinstance(value, list | tuple) else []


def _describe(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # an exception of the answer's own making
        message = ""
    return f"{type(error).__name__}: {message}"[:MAX_MESSAGE]
