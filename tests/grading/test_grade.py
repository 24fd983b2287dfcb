"""Grading: a class of honest, unlucky and hostile students is graded in one run, and everybody gets what is due."""

import csv
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest
from attacks import ATTEND, CODE, STUB, WRONG
from small_course import SINGLE, TINY, Course, cell

import tools.grading.__main__ as grade
from tools.grading import classroom, sandbox
from tools.grading.assignment import is_test
from tools.grading.sandbox import MIB, Limits

LIMITS = Limits(cpu=3, wall=6, total=90, memory=400 * MIB, processes=32, output=20_000, file=8 * MIB, disk=16 * MIB)
TEXT = "Because the variance of a sum of d products is d."


def unavailable():
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed: no submission can be shut in"
    tried = [shutil.which("bwrap"), "--ro-bind", "/", "/", "--unshare-net", "--unshare-pid", "--dev", "/dev", "true"]
    result = subprocess.run(tried, capture_output=True, text=True)
    return f"bubblewrap cannot start here: {result.stderr.strip()}" if result.returncode else ""


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "bubblewrap works")


def with_answers(course, attend, jacobian, text=TEXT):
    notebook = course.blank(TINY)
    for name, source in (("attend", attend), ("jacobian", jacobian), ("why", text)):
        cell(notebook, name).source = source
    return notebook


def without(notebook, *keys):
    """As another program saves it: no metadata, no ids."""
    for each in notebook.cells:
        each.metadata = {}
        for key in keys:
            each.pop(key, None)
    notebook.metadata = {}
    notebook.nbformat_minor = 4
    return notebook


def changed_notebooks(course):
    """Right answers in notebooks that were changed: (notebook, points of 7, words of the note)."""
    right = course.solved(TINY)
    deleted = course.solved(TINY)
    deleted.cells = [each for each in deleted.cells if not is_test(each)]
    edited = with_answers(course, WRONG, "def jacobian(p):\n    return p")
    for name in ("check-attend", "check-jacobian"):
        cell(edited, name).source = "assert True"
        cell(edited, name).metadata.nbgrader.points = 100
    doubled = course.solved(TINY)
    for name in ("check-attend", "attend"):
        doubled.cells.insert(4, json.loads(json.dumps(cell(doubled, name))))
    moved = course.solved(TINY)
    moved.cells = moved.cells[::-1]
    helped = with_answers(course, "def attend(q, k, v):\n    return head(q, k, v)", cell(right, "jacobian").source)
    helper = nbformat.v4.new_code_cell(cell(right, "attend").source.replace("def attend", "def head"))
    cell(helped, "attend").source = "def attend(query, key, value):\n    return head(query, key, value)"
    helped.cells.insert(3, helper)
    return {
        "right": (right, 7, ""),
        "deleted": (deleted, 7, "check-attend: deleted"),
        "edited": (edited, 0, "check-attend: edited"),
        "doubled": (doubled, 7, "2 cells of this name"),
        "reversed": (moved, 7, ""),
        "other editor": (without(course.solved(TINY), "id"), 7, "by the name attend"),
        "colab": (without(course.solved(TINY)), 7, ""),
        "helper": (helped, 7, "a cell that the student added"),
    }


class Listener:
    """A server on this machine that counts who connects."""

    def __enter__(self):
        self.socket, self.connected = socket.create_server(("127.0.0.1", 0)), 0
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def serve(self):
        while True:
            try:
                self.socket.accept()[0].close()
            except OSError:
                return
            self.connected += 1

    def __exit__(self, *_):
        self.socket.close()


def run(course, assignment, *more, limits=LIMITS):
    options = grade.arguments_of([assignment, "--root", str(course.root), *more])
    return grade.grade(options, limits)


def record(course, assignment, student):
    return json.loads((course.root / "grading" / "records" / assignment / f"{student}.json").read_text("utf-8"))


def marked(course, student, assignment=TINY):
    return course.root / "grading" / "autograded" / student / assignment / f"{assignment}.ipynb"


def scores(course, *assignments):
    """(assignment, student) → the score in the gradebook."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.root}/grading/gradebook.db") as book:
        sent = [each for name in assignments for each in book.assignment_submissions(name)]
        return {(each.assignment.name, each.student.id): each.score for each in sent}


def nbgrader(course, *arguments):
    command = [sys.executable, "-m", "nbgrader", *arguments]
    result = subprocess.run(command, cwd=course.root, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]


CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "attention"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.db_url = "sqlite:///grading/gradebook.db"
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class, graded once: (course, seconds, connections, what the files outside were before)."""
    course = Course(tmp_path_factory.mktemp("course"))
    (course.root / "nbgrader_config.py").write_text(CONFIG, "utf-8")
    (course.root / "secret.txt").write_text("not for students", "utf-8")
    with Listener() as listener:
        for student, sent in CODE.items():
            sources = [
                source.replace("ROOT", repr(str(course.root))).replace("HOME", repr(str(Path.home())) + " + '/none'")
                for source in (sent.attend, sent.jacobian)
            ]
            sources = [source.replace("PORT", str(listener.port)) for source in sources]
            course.hand_in(student, TINY, with_answers(course, *sources))
        for student, (notebook, _, _) in changed_notebooks(course).items():
            course.hand_in(student, TINY, notebook)
        course.hand_in("renamed", TINY, course.solved(TINY), name="Copy of tiny (1).ipynb")
        course.hand_in("unsure", TINY, course.solved(TINY), name="a.ipynb")
        course.hand_in("unsure", TINY, course.solved(TINY), name="b.ipynb")
        course.hand_in("no notebook", TINY, "PK\x03\x04 a document")
        course.hand_in("link", TINY, "", name="other.txt")
        (course.root / "grading/submitted/link" / TINY / f"{TINY}.ipynb").symlink_to(
            course.root / "solutions" / TINY / f"{TINY}.ipynb"
        )
        course.hand_in("right", SINGLE, course.solved(SINGLE))
        course.hand_in("nothing", SINGLE, course.blank(SINGLE))
        before = given(course)
        began = time.monotonic()
        codes = run(course, TINY), run(course, SINGLE)
        seconds = time.monotonic() - began
        assert codes == (1, 0)  # three submissions of the first could not be graded
        yield course, seconds, listener, before


def given(course):
    """All that was there before grading, by path."""
    folders = [course.root / name for name in ("solutions", "exercises", "grading/submitted")]
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("student", CODE)
def test_code_gets_the_points_that_it_deserves(graded, student):
    course = graded[0]
    found = record(course, TINY, student)
    assert found["problem"] is None
    assert found["score"] == CODE[student].points, found
    assert CODE[student].note in " · ".join(found["notes"]), found["notes"]


@pytest.mark.parametrize(
    "student", ["right", "deleted", "edited", "doubled", "reversed", "other editor", "colab", "helper"]
)
def test_changes_to_the_notebook_neither_hurt_nor_help(graded, student):
    course = graded[0]
    _, points, note = changed_notebooks(course)[student]
    found = record(course, TINY, student)
    assert found["score"] == points, found
    assert note in " · ".join(found["notes"]), found["notes"]
    text = TEXT if student in ("edited", "helper") else "Because of the variance."
    assert cell(nbformat.read(marked(course, student), 4), "why").source == text


def test_whole_class_is_in_the_gradebook_and_nbgrader_exports_it(graded):
    course = graded[0]
    nbgrader(course, "export", "--to", "grades.csv")
    with open(course.root / "grades.csv", newline="") as file:
        rows = {(row["assignment"], row["student_id"]): row for row in csv.DictReader(file)}
    exported = {key: float(row["score"]) for key, row in rows.items()}
    assert scores(course, TINY, SINGLE).items() <= exported.items()
    assert {student for name, student in scores(course, TINY)} >= {*CODE, "renamed", "colab"}
    assert exported[TINY, "right"] == exported[TINY, "renamed"] == 7
    assert (exported[SINGLE, "right"], exported[SINGLE, "nothing"]) == (15, 0)
    assert rows[TINY, "right"]["max_score"] == "9.0"


def test_nothing_outside_was_touched_or_seen(graded):
    course, _, listener, before = graded
    assert listener.connected == 0
    assert given(course) == before
    assert (course.root / "secret.txt").read_text("utf-8") == "not for students"
    spied = marked(course, "spies").read_text("utf-8")
    for line in ("SEEN []", "OTHERS []", "KNOWN False"):
        assert line in spied
    assert "CONNECTED" not in marked(course, "network").read_text("utf-8").replace("print('CONNECTED')", "")


def test_time_and_output_are_bounded(graded):
    course, seconds, _, _ = graded
    assert seconds < 600
    for student in (*CODE, "right"):
        assert record(course, TINY, student)["seconds"] < LIMITS.total + 30
    assert marked(course, "prints").stat().st_size < 100_000
    assert "cut here" in marked(course, "prints").read_text("utf-8")


def test_marked_notebook_has_reports_and_nothing_that_a_browser_runs(graded):
    course = graded[0]
    notebook = nbformat.read(marked(course, "right"), 4)
    nbformat.validate(notebook)
    report = cell(notebook, "check-attend").outputs
    assert report[0].text.startswith("02.attend  ✓ gives a value for")
    assert len(report) == 1
    wrong = cell(nbformat.read(marked(course, "edited"), 4), "check-attend")
    assert wrong.source == 'checks.check("02.attend", attend)'
    assert "Hint: The scores grow" in wrong.outputs[0].text
    assert wrong.outputs[1].ename == "NotYet"
    stopped = cell(nbformat.read(marked(course, "loop"), 4), "jacobian")
    assert "still running" in stopped.outputs[0].evalue
    for output in cell(nbformat.read(marked(course, "script"), 4), "attend").outputs:
        assert "<script" not in json.dumps(output)
        assert set(output.get("data", {})) <= {"text/plain", "image/png"}


def numbers(case):
    """The numbers of a case, as text that no other number has by chance."""
    return [f"{abs(x):.12f}"[:-2] for value in case.arguments.values() for x in value.flatten().tolist()]


def test_hidden_inputs_are_in_no_file_for_students(graded):
    from mhalib import checks
    from tools.grading import judge

    course = graded[0]
    said = "".join(marked(course, f"shows the {what}").read_text("utf-8") for what in ("inputs", "others"))
    assert "right on the inputs that the notebook tries" in said
    assert "stopped with an error" in said
    assert any(number in said for number in numbers(checks.get("02.attend").cases(checks.VISIBLE_SEED)[0]))
    for exercise in ("02.attend", "02.jacobian"):
        for seed in judge.seeds(exercise, (course.root / "grading" / "secret").read_text("utf-8").strip()):
            for case in checks.get(exercise).cases(seed):
                assert not any(number in said for number in numbers(case) if float(number) > 1e-3)


def test_the_secret_is_made_once_and_decides_the_inputs(tmp_path):
    from tools.grading import judge
    from tools.grading.assignment import Places

    places = Places(tmp_path)
    secret = places.secret()
    assert len(secret) == 32
    assert places.secret() == secret
    assert (tmp_path / "grading" / "secret").stat().st_mode & 0o077 == 0
    assert judge.seeds("02.attend", secret) == judge.seeds("02.attend", secret) != judge.seeds("02.attend", "another")


def test_twice_gives_the_same_marks_and_runs_nothing_twice(graded, capsys):
    course = graded[0]
    before, notebook = scores(course, TINY, SINGLE), marked(course, "patches").read_bytes()
    assert run(course, SINGLE) == 0
    assert "2 submissions, 0 graded now, 2 as they were" in capsys.readouterr().out
    assert run(course, TINY, "--student", "patches", "--again") == 0
    assert "1 submissions, 1 graded now" in capsys.readouterr().out
    assert marked(course, "patches").read_bytes() == notebook
    assert scores(course, TINY, SINGLE) == before


def test_a_new_submission_is_graded_again_and_marks_by_hand_stay(graded, capsys):
    from nbgrader.api import Gradebook

    course = graded[0]
    url = f"sqlite:///{course.root}/grading/gradebook.db"
    course.hand_in("again", TINY, with_answers(course, WRONG, STUB))
    assert run(course, TINY, "--student", "again") == 0
    assert record(course, TINY, "again")["score"] == 0
    with Gradebook(url) as book:
        book.find_grade("why", TINY, TINY, "again").manual_score = 2
        book.find_grade("check-jacobian", TINY, TINY, "again").manual_score = 1.5  # the teacher disagrees
        book.db.commit()
    course.hand_in("again", TINY, with_answers(course, ATTEND, STUB))
    assert run(course, TINY, "--student", "again") == 0
    assert record(course, TINY, "again")["score"] == 4 + 2 + 1.5
    assert scores(course, TINY)[TINY, "again"] == 7.5


def test_feedback_is_made_by_nbgrader(graded):
    course = graded[0]
    nbgrader(course, "generate_feedback", TINY, "--student", "edited")
    page = (course.root / "grading" / "feedback" / "edited" / TINY / f"{TINY}.html").read_text("utf-8")
    assert "The scores grow with the number of entries" in page
    assert "BEGIN SOLUTION" not in page


def test_unreadable_submissions_are_named_and_stop_nobody(graded):
    course = graded[0]
    said = {name: record(course, TINY, name)["problem"] for name in ("unsure", "no notebook", "link")}
    assert "a.ipynb, b.ipynb" in said["unsure"]
    assert "no Jupyter notebook" in said["no notebook"]
    assert "no link" in said["link"]


def test_without_bubblewrap_nothing_runs_unless_it_is_said(tmp_path, monkeypatch, capsys):
    course = Course(tmp_path)
    course.hand_in("right", TINY, course.solved(TINY))
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    assert grade.main([TINY, "--root", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "install the package `bubblewrap`" in said
    assert "--unsafe" in said
    assert not (tmp_path / "grading" / "autograded").exists()
    assert run(course, TINY, "--unsafe", limits=Limits()) == 0
    assert record(course, TINY, "right")["score"] == 7


def test_stopped_on_the_way_it_goes_on_from_there(tmp_path, monkeypatch, capsys):
    course = Course(tmp_path)
    course.hand_in("a", TINY, course.solved(TINY))
    course.hand_in("b", TINY, with_answers(course, "while True:\n    pass", STUB))
    finish = classroom.Classroom._finish

    at = []

    def stopped(self, worked):
        finish(self, worked)
        at.append(time.monotonic())
        raise KeyboardInterrupt

    monkeypatch.setattr(classroom.Classroom, "_finish", stopped)
    assert grade.main([TINY, "--root", str(tmp_path), "--jobs", "2"]) == 2
    assert time.monotonic() - at[0] < 15  # and not the 30 s that a loop may take
    assert "goes on from there" in capsys.readouterr().err
    assert scores(course, TINY) == {(TINY, "a"): 7}
    monkeypatch.undo()
    assert run(course, TINY) == 0
    assert "2 submissions, 1 graded now, 1 as they were" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["03_nothing"], "Released are 02_single_head, tiny"),
        ([TINY], "nobody handed in tiny"),
        ([TINY, "--student", "x"], "'x' handed in no 'tiny'"),
    ],
)
def test_a_wrong_name_is_refused_and_the_right_ones_are_listed(tmp_path, capsys, arguments, said):
    course = Course(tmp_path)
    assert grade.main([*arguments, "--root", str(course.root)]) == 2
    assert said in capsys.readouterr().err
