"""The judge: answers run on copies and become plain data, data travels without executing anything, reports are fair."""

import json
import math
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mhalib import checks
from mhalib.checks import Case, Exercise, Finding, NotYet, Outcome, Property, run
from mhalib.checks.compare import TOLERANCE, difference, outcomes_differ
from mhalib.checks.data import DTYPES, MAX_BYTES, plain
from mhalib.checks.encode import decode, decode_cases, encode, encode_cases, pack, unpack
from mhalib.checks.run import cotangent

DOUBLE = torch.float64
ROOT = Path(__file__).resolve().parents[2]


def one(answer, gradients=(), **arguments):
    return run(answer, [Case("one", arguments, gradients)])[0]


# Running.


def test_value_becomes_plain_data():
    def answer(x):
        return {"a": nn.Parameter(x), 2: (np.float32(0.5), [np.arange(3), True, None, "é"])}

    value = one(answer, x=torch.ones(2)).value
    assert type(value["a"]) is torch.Tensor
    assert not value["a"].requires_grad
    assert value[2][0] == 0.5
    assert isinstance(value[2][0], float)
    assert torch.equal(value[2][1][0], torch.arange(3))
    assert value[2][1][1:] == [True, None, "é"]


@pytest.mark.parametrize("junk", [object(), len, nn.Linear(1, 1), 1j, b"x", {1.5: 2}, {(1,): 2}, {1, 2}, iter([])])
def test_what_is_not_plain_data_is_an_error_that_names_it(junk):
    outcome = one(lambda: junk)
    assert outcome.error.startswith("TypeError: returned a ")
    assert outcome.value is None


@pytest.mark.parametrize(
    ("junk", "message"),
    [
        (lambda: torch.zeros(1).expand(10**12), "more than 16 MiB"),
        (lambda: ["x" * 10**6] * 20, "more than 16 MiB"),
        (lambda: 2**70, "more than 63 bits"),
        (lambda: torch.zeros(2, 2).to_sparse(), "sparse"),
        (lambda: torch.zeros(2, dtype=torch.complex64), "complex64"),
    ],
    ids=["expanded", "text", "integer", "sparse", "complex"],
)
def test_what_is_too_large_or_strange_is_an_error(junk, message):
    assert message in one(junk).error


def test_a_list_that_contains_itself_is_an_error():
    endless = []
    endless.append(endless)
    assert "containers in more than" in one(lambda: endless).error


def test_an_error_becomes_an_outcome_and_an_interrupt_does_not():
    def wrong():
        raise ValueError("num_heads: got 3")

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def mute():
        raise Mute

    assert one(wrong).error == "ValueError: num_heads: got 3"
    assert one(lambda: exit(3)).error.startswith(("NameError", "SystemExit"))
    assert one(mute).error == "Mute: "

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one(interrupted)


def test_system_exit_and_long_messages():
    def leave():
        raise SystemExit("x" * 10_000)

    try:
        outcome = one(leave)
    except SystemExit:
        outcome = None
    assert outcome is not None, "the answer ended the run"
    assert len(outcome.error) == 500


def test_inputs_are_copies_and_writing_into_them_is_noted():
    x, y = torch.zeros(3), [torch.ones(2), 5]

    def answer(x, y):
        x += 1
        y[1] = 6
        return x

    outcome = one(answer, x=x, y=y)
    assert outcome.changed == ("x", "y")
    assert torch.equal(x, torch.zeros(3))
    assert y[1] == 5
    assert one(lambda x, y: x + 1, x=x, y=y).changed == ()
    nan = torch.tensor([math.nan])
    assert one(lambda x: x, x=nan).changed == ()


def test_random_numbers_are_the_same_for_each_case_and_the_callers_stay_as_they_were():
    torch.manual_seed(7)
    want = torch.rand(1)
    torch.manual_seed(7)
    first, second = run(lambda: torch.rand(2), [Case("a"), Case("b")])
    assert torch.equal(first.value, second.value)
    assert torch.equal(torch.rand(1), want)


def test_gradients_equal_those_of_autograd():
    x, y = (torch.randn(3, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(n)) for n in (0, 1))
    outcome = one(lambda x, y: (x * y, 3, {"a": (x**2).sum(dim=1)}), gradients=("x", "y"), x=x, y=y)
    ramp = torch.tensor([math.cos(1.7 * n) for n in range(12)], dtype=DOUBLE).reshape(3, 4)
    want = ramp * y + 2 * x * ramp.flatten()[:3, None]
    assert torch.allclose(outcome.gradients["x"], want, rtol=0, atol=1e-12)
    assert torch.allclose(outcome.gradients["y"], ramp * x, rtol=0, atol=1e-12)
    assert torch.equal(cotangent(x), ramp)


@pytest.mark.parametrize(
    "answer", [lambda x: x.detach() * 2, lambda x: torch.ones(3), lambda x: 5], ids=["detached", "another", "no tensor"]
)
def test_a_cut_graph_has_gradient_zero(answer):
    assert torch.equal(one(answer, gradients=("x",), x=torch.ones(3)).gradients["x"], torch.zeros(3))


def test_writing_into_an_input_is_no_error_where_gradients_are_taken():
    outcome = one(lambda x: x.mul_(2), gradients=("x",), x=torch.ones(3, dtype=DOUBLE))
    assert outcome.error is None
    assert torch.allclose(outcome.gradients["x"], 2 * cotangent(torch.ones(3, dtype=DOUBLE)))


def test_a_class_is_built_loaded_and_called_in_evaluation_mode():
    class Answer(nn.Linear):
        def forward(self, x):
            return super().forward(x), self.training

    state = {"weight": torch.full((2, 3), 2.0), "bias": torch.zeros(2)}
    case = Case("one", {"input": torch.ones(1, 3)}, construct={"in_features": 3, "out_features": 2}, state=state)
    outcome = run(nn.Linear, [case])[0]
    assert torch.equal(outcome.value, torch.full((1, 2), 6.0))
    case = Case("one", {"x": torch.ones(1, 3)}, construct={"in_features": 3, "out_features": 2})
    assert run(Answer, [case])[0].value[1] is False


def test_a_value_is_its_own_answer_on_cases_without_arguments():
    assert one(3).value == 3
    assert "not callable" in one(3, x=1).error


# Comparing.


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (1.0, 1),
        ([1, 2], (1, 2)),
        (torch.tensor(2.0), 2.0),
        (2.0, torch.tensor(2.0)),
        (math.nan, math.nan),
        (torch.tensor([math.inf, math.nan]), torch.tensor([math.inf, math.nan])),
        ({"a": None, "b": "x"}, {"b": "x", "a": None}),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
    ],
    ids=repr,
)
def test_same(got, want):
    assert difference(got, want) == ""


@pytest.mark.parametrize(
    ("got", "want", "text"),
    [
        (2, 1, "got 2, which is not it"),
        (True, 1, "got a bool, expected a int"),
        (1, True, "got a int, expected a bool"),
        ("x", "y", "got 'x', which is not it"),
        (None, 1.0, "got None, expected a float"),
        (torch.zeros(2, 1), torch.zeros(1, 2), "got a tensor (2, 1) of float32, expected a tensor (1, 2) of float32"),
        (torch.zeros(2, 3), torch.zeros(3, 2), "got a tensor (2, 3) of float32, expected a tensor (3, 2) of float32"),
        (torch.zeros(2), torch.zeros(2, dtype=DOUBLE), "expected a tensor (2,) of float64"),
        (torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), "1 of 2 numbers differ, by 0.5 at most"),
        (torch.tensor([math.nan]), torch.tensor([1.0]), "1 of 1 numbers differ"),
        (torch.tensor([True]), torch.tensor([False]), "1 of 1 numbers differ"),
        ((1, 2), (1, 2, 3), "got 2 items, expected 3 items"),
        ((1, 5), (1, 2), "item 1: got 5"),
        ({"a": 1}, {"b": 1}, "got a dict with the keys ['a'], expected a dict with the keys ['b']"),
        ({"a": 1}, {"a": 2}, "'a': got 1"),
        (5, [5], "got a int, expected 1 items"),
        (torch.zeros(1), None, "got a tensor (1,) of float32, expected None"),
        (None, torch.zeros(1), "got None"),
    ],
    ids=repr,
)
def test_different(got, want, text):
    assert text in difference(got, want)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_tolerance_follows_the_dtype_and_is_far_below_any_mistake(dtype):
    bound = TOLERANCE[dtype]
    eps = torch.finfo(dtype).eps
    assert 4 * eps < bound < 0.05
    want = torch.tensor([4.0], dtype=dtype)
    for factor, same in ((0.5, True), (2.0, False)):
        got = (want.double() + factor * bound * 5).to(dtype)
        assert (difference(got, want) == "") is same


def test_a_difference_tells_no_expected_number():
    assert "2.625" not in difference(torch.tensor([1.0]), torch.tensor([2.625]))
    assert "2.625" not in difference(1.0, 2.625)
    assert "yes" not in difference("no", "yes")


def test_of_errors_only_the_kind_counts():
    assert outcomes_differ(Outcome(error="ValueError: a"), Outcome(error="ValueError: b")) == ""
    assert "TypeError: a" in outcomes_differ(Outcome(error="TypeError: a"), Outcome(error="ValueError: b"))
    assert "expected ValueError" in outcomes_differ(Outcome(3), Outcome(error="ValueError: b"))


# Travelling.

NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63) + 1, 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=5)
)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    x = torch.arange(math.prod(shape)).reshape(shape) * draw(st.integers(-3, 3))
    return x.to(DTYPES[dtype])


DATA = st.recursive(
    NUMBERS | tensors(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(-9, 9), inner, max_size=3)
    ),
    max_leaves=8,
)


def identical(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(identical, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(identical, one.values(), other.values()))
    return one == other


@given(DATA)
@settings(deadline=None, max_examples=200)
def test_packed_data_comes_back(data):
    assert identical(unpack(pack(data)), data)


def test_outcomes_and_cases_come_back():
    x = torch.randn(2, 3).to(torch.bfloat16)
    outcomes = [Outcome((x, math.inf), {"x": x}, None, ("x",)), Outcome(error="ValueError: é\nx")]
    back = decode(encode(outcomes))
    assert [(o.error, o.changed) for o in back] == [(None, ("x",)), ("ValueError: é\nx", ())]
    assert identical((back[0].value, back[0].gradients), (outcomes[0].value, outcomes[0].gradients))
    cases = [Case("a", {"x": x}, ("x",)), Case("b", construct={"n": 1}, state={"w": x})]
    for got, want in zip(decode_cases(encode_cases(cases)), cases, strict=True):
        fields = (got.name, got.arguments, got.gradients, got.construct, got.state)
        assert identical(fields, (want.name, want.arguments, want.gradients, want.construct, want.state))


def framed(tree, blob=b""):
    text = json.dumps(tree).encode()
    return len(text).to_bytes(8, "little") + text + blob


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        (10**18).to_bytes(8, "little") + b"3",
        b"\xff" * 64,
        pickle.dumps([1]),
        len(DEEP).to_bytes(8, "little") + DEEP.encode(),
        framed({"a": 1}),
        framed([]),
        framed(["set", 1]),
        framed([["list"], 1]),
        framed(["dict", [["list"], 1]]),
        framed(["dict", [1.5, 1]]),
        framed(["dict", 3]),
        framed(["tensor", "float32", [3], 0], b"\0" * 11),
        framed(["tensor", "float32", [-1], 0], b"\0" * 16),
        framed(["tensor", "float32", [True], 0], b"\0" * 16),
        framed(["tensor", "float32", [10**9, 10**9], 0], b"\0" * 16),
        framed(["tensor", "float32", [0, 10**30], 0], b"\0" * 16),
        framed(["tensor", "float32", [1], -4], b"\0" * 16),
        framed(["tensor", "object", [1], 0], b"\0" * 16),
        framed(["tensor", "float32", 1, 0], b"\0" * 16),
        framed(["tensor"]),
        framed(2**70),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_other_bytes_are_refused(data):
    with pytest.raises(Exception, match=r"^data: ") as refusal:
        unpack(data)
    assert refusal.type is ValueError


@pytest.mark.parametrize(
    "rows",
    [
        7,
        [],
        ["x"],
        [(1, 2, 3)],
        [(1, [], None, ())],
        [(1, {"x": 3}, None, ())],
        [(1, {}, 5, ())],
        [(1, {}, None, [])],
        [(1, {}, None, (1,))],
    ],
    ids=repr,
)
def test_other_data_than_outcomes_is_refused(rows):
    if rows == []:
        assert decode(pack(rows)) == []
        return
    with pytest.raises(ValueError, match=r"^data: "):
        decode(pack(rows))


def test_sizes_are_limited_before_anything_is_copied():
    start = time.perf_counter()
    with pytest.raises(ValueError, match="16 MiB"):
        plain(torch.zeros(1).expand(10**15))
    assert time.perf_counter() - start < 1
    assert plain(torch.zeros(MAX_BYTES // 4)).numel() == MAX_BYTES // 4


# Judging.


def double_or_refuse(x):
    if x.ndim == 0:
        raise ValueError("x: got no dimension")
    return 2 * x


def toy(**changes):
    def cases(seed):
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)
        return [Case("three", {"x": x}, ("x",)), Case("none", {"x": torch.tensor(1.0, dtype=DOUBLE)})]

    fields = {
        "id": "99.double",
        "points": 3,
        "answer": "double",
        "cases": cases,
        "reference": double_or_refuse,
        "properties": (
            Property.equal("is twice the input", hint="Twice."),
            Property.each("keeps the sign", lambda case, got, want: (got.value.sign() == want.value.sign()).all()),
            Property.same_gradients(),
            Property.pure(),
            Property.refuses("refuses a single number"),
        ),
        "findings": (
            Finding.like("squared", "Not the square.", lambda x: x * x),
            Finding.any("None", "Return it.", lambda case, got, want: got.error is None and got.value is None),
        ),
    }
    return Exercise(**{**fields, **changes})


def judged(answer, **changes):
    exercise = toy(**changes)
    cases = exercise.cases(0)
    return exercise.judge(cases, run(answer, cases))


def guarded(answer):
    def double(x):
        if x.ndim == 0:
            raise ValueError("no")
        return answer(x)

    return double


def in_place(x):
    return x.mul_(2)


ANSWERS = {
    "right": (guarded(lambda x: x + x), [], None, None),
    "squared": (guarded(lambda x: x * x), ["twice", "sign", "gradients"], "Not the square.", "squared"),
    "nothing": (guarded(lambda x: None), ["twice", "sign", "gradients"], "Return it.", "None"),
    "negative": (guarded(lambda x: -2 * x), ["twice", "sign", "gradients"], "Twice.", None),
    "detached": (guarded(lambda x: 2 * x.detach()), ["gradients"], None, None),
    "in place": (guarded(in_place), ["leaves"], None, None),
    "no refusal": (lambda x: 2 * x, ["refuses"], None, None),
    "string": (guarded(lambda x: "x"), ["twice", "sign", "gradients"], "Twice.", None),
    "wrong dtype": (guarded(lambda x: 2 * x.float()), ["twice", "gradients"], "Twice.", None),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_each_property_fails_where_it_should_and_nowhere_else(name):
    answer, failing, hint, finding = ANSWERS[name]
    report = judged(answer)
    wrong = [text for ok, text in report.lines if not ok]
    assert len(wrong) == len(failing)
    assert all(word in line for word, line in zip(failing, wrong, strict=True))
    assert (report.passed, report.points, report.of) == (not failing, 0 if failing else 3, 3)
    assert (report.hint, report.finding) == (hint, finding)


def test_the_only_case_is_not_named():
    one_case = {"cases": lambda seed: [Case("it", {"x": torch.ones(2, dtype=DOUBLE)})]}
    assert (False, "keeps the sign") in judged(lambda x: -x, **one_case).lines
    assert (False, "keeps the sign: not on 'three'") in judged(guarded(lambda x: -x)).lines


def test_a_crash_is_told_with_its_case_and_nothing_else():
    report = judged(lambda x: x.no_such_thing)
    assert len(report.lines) == 1
    assert "stopped on 'three' with AttributeError" in str(report)


def test_the_order_of_findings_decides():
    first = Finding("first", "First.", lambda evidence: True)
    assert judged(lambda x: None, findings=(first, *toy().findings)).finding == "first"
    assert judged(guarded(lambda x: x + x), findings=(first,)).finding is None


def test_a_property_or_finding_that_raises_does_not_hold():
    broken = Property("broken", lambda evidence: 1 / 0)
    assert not judged(guarded(lambda x: x + x), properties=(broken,)).passed
    finding = Finding("broken", "Broken.", lambda evidence: 1 / 0)
    assert judged(lambda x: None, findings=(finding,), properties=(broken,)).hint is None


def test_a_mistake_is_recognised_only_where_all_cases_that_tell_it_agree():
    def cases(seed):
        return [Case(name, {"x": torch.full((2,), size, dtype=DOUBLE)}) for name, size in (("3", 3.0), ("4", 4.0))]

    for answer, finding in ((lambda x: x * x, "squared"), (lambda x: x * x if x[0] == 3 else -x, None)):
        assert judged(answer, cases=cases).finding == finding


def test_a_mistake_may_be_that_nothing_is_refused():
    unguarded = Finding.like("no refusal", "Refuse.", lambda x: 2 * x)
    assert judged(lambda x: x + x, findings=(unguarded,)).finding == "no refusal"
    assert judged(guarded(lambda x: -x), findings=(unguarded,)).finding is None


def test_a_mistake_that_changes_nothing_recognises_nothing():
    same = Finding.like("same", "The same.", double_or_refuse)
    assert judged(guarded(lambda x: -x), findings=(same,)).finding is None


def test_report_is_narrow_and_aligned():
    text = str(judged(guarded(lambda x: -x), properties=(Property.equal(hint="word " * 60 + "end."),)))
    lines = text.splitlines()
    assert lines[0] == "99.double  ✓ gives a value for 1 input"
    assert all(line.startswith(" " * 11) for line in lines[1:])
    assert max(map(len, lines)) <= 100


def test_other_outcomes_than_cases_are_refused():
    with pytest.raises(ValueError, match="zip"):
        toy().judge(toy().cases(0), [])


# The notebook.


@pytest.fixture
def course(monkeypatch):
    monkeypatch.setattr(checks, "get", lambda id: toy())


def test_check_prints_the_report_and_says_nothing_more_where_all_is_right(course, capsys):
    assert checks.check("99.double", guarded(lambda x: x + x)) is None
    said = capsys.readouterr().out
    assert said.count("✓") == 6
    assert "Hint" not in said


def test_check_raises_after_printing_so_that_other_graders_see_it_too(course, capsys):
    with pytest.raises(NotYet) as caught:
        checks.check("99.double", guarded(lambda x: x * x))
    said = capsys.readouterr().out
    assert said == str(caught.value) + "\n"
    assert said.endswith("Hint: Not the square.\n")


def test_jupyter_shows_one_line_and_no_traceback(course, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.instance().run_cell("from mhalib import checks\nchecks.check('99.double', lambda x: None)")
    said = capsys.readouterr().out
    InteractiveShell.clear_instance()
    assert "Traceback" not in said
    assert said.endswith("Hint: Return it.\nNot yet. Change your answer, run its cell, and run this cell again.\n")


def test_get_refuses_what_is_not_there():
    assert checks.get("02.attend").id == "02.attend"
    with pytest.raises(TypeError, match="id: got int; accepted is the name of an exercise"):
        checks.get(2)
    with pytest.raises(ValueError, match=r"id: got '02\.none'; accepted are 02\.attend, "):
        checks.get("02.none")
    for id in ("99.none", "", "02", "../x"):
        with pytest.raises(ValueError, match="accepted are"):
            checks.get(id)


def test_checks_need_nothing_but_torch_and_numpy():
    """As on Colab, where mhalib is installed without what it could need."""
    code = "import sys, torch, numpy; before = set(sys.modules); from mhalib import checks; checks.all()"
    code += "; print(*{name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["mhalib"]


def test_all_lists_every_exercise_once():
    ids = [exercise.id for exercise in checks.all()]
    assert ids == sorted(ids, key=lambda id: id[:2])
    assert len(set(ids)) == len(ids)
    assert all(checks.get(exercise.id) is exercise for exercise in checks.all())
