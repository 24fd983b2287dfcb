"""Sorts what an LMS lets a teacher download into grading/submitted/STUDENT/ASSIGNMENT.

Known are: a folder for each student (Moodle: `Jane Doe_12345_assignsubmission_file_/any.ipynb`; Google Classroom, Drive
and nbgrader's own: `jane/any.ipynb`), and files that begin with the student's name (Canvas:
`doejane_LATE_123_456_any.ipynb`). A zip is read without being unpacked: none of its paths is ever written to.
"""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tools.files import write_whole
from tools.grading import rebuild
from tools.grading.assignment import Assignment, GradingError, Places

MOODLE = re.compile(r"_\d+_assignsubmission.*$")
SKIPPED = ("__MACOSX", ".ipynb_checkpoints")


def collect(download: Path, places: Places, assignment: Assignment) -> str:
    """Copy each student's notebook to where grading looks for it; returns what was done, in words.

    A student with several notebooks gets all of them under their own names, unless one has the assignment's: grading
    then says that it cannot know which one counts.
    """
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path, data in _notebooks(download):
        found[_student(path)][path.name] = data
    if not found:
        raise GradingError(f"{download} holds no .ipynb file")
    for student, files in found.items():
        folder = places.submitted / student / assignment.name
        own = assignment.path.name
        files = {own: files[own]} if own in files else files
        for name, data in files.items():
            write_whole(folder / (own if len(files) == 1 else name), data)
    return f"{len(found)} students: {', '.join(sorted(found))}"


def _notebooks(download: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    if download.is_dir():
        for path in sorted(download.rglob("*.ipynb")):
            if not set(path.parts) & set(SKIPPED):
                yield PurePosixPath(path.relative_to(download).as_posix()), rebuild.read(path)
        return
    if not zipfile.is_zipfile(download):
        raise GradingError(f"{download} is neither a folder nor a zip: name the download of your LMS")
    with zipfile.ZipFile(download) as archive:
        for entry in archive.infolist():
            path = PurePosixPath(entry.filename.replace("\\", "/"))
            if path.suffix == ".ipynb" and not set(path.parts) & set(SKIPPED):
                if entry.file_size > rebuild.MAX_BYTES:
                    raise GradingError(f"{path} is larger than {rebuild.MAX_BYTES >> 20} MiB")
                with archive.open(entry) as file:
                    yield path, file.read(rebuild.MAX_BYTES)


def _student(path: PurePosixPath) -> str:
    """The student's name in a path: the first folder, else the file's name up to the first underscore."""
    folders = [part for part in path.parts[:-1] if part not in ("/", ".", "..")]
    name = MOODLE.sub("", folders[0]) if folders else path.stem.partition("_")[0]
    name = re.sub(r"[^\w.@-]+", "-", name).strip("-.")
    if not name:
        raise GradingError(f"{path} names no student: put the notebooks into one folder for each student")
    return name
