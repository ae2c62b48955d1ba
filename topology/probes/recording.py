"""What a probe writes down and how it is read again: a dict from absolute path to the text that stood there.

``Recorder`` is the half that touches the machine. A file that is absent is absent from the recording; one that is there
and cannot be read is recorded as ``!`` and the name of the error, such as ``!EACCES``; a symbolic link is recorded as
the text of its target. The functions below it are the pure half.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import ProbeError
from ..cpulist import parse_cpu_list

Recording = Mapping[str, str]

_MAX_FILE_BYTES = 4 << 20
_PIECE_BYTES = 16 << 10
_WHOLE = re.compile(r"-?[0-9]{1,20}")


class Recorder:
    """Reads files below a root and keeps them in ``entries``, under the paths they have on the machine itself."""

    def __init__(self, root: str = "/") -> None:
        self.entries: dict[str, str] = {}
        self._root = Path(root)

    def peek(self, path: str) -> str | None:
        """The text of a file, not recorded; None where it is absent."""
        try:
            with self.below_root(path).open("rb", buffering=0) as file:
                # In pieces: /proc/sys answers a single large read with ENOMEM.
                data = b""
                while len(data) < _MAX_FILE_BYTES and (piece := file.read(_PIECE_BYTES)):
                    data += piece
                return data.decode("utf-8", "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            return f"!{errno.errorcode.get(err.errno or 0, 'EIO')}"

    def read(self, path: str, keep: Callable[[str], bool] | None = None) -> str | None:
        """Record a file, or those of its lines that are to be kept, and return the text."""
        text = self.peek(path)
        if text is not None:
            if keep is not None and not text.startswith("!"):
                text = "\n".join(line for line in text.splitlines() if keep(line))
            self.entries[path] = text
        return text

    def link(self, path: str) -> str | None:
        """Record the target of a symbolic link; None, and nothing recorded, where there is no link."""
        try:
            self.entries[path] = os.readlink(self.below_root(path))
        except OSError:
            return None
        return self.entries[path]

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted as people count (cpu2 before cpu10); empty where it cannot be listed."""
        try:
            names = os.listdir(self.below_root(path))
        except OSError:
            return []
        return sorted(names, key=natural)

    def below_root(self, path: str) -> Path:
        return self._root / path.lstrip("/")


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key under which cpu2 stands before cpu10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def text_of(recording: Recording, path: str) -> str | None:
    """The text at a path; None where it was absent or could not be read."""
    text = recording.get(path)
    return None if text is None or text.startswith("!") else text.strip()


def why_missing(recording: Recording, path: str) -> str:
    """For people: ``/sys/x is absent`` or ``/sys/x cannot be read (EACCES)``."""
    text = recording.get(path)
    return f"{path} is absent" if text is None else f"{path} cannot be read ({text[1:]})"


def whole_number(recording: Recording, path: str, least: int = 0) -> int | None:
    """The whole number at a path; None where it was absent or could not be read.

    Args:
        least: -1 for the files in which the kernel writes that for "not known" or "no limit".

    Raises:
        ProbeError: there is a text, and it is no such number.
    """
    text = text_of(recording, path)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) < least:
        raise not_readable(path, text, f"a whole number from {least} up")
    return int(text)


def cpus_at(recording: Recording, path: str) -> frozenset[int] | None:
    """The CPU list at a path; None where it was absent or could not be read.

    Raises:
        ProbeError: there is a text, and it is no list of CPUs.
    """
    text = text_of(recording, path)
    if text is None:
        return None
    try:
        return parse_cpu_list(text)
    except ValueError as err:
        raise not_readable(path, text, f"a CPU list such as 0-3,8 ({err})") from err


def kib_after(recording: Recording, path: str, label: str) -> int | None:
    """Bytes of a line such as ``MemTotal:  24684084 kB``; None where the file was absent or could not be read.

    Raises:
        ProbeError: there is a text, and no such line in it.
    """
    text = text_of(recording, path)
    if text is None:
        return None
    match = re.search(rf"{re.escape(label)}\s+([0-9]{{1,15}}) kB\s*$", text, re.MULTILINE)
    if match is None:
        raise not_readable(path, text, f"a line {label} NUMBER kB")
    return int(match[1]) * 1024


def not_readable(path: str, got: str, expected: str) -> ProbeError:
    """The error for a text that cannot be read without guessing."""
    shown = got if len(got) <= 80 else f"{got[:77]}..."
    return ProbeError(f"{path}: got {shown!r}, expected {expected}", remedy=f"look at it with: cat {path}")
