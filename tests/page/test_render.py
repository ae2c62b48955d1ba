"""The page as text: whole, the same each time, and nothing that was put into it can run, load or break it."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from page.scene import RUDE

from autotune.errors import BackendUnavailable
from autotune.report.page import render
from autotune.report.page.contents import Contents
from autotune.report.page.render import MachineRow, machines_page, problem_page, report_page
from autotune.table import shipped_table

ALLOWED = {"svg", "g", "path", "defs", "use", "text", "title", "rect", "clippath", "tspan"}


class Reader(HTMLParser):
    """Every element with its attributes, and the text outside of style and script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.raw: dict[str, list[str]] = {"style": [], "script": []}
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.raw:
            self._inside = tag
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside][-1] += data
        else:
            self.words.append(data)


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


def test_rude_words_are_shown_and_do_nothing(read: Reader) -> None:
    names = [name for name, _ in read.elements]
    assert names.count("script") == 1
    assert "img" not in names
    assert not [attrs for _, attrs in read.elements if any(name.startswith("on") for name in attrs)]
    shown = "".join(read.words)
    assert RUDE in shown  # of the command, the origin
    assert RUDE.replace("\x1b", "\ufffd") in shown  # of the host, in the picture
    assert "rank 1 has <b>3</b> at element 7" in shown


def test_the_policy_admits_the_pages_own_style_and_script_and_nothing_else(read: Reader) -> None:
    policy = next(a["content"] for n, a in read.elements if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        (text,) = read.raw[kind]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not [attrs for _, attrs in read.elements if "style" in attrs]


def test_nothing_is_fetched(read: Reader) -> None:
    for name, attrs in read.elements:
        for attribute in ("src", "href", "action", "data", "poster", "srcset"):
            value = attrs.get(attribute)
            assert value is None or value.startswith(("#", "data:,")), (name, attribute, value)
    assert "@import" not in read.raw["style"][0]
    assert "url(" not in read.raw["style"][0]


def test_ids_are_unique_and_links_arrive(read: Reader) -> None:
    ids = [attrs["id"] for _, attrs in read.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {(attrs["href"] or "")[1:] for _, attrs in read.elements if attrs.get("href", "")[:1] == "#"}  # type: ignore[index] # None has no href
    assert links <= set(ids)


def test_all_sections_are_there(read: Reader) -> None:
    sections = [attrs["id"] for name, attrs in read.elements if name == "section"]
    expected = ["winners", "curves", "search", "kept", "failures", "machine", "reproduce", "evidence"]
    assert sections == expected


def test_the_same_contents_make_the_same_page(contents: Contents, page: str) -> None:
    assert report_page(contents) == page


def test_a_page_of_a_usual_size_is_small(page: str) -> None:
    assert len(page.encode()) < 1 << 20


def test_a_table_without_rules_trials_or_machine_makes_a_page(contents: Contents) -> None:
    bare = replace(contents, table=shipped_table(), topology=None, runs=(), trials=(), note="There is no database.")
    shown = "".join(Reader(report_page(bare)).words)
    assert "This table has no rules" in shown
    assert "No default was kept" in shown
    assert "The topology is not at hand" in shown


def test_a_table_without_trials_still_shows_its_decisions(contents: Contents) -> None:
    read = Reader(report_page(replace(contents, trials=(), runs=())))
    assert "curves" not in [attrs.get("id") for _, attrs in read.elements]
    assert "2.00x" in "".join(read.words)


def test_the_list_of_machines_and_the_page_of_an_error_are_as_strict() -> None:
    row = MachineRow(
        fingerprint="0" * 16, href="machines/" + "0" * 16, words=RUDE, tables=(RUDE,), n_runs=3, last_run=RUDE
    )
    for text in (machines_page([row], store=RUDE, version="1"), problem_page(RUDE, RUDE)):
        read = Reader(text)
        assert [name for name, _ in read.elements].count("script") == 1
        assert RUDE in "".join(read.words)
    assert "nothing in the store yet" in machines_page([], store="x", version="1")


@pytest.mark.parametrize(("module", "word"), [("jinja2", "Jinja2"), ("matplotlib", "matplotlib")])
def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, contents: Contents, module: str, word: str
) -> None:
    render._environment.cache_clear()
    render._frame.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BackendUnavailable, match=f"needs {word}, which is not installed") as caught:
        report_page(contents)
    assert caught.value.remedy == "pip install 'mc2-autotune[report]'"


def test_the_style_sheet_paints_every_class_of_a_picture(read: Reader) -> None:
    """The planted fault would be a colour without a rule, which is drawn black on a dark page."""
    used = {
        word
        for name, attrs in read.elements
        if name in ALLOWED
        for word in (attrs.get("class") or "").split()
        if word.startswith(("fill-", "stroke-"))
    }
    painted = set(re.findall(r"\.((?:fill|stroke)-[a-z0-9-]+) \{", read.raw["style"][0]))
    assert used
    assert used <= painted
