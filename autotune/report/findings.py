"""Lists of findings and settings. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from .figures import UNKNOWN
from .grid import listing

_STYLES = {"error": "bold red", "warning": "yellow", "ok": "green"}


def findings_view(rows: Sequence[tuple[str, str, str, str | None]]) -> RenderableType:
    """Findings as (severity, subject, message, remedy).

    A remedy stands on a line of its own, so that it can be copied.
    """
    cells = []
    for severity, subject, message, remedy in rows:
        words = f"{subject}: {message}" if remedy is None else f"{subject}: {message}\ntry: {remedy}"
        cells.append((Text(severity, style=_STYLES[severity]), words))
    return listing(cells)


def settings_view(rows: Sequence[tuple[str, str | None, str, str]]) -> RenderableType:
    """Settings as (name, value in force, default, summary)."""
    return listing(
        (Text(name, style="bold"), f"{value or UNKNOWN}\n{summary}; default: {default}")
        for name, value, default, summary in rows
    )
