"""The JupyterLab of readers: `make lab`, or `jupyter lab --config=tools/book/lab_config.py`.

A notebook is what its .ipynb says. Text twins belong to authors (write_config.py): here jupytext would put the
twin's inputs in place of what a reader changed with another program. And a notebook that was only looked at is saved
as it was, so that `git status` stays empty and `git pull` works.
"""

import json
from pathlib import Path

c = get_config()  # noqa: F821 (JupyterLab defines it for this file)
c.ServerApp.jpserver_extensions = {"jupyterlab_jupytext": False}


def as_committed(model, path, contents_manager, **_):
    """Takes back what JupyterLab writes by itself into a notebook's metadata; cells are never touched.

    That is the version of the Python that runs the kernel, and 6 for 6.0 in what widgets store.
    """
    if model["type"] != "notebook":
        return
    metadata = model["content"]["metadata"]
    metadata.get("language_info", {}).pop("version", None)
    try:
        before = json.loads((Path(contents_manager.root_dir) / path.strip("/")).read_text("utf-8"))["metadata"]
    except (OSError, ValueError, KeyError):
        return  # a new file, or one that was no notebook
    metadata.update({key: before[key] for key, value in metadata.items() if before.get(key) == value})


c.FileContentsManager.pre_save_hook = as_committed
