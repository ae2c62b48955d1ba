"""Where text goes: results to standard output, everything else to standard error.

On a terminal, tables fit its width and have colours; in a file or a pipe they have neither, and nothing is broken over
lines.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import AutotuneError

if TYPE_CHECKING:
    from rich.console import RenderableType

PIPE_CLOSED = 141  # what a shell says of a program that SIGPIPE ended
_FILE_WIDTH = 120
_UNBROKEN_WIDTH = 1000


def text_width() -> int:
    """Columns that a report may fill."""
    return shutil.get_terminal_size((_FILE_WIDTH, 24)).columns


def show(*parts: RenderableType) -> None:
    """Write renderables to standard output."""
    from rich.console import Console

    if sys.stdout.isatty():
        Console(markup=False, highlight=False, emoji=False).print(*parts, sep="\n", crop=False)
        return
    page = io.StringIO()
    Console(file=page, width=_UNBROKEN_WIDTH, markup=False, highlight=False, emoji=False).print(*parts, sep="\n")
    for line in page.getvalue().splitlines():
        show_text(line.rstrip() + "\n")


def show_json(document: object) -> None:
    """Write a JSON document to standard output."""
    show_text(json.dumps(document, indent=2, allow_nan=False) + "\n")


def show_text(text: str, *, flush: bool = False) -> None:
    """Write text as it is to standard output.

    Raises:
        typer.Exit: nobody reads it any more.
        AutotuneError: it cannot be written.
    """
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as err:
        raise AutotuneError(
            f"standard output cannot be written: {err.strerror}", remedy="send it to a disk with room"
        ) from err


def say(text: str) -> None:
    """Write a line to standard error."""
    print(_printable(text), file=sys.stderr)


def complain(message: str, remedy: str) -> None:
    """Write an error and what helps, a line each, to standard error."""
    say(f"error: {message}")
    say(f"try: {remedy}")


def write_file(path: str, text: str) -> None:
    """Write a file as a whole: after an error, what was there before is still there.

    Raises:
        AutotuneError: it cannot be written.
    """
    target = Path(path)
    try:
        partial = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, ValueError) as err:  # ValueError: a NUL in the path, or a path without a name
        raise AutotuneError(
            f"{path!r} cannot be written: {getattr(err, 'strerror', None) or err}",
            remedy="name a file in a folder that you may write, on a disk with room",
        ) from err


def _printable(text: str) -> str:
    """One line without control characters, which could come from a file and would command the terminal."""
    return "".join(c if c.isprintable() else " " if c.isspace() else f"\\x{ord(c):02x}" for c in text)
