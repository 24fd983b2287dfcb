"""What JupyterLab writes: nothing that a reader or author did elsewhere is lost, and looking changes no file.

In a real browser, on a copy of the notebooks. Skipped where JupyterLab, Playwright or Chromium is missing.
"""

import json
import shutil
import subprocess

import pytest

from tools.book import lab

REASON = lab.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
FOLDERS = ("chapters", "solutions", "exercises")
NOTE = "A note made with another program."
LATER = "A note typed in JupyterLab."
CHAPTER, SOLUTION, OPEN_ALREADY = (
    "chapters/05_masks.ipynb",
    "solutions/05_masks/05_masks.ipynb",
    "exercises/05_masks/05_masks.ipynb",
)

# Opens a notebook in a tab behind the one that is shown, with the kernel that the page has, and waits for what Lab
# does by itself: it writes the kernel's language into the notebook.
OPEN = """async path => {
    const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel.model;
    window.tab = await jupyterapp.commands.execute("docmanager:open", {path, kernel, options: {activate: false}});
    await Promise.all([tab.context.ready, tab.sessionContext.ready]);
    while (!tab.content.model.metadata.language_info?.version) await new Promise(done => setTimeout(done, 50));
}"""
SAVE_AND_CLOSE = """async () => {
    const dirty = tab.context.model.dirty;
    await tab.context.save();
    tab.dispose();
    return dirty;
}"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The notebooks as they are now, committed to a repository of their own; returns its folder."""
    folder = tmp_path_factory.mktemp("repository")
    for name in FOLDERS:
        shutil.copytree(lab.ROOT / name, folder / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(lab.ROOT / name, folder)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=as they are")
    return folder


@pytest.fixture
def clone(repository):
    """The same, without what an earlier test changed."""
    git(repository, "checkout", "--quiet", ".")
    return repository


@pytest.fixture(scope="module")
def readers(repository):
    with lab.serve(repository) as server:
        yield server


@pytest.fixture(scope="module")
def authors(repository):
    with lab.serve(repository, config=lab.WRITE_CONFIG) as server:
        yield server


@pytest.fixture(scope="module")
def chromium():
    with lab.browser() as browser:
        yield browser


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def change(file, text=NOTE):
    """Adds a cell to the notebook on disk, as Colab or VS Code would: its twin is left as it is."""
    notebook = json.loads(file.read_text("utf-8"))
    notebook["cells"].append({"cell_type": "markdown", "id": "note", "metadata": {}, "source": [text]})
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


def sources(notebook):
    """The text of every cell that is shown."""
    return notebook.page.evaluate(
        "() => jupyterapp.shell.currentWidget.content.model.toJSON().cells.map(cell => cell.source)"
    )


def type_in(notebook, text):
    """Puts `text` in place of the last cell."""
    notebook.page.evaluate(
        "text => [...jupyterapp.shell.currentWidget.content.model.cells].at(-1).sharedModel.setSource(text)", text
    )


def dialog(notebook):
    """The text of the dialog that comes up."""
    shown = notebook.page.locator(".jp-Dialog-content")
    shown.wait_for()
    return shown.inner_text()


@pytest.mark.parametrize(("command", "config"), [("lab", lab.CONFIG), ("write", lab.WRITE_CONFIG)])
def test_make_starts_the_jupyterlab_that_is_tested_here(command, config):
    done = subprocess.run(["make", "--dry-run", command], cwd=lab.ROOT, check=True, capture_output=True, text=True)
    before, started, _ = done.stdout.partition(f"-m jupyterlab --config={config.relative_to(lab.ROOT).as_posix()} ")
    assert started
    assert ("twins || {" in before) == (command == "write")


@pytest.mark.parametrize("path", [CHAPTER, SOLUTION])
def test_a_change_made_elsewhere_is_shown_and_stays(path, clone, readers, chromium):
    file = clone / path
    change(file)
    notebook = lab.Notebook(chromium, readers, path)
    shown = sources(notebook)
    notebook.page.evaluate("() => { jupyterapp.shell.currentWidget.context.model.dirty = true; }")
    notebook.save()
    notebook.close()
    assert shown[-1] == NOTE
    assert NOTE in file.read_text("utf-8")


@pytest.mark.parametrize("suffix", [".ipynb", ".md"])
def test_authors_are_told_of_twins_that_differ(suffix, clone, authors, chromium):
    """Whichever was changed, and whichever is newer: the chapter is not opened, and the message says what to do."""
    file = (clone / CHAPTER).with_suffix(suffix)
    if suffix == ".ipynb":
        change(file)
    else:
        file.write_text(file.read_text("utf-8") + f"\n\n{NOTE}\n", "utf-8")
    before = git(clone, "diff")
    notebook = lab.Notebook(chromium, authors, OPEN_ALREADY)
    notebook.page.evaluate("path => { jupyterapp.commands.execute('docmanager:open', {path}); }", CHAPTER)
    said = dialog(notebook)
    notebook.close()
    assert "05_masks is not opened, so that nothing is lost" in said
    assert "05_masks.md and 05_masks.ipynb differ" in said
    assert "jupytext --to md:myst" in said
    assert "tools.book.outputs" in said
    assert NOTE in said
    assert git(clone, "diff") == before


@pytest.mark.parametrize("who", ["readers", "authors"])
def test_a_change_made_elsewhere_to_an_open_notebook_is_not_overwritten_in_silence(who, clone, request, chromium):
    """JupyterLab asks what to do. Authors cannot overwrite before the twins are equal again."""
    notebook = lab.Notebook(chromium, request.getfixturevalue(who), CHAPTER)
    change(clone / CHAPTER)
    before = git(clone, "diff")
    type_in(notebook, LATER)
    notebook.save()
    assert "has changed on disk" in dialog(notebook)
    assert git(clone, "diff") == before
    notebook.page.locator(".jp-Dialog button", has_text="Overwrite").click()
    if who == "authors":
        notebook.page.get_by_text("not saved, so that nothing is lost").wait_for()
    else:
        notebook.save()
    notebook.close()
    assert (git(clone, "diff") == before) == (who == "authors")


@pytest.mark.parametrize("who", ["readers", "authors"])
def test_looking_at_every_notebook_changes_no_file(who, clone, request, chromium):
    """Each is opened and saved; the kernel is the same for all, and runs nothing."""
    books = git(clone, "ls-files", "*.ipynb").splitlines()
    if who == "authors":
        books = [CHAPTER, SOLUTION]  # what is left out of a notebook is left out by the same code
    notebook = lab.Notebook(chromium, request.getfixturevalue(who), OPEN_ALREADY)
    for path in books:
        if path == OPEN_ALREADY:
            notebook.save()
            continue
        notebook.page.evaluate(OPEN, path)
        assert notebook.page.evaluate(SAVE_AND_CLOSE), "JupyterLab changed nothing, so this would show nothing"
    notebook.close()
    assert git(clone, "status", "--short") == ""
