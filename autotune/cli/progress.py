"""What is being measured, on standard error: a bar on a terminal, a line for each kind of cell elsewhere.

It is drawn only when it is told something, which is between rounds: a thread that redraws would take a core from the
ranks that are timed.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from ..units import format_bytes, format_duration
from .output import say

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from ..tune import Progress

_REDRAW_S = 0.1


class RunProgress:
    """Shows the progress of a run; a context manager."""

    def __init__(self) -> None:
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task = None if self._bar is None else self._bar.add_task("starting", total=1, cells="", left="")
        self._drawn_s = 0.0
        self._kind = ""

    def __enter__(self) -> RunProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def said(self, text: str) -> None:
        """Something that happens beside measuring."""
        if self._bar is None:
            say(text)
        else:
            self._bar.console.print(text)

    def measuring(self, progress: Progress) -> None:
        """The next round."""
        kind = _kind(progress)
        cells = f"{progress.cells_done}/{progress.cells_total}"
        left = "" if progress.left_s is None else f"{format_duration(progress.left_s)} left"
        if self._bar is None or self._task is None:
            if kind != self._kind:
                say(", ".join(filter(None, (f"[{cells}] {kind}", left))))
            self._kind = kind
            return
        now_s = time.monotonic()
        if now_s - self._drawn_s < _REDRAW_S:
            return
        self._drawn_s = now_s
        what = f"{kind}, {format_bytes(progress.problem.message_bytes)}: {progress.phase.value} {progress.round + 1}"
        self._bar.update(
            self._task,
            description=what,
            completed=progress.cells_done,
            total=progress.cells_total,
            cells=cells,
            left=left,
        )
        self._bar.refresh()


def _kind(progress: Progress) -> str:
    from ..report.figures import group_text, kind_text

    return f"{kind_text(progress.problem.key)}, {group_text(progress.problem.key)}"


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=20),
        TextColumn("{task.fields[cells]}"),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}"),
        console=Console(stderr=True, markup=False, highlight=False),
        auto_refresh=False,
        transient=True,
    )
