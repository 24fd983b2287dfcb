"""The suite can fail: each deliberate fault of mhalib is caught by the tests that are named for it."""

import importlib
from collections import defaultdict
from pathlib import Path

import pytest
from engine import LIBRARY, Stale, changed
from server import Server, path_of

LISTS = [importlib.import_module(path.stem) for path in sorted(Path(__file__).parent.glob("faults_*.py"))]
FAULTS = [(module.__name__.removeprefix("faults_"), fault) for module in LISTS for fault in module.FAULTS]
TEST_FILES = sorted({("triton" in family, fault.test_file) for family, fault in FAULTS})
#: A kernel that leaves its memory ends the process; in these tests that is how they fail.
DEATHS = (-11, -10, -7, -6)


@pytest.fixture(scope="session")
def server():
    """Server(interpret), started when it is first asked for."""
    started = {}

    def get(interpret: bool) -> Server:
        if interpret not in started:
            started[interpret] = Server(interpret=interpret)
        return started[interpret]

    yield get
    for one in started.values():
        one.close()


@pytest.mark.parametrize(("interpret", "test_file"), TEST_FILES, ids=lambda value: str(value))
def test_without_a_fault_the_same_tests_pass(interpret, test_file, server):
    own = {fault.only for family, fault in FAULTS if (("triton" in family), fault.test_file) == (interpret, test_file)}
    outcome = server(interpret).run([path_of(test_file)], " or ".join(f"({only})" for only in sorted(own)), limit_s=900)
    assert outcome.status == 0, outcome.report
    assert outcome.passed >= 1


@pytest.mark.parametrize(("family", "fault"), FAULTS, ids=[f"{family}: {fault.concept}" for family, fault in FAULTS])
def test_fault_is_caught(family, fault, server):
    try:
        text = changed(fault)
    except Stale as stale:
        pytest.fail(str(stale), pytrace=False)
    interpret = family == "triton"
    outcome = server(interpret).run([path_of(fault.test_file)], fault.only, file=fault.file, text=text)
    if interpret and outcome.status in DEATHS:
        return
    what = "not caught" if outcome.status in (0, 5) else "not caught by an assertion"
    assert outcome.is_caught, f"{what}: {fault.concept}\n{outcome.errors}\n{outcome.report}"


def test_each_fault_has_a_name_of_its_own():
    names = defaultdict(list)
    for family, fault in FAULTS:
        names[family, fault.concept].append(fault)
    assert [name for name, faults in names.items() if len(faults) > 1] == []


def test_none_was_lost():
    assert len(FAULTS) >= 375
    assert {fault.file.partition("/")[0] for _, fault in FAULTS} <= {path.name for path in LIBRARY.iterdir()}
