"""Pictures of a chapter as JupyterLab shows it, in slices from top to bottom.

    python -m tools.book.screenshots chapters/04_counting.ipynb --out shots
    python -m tools.book.screenshots chapters/04_counting.ipynb --out shots --theme dark --saved

Works on a copy, so the chapter's own file is never changed.
Exits with 1 if a cell failed or the page complained.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys
import tempfile

from tools.book import lab

PAGE = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer"


def frame(notebook: lab.Notebook, width: int, height: int) -> None:
    """Folds the side bars away and makes the notebook's own part of the window `width` by `height` pixels."""
    page = notebook.page
    page.evaluate("() => { jupyterapp.shell.collapseLeft(); jupyterapp.shell.collapseRight(); }")
    notebook.settle()
    shown = page.locator(PAGE).evaluate("panel => [panel.clientWidth, panel.clientHeight]")
    window = page.viewport_size
    page.set_viewport_size(
        {"width": window["width"] + width - shown[0], "height": window["height"] + height - shown[1]}
    )
    notebook.settle()


def slices(notebook: lab.Notebook, out: pathlib.Path, stem: str) -> list[pathlib.Path]:
    """Scrolls through the notebook, one picture per screenful; returns the files written."""
    panel = notebook.page.locator(PAGE)
    total, step = panel.evaluate("panel => [panel.scrollHeight, panel.clientHeight]")
    files, top = [], 0
    while top < total:
        panel.evaluate("(panel, top) => panel.scrollTo(0, top)", top)
        notebook.settle()
        files.append(out / f"{stem}-{len(files):02}.png")
        panel.screenshot(path=files[-1])
        top += step
    return files


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.book.screenshots", description=__doc__.split("\n")[0])
    parser.add_argument("notebooks", nargs="+", type=pathlib.Path, help="chapters to picture (.ipynb)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the pictures")
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--saved", action="store_true", help="show the saved outputs, run nothing")
    parser.add_argument("--width", type=int, default=1100, help="of a picture, in pixels (%(default)s)")
    parser.add_argument("--height", type=int, default=1600, help="of a picture, in pixels (%(default)s)")
    options = parser.parse_args(argv)
    if reason := lab.missing():
        parser.exit(2, f"{reason}\n")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for source in options.notebooks:
            shutil.copy(source, folder)
        dark = options.theme == "dark"
        with lab.serve(folder, dark=dark, all_cells=True) as server, lab.browser() as browser:
            server.trust(*pathlib.Path(folder).glob("*.ipynb"))
            for source in options.notebooks:
                notebook = lab.Notebook(browser, server, source.name, size=(options.width, options.height))
                if not options.saved:
                    notebook.run_all()
                frame(notebook, options.width, options.height)
                stem = f"{source.stem}-{options.theme}" + ("-saved" if options.saved else "")
                for file in slices(notebook, options.out, stem):
                    print(file)
                complaints = [*lab.failures(notebook.cells(), run=not options.saved), *notebook.problems]
                for line in complaints:
                    print(f"{source.name}: {line}", file=sys.stderr)
                failed = failed or bool(complaints)
                notebook.close()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
