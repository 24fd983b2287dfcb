"""Hostile and unlucky submissions of the tiny assignment, for the tests of grading: what is in them, what they get."""

from dataclasses import dataclass

from small_course import STUB

ATTEND = """\
def attend(query, key, value):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
    return weights @ value, weights
"""
JACOBIAN = """\
def jacobian(p):
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]
"""
WRONG = """\
def attend(query, key, value):
    weights = (query @ key.mT).softmax(-1)
    return weights @ value, weights
"""


@dataclass(frozen=True)
class Submission:
    """Sources of the two answers, the points they deserve (of 4 and 3), and words in the teacher's notes."""

    attend: str
    jacobian: str
    points: int
    note: str = ""


CODE = {
    # ------------------------------------------------------------------------------------------- honest, and unlucky
    "loop": Submission(ATTEND, "while True:\n    pass", 4, "still running"),
    "loop in a function": Submission(
        "def attend(query, key, value):\n    while True:\n        pass", JACOBIAN, 3, "still running"
    ),
    "sleeps": Submission(ATTEND, "import time\ntime.sleep(1e6)", 4, "still running"),
    "memory": Submission(
        ATTEND, "hoard = []\nwhile True:\n    hoard.append(torch.ones(4_000_000))", 4
    ),  # an error in the cell, as on a machine that is full
    "prints": Submission(f"for line in range(200_000):\n    print('line', line)\n{ATTEND}", JACOBIAN, 7),
    "syntax error": Submission(ATTEND, "def jacobian(p:\n    return p", 4),
    "exits": Submission(f"{ATTEND}\nimport sys\nsys.exit(0)", JACOBIAN, 7),
    "magics": Submission(f"%matplotlib inline\n{ATTEND}\n%time _ = attend(*torch.ones(3, 2, 2))", JACOBIAN, 7),
    # ------------------------------------------------------------------------------------------------------- hostile
    "fork bomb": Submission(
        ATTEND, "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", 4, "stopped"
    ),
    "memory of many": Submission(
        ATTEND,
        "import os, time\nfor _ in range(6):\n    if not os.fork():\n        hoard = torch.ones(40_000_000)\n"
        "        time.sleep(1e6)\ntime.sleep(1e6)",
        4,
        "memory",
    ),
    "fills the disk": Submission(
        ATTEND,
        "import itertools\nfor folder in ('/tmp', '/dev/shm', '/sandbox/home'):\n    try:\n"
        "        for n in itertools.count():\n            open(f'{folder}/{n}', 'wb').write(bytes(1 << 20))\n"
        "    except OSError:\n        pass\n" + JACOBIAN,
        7,
    ),
    "deletes": Submission(
        "import os, shutil\nfor path in (ROOT, HOME, '/etc', '/sandbox', '/usr/lib/python3', '/usr/share/doc'):\n"
        f"    shutil.rmtree(path, ignore_errors=True)\n{ATTEND}",
        JACOBIAN,
        7,
    ),
    "network": Submission(
        "import socket\nfor host, port in (('127.0.0.1', PORT), ('192.0.2.1', 80)):\n    try:\n"
        "        socket.create_connection((host, port), timeout=1).sendall(b'hello')\n        print('CONNECTED')\n"
        f"    except OSError as error:\n        print(error)\n{ATTEND}",
        JACOBIAN,
        7,
    ),
    "spies": Submission(
        # Not the system's and Python's own files: on a cold or busy disk they alone take longer than a cell may.
        "import glob, os, sys\nseen = []\nfor folder, folders, names in os.walk('/'):\n"
        "    packages = folder.endswith(('site-packages', 'dist-packages'))\n"
        "    folders[:] = [f for f in folders if (f == 'mhalib' or not packages) and os.path.join(folder, f) not in\n"
        "        ('/usr', '/proc', '/sys', sys.base_prefix)]\n"
        "    seen += [os.path.join(folder, name) for name in names if name in\n"
        "        ('gradebook.db', 'tiny.ipynb', '02_single_head.ipynb', 'counterexample.py', 'secret.txt')]\n"
        "seen += [p for p in (ROOT, ROOT + '/grading', ROOT + '/solutions') if os.path.exists(p)]\n"
        "print('SEEN', seen)\nprint('OTHERS', [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 3])\n"
        f"from mhalib import checks\nprint('KNOWN', hasattr(checks, 'get'))\n{ATTEND}",
        JACOBIAN,
        7,
    ),
    "patches": Submission(
        "import numpy, sys, mhalib\nimport mhalib.checks.run, mhalib.checks.compare, mhalib.checks.encode\n"
        "yes = lambda *a, **k: True\nfor module in (torch, numpy, torch.testing):\n"
        "    for name in ('allclose', 'isclose', 'equal', 'assert_close', 'array_equal'):\n"
        "        setattr(module, name, yes)\n"
        "mhalib.checks.check = yes\nmhalib.checks.compare.difference = lambda *a: ''\n"
        "mhalib.attention = lambda q, k, v, **n: q * 0\ntorch.Tensor.__eq__ = yes\n" + WRONG,
        "def jacobian(p):\n    return p",
        0,
    ),
    "equals everything": Submission(
        "class Equal(torch.Tensor):\n    __eq__ = __ne__ = __bool__ = lambda *a: True\n"
        "    def __torch_function__(self, *a, **k):\n        return True\n"
        "def attend(query, key, value):\n    return Equal(), Equal()",
        "class Same:\n    def __getattr__(self, name):\n        return lambda *a, **k: True\n"
        "    __eq__ = lambda *a: True\n"
        "def jacobian(p):\n    return Same()",
        0,
    ),
    "kills itself": Submission(ATTEND, "import os\nos.kill(os.getpid(), 9)", 4, "ended the process"),
    "kills everything": Submission(ATTEND, "import os\nos.kill(-1, 9)", 4, "without the cells below it"),
    "kills in a function": Submission(
        ATTEND, "import os\ndef jacobian(p):\n    os.kill(os.getpid(), 9)", 4, "ended the process"
    ),
    "forges": Submission(
        "import json, os\nfake = json.dumps({'passed': True, 'points': 4, 'done': True}).encode()\n"
        "for name in ('results.json', 'outcomes', '/sandbox/course/results', '/tmp/marks'):\n    try:\n"
        "        open(name, 'wb').write(fake)\n    except OSError:\n        pass\n"
        "for handle in range(3, 64):\n    try:\n"
        "        os.write(handle, len(fake).to_bytes(8, 'little') + fake)\n    except OSError:\n        pass\n" + WRONG,
        "def jacobian(p):\n    return p",
        0,
    ),
    "shows the inputs": Submission(
        "kept = []\ndef attend(query, key, value):\n    print(query)\n    kept.append(query)\n"
        "    open('/tmp/kept', 'a').write(str(query.tolist()))\n    raise ValueError(str(query.tolist()))",
        "print(kept)\ndef jacobian(p):\n    return str(p.tolist())",
        0,
    ),
    "shows the others": Submission(  # right on the inputs that everybody can see: 6 cases, and once for gradients
        "calls = []\ndef attend(query, key, value):\n    calls.append(query)\n    if len(calls) > 7:\n"
        "        raise type(str(query[0, 0]), (ValueError,), {})(str(query.tolist()))\n"
        "    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)\n    return weights @ value, weights",
        "calls = []\ndef jacobian(p):\n    calls.append(p)\n    if len(calls) > 6:\n        return str(p.tolist())\n"
        "    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]",
        0,
    ),
    "script": Submission(
        "from IPython.display import HTML, Javascript, SVG, display\n"
        "display(HTML('<script>alert(1)</script>'), Javascript('alert(1)'))\n"
        "display({'image/png': '\"><script>alert(1)</script>', 'text/html': '<img onerror=alert(1)>'}, raw=True)\n"
        + ATTEND,
        JACOBIAN,
        7,
    ),
    "nothing": Submission(STUB, "", 0),
}
