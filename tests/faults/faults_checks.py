"""Faults of what runs, encodes, compares and judges answers."""

from engine import Fault

RUN = "checks/run.py"
DATA = "checks/data.py"
COMPARE = "checks/compare.py"
ENCODE = "checks/encode.py"
EXERCISE = "checks/exercise.py"
CHECKS = "checks/__init__.py"

FAULTS = [
    Fault(
        "an answer gets the judge's own inputs",
        RUN,
        "_outcome",
        "copy.deepcopy(case.arguments)",
        "case.arguments",
        "test_checks.py::copies",
    ),
    Fault(
        "SystemExit ends the run",
        RUN,
        "_outcome",
        "(Exception, SystemExit)",
        "Exception",
        "test_checks.py::system_exit",
    ),
    Fault(
        "an interrupt is swallowed",
        RUN,
        "_outcome",
        "(Exception, SystemExit)",
        "BaseException",
        "test_checks.py::interrupt",
    ),
    Fault(
        "the caller's random state is changed",
        RUN,
        "run",
        """\
with torch.random.fork_rng(devices=[]):
    ...
""",
        """\
if True:
    ...
""",
        "test_checks.py::random_numbers",
    ),
    Fault("there is no seed before a call", RUN, "_call", "torch.manual_seed(0)", "", "test_checks.py::random_numbers"),
    Fault(
        "gradients are those of the first tensor alone",
        RUN,
        "_tensors",
        "[x for item in value for x in _tensors(item)]",
        "[x for item in value[:1] for x in _tensors(item)]",
        "test_checks.py::equal_those_of_autograd",
    ),
    Fault("a module stays in training mode", RUN, "_call", "answer.eval()", "pass", "test_checks.py::built_loaded"),
    Fault(
        "the state of a module is not loaded",
        RUN,
        "_call",
        "case.state is not None",
        "False",
        "test_checks.py::built_loaded",
    ),
    Fault(
        "an answer that writes into its inputs goes unnoticed",
        RUN,
        "_outcome",
        "Outcome(value, gradients, changed=changed)",
        "Outcome(value, gradients, changed=())",
        "test_checks.py::copies",
    ),
    Fault(
        "an expanded tensor is copied before its size is looked at",
        DATA,
        "_plain_tensor",
        "tensor.numel() * tensor.element_size()",
        "tensor.untyped_storage().nbytes()",
        "test_checks.py::too_large and expanded",
    ),
    Fault(
        "results keep their history",
        DATA,
        "_plain_tensor",
        "tensor.detach()",
        "tensor",
        "test_checks.py::becomes_plain",
    ),
    Fault(
        "dtypes are not compared",
        COMPARE,
        "_tensors",
        "got.shape != want.shape or got.dtype != want.dtype",
        "got.shape != want.shape",
        "test_checks.py::different",
    ),
    Fault(
        "shapes are broadcast",
        COMPARE,
        "_tensors",
        "got.shape != want.shape or got.dtype != want.dtype",
        "got.dtype != want.dtype",
        "test_checks.py::different",
    ),
    Fault(
        "NaN differs from NaN",
        COMPARE,
        "_tensors",
        "torch.isclose(g, w, rtol=bound, atol=bound, equal_nan=True)",
        "torch.isclose(g, w, rtol=bound, atol=bound, equal_nan=False)",
        "test_checks.py::same",
    ),
    Fault(
        "True equals 1",
        COMPARE,
        "difference",
        "is_number(want) and is_number(got)",
        "isinstance(want, int | float) and isinstance(got, int | float)",
        "test_checks.py::different",
    ),
    Fault(
        "the message of an error decides, and not its kind",
        COMPARE,
        "outcomes_differ",
        "outcome.error and outcome.error.partition(':')[0]",
        "outcome.error",
        "test_checks.py::only_the_kind",
    ),
    Fault(
        "a negative size is accepted",
        ENCODE,
        "_tensor",
        "type(size) is int and size >= 0",
        "type(size) is int",
        "test_checks.py::other_bytes",
    ),
    Fault(
        "a tensor may end after the data", ENCODE, "_tensor", "end > len(blob)", "False", "test_checks.py::other_bytes"
    ),
    Fault(
        "a length beyond the data is accepted",
        ENCODE,
        "unpack",
        "end > len(data)",
        "False",
        "test_checks.py::other_bytes",
    ),
    Fault(
        "gradients may be anything",
        ENCODE,
        "_outcome",
        "isinstance(gradients, dict) and all((isinstance(x, Tensor) for x in gradients.values()))",
        "True",
        "test_checks.py::other_data",
    ),
    Fault(
        "some properties are enough for the points",
        EXERCISE,
        "Exercise.judge",
        "all((ok for ok, _ in lines))",
        "any((ok for ok, _ in lines))",
        "test_checks.py::each_property",
    ),
    Fault(
        "the last finding wins",
        EXERCISE,
        "Exercise.judge",
        "(f for f in self.findings if holds(f.test, evidence))",
        "(f for f in self.findings[::-1] if holds(f.test, evidence))",
        "test_checks.py::order_of_findings",
    ),
    Fault(
        "a mistake that changes nothing is recognised",
        EXERCISE,
        "Finding.like.alike",
        "bool(telling) and all((evidence.same(got, wrong) for got, wrong, _ in telling))",
        "all((evidence.same(got, wrong) for got, wrong, _ in telling))",
        "test_checks.py::changes_nothing",
    ),
    Fault(
        "one equal case is enough to recognise a mistake",
        EXERCISE,
        "Finding.like.alike",
        "all((evidence.same(got, wrong) for got, wrong, _ in telling))",
        "any((evidence.same(got, wrong) for got, wrong, _ in telling))",
        "test_checks.py::all_cases_that_tell",
    ),
    Fault(
        "a property that raises holds", EXERCISE, "holds", "return False", "return True", "test_checks.py::that_raises"
    ),
    Fault(
        "check does not raise",
        CHECKS,
        "check",
        "raise NotYet(str(report))",
        "pass",
        "test_checks.py::raises_after_printing",
    ),
    Fault(
        "a notebook shows a traceback",
        CHECKS,
        "NotYet",
        """\
def _render_traceback_(self) -> list[str]:
    ...
""",
        """\
def _render_(self) -> list[str]:
    ...
""",
        "test_checks.py::one_line",
    ),
]
