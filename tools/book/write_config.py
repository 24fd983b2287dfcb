"""The JupyterLab of authors: `make write`. A chapter is saved as notebook and as text twin.

Where the two files differ, neither wins in silence: the notebook is not opened, and one that is open is not saved.
What the files say decides, not which is newer.
"""

import sys
from pathlib import Path

from jupytext.async_contentsmanager import AsyncTextFileContentsManager
from tornado.web import HTTPError

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools.book import twins  # noqa: E402 (found only now)

load_subconfig("lab_config.py")  # noqa: F821 (JupyterLab defines it for this file)


class EqualTwins(AsyncTextFileContentsManager):
    """jupytext's manager of files, for pairs whose inputs are the same in both files."""

    async def get(self, path, content=True, type=None, **options):
        if content and type in (None, "notebook"):
            self.check(path, "not opened")
        return await super().get(path, content=content, type=type, **options)

    async def save(self, model, path=""):
        if model["type"] == "notebook":
            self.check(path, "not saved")
        return await super().save(model, path)

    def check(self, path, refused):
        """Raises an error that JupyterLab shows, if `path` is one of two twins that differ."""
        stem = Path(self._get_os_path(path)).with_suffix("")
        pair = [stem.with_name(stem.name + suffix) for suffix in (".ipynb", ".md")]
        if path.strip("/").split("/")[0] in twins.FOLDERS and all(file.is_file() for file in pair):
            for finding in twins.differing(stem):
                raise HTTPError(409, f"{stem.name} is {refused}, so that nothing is lost. {finding}")


c = get_config()  # noqa: F821
c.ServerApp.jpserver_extensions = {"jupyterlab_jupytext": True}
c.ServerApp.contents_manager_class = EqualTwins
