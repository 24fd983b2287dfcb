"""For all tests: threads and import path of the processes they start, and a summary that a person can read."""

import os
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A kernel started from a test finds mhalib in this clone, installed or not.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

# Workers side by side share the cores: without this each would start a thread on every core.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    _share = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _share)))

COLUMN = {"passed": "passed", "xpassed": "passed", "failed": "failed", "error": "failed"}
COLUMN |= {"skipped": "skipped", "xfailed": "skipped"}


def family(nodeid: str) -> str:
    """The family of a test: the folder below tests/ that it is in; a notebook's folder."""
    first, *rest = nodeid.split("::")[0].replace("\\", "/").split("/")
    return rest[0] if first == "tests" and len(rest) > 1 else first


def summarise(stats: dict[str, list]) -> list[str]:
    """One line for each family, then the reasons for what was skipped. `stats` is {outcome: reports}."""
    table: dict[str, Counter] = defaultdict(Counter)
    reasons: Counter = Counter()
    for outcome, reports in stats.items():
        tests = [report for report in reports if hasattr(report, "outcome")]  # no warnings, nothing deselected
        # Each worker reports a file that it cannot collect: it counts once.
        for report in {(test.nodeid, getattr(test, "when", "collect")): test for test in tests}.values():
            row = table[family(report.nodeid)]
            row["seconds"] += getattr(report, "duration", 0)
            row[COLUMN.get(outcome)] += 1  # set-up and tear-down of a test that passed have no column
            if COLUMN.get(outcome) == "skipped":
                why = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
                reasons[family(report.nodeid), why.removeprefix("Skipped: ")] += 1
    lines = [f"{'':12}" + "".join(f"{column:>9}" for column in ("passed", "failed", "skipped", "seconds"))]
    for name, row in sorted(table.items()):
        lines.append(f"{name:12}{row['passed']:9}{row['failed']:9}{row['skipped']:9}{row['seconds']:9.1f}")
    lines += [f"skipped, {name}: {number} × {why}" for (name, why), number in sorted(reasons.items())]
    return lines if table else []


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
