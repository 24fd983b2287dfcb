"""What an exercise is: inputs, a reference, the properties of a right answer, and the mistakes that people make.

One definition serves the feedback in the notebook, the grading on other inputs, and the test that typical mistakes are
recognised. Judging looks at data only: cases and what an answer did with them, never at the answer itself.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from mhalib.checks.compare import TOLERANCE, outcomes_differ
from mhalib.checks.data import Case, Data, Outcome
from mhalib.checks.run import run

WIDTH = 100  # of the feedback, in characters
UNWRITTEN = "NotImplementedError"
WRITE = "Put your code in the place of `raise NotImplementedError()`, run that cell, then run this one again."


@dataclass(frozen=True)
class Evidence:
    """All that a judgement rests on: cases, what the answer did, and what the reference did, in the same order."""

    cases: Sequence[Case]
    outcomes: Sequence[Outcome]
    expected: Sequence[Outcome]
    tolerance: Mapping[torch.dtype, float] = field(default_factory=lambda: TOLERANCE)

    def rows(self) -> list[tuple[Case, Outcome, Outcome]]:
        """One (case, outcome, expected) for each case."""
        return list(zip(self.cases, self.outcomes, self.expected, strict=True))

    def got(self, name: str) -> Data:
        """The answer's value for the case called `name`."""
        return next(outcome.value for case, outcome, _ in self.rows() if case.name == name)

    def same(self, got: Outcome, want: Outcome) -> bool:
        """Whether two outcomes are the same to the tolerance: value, gradients, kind of error."""
        return not outcomes_differ(got, want, self.tolerance)


@dataclass(frozen=True)
class Property:
    """Something true of every right answer. `name` is a line of the feedback; `hint` is shown where it fails.

    `test` says whether it holds. Where it raises, which arbitrary data may make it do, the property does not hold.
    `detail` may say in one line what was seen instead; it must not say what would be right.
    """

    name: str
    test: Callable[[Evidence], bool]
    hint: str = ""
    detail: Callable[[Evidence], str] | None = None

    @classmethod
    def each(cls, name: str, test: Callable[[Case, Outcome, Outcome], bool], hint: str = "") -> Property:
        """A property of single cases: `test(case, got, expected)` holds wherever the reference gives a value."""

        def failing(evidence: Evidence) -> list[str]:
            rows = [row for row in evidence.rows() if row[2].error is None]
            return [row[0].name for row in rows if row[1].error is not None or not holds(test, *row)]

        def detail(evidence: Evidence) -> str:
            return f"not on {_listed(failing(evidence))}" if len(evidence.cases) > 1 else ""

        return cls(name, lambda e: not failing(e), hint, detail)

    @classmethod
    def equal(cls, name: str = "equals the formula", hint: str = "") -> Property:
        """Same values, shapes and dtypes as the reference, on every case."""

        def wrong(evidence: Evidence) -> list[tuple[str, str]]:
            pairs = [
                (case.name, outcomes_differ(_value(got), _value(want), evidence.tolerance))
                for case, got, want in evidence.rows()
                if want.error is None
            ]
            return [pair for pair in pairs if pair[1]]

        return cls(name, lambda e: not wrong(e), hint, lambda e: "on {!r} {}".format(*wrong(e)[0]))

    @classmethod
    def same_gradients(cls, name: str = "has the right gradients", hint: str = "") -> Property:
        """Same derivatives as the reference, on the cases that name arguments under `gradients`."""

        def wrong(evidence: Evidence) -> list[str]:
            rows = [row for row in evidence.rows() if row[2].error is None]
            return [case.name for case, got, want in rows if not evidence.same(_gradient(got), _gradient(want))]

        return cls(name, lambda e: not wrong(e), hint, lambda e: f"not on {_listed(wrong(e))}")

    @classmethod
    def pure(cls, name: str = "leaves its inputs alone", hint: str = "") -> Property:
        """No argument is written into."""

        def seen(evidence: Evidence) -> str:
            return ", ".join(sorted({name for outcome in evidence.outcomes for name in outcome.changed}))

        return cls(name, lambda e: not seen(e), hint, lambda e: f"it changed {seen(e)}")

    @classmethod
    def refuses(cls, name: str = "refuses wrong inputs", hint: str = "") -> Property:
        """Raises the reference's kind of error wherever the reference raises."""

        def wrong(evidence: Evidence) -> list[str]:
            rows = [row for row in evidence.rows() if row[2].error is not None]
            return [case.name for case, got, want in rows if not evidence.same(got, want)]

        return cls(name, lambda e: not wrong(e), hint, lambda e: f"not on {_listed(wrong(e))}")


@dataclass(frozen=True)
class Finding:
    """A mistake that people make, recognised by what it does; `hint` points at it without giving the code.

    Where `test` raises, which arbitrary data may make it do, the mistake is not recognised.
    """

    name: str
    hint: str
    test: Callable[[Evidence], bool]

    @classmethod
    def like(cls, name: str, hint: str, *mistaken: Callable) -> Finding:
        """Recognised where the answer does what a `mistaken` one does, on every case that tells it from the reference.

        Cases that the reference refuses tell only where no other does, so that `mistaken` need not refuse them too.
        """

        def alike(evidence: Evidence, wrong_answer: Callable) -> bool:
            triples = zip(evidence.outcomes, run(wrong_answer, evidence.cases), evidence.expected, strict=True)
            telling = [triple for triple in triples if not evidence.same(*triple[1:])]
            telling = [triple for triple in telling if triple[2].error is None] or telling
            return bool(telling) and all(evidence.same(got, wrong) for got, wrong, _ in telling)

        return cls(name, hint, lambda evidence: any(alike(evidence, wrong_answer) for wrong_answer in mistaken))

    @classmethod
    def any(cls, name: str, hint: str, test: Callable[[Case, Outcome, Outcome], bool]) -> Finding:
        """Recognised where `test(case, got, expected)` is true of at least one case."""
        return cls(name, hint, lambda evidence: any(holds(test, *row) for row in evidence.rows()))


@dataclass(frozen=True)
class Report:
    """The judgement: all points or none, a line for each property, and the first hint that applies."""

    id: str
    passed: bool
    points: int
    of: int
    lines: tuple[tuple[bool, str], ...]
    hint: str | None = None
    finding: str | None = None  # the name of the mistake that was recognised

    def __str__(self) -> str:
        lines = [f"{'✓' if ok else '✗'} {text}" for ok, text in self.lines]
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        margin = " " * (len(self.id) + 2)
        wrapped = [textwrap.fill(line, WIDTH, initial_indent=margin, subsequent_indent=margin + "  ") for line in lines]
        return self.id + "\n".join(wrapped)[len(self.id) :]


@dataclass(frozen=True)
class Exercise:
    """`answer` is the name that the student defines, `cases(seed)` are its inputs, `reference` is what is right."""

    id: str  # "02.attend"
    points: int
    answer: str
    cases: Callable[[int], list[Case]]
    reference: Callable
    properties: tuple[Property, ...]
    findings: tuple[Finding, ...]
    tolerance: Mapping[torch.dtype, float] = field(default_factory=lambda: TOLERANCE)

    def judge(self, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> Report:
        """All points where every property holds on these cases, else none."""
        evidence = Evidence(cases, outcomes, run(self.reference, cases), self.tolerance)
        lines = self._lines(evidence)
        if all(ok for ok, _ in lines):
            return Report(self.id, True, self.points, self.points, lines)
        finding = next((f for f in self.findings if holds(f.test, evidence)), None)
        hint = finding.hint if finding else self._hint(evidence)
        return Report(self.id, False, 0, self.points, lines, hint or None, finding and finding.name)

    def _lines(self, evidence: Evidence) -> tuple[tuple[bool, str], ...]:
        stopped = [(c.name, o.error) for c, o, want in evidence.rows() if o.error and not want.error]
        if stopped:
            name, error = stopped[0]
            what = "not written yet" if error.startswith(UNWRITTEN) else f"stopped on {name!r} with {error}"
            return ((False, what),)
        count = sum(not want.error for want in evidence.expected)
        lines = [(True, f"gives a value for {count} input{'s' * (count != 1)}")]
        for prop in self.properties:
            ok = holds(prop.test, evidence)
            detail = "" if ok or prop.detail is None else prop.detail(evidence)
            lines.append((ok, f"{prop.name}: {detail}" if detail else prop.name))
        return tuple(lines)

    def _hint(self, evidence: Evidence) -> str:
        if all(o.error and o.error.startswith(UNWRITTEN) for o in evidence.outcomes):
            return WRITE
        return next((p.hint for p in self.properties if p.hint and not holds(p.test, evidence)), "")


def holds(test: Callable[..., bool], *arguments: object) -> bool:
    """Whether `test` is true. It looks at arbitrary data, so whatever it raises means that it is not."""
    try:
        return bool(test(*arguments))
    except Exception:
        return False


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")


def _value(outcome: Outcome) -> Outcome:
    return Outcome(outcome.value, error=outcome.error)


def _gradient(outcome: Outcome) -> Outcome:
    return Outcome(gradients=outcome.gradients, error=outcome.error)
