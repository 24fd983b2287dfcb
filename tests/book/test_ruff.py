"""The project's own style: ruff's rules for every file, chapters included; ruff's layout for everything else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNSORTED = "import sys\nimport os\n\nprint(os, sys)\n"


def ruff(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check", "--diff")], ids=" ".join)
def test_repository_passes(arguments):
    result = ruff(*arguments, ".")
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_python_file_and_chapter_is_looked_at():
    looked_at = {Path(line) for line in ruff("check", "--show-files", ".").stdout.splitlines()}
    assert {
        ROOT / "tools" / "book" / "twins.py",
        ROOT / "mhalib" / "__init__.py",
        Path(__file__).resolve(),
    } <= looked_at
    assert set((ROOT / "chapters").glob("*.ipynb")) <= looked_at


def test_a_fault_is_found(tmp_path):
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    (tmp_path / "fault.py").write_text(UNSORTED, "utf-8")
    result = ruff("check", ".", folder=tmp_path)
    assert result.returncode == 1
    assert "I001" in result.stdout
    (tmp_path / "fault.py").write_text("x = {  'a':1 }\n", "utf-8")
    assert ruff("format", "--check", ".", folder=tmp_path).returncode == 1
