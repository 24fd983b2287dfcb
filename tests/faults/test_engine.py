"""A fault is named by what it changes: it outlives a renaming, and says what to rewrite when the code is another."""

import ast
import textwrap

import matching
import pytest
from engine import LIBRARY, Fault, Stale, apply, changed, definitions
from server import Server, path_of
from test_faults import FAULTS

SOURCE = '''
import math
import torch
from mhalib import attention

TABLE = {"old": 1}


def softmax(scores, mask):
    """Over the keys."""
    largest = scores.max(-1)
    weights = torch.exp(scores - largest)
    if mask is not None:
        weights = weights * mask
    total = weights.sum(-1)
    return weights / total


class Layer:
    def forward(self, query, key, *, causal, window):
        return attention(query, key, causal=causal, window=window, scale=1 / math.sqrt(8))
'''
SOFTMAX = Fault(
    "the largest score is added",
    "sample.py",
    "softmax",
    "torch.exp(scores - largest)",
    "torch.exp(scores + largest)",
    "",
)
LAYER = Fault(
    "causal is ignored",
    "sample.py",
    "Layer.forward",
    "attention(..., causal=causal)",
    "attention(..., causal=False)",
    "",
)


@pytest.fixture
def library(tmp_path):
    """library(text, fault): the text of sample.py with the fault in it, without its layout."""

    def put(text: str, fault: Fault) -> str:
        (tmp_path / "sample.py").write_text(text, "utf-8")
        return changed(fault, tmp_path)

    return put


def same(one: str, other: str) -> bool:
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


def test_a_fault_changes_its_code_and_nothing_else(library):
    assert same(library(SOURCE, SOFTMAX), SOURCE.replace("scores - largest", "scores + largest"))
    assert same(library(SOURCE, LAYER), SOURCE.replace("causal=causal", "causal=False"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("largest", "maximum"),
        ("scores", "logits"),
        ("torch.exp(scores - largest)", "torch.exp(\n        # shifted\n        (scores) - (largest),\n    )"),
        ("import math\nimport torch", "import torch\nimport math"),
        ("weights = torch.exp", "weights: torch.Tensor = torch.exp"),
        ("total = weights.sum(-1)", "total = weights.sum(-1).clamp(min=1)"),
    ],
    ids=["a local renamed", "a parameter renamed", "layout", "imports", "annotation", "another statement"],
)
def test_a_fault_outlives_what_it_does_not_speak_of(old, new, library):
    text = SOURCE.replace(old, new)
    assert text != SOURCE
    plain = ast.unparse(ast.parse(text))
    left, right = (
        ("scores", "largest")
        if old not in ("scores", "largest")
        else (("logits", "largest") if old == "scores" else ("scores", "maximum"))
    )
    assert same(library(text, SOFTMAX), plain.replace(f"{left} - {right}", f"{left} + {right}"))


def test_a_changed_meaning_is_stale_and_says_what_to_rewrite(library):
    with pytest.raises(Stale) as stale:
        library(SOURCE.replace("torch.exp(scores - largest)", "torch.exp2(scores - largest)"), SOFTMAX)
    message = str(stale.value)
    assert "stale fault: the largest score is added" in message
    assert "mhalib/sample.py, softmax" in message
    assert "looked for:  torch.exp(scores - largest)" in message
    assert "it stands there 0 times; nearest to it is line 12: weights = torch.exp2(scores - largest)" in message


def test_code_that_was_moved_is_found(library):
    text = SOURCE + textwrap.dedent("""
        def shifted(scores, most):
            return torch.exp(scores - most)
    """)
    with pytest.raises(Stale, match=r"it stands in mhalib/sample.py, shifted"):
        library(text.replace("weights = torch.exp(scores - largest)", "weights = shifted(scores, largest)"), SOFTMAX)


def test_an_ambiguous_fault_is_refused_unless_it_says_which_one_is_meant(library):
    text = SOURCE.replace("    total =", "    again = torch.exp(mask - total)\n    total =")
    with pytest.raises(Stale, match="it stands there 2 times: it is in lines 12, 15"):
        library(text, SOFTMAX)
    second = library(text, SOFTMAX._replace(nth=1))
    assert same(second, text.replace("mask - total", "mask + total"))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("torch.exp(scores - scores)", "scores", "stands there 0 times"),  # two names for one
        ("torch.exp(a - b) + a", "a", "stands there 0 times"),
        ("math.exp(scores - largest)", "scores", "stands there 0 times"),  # a module is not a local name
        ("torch.exp(scores - largest)", "torch.exp(mask)", "`after` speaks of mask: say in `given`"),
    ],
)
def test_names_are_taken_at_their_word(before, after, reason, library):
    with pytest.raises(Stale, match=reason):
        library(SOURCE, SOFTMAX._replace(before=before, after=after))


def test_code_that_is_given_binds_the_names_of_after(library):
    fault = SOFTMAX._replace(after="torch.exp(hidden)", given=("hidden is not None",))
    assert same(library(SOURCE, fault), SOURCE.replace("torch.exp(scores - largest)", "torch.exp(mask)"))


def test_statements_and_their_bodies(library):
    gone = SOFTMAX._replace(before="weights = weights * mask", after="")
    assert same(library(SOURCE, gone), SOURCE.replace("weights = weights * mask", "pass"))
    always = SOFTMAX._replace(before="if mask is not None: ...", after="if True: ...")
    assert same(library(SOURCE, always), SOURCE.replace("if mask is not None", "if True"))
    two = SOFTMAX._replace(before="total = w.sum(-1)\nreturn w / total", after="return w")
    assert same(
        library(SOURCE, two), SOURCE.replace("total = weights.sum(-1)\n    return weights / total", "return weights")
    )


def test_arguments_that_are_not_written_out(library):
    fault = LAYER._replace(before="attention(..., window=window)", after="attention(...)")
    assert same(library(SOURCE, fault), SOURCE.replace(" window=window,", ""))
    fault = LAYER._replace(before="attention(query, ...)", after="attention(2 * query, ...)")
    with pytest.raises(Stale, match="stands there 0 times"):
        library(SOURCE.replace("attention(query, key,", "attention(key=key,"), fault)
    assert same(library(SOURCE, fault), SOURCE.replace("attention(query,", "attention(2 * query,"))


def test_several_edits_share_their_names(library):
    fault = SOFTMAX._replace(also=(("out.sum(-1)", "out.sum(0)"),), before="out = torch.exp(s - m)", after="out = s")
    with pytest.raises(Stale):
        library(SOURCE.replace("total = weights.sum", "total = weights.mean"), fault)
    wanted = SOURCE.replace("torch.exp(scores - largest)", "scores").replace("sum(-1)", "sum(0)")
    assert same(library(SOURCE, fault), wanted)


def test_what_a_module_holds_can_be_replaced_at_its_end(library):
    fault = Fault("the table is empty", "sample.py", "", "", "TABLE.clear()", "")
    assert library(SOURCE, fault).endswith("\nTABLE.clear()\n")


def test_a_table_of_data_can_be_changed(tmp_path):
    (tmp_path / "table.csv").write_text("name,heads\ntiny,2\n", "utf-8")
    fault = Fault("tiny has three heads", "table.csv", "", "tiny,2", "tiny,3", "")
    assert changed(fault, tmp_path) == "name,heads\ntiny,3\n"
    with pytest.raises(Stale, match="stands there 0 times"):
        changed(fault._replace(before="tiny,4"), tmp_path)


class Renamed(ast.NodeTransformer):
    """Every name in `names` gets another one."""

    def __init__(self, names):
        self.names = names

    def generic_visit(self, node):
        for field in ("id", "arg", "name"):
            name = getattr(node, field, None)
            if name in self.names and not isinstance(node, ast.keyword | ast.alias):
                setattr(node, field, f"renamed_{name}")
        if isinstance(node, ast.Nonlocal):
            node.names = [f"renamed_{name}" if name in self.names else name for name in node.names]
        return super().generic_visit(node)


@pytest.mark.parametrize("fault", [fault for _, fault in FAULTS], ids=[f"{f}: {x.concept}" for f, x in FAULTS])
def test_every_local_name_may_be_another(fault):
    """The faults of this course: rename all local variables of the function; the fault is the same but for them."""
    text = (LIBRARY / fault.file).read_text("utf-8")

    def module():
        parsed = ast.parse(text)
        places = list(definitions(parsed, fault.place))
        scope = matching.Scope(parsed, places)
        return parsed, places, scope.locals - scope.fixed

    if not fault.before:
        return
    want, _, names = module()
    want = apply(fault, want)
    got, renamed_places, _ = module()
    for place in renamed_places:
        Renamed(names).visit(place)
    got = apply(fault, got)
    for place in definitions(want, fault.place):
        Renamed(names).visit(place)
    assert ast.dump(want) == ast.dump(got)


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


def test_a_fault_counts_as_caught_by_an_assertion_alone(server):
    test_file, only = [path_of("test_masks.py")], "window_counts"
    text, right = (LIBRARY / "masks.py").read_text("utf-8"), "keys > (queries - width)"
    assert text.count(right) == 1
    caught = server.run(test_file, only, file="masks.py", text=text.replace(right, "keys >= (queries - width)"))
    assert caught.is_caught
    assert [by_assertion for _, by_assertion, _ in caught.failures] == [True]
    for broken in ("import not_there\n" + text, text.replace(right, "keys > (queries.not_there() - width)")):
        outcome = server.run(test_file, only, file="masks.py", text=broken)
        assert outcome.status != 0
        assert not outcome.is_caught
    unseen = server.run(test_file, only, file="latent.py", text="raise AssertionError")
    assert unseen.errors == ["the tests import no mhalib/latent.py"]
    untouched = server.run(test_file, only)
    assert (untouched.status, untouched.failures, untouched.errors) == (0, [], [])
    assert untouched.passed > 1


def test_a_run_without_end_is_stopped(server):
    outcome = server.run(
        [path_of("test_masks.py")], "window_counts", file="masks.py", text="while True: pass", limit_s=3
    )
    assert outcome.status is None
    assert not outcome.is_caught
