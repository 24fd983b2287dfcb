"""Tests of kernels on the CPU, each in a process where Triton interprets.

Triton decides between interpreting and compiling when it is imported, so a test process that may have imported it
cannot do both. `@in_interpreter` sends the test to a child process, one for each worker, and raises here what it
raised there.
"""

import atexit
import base64
import functools
import importlib
import os
import pickle
import select
import subprocess
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
IS_CHILD = os.environ.get("MHALIB_INTERPRETED_CHILD") == "1"
LIMIT_S = 600


def in_interpreter(test):
    """The same test, run in the child."""
    if IS_CHILD:
        return test

    @functools.wraps(test)
    def sent(**arguments):
        _child().ask(test.__module__, test.__name__, arguments)

    return sent


@functools.cache
def _child() -> "_Child":
    return _Child()


class _Child:
    def __init__(self):
        self.process = None
        atexit.register(self.stop)

    def start(self) -> None:
        paths = [str(HERE), *sys.path]
        environment = os.environ | {
            "TRITON_INTERPRET": "1",
            "MHALIB_INTERPRETED_CHILD": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "interpreted.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,
        )

    def stop(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, module: str, name: str, arguments: dict) -> None:
        if self.process is None:
            self.start()
        self.process.stdin.write(_encode((module, name, arguments)))
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.stop()
            if not ready:
                raise RuntimeError(f"{name}: no answer within {LIMIT_S} s")
            raise AssertionError(f"{name}: the interpreting process died, as it does when a kernel leaves its memory")
        kind, report = _decode(line)
        if kind == "assertion":
            raise AssertionError(report)
        if kind == "error":
            raise RuntimeError(report)


def _encode(message: object) -> bytes:
    return base64.b64encode(pickle.dumps(message)) + b"\n"


def _decode(line: bytes) -> object:
    return pickle.loads(base64.b64decode(line))


def _answer(module: str, name: str, arguments: dict) -> tuple[str, str]:
    try:
        getattr(importlib.import_module(module), name)(**arguments)
    except AssertionError:
        return "assertion", traceback.format_exc()
    except Exception:
        return "error", traceback.format_exc()
    return "passed", ""


def _serve() -> None:
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a test prints is no reply
    for line in sys.stdin.buffer:
        replies.write(_encode(_answer(*_decode(line))))


if __name__ == "__main__":
    _serve()
