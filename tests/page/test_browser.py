"""The page as people use it, in a real Chromium: with a mouse, with keys, on a phone, in the dark, on paper."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from page.browser import Visit, chromium, visit
from page.scene import RUDE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DESKTOP, PHONE = 1280, 390
POPUP = "#popup:not([hidden])"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def url(page: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


def assert_clean(seen: Visit, url: str) -> None:
    assert seen.complaints == []
    assert seen.requests == [url]


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False)])
def test_nothing_is_fetched_complained_of_or_cut_off(browser: Browser, url: str, width: int, dark: bool) -> None:
    with visit(browser, url, width=width, dark=dark) as seen:
        assert seen.width_too_much == 0
        assert seen.page.locator("section:visible").count() == 7, "the evidence shows in cards only"
        assert seen.page.locator(".charts svg:visible").count() == 3
        paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(20, 23, 26)") is dark
        assert_clean(seen, url)


def test_the_test_sees_what_it_looks_for(browser: Browser, tmp_path: Path) -> None:
    """The planted faults: a request, an error, a box that is too wide."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<img src='nowhere.png'><div style='width: 2000px'>x</div><script>missing()</script>", encoding="utf-8"
    )
    with visit(browser, path.as_uri(), width=DESKTOP) as seen:
        assert seen.width_too_much > 0
        assert len(seen.requests) == 2
        assert any("missing is not defined" in complaint for complaint in seen.complaints)


def test_rude_words_run_nothing_even_where_the_page_would_not_have_escaped_them(browser: Browser, url: str) -> None:
    """The policy is the second fence: what is put in past the template does not run either."""
    with visit(browser, url, width=DESKTOP) as seen:
        rude = '<img src=x onerror="window.ran = 1"><p style="color: red">'
        seen.page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", rude)
        seen.page.wait_for_function("document.querySelector('img') !== null")
        assert seen.page.evaluate("window.ran") is None
        assert any("Content Security Policy" in complaint for complaint in seen.complaints)
        assert RUDE.replace("\x1b", "") in seen.page.inner_text("#reproduce").replace("\x1b", "")


def test_a_cell_tells_its_card_to_the_mouse(browser: Browser, url: str) -> None:
    with visit(browser, url, width=DESKTOP) as seen:
        cell = seen.page.locator("td.won a").first
        cell.hover()
        popup = seen.page.wait_for_selector(POPUP)
        assert popup is not None
        words = popup.inner_text()
        for word in ("time", "us [", "gain", "2.00x [", "over the chosen", "rounds", "was replaced by", "bruck"):
            assert word in words, words
        box = popup.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= DESKTOP
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900
        assert cell.get_attribute("aria-describedby") == "popup"
        popup.hover()  # the pointer may move onto the card
        seen.page.mouse.move(2, 2)
        seen.page.wait_for_selector("#popup", state="hidden")
        assert_clean(seen, url)


def test_a_cell_tells_its_card_to_the_keyboard(browser: Browser, url: str) -> None:
    with visit(browser, url, width=DESKTOP) as seen:
        seen.page.locator(".heat a").first.focus()
        titles = [seen.page.inner_text(f"{POPUP} h3")]
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
            seen.page.keyboard.press(key)
            titles.append(seen.page.inner_text(f"{POPUP} h3"))
        kind = "all_reduce float32 sum"
        assert titles == [
            f"{kind} 1KiB, 2 ranks",
            f"{kind} 1KiB, 4 ranks",
            f"{kind} 64KiB, 4 ranks",
            f"{kind} 64KiB, 2 ranks",
            f"{kind} 1KiB, 2 ranks",
        ]
        seen.page.keyboard.press("Escape")
        seen.page.wait_for_selector("#popup", state="hidden")
        assert_clean(seen, url)


def test_a_cell_tells_its_card_to_a_finger(browser: Browser, url: str) -> None:
    with visit(browser, url, width=PHONE, height=844) as seen:
        seen.page.locator("td.won a").first.click()
        box = seen.page.locator(POPUP).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE
        assert box["y"] + box["height"] <= 844
        assert seen.width_too_much == 0
        seen.page.locator("h1").click()
        seen.page.wait_for_selector("#popup", state="hidden")


def test_an_algorithm_is_picked_out_of_all_charts(browser: Browser, url: str) -> None:
    with visit(browser, url, width=DESKTOP) as seen:
        button = seen.page.get_by_role("button", name="bruck")
        button.click()
        seen.page.mouse.move(2, 2)
        assert button.get_attribute("aria-pressed") == "true"
        shown = seen.page.eval_on_selector_all(
            ".charts [data-part]", "all => all.filter(p => getComputedStyle(p).opacity === '1').map(p => p.textContent)"
        )
        assert shown
        assert {words.split()[0] for words in shown} == {"bruck"}
        button.click()
        assert seen.page.locator(".charts.picked").count() == 0


def test_without_script_the_cells_are_links_to_their_evidence(browser: Browser, url: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(url)
        page.locator("td.won a").first.click()
        assert page.url.startswith(f"{url}#cell-")
        assert page.locator("article:target").is_visible()
    finally:
        context.close()


def test_all_of_it_is_on_paper(browser: Browser, url: str, tmp_path: Path) -> None:
    with visit(browser, url, width=DESKTOP) as seen:
        seen.page.emulate_media(media="print")
        visible = seen.page.eval_on_selector_all(
            "section h2", "all => all.filter(h => h.offsetParent !== null).map(h => h.textContent)"
        )
        assert len(visible) == 8
        assert visible[-1] == "The evidence of each cell"
        assert seen.page.locator("article:visible").count() == 9
        assert seen.page.locator("nav:visible").count() == 0
        pdf = seen.page.pdf(format="A4", print_background=True, path=tmp_path / "report.pdf")
        assert pdf.startswith(b"%PDF")
        assert 2 <= pages(pdf) <= 12
        assert_clean(seen, url)


def pages(pdf: bytes) -> int:
    """Page objects, in the open and in compressed streams."""
    parts = [pdf]
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            parts.append(zlib.decompress(stream))
        except zlib.error:
            continue  # a picture's or a font's, in another form
    return sum(len(re.findall(rb"/Type\s*/Page[^s]", part)) for part in parts)
