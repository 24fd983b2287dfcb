"""JupyterLab in a headless Chromium: a server with its own settings, and a page that notes what goes wrong.

Shared by tests/book/test_lab.py, which checks the chapters, and tools/book/screenshots.py, which pictures them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = ROOT / "tools" / "book" / "lab_config.py"  # what `make lab` starts with
WRITE_CONFIG = CONFIG.with_name("write_config.py")  # and `make write`
START = 120  # seconds for the server, and for a kernel, to be ready on a loaded machine
RUN = 420  # seconds for all the cells of a chapter; a chapter is meant to take under 60
FLAGS = [
    "--no-sandbox",  # the sandbox refuses to start as root and in most containers; only our pages are opened
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--force-color-profile=srgb",
]
SETTINGS = {
    # No news, no updates: nothing that asks another host.
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "extensionmanager-extension/plugin": {"enabled": False},
}


def chromium() -> str | None:
    """The browser to drive: the path in the variable CHROMIUM, or the system's Chromium or Chrome."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def missing() -> str | None:
    """What has to be installed before a chapter can be opened here; None if nothing is missing."""
    if importlib.util.find_spec("jupyterlab") is None:
        return "no JupyterLab here: pip install -c constraints.txt -e '.[book,test]'"
    if importlib.util.find_spec("playwright") is None:
        return "no Playwright here: pip install -c constraints.txt -e '.[test]'"
    if chromium() is None:
        return "no Chromium here: apt-get install chromium, or set CHROMIUM to the path of a Chromium or Chrome"
    return None


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: its address, the token it asks for, and the environment its kernels get."""

    address: str
    token: str
    environment: dict[str, str]

    def trust(self, *files: pathlib.Path | str) -> None:
        """Signs notebooks, as `jupyter trust` does: only then does JupyterLab draw their saved widgets."""
        if files:  # with no name, the command reads from standard input
            command = [sys.executable, "-m", "jupyter", "trust", *map(str, files)]
            subprocess.run(command, env=self.environment, check=True, capture_output=True)


@contextlib.contextmanager
def serve(
    folder: pathlib.Path | str,
    *,
    config: pathlib.Path | None = CONFIG,
    dark: bool = False,
    all_cells: bool = False,
) -> Iterator[Server]:
    """JupyterLab on a free port with `folder` as its root; its settings and data are temporary.

    It is the readers' JupyterLab; `config` names another one, or None for a JupyterLab that nobody configured.

    Nothing of the user's Jupyter configuration is read or written, so no notebook is trusted beforehand.
    Kernels find mhalib in this clone. `all_cells` renders cells that are scrolled out of sight as well.
    """
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as name:
        home = pathlib.Path(name)
        settings = dict(SETTINGS)
        if dark:
            settings["apputils-extension/themes"] = {"theme": "JupyterLab Dark"}
        if all_cells:
            settings["notebook-extension/tracker"] = {"windowingMode": "none", "scrollPastEnd": False}
        for plugin, values in settings.items():
            file = home / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        token = secrets.token_hex(16)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "IPYTHONDIR": str(home / "ipython"),
        }
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
            *(f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
            *(f"--ServerApp.root_dir={folder}", f"--LabApp.user_settings_dir={home / 'settings'}"),
            *(f"--LabApp.workspaces_dir={home / 'workspaces'}", "--LabApp.expose_app_in_browser=True"),
        ]
        if config is not None:
            command.append(f"--config={config}")
        log = home / "server.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(command, env=environment, cwd=folder, stdout=stream, stderr=stream)
        try:
            server = Server(f"http://127.0.0.1:{port}", token, environment)
            _wait_for(server, process, log)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(server: Server, process: subprocess.Popen, log: pathlib.Path) -> None:
    deadline = time.monotonic() + START
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{server.address}/api/status?token={server.token}", timeout=5).close()
            return
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"JupyterLab did not start within {START} s; the end of its log:\n{tail}")
        time.sleep(0.2)


@contextlib.contextmanager
def browser() -> Iterator:
    """A headless Chromium (a playwright Browser)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), headless=True, args=FLAGS)
        try:
            yield launched
        finally:
            launched.close()


def failures(cells: list[dict], *, run: bool = True) -> list[str]:
    """What is wrong with these code cells: an error in the output and, after a `run`, a cell without one."""
    found = []
    for number, cell in enumerate(cells, start=1):
        first = cell["source"].strip().splitlines()[:1]
        errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
        found += [f"code cell {number} {first}: {error['ename']}: {error['evalue']}" for error in errors]
        if run and first and cell["count"] is None:
            found.append(f"code cell {number} {first}: has not run")
    return found


class Notebook:
    """One notebook open in JupyterLab; `page` is the playwright Page.

    `problems` collects what the page complains about, from its first byte.
    Requests to another host are stopped, and noted.
    """

    def __init__(self, browser, server: Server, path: str, *, size: tuple[int, int] = (1300, 1100)) -> None:
        self.problems: list[str] = []
        self._server = server
        self._host = urlsplit(server.address).netloc
        self._context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        self._context.route("**/*", self._same_host)
        self.page = self._context.new_page()
        self.page.set_default_timeout(START * 1000)
        self._listeners = {
            "pageerror": lambda error: self.problems.append(f"page error: {error}"),
            "console": self._console,
            "requestfailed": lambda request: self.problems.append(
                f"request failed: {request.method} {self._plain(request.url)} {request.failure}"
            ),
            "response": self._response,
            "websocket": lambda socket: self._foreign(socket.url),
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)
        self.page.goto(f"{server.address}/lab/tree/{quote(path)}?token={server.token}&reset")
        self._wait(
            """() => {
                const panel = window.jupyterapp?.shell.currentWidget;
                const kernel = panel?.sessionContext?.session?.kernel;
                return panel?.context?.isReady && kernel?.connectionStatus === "connected"
                    && kernel.status === "idle" && panel.content.widgets.length > 0;
            }""",
            START,
            "the notebook was not open with an idle kernel",
        )

    def run_all(self) -> None:
        """Runs every cell; returns when the last has finished, or when one has failed."""
        self.page.evaluate(
            """() => {
                window.ran = undefined;
                jupyterapp.commands.execute("notebook:run-all-cells")
                    .then(() => { window.ran = true; }, error => { window.ran = String(error); });
            }"""
        )
        idle = 'jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === "idle"'
        self._wait(f"() => window.ran !== undefined && {idle}", RUN, "the cells had not all run")

    def save(self) -> None:
        """Saves the notebook, as Ctrl-S does. A dialog that comes up instead is left open."""
        self.page.evaluate("() => { jupyterapp.commands.execute('docmanager:save'); }")
        self._wait(
            "() => !jupyterapp.shell.currentWidget.context.model.dirty || document.querySelector('.jp-Dialog')",
            START,
            "the notebook was not saved",
        )

    def cells(self) -> list[dict]:
        """The code cells as they stand: source, execution count, and outputs (nbformat)."""
        return self.page.evaluate(
            """() => jupyterapp.shell.currentWidget.content.model.toJSON().cells
                .filter(cell => cell.cell_type === "code")
                .map(cell => ({source: cell.source, count: cell.execution_count, outputs: cell.outputs}))"""
        )

    def settle(self) -> None:
        """Waits until fonts, pictures and formulas are drawn."""
        self.page.wait_for_load_state("networkidle")
        self.page.evaluate(
            """async () => {
                await document.fonts.ready;
                await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
                await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            }"""
        )

    def close(self) -> None:
        """Ends the server's kernels and closes the page: one notebook at a time on a server."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        try:
            self.page.evaluate("() => jupyterapp.serviceManager.sessions.shutdownAll()")
        finally:
            self._context.close()

    def _wait(self, condition: str, seconds: float, what: str) -> None:
        from playwright.sync_api import TimeoutError as Late

        try:
            self.page.wait_for_function(condition, timeout=seconds * 1000)
        except Late:
            dialogs = self.page.locator(".jp-Dialog-content").all_inner_texts()
            raise AssertionError(f"{what} within {seconds} s; dialogs {dialogs}, {self.problems}") from None

    def _same_host(self, route) -> None:
        if self._foreign(route.request.url):
            route.abort()
        else:
            route.continue_()

    def _foreign(self, url: str) -> bool:
        parts = urlsplit(url)
        if parts.scheme in ("data", "blob") or parts.netloc == self._host:
            return False
        self.problems.append(f"request to another host: {url}")
        return True

    def _response(self, response) -> None:
        if response.status >= 400:
            self.problems.append(f"request answered {response.status}: {self._plain(response.url)}")

    def _console(self, message) -> None:
        if message.type == "error":
            where = self._plain(message.location.get("url", ""))
            self.problems.append(f"console error: {message.text} ({where})")

    def _plain(self, url: str) -> str:
        return url.replace(self._server.token, "…").replace(self._server.address, "")
