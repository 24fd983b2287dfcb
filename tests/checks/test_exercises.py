"""Exercises: right answers get full points, wrong ones none and their own hint; notebooks and checks agree.

Everything is discovered: the definitions from mhalib/checks, the answers from tests/answers/NN_name/exercise.py, the
notebooks from solutions/. Answers are tried on the inputs that the notebook shows; with --all-seeds on others too.
"""

import re

import nbformat
import pytest
from answers import all_answers

from mhalib import checks
from tools.book import twins

SEEDS = (checks.VISIBLE_SEED, 1, 2)
VISIBLE_FIRST = [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.other_seeds) for seed in SEEDS[1:])]
MIN_WRONG, MIN_RIGHT = 5, 2
EXERCISES = checks.all()
SOLUTIONS = [stem for stem in twins.stems() if stem.parent.parent.name == "solutions"]
ANSWERS = all_answers()
WRONG = [answer for answer in ANSWERS if answer.kind == "wrong"]
RIGHT = [answer for answer in ANSWERS if answer.kind == "right"]


def label(value):
    return value.id if isinstance(value, checks.Exercise) else value.label


def judge(exercise, answer, seed):
    cases = exercise.cases(seed)
    return exercise.judge(cases, checks.run(answer, cases))


@pytest.mark.parametrize("seed", VISIBLE_FIRST)
@pytest.mark.parametrize("answer", RIGHT, ids=label)
def test_right_answer_gets_all_points(answer, seed):
    exercise = checks.get(answer.exercise)
    report = judge(exercise, answer.value(exercise.answer), seed)
    assert report.passed, str(report)
    assert report.points == exercise.points
    assert report.hint is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", VISIBLE_FIRST)
@pytest.mark.parametrize("answer", WRONG, ids=label)
def test_wrong_answer_gets_no_points_and_its_own_hint(answer, seed):
    exercise = checks.get(answer.exercise)
    report = judge(exercise, answer.value(exercise.answer), seed)
    assert not report.passed, f"taken for right\n{report}"
    assert report.points == 0
    assert report.finding == answer.finding, str(report)
    assert report.hint == next(f.hint for f in exercise.findings if f.name == answer.finding)


def blank(*args, **kwargs):
    raise NotImplementedError


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:2])
@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_blank_gets_nothing_and_is_told_where_to_begin(exercise, seed):
    report = judge(exercise, blank, seed)
    assert (report.passed, report.points) == (False, 0)
    assert "not written yet" in str(report)
    assert "raise NotImplementedError()" in report.hint


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_reference_gets_all_points(exercise, seed):
    assert judge(exercise, exercise.reference, seed).passed


@pytest.mark.slow
@pytest.mark.parametrize("junk", [None, 0, "x", (), [None], {}, object()], ids=lambda junk: type(junk).__name__)
@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_junk_gets_nothing_and_breaks_nothing(exercise, junk):
    report = judge(exercise, lambda **kwargs: junk, checks.VISIBLE_SEED)
    assert not report.passed, str(report)


@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_there_are_answers_enough(exercise):
    """At least five wrong answers, two right ones, and a wrong one for each mistake that the exercise knows."""
    wrong, right = ([a for a in answers if a.exercise == exercise.id] for answers in (WRONG, RIGHT))
    assert len(wrong) >= MIN_WRONG
    assert len(right) >= MIN_RIGHT
    assert {answer.finding for answer in right} == {None}
    assert {answer.finding for answer in wrong} == {finding.name for finding in exercise.findings}
    assert len({finding.hint for finding in exercise.findings}) == len(exercise.findings) >= MIN_WRONG
    for answer in wrong + right:
        assert re.fullmatch(r"# [A-Z].+\.", answer.author), f"{answer.label}: say whose answer this is"


def test_every_answer_belongs_to_an_exercise_of_its_chapter():
    assert {label(exercise) for exercise in EXERCISES} == {answer.exercise for answer in ANSWERS}
    assert {answer.path.parent.name for answer in ANSWERS} <= {stem.name for stem in SOLUTIONS}


@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_cases_are_the_same_for_a_seed_and_others_for_another(exercise):
    first, again, other = (checks.encode.encode_cases(exercise.cases(seed)) for seed in (1, 1, 2))
    assert first == again
    cases = exercise.cases(1)
    assert first != other or not any(case.arguments for case in cases)
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_hints_and_reports_give_no_code(exercise):
    hints = [item.hint for item in (*exercise.findings, *exercise.properties) if item.hint]
    for hint in hints:
        assert not re.search(r"^\s*(return|def|import)\b|softmax\(dim|\w = \w+\(", hint), hint
        assert hint[0].isupper()
        assert hint[-1] in ".?"


# The notebooks.


def checked_cells(notebook):
    """(grade_id, points, the two arguments of check) of each cell that checks an answer."""
    found = []
    for cell in notebook.cells:
        data = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and data.get("grade"):
            match = re.fullmatch(r'checks\.check\("([\w.]+)", (\w+)\)', cell.source)
            assert match, f"{data['grade_id']}: the cell holds nothing but checks.check(id, name)"
            found.append((data["grade_id"], data["points"], *match.groups()))
    return found


@pytest.mark.parametrize("stem", SOLUTIONS, ids=lambda stem: stem.name)
def test_notebook_checks_every_exercise_of_its_chapter(stem):
    notebook = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    cells = checked_cells(notebook)
    expected = [e for e in EXERCISES if e.id.startswith(stem.name[:2] + ".")]
    assert [(points, id, name) for _, points, id, name in cells] == [(e.points, e.id, e.answer) for e in expected]
    assert [grade_id for grade_id, *_ in cells] == ["check-" + e.id[3:].replace("_", "-") for e in expected]


@pytest.mark.parametrize("stem", SOLUTIONS, ids=lambda stem: stem.name)
def test_notebook_is_in_the_form_that_nbgrader_reads(stem):
    notebook = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    marked = [(cell, cell.metadata.nbgrader) for cell in notebook.cells if "nbgrader" in cell.metadata]
    ids = [data.grade_id for _, data in marked]
    assert len(set(ids)) == len(ids)
    for cell, data in marked:
        assert (data.schema_version, data.task) == (3, False)
        assert data.locked == (not data.solution), data.grade_id
        region = re.findall(r"### (BEGIN|END) SOLUTION", cell.source)
        assert region == (["BEGIN", "END"] if data.solution else []), data.grade_id
        assert ("points" in data) == data.grade, data.grade_id
    assert not any("SOLUTION" in cell.source for cell in notebook.cells if "nbgrader" not in cell.metadata)
    manual = [data for cell, data in marked if data.grade and data.solution]
    assert len(manual) >= 2, "one derivation and one open question at least"
    total = sum(data.points for _, data in marked if data.grade)
    assert f", {total} points" in notebook.cells[0].source, f"the first cell has to say that there are {total} points"
