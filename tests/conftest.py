"""For all tests: threads and import path of the processes they start, and a summary that a person can read."""

import fnmatch
import os
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A kernel started from a test finds mhalib in this clone, installed or not.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

# Workers side by side share the cores: without this each would start a thread on every core.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    _share = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _share)))

FAMILIES = (
    (
        "style, twins, outputs",
        ("tests/test_ruff.py", "tests/test_twins.py", "tests/test_outputs.py", "tests/test_summary.py"),
    ),
    ("chapters: form, other CPUs", ("tests/test_chapters.py",)),
    ("chapters under nbval", ("chapters/*", "solutions/*")),
    ("JupyterLab in a browser", ("tests/test_lab*.py",)),
    ("exercises and grading", ("tests/test_exercises*.py", "tests/test_checks.py", "tests/test_grade*.py")),
)
LIBRARY, OTHER = "library", "other"
_imports_mhalib: dict[str, bool] = {}


def family(nodeid: str, root: Path = ROOT) -> str:
    """The family of a test: by its file, else "library" if the file imports mhalib, else "other"."""
    file = nodeid.split("::")[0].replace("\\", "/")
    for name, patterns in FAMILIES:
        if any(fnmatch.fnmatch(file, pattern) for pattern in patterns):
            return name
    if file not in _imports_mhalib:
        path = root / file
        text = path.read_text("utf-8") if path.suffix == ".py" and path.is_file() else ""
        _imports_mhalib[file] = re.search(r"^\s*(?:import|from) mhalib\b", text, re.MULTILINE) is not None
    return LIBRARY if _imports_mhalib[file] else OTHER


def summarise(stats: dict[str, list], root: Path = ROOT) -> list[str]:
    """One line for each family, then the reasons for what was skipped. `stats` is {outcome: reports}."""
    columns = ("passed", "failed", "skipped", "seconds")
    counts: dict[str, Counter] = defaultdict(Counter)
    reasons: dict[tuple[str, str], int] = Counter()
    broken: set[str] = set()  # files that could not be collected: each worker reports them
    kinds = {"passed": "passed", "xpassed": "passed", "failed": "failed", "error": "failed"}
    kinds |= {"skipped": "skipped", "xfailed": "skipped"}
    for outcome, reports in stats.items():
        for report in reports:
            if not hasattr(report, "nodeid") or not hasattr(report, "outcome"):
                continue  # warnings, and what was deselected
            if getattr(report, "when", None) == "collect":
                if report.nodeid in broken:
                    continue
                broken.add(report.nodeid)
            row = counts[family(report.nodeid, root)]
            row["seconds"] += getattr(report, "duration", 0.0)
            if outcome not in kinds:
                continue  # the set-up and the tear-down of a test that passed: only their time counts
            row[kinds[outcome]] += 1
            if kinds[outcome] == "skipped":
                reasons[family(report.nodeid, root), _reason(report)] += 1
    if not counts:
        return []
    order = [name for name, _ in FAMILIES[:1]] + [LIBRARY] + [name for name, _ in FAMILIES[1:]] + [OTHER]
    lines = [f"{'':28}" + "".join(f"{column:>9}" for column in columns)]
    for name in order:
        if name in counts:
            cells = "".join(f"{counts[name][column]:>9}" for column in columns[:3])
            lines.append(f"{name:28}{cells}{counts[name]['seconds']:>9.1f}")
    lines += [f"skipped, {name}: {number} × {reason}" for (name, reason), number in sorted(reasons.items())]
    return lines


def _reason(report) -> str:
    if getattr(report, "wasxfail", None):
        return f"expected to fail: {report.wasxfail}"
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


def pytest_addoption(parser):
    parser.addoption(
        "--all-seeds",
        action="store_true",
        help="try the wrong and right answers to the exercises on three sets of inputs, not on the notebook's alone",
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all-seeds"):
        return
    others = [item for item in items if item.get_closest_marker("other_seeds")]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if not item.get_closest_marker("other_seeds")]


def pytest_configure(config):
    """Build matplotlib's font cache once, before kernels do it side by side and say so in their output."""
    if hasattr(config, "workerinput"):
        return
    try:
        import matplotlib
    except ModuleNotFoundError:
        return
    if not any(Path(matplotlib.get_cachedir()).glob("fontlist-*.json")):
        import matplotlib.font_manager


def pytest_terminal_summary(terminalreporter):
    lines = summarise(terminalreporter.stats)
    if lines:
        terminalreporter.section("summary by family (seconds of work, workers added up)", sep="-")
        for line in lines:
            terminalreporter.write_line(line)
