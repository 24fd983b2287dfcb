"""The summary at the end of a run: one line for each family, reasons for skips, the same with and without workers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FILES = {
    "tests/test_twins.py": "def test_a():\n    pass\n\ndef test_b():\n    assert False\n",
    "tests/test_attention.py": "def test_a():\n    pass\n\ndef later():\n    import mhalib\n",
    "tests/test_lab.py": "import pytest\n\n@pytest.mark.skip(reason='no Chromium here')\ndef test_a():\n    pass\n",
    "tests/test_else.py": "import time\n\ndef test_a():\n    time.sleep(0.3)\n",
    "tests/test_broken.py": "1 / 0\n",
    "tests/test_threads.py": "import os\n\ndef test_a():\n"
    "    assert os.environ.get('OMP_NUM_THREADS', '') == os.environ['EXPECTED']\n",
}


def run(folder, *arguments, expected):
    (folder / "tests").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    shutil.copy(HERE / "conftest.py", folder / "tests")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
        "--rootdir",
        str(folder),
        *arguments,
        "tests",
    ]
    hidden = ("PYTEST_", "OMP_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    environment["EXPECTED"] = expected
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


@pytest.mark.parametrize("workers", [0, 2])
def test_summary(tmp_path, workers):
    # Two workers get half of the cores each; without workers torch decides.
    threads = str(max(1, (os.cpu_count() or 1) // 2)) if workers else ""
    printed = run(tmp_path, f"--numprocesses={workers}", "--dist=loadfile", expected=threads)
    rows = {
        match[1].strip(): (*map(int, match[2].split()), float(match[3]))
        for match in re.finditer(r"^(\w.{27})((?: +\d+){3}) +(\d+\.\d)$", printed, re.MULTILINE)
    }
    assert {name: row[:3] for name, row in rows.items()} == {
        "style, twins, outputs": (1, 1, 0),
        "library": (1, 0, 0),
        "JupyterLab in a browser": (0, 0, 1),
        "other": (2, 1, 0),  # both workers report the file that cannot be imported; it counts once
    }
    assert list(rows) == ["style, twins, outputs", "library", "JupyterLab in a browser", "other"]
    assert rows["other"][3] >= 0.3
    assert "skipped, JupyterLab in a browser: 1 × no Chromium here" in printed
    assert re.search(r"=+ 1 failed, 4 passed, 1 skipped, [12] errors? in .* =+$", printed.strip())
