"""A chapter's first cell works in a clone, with mhalib installed, and on Colab; its wheel is all that a chapter needs.

Each test runs in a bare environment: the packages of this one, without mhalib and without sight of the clone.
Set THREE_PLACES=all to run every chapter that way; ordinarily it is the shortest.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tools.book import first_cell, twins

ROOT = twins.ROOT
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"), key=lambda path: path.stat().st_size)
if os.environ.get("THREE_PLACES") != "all":
    CHAPTERS = [path for path in CHAPTERS if path.name.startswith("00_")] or CHAPTERS[:1]

# Runs the first cell as a notebook does, and says what came of it.
CELL = """
import importlib.metadata, json, sys, types
from IPython.core.interactiveshell import InteractiveShell

cell, colab = json.loads(sys.argv[1])
calls = []
if colab:
    output = types.ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: calls.append("enabled")
    package = types.ModuleType("google.colab")
    package.output = output
    sys.modules.update({"google.colab": package, "google.colab.output": output})
result = InteractiveShell.instance().run_cell(cell)
error = result.error_before_exec or result.error_in_exec
report = {"error": error and [type(error).__name__, str(error)], "widgets": calls}
if "mhalib" in sys.modules:
    import torch
    report["mhalib"] = sys.modules["mhalib"].__file__
    report["torch"] = [torch.__version__, torch.__file__]
report["distribution"] = [d.version for d in importlib.metadata.distributions() if d.name == "mhalib"]
print("REPORT", json.dumps(report))
"""

# Executes a notebook with this interpreter's own kernel, whatever kernels are installed on the machine.
NOTEBOOK = """
import sys, ipykernel.kernelspec, nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

class Here(KernelSpecManager):
    def get_kernel_spec(self, name):
        spec = ipykernel.kernelspec.get_kernel_dict()
        spec["argv"][0] = sys.executable
        return KernelSpec(resource_dir="", **spec)

notebook = nbformat.read(sys.argv[1], 4)
notebook.cells.append(nbformat.v4.new_code_cell(
    "import json, sys, mhalib\\nprint(json.dumps([mhalib.__file__, sys.executable, sys.path]))"))
manager = AsyncKernelManager(kernel_spec_manager=Here(), kernel_name="python3")
NotebookClient(notebook, km=manager, timeout=300, startup_timeout=120).execute()
print("REPORT", notebook.cells[-1].outputs[0].text)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """mhalib's wheel, built without a network from a copy of what the build reads."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "mhalib", source / "mhalib", ignore=shutil.ignore_patterns("__pycache__"))
    made = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--quiet", "--wheel-dir", made, source], check=True, timeout=300)
    (file,) = made.iterdir()
    return file


class Bare:
    """An environment with the packages of this one, except mhalib: each is a link, so that no .pth file is read."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", with_pip=False)
        places = {"base": str(folder / "env"), "platbase": str(folder / "env")}
        self.prefix = folder / "env"
        self.python = Path(sysconfig.get_path("scripts", "venv", places)) / Path(sys.executable).name
        self.packages = Path(sysconfig.get_path("purelib", "venv", places))
        borrowed = folder / "borrowed"
        borrowed.mkdir()
        for home in dict.fromkeys(map(sysconfig.get_path, ("purelib", "platlib"))):
            for item in Path(home).iterdir():
                ours = "mhalib" in item.name or item.suffix in (".pth", ".egg-link")
                if not ours and not (borrowed / item.name).exists():
                    try:
                        (borrowed / item.name).symlink_to(item, target_is_directory=item.is_dir())
                    except OSError as error:
                        pytest.skip(f"links cannot be made here ({error}); on Windows, turn the developer mode on")
        (self.packages / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf-8")
        self.before = self.contents()
        hidden = {"PYTHONPATH", "PYTEST_CURRENT_TEST", "VIRTUAL_ENV"}  # IPython would add the last to sys.path
        self.environment = {
            **{key: value for key, value in os.environ.items() if key not in hidden},
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def contents(self):
        return {item.name for item in self.packages.iterdir()} - {"__pycache__"}

    def unpack(self, wheel):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.packages)

    def run(self, code, argument, cwd):
        done = subprocess.run(
            [self.python, "-c", code, argument],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.rpartition("REPORT ")[2])

    def first_cell(self, cwd, *, source="", colab=False):
        return self.run(CELL, json.dumps([first_cell.expected(source), colab]), cwd)


@pytest.fixture
def bare(tmp_path):
    return Bare(tmp_path)


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_wheel_holds_the_whole_library_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        (metadata,) = [Parser().parsestr(archive.read(n).decode()) for n in names if n.endswith(".dist-info/METADATA")]
    packed = {name for name in names if ".dist-info/" not in name}
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mhalib").rglob("*") if path.is_file()}
    assert packed == {name for name in files if "__pycache__" not in name}
    assert {"mhalib/configurations.csv", "mhalib/course/widgets/heads.js", "mhalib/course/widgets/heads.css"} <= packed
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(line.split(">")[0] for line in required) == ["numpy", "torch"]


def test_the_address_for_colab_is_one_that_pip_takes():
    address = first_cell.source()
    assert address == "" or address.startswith("git+https://")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_alone_with_the_wheel(chapter, bare, empty, wheel):
    bare.unpack(wheel)
    shutil.copy(chapter, empty)
    file, executable, path = bare.run(NOTEBOOK, chapter.name, empty)
    assert Path(file) == bare.packages / "mhalib" / "__init__.py"
    assert Path(executable).is_relative_to(bare.prefix)
    with_mhalib = [entry for entry in path if (Path(entry or empty) / "mhalib").exists()]
    assert with_mhalib == [str(bare.packages)], "mhalib can be seen at another place"
    assert str(ROOT) not in path


def test_in_a_clone_without_installation(bare, tmp_path):
    chapters = tmp_path / "clone" / "chapters"
    chapters.mkdir(parents=True)
    shutil.copytree(ROOT / "mhalib", chapters.parent / "mhalib", ignore=shutil.ignore_patterns("__pycache__"))
    report = bare.first_cell(chapters)
    assert report["error"] is None
    assert Path(report["mhalib"]).resolve() == chapters.parent / "mhalib" / "__init__.py"
    assert report["distribution"] == []
    assert report["widgets"] == []


@pytest.mark.parametrize("colab", [False, True])
def test_nowhere_says_what_to_set(colab, bare, empty):
    report = bare.first_cell(empty, colab=colab)
    kind, message = report["error"]
    assert kind == "ModuleNotFoundError"
    assert "mhalib is not here: set SOURCE above" in message
    assert "mhalib" not in report
    assert bare.contents() == bare.before


def demanding(wheel, folder):
    """A copy of the wheel that asks for a torch nobody has, as a newer mhalib might of an older Colab."""
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(".dist-info/METADATA"):
                data = data.replace(b"Requires-Dist: torch>=", b"Requires-Dist: torch>=99.", 1)
                assert b"torch>=99." in data
            new.writestr(name, data)
    return copy


def test_on_colab(bare, empty, tmp_path, wheel):
    """Installs mhalib and nothing else; torch stays as it was, whatever mhalib asks for; widgets are on, once."""
    wheel = demanding(wheel, tmp_path)
    ask = "import json, torch; print('REPORT', json.dumps([torch.__version__, torch.__file__]))"
    torch_before = bare.run(ask, "", empty)
    report = bare.first_cell(empty, source=wheel.as_posix(), colab=True)
    assert report["error"] is None
    assert Path(report["mhalib"]) == bare.packages / "mhalib" / "__init__.py"
    version = wheel.name.split("-")[1]
    assert report["distribution"] == [version]
    assert bare.contents() - bare.before == {"mhalib", f"mhalib-{version}.dist-info"}
    assert report["torch"] == torch_before
    assert report["widgets"] == ["enabled"]


def test_installed_wins_over_the_address(bare, empty, wheel):
    bare.unpack(wheel)
    report = bare.first_cell(empty, source="/nowhere/mhalib-9.whl", colab=False)
    assert report["error"] is None
    assert Path(report["mhalib"]) == bare.packages / "mhalib" / "__init__.py"
