"""The summary at the end of a run: one line for each family, reasons for skips, the same with and without workers."""

import os
import re
import shutil
import subprocess
import sys

import pytest

FILES = {
    "tests/book/test_twins.py": "def test_a():\n    pass\n\ndef test_b():\n    assert False\n",
    "tests/book/test_lab.py": "import pytest\n\ndef test_a():\n    pytest.skip('no {Chromium} here')\n",
    "tests/vision/test_slow.py": "import time\n\ndef test_a():\n    time.sleep(0.3)\n",
    "tests/vision/test_broken.py": "1 / 0\n",
    "tests/test_threads.py": "import os\n\ndef test_a():\n"
    "    assert os.environ.get('OMP_NUM_THREADS', '') == os.environ['EXPECTED']\n",
}


@pytest.mark.parametrize("workers", [0, 2])
def test_summary(tmp_path, workers, pytestconfig):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    shutil.copy(pytestconfig.rootpath / "tests" / "conftest.py", tmp_path / "tests")
    options = ["--continue-on-collection-errors", f"--numprocesses={workers}", "--dist=loadfile"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "OMP_"))}
    # Two workers get half of the cores each; without workers torch decides.
    environment["EXPECTED"] = str(max(1, (os.cpu_count() or 1) // 2)) if workers else ""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path, *options, "tests"]
    printed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    rows = re.findall(r"^(\w+) +(\d+) +(\d+) +(\d+) +(\d+\.\d)$", printed, re.MULTILINE)
    assert [row[:4] for row in rows] == [
        ("book", "1", "1", "1"),
        ("tests", "1", "0", "0"),
        ("vision", "1", "1", "0"),  # both workers report the file that cannot be imported; it counts once
    ], printed
    assert float(rows[2][4]) >= 0.3
    assert "skipped, book: 1 × no {Chromium} here" in printed
