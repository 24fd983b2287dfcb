"""site/glossary.md: each term once, with its Korean name and a definition, at an address that chapters can link to."""

import re
import unicodedata
from collections import Counter

import pytest

from tools.book import twins

TEXT = (twins.ROOT / "site" / "glossary.md").read_text("utf-8")
ENTRY = re.compile(
    r'^(?:<a id="(?P<id>[^"\n]+)"></a>\n\n)?'
    r"^### (?P<term>[^\n]+)\n\n"
    r"(?P<korean>[^\n]+) · chapter (?P<chapter>\d\d)\n\n"
    r"(?P<definition>[^\n#<][^\n]+)\n",
    re.MULTILINE,
)
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]*glossary\.md[^)\s]*)\)")
CHAPTERS = sorted(twins.ROOT.glob("chapters/*.md"))


def github_anchor(heading):
    """GitHub's rule: lower case; letters, digits, hyphens, underscores stay; spaces become hyphens."""
    kept = (c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LNM")
    return "".join(kept).replace(" ", "-")


def jupyterlab_anchor(heading):
    """JupyterLab's rule: spaces become hyphens, nothing else changes."""
    return heading.replace(" ", "-")


ENTRIES = [match.groupdict() for match in ENTRY.finditer(TEXT)]
BY_ANCHOR = {github_anchor(entry["term"]): entry for entry in ENTRIES}


def test_anchor_rule():
    assert github_anchor("feature map (kernel)") == "feature-map-kernel"
    assert github_anchor("KV cache") == "kv-cache"
    assert github_anchor("class-discriminative attention map") == "class-discriminative-attention-map"


def test_every_heading_is_a_complete_entry():
    headings = re.findall(r"^### (.+)$", TEXT, re.MULTILINE)
    assert [entry["term"] for entry in ENTRIES] == headings
    assert len(headings) >= 79  # the terms of the whole course, when this was written
    for entry in ENTRIES:
        assert re.search(r"[가-힣]", entry["korean"]), entry["term"]
        assert entry["definition"].rstrip().endswith((".", ".)")), entry["term"]
        assert int(entry["chapter"]) <= 16, entry["term"]


def test_each_term_stands_once_in_alphabetical_order():
    terms = [entry["term"] for entry in ENTRIES]
    assert terms == sorted(terms, key=str.casefold)
    for key in ("term", "korean"):
        assert [name for name, count in Counter(entry[key] for entry in ENTRIES).items() if count > 1] == []
    assert len(BY_ANCHOR) == len(terms)


def test_links_work_in_jupyterlab_too():
    """Where JupyterLab's own address for a heading differs from GitHub's, an anchor with GitHub's stands before it."""
    for anchor, entry in BY_ANCHOR.items():
        assert entry["id"] == (None if jupyterlab_anchor(entry["term"]) == anchor else anchor), entry["term"]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_links_of_a_chapter(chapter):
    """A link leads to a term, its text is that term, and a Korean name that follows it is that term's."""
    for number, line in enumerate(chapter.read_text("utf-8").splitlines(), start=1):
        for link in LINK.finditer(line):
            where = f"{chapter.name}, line {number}: {link[0]}"
            path, _, anchor = link["target"].partition("#")
            assert path == "../site/glossary.md", where
            if not anchor:
                continue  # the glossary as a whole
            assert anchor in BY_ANCHOR, where
            entry = BY_ANCHOR[anchor]
            assert link["text"].casefold() == entry["term"].casefold(), where
            follows = re.split(r" · |\||\[", line[link.end() :])[0].strip(" ,.;:")
            if re.search(r"[가-힣]", follows):
                short = re.sub(r" \(.*\)$", "", entry["korean"])  # an abbreviation in brackets may be left out
                assert re.sub(r"^\((.*)\)$", r"\1", follows) in (entry["korean"], short), where
