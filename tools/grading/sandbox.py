"""A process that sees Python, mhalib and an empty folder of its own, and nothing else: bubblewrap's command line.

No network, no other process, a read-only system of which only the listed folders are there. An ordinary user gets
this through a user namespace; root gives its rights away inside, under a number of its own, because the kernel does
not count root's processes.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
COURSE, HOME = "/sandbox/course", "/sandbox/home"
FIRST_UID = 1_900_000_000  # numbers that no system gives to people
NAMESPACES_COUNT = (5, 14)  # the Linux from which on processes are counted in each user namespace by itself
INSIDE = ("data.py", "compare.py", "run.py", "encode.py")  # of mhalib/checks: none of them knows an exercise
STUB = '''"""While grading: exercises are judged in another process, from what the answers compute."""


class NotYet(Exception):
    """Never raised here."""


def check(id: str, answer: object) -> None:
    """Does nothing here."""
'''


class Unavailable(Exception):
    """Nothing can be shut in on this machine; the message says why and what to do."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use. `cpu` and `wall` are seconds for one cell or one exercise."""

    cpu: int = 30
    wall: int = 90
    start: int = 180  # seconds until the first cell: torch has to be read from disk
    total: int = 600  # seconds for all of it, repetitions included
    memory: int = 2048 * MIB  # beyond what Python and torch take
    processes: int = 48  # threads count too
    output: int = 100_000  # characters of text that a cell may print
    file: int = 32 * MIB
    disk: int = 64 * MIB


def prepare(folder: Path, library: Path, extra: list[Path]) -> None:
    """Lay out what submissions may read: the runner, mhalib without its exercises, and the assignment's other files."""
    (folder / "files").mkdir(parents=True)
    ignore = shutil.ignore_patterns("__pycache__", "checks")
    shutil.copytree(library, folder / "mhalib", ignore=ignore)
    (folder / "mhalib" / "checks").mkdir()
    for name in INSIDE:
        shutil.copy2(library / "checks" / name, folder / "mhalib" / "checks" / name)
    (folder / "mhalib" / "checks" / "__init__.py").write_text(STUB, "utf-8")
    shutil.copy2(Path(__file__).with_name("runner.py"), folder / "runner.py")
    for path in extra:
        shutil.copy2(path, folder / "files" / path.name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(folder)], check=True)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def environment(course: str, home: str) -> dict[str, str]:
    """All the variables that a submission sees."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        **threads,
        "CUDA_VISIBLE_DEVICES": "",
        "HOME": home,
        "IPYTHONDIR": f"{home}/.ipython",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": f"{home}/.matplotlib",
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": course,
        "TMPDIR": home,
        "USER": "student",
    }


def command(course: Path, hidden: list[Path], limits: Limits) -> list[str]:
    """bubblewrap and its arguments, up to the program to run; no path in or under `hidden` is seen inside."""
    found = shutil.which("bwrap")
    if found is None:
        raise Unavailable("there is no bubblewrap here: install the package `bubblewrap`, which brings `bwrap`")
    line = [found, "--die-with-parent", "--new-session"]
    line += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() == 0:
        line += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        line += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
        line += ["--disable-userns"] if _knows(found, "--disable-userns") else []
    room = ["--size", str(limits.disk), "--perms", "1777", "--tmpfs"]
    line += [*room, "/tmp", *_visible(hidden)]  # in this order: a virtual environment may lie in /tmp
    line += ["--proc", "/proc", "--dev", "/dev", "--size", str(MIB), "--perms", "1777", "--tmpfs", "/dev/shm"]
    line += [*_parents(COURSE), "--ro-bind", str(course), COURSE, *room, HOME, *_copies(course)]
    line += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", HOME, "--clearenv"]
    for name, value in environment(COURSE, HOME).items():
        line += ["--setenv", name, value]
    return line


def _visible(hidden: list[Path]) -> list[str]:
    """Read-only: the system's programs and libraries and this Python's packages, the hidden folders covered."""
    line = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM:
        if os.path.islink(name):
            line += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            line += ["--ro-bind", name, name]
    for name in SETTINGS:
        line += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    if site.ENABLE_USER_SITE:
        packages.append(site.getusersitepackages())
    roots = dict.fromkeys([sys.base_prefix, sys.prefix, *packages])
    named = [Path(path) for path in roots if os.path.isdir(path)]
    kept = list(dict.fromkeys([*named, *(path.resolve() for path in named)]))
    for path in kept:
        line += [*_parents(str(path)), "--ro-bind", str(path), str(path)]
    for path in dict.fromkeys([*(path.resolve() for path in hidden), *_installed(kept)]):
        if path.is_dir() and any(path.is_relative_to(seen) for seen in [Path("/usr"), *kept]):
            line += ["--perms", "0755", "--tmpfs", str(path)]
            for inner in kept:  # a virtual environment inside the course
                line += (
                    [*_parents(str(inner)), "--ro-bind", str(inner), str(inner)] if inner.is_relative_to(path) else []
                )
    return line


def _parents(path: str) -> list[str]:
    """Make the folders above `path`, readable for everybody; bubblewrap's own are root's alone."""
    above = [str(parent) for parent in reversed(Path(path).parents) if str(parent) != "/"]
    return [part for folder in above for part in ("--perms", "0755", "--dir", folder)]


def _installed(roots: list[Path]) -> list[Path]:
    """Copies of mhalib that pip put among the packages: its exercises are definitions too."""
    places = ("mhalib", "lib/python*/site-packages/mhalib", "lib/python*/dist-packages/mhalib")
    return [found.resolve() for root in roots for place in places for found in root.glob(place)]


def _copies(course: Path) -> list[str]:
    """The assignment's other files in the folder where the notebook runs, and matplotlib's list of fonts."""
    line = ["--perms", "0777", "--dir", f"{HOME}/.matplotlib"]
    for path in sorted((course / "files").iterdir()):
        line += ["--ro-bind", str(path), f"{HOME}/{path.name}"]
    for path in _font_lists():
        line += ["--ro-bind", str(path), f"{HOME}/.matplotlib/{path.name}"]
    return line


@functools.cache
def _font_lists() -> list[Path]:
    try:
        import matplotlib
    except ModuleNotFoundError:
        return []
    return sorted(Path(matplotlib.get_cachedir()).glob("fontlist-*.json"))


@functools.cache
def _knows(found: str, option: str) -> bool:
    return option in subprocess.run([found, "--help"], capture_output=True, text=True).stdout


def check(course: Path, hidden: list[Path], limits: Limits) -> None:
    """Raise Unavailable, with the reason, where nothing can be shut in on this machine."""
    if sys.platform != "linux":
        raise Unavailable(f"bubblewrap shuts processes in on Linux only, and this is {platform.system()}")
    line = command(course, hidden, limits)
    if not _knows(line[0], "--size"):
        raise Unavailable(
            "this bubblewrap is older than 0.7 and cannot limit the size of a folder: install a newer one"
        )
    release = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    if os.geteuid() != 0 and release < NAMESPACES_COUNT:
        raise Unavailable(f"Linux {platform.release()} cannot limit the processes of one submission: 5.14 is needed")
    tried = subprocess.run([*line, sys.executable, "-c", "print(1)"], capture_output=True, text=True)
    if tried.stdout != "1\n":
        raise Unavailable(f"bubblewrap cannot start here: {tried.stderr.strip() or 'no reason given'}")
