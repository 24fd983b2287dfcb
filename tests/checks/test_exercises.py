"""Exercises: right answers get full points, wrong ones none and their own hint; notebooks and checks agree.

Everything is discovered: the definitions from mhalib/checks, the answers from tests/exercises/NN_name/<exercise>/, the
notebooks from solutions/.
"""

import re
from pathlib import Path

import nbformat
import pytest

from mhalib import checks
from tools.book import twins

ANSWERS = Path(__file__).parents[1] / "exercises"
SEEDS = (checks.VISIBLE_SEED, 1, 2)
MIN_WRONG, MIN_RIGHT = 5, 2
EXERCISES = checks.all()
SOLUTIONS = [stem for stem in twins.stems() if stem.parent.parent.name == "solutions"]
WRONG = sorted(ANSWERS.glob("*/*/wrong_*.py"))
RIGHT = sorted(ANSWERS.glob("*/*/right_*.py"))


def label(value):
    return value.id if isinstance(value, checks.Exercise) else "-".join(value.with_suffix("").parts[-3:])


def exercise_of(path):
    return checks.get(f"{path.parent.parent.name[:2]}.{path.parent.name}")


def folder_of(exercise):
    number, _, name = exercise.id.partition(".")
    return next(ANSWERS.glob(f"{number}_*/{name}"))


def answer_in(path, exercise):
    namespace = {}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), namespace)
    return namespace[exercise.answer]


def judge(exercise, answer, seed):
    cases = exercise.cases(seed)
    return exercise.judge(cases, checks.run(answer, cases))


def header(path):
    """The finding that the first line names, None for a right answer, and the line that says whose answer it is."""
    first, second = path.read_text("utf-8").splitlines()[:2]
    match = re.fullmatch(r"# finding: (.+)", first)
    return (match[1], second) if match else (None, first)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("path", RIGHT, ids=label)
def test_right_answer_gets_all_points(path, seed):
    exercise = exercise_of(path)
    report = judge(exercise, answer_in(path, exercise), seed)
    assert report.passed, str(report)
    assert report.points == exercise.points
    assert report.hint is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("path", WRONG, ids=label)
def test_wrong_answer_gets_no_points_and_its_own_hint(path, seed):
    exercise, (finding, _) = exercise_of(path), header(path)
    report = judge(exercise, answer_in(path, exercise), seed)
    assert not report.passed, f"taken for right\n{report}"
    assert report.points == 0
    assert report.finding == finding, str(report)
    assert report.hint == next(f.hint for f in exercise.findings if f.name == finding)


def blank(*args, **kwargs):
    raise NotImplementedError


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


@pytest.mark.parametrize("junk", [None, 0, "x", (), [None], {}, object()], ids=lambda junk: type(junk).__name__)
@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_junk_gets_nothing_and_breaks_nothing(exercise, junk):
    report = judge(exercise, lambda **kwargs: junk, checks.VISIBLE_SEED)
    assert not report.passed, str(report)


@pytest.mark.parametrize("exercise", EXERCISES, ids=label)
def test_there_are_answers_enough(exercise):
    """At least five wrong answers, two right ones, and a wrong one for each mistake that the exercise knows."""
    wrong, right = ([p for p in paths if p.parent == folder_of(exercise)] for paths in (WRONG, RIGHT))
    assert len(wrong) >= MIN_WRONG
    assert len(right) >= MIN_RIGHT
    assert {header(path)[0] for path in wrong} == {finding.name for finding in exercise.findings}
    assert len({finding.hint for finding in exercise.findings}) == len(exercise.findings) >= MIN_WRONG
    for path in wrong + right:
        assert re.fullmatch(r"# [A-Z].+\.", header(path)[1]), f"{path}: say whose answer this is"


def test_every_answer_belongs_to_an_exercise_of_its_chapter():
    assert {label(exercise) for exercise in EXERCISES} == {exercise_of(path).id for path in WRONG + RIGHT}
    assert {path.parent.parent.name for path in WRONG + RIGHT} <= {stem.name for stem in SOLUTIONS}
    assert all(path in WRONG + RIGHT for path in ANSWERS.rglob("*.py"))


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
