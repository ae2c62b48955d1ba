"""Chromium without a window, offline, and whatever a page does in it that it should not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = [
    "--no-sandbox",  # in a container there is none to be had
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
TIMEOUT_MS = 30_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, with a profile of its own that is gone afterwards."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright, which is not installed")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: none of chromium, chromium-browser, google-chrome is on the PATH")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS, timeout=TIMEOUT_MS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A page that is open, with what went wrong on it.

    Args:
        requests: everything that it asked for, the page itself first.
        complaints: of its console, and errors of its script.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def width_too_much(self) -> int:
        """Pixels by which the page is wider than its window."""
        root = "document.documentElement"
        return int(self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


@contextmanager
def visit(browser: Browser, url: str, *, width: int, height: int = 900, dark: bool = False) -> Iterator[Visit]:
    """A page in a window of that size."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", offline=False
    )
    try:
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        found = Visit(page=page)
        page.on("request", lambda request: found.requests.append(request.url))
        page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.goto(url)
        yield found
    finally:
        context.close()
