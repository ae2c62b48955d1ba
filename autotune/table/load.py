"""A table from its file: whatever the path holds, the answer is quick and clear. The only reader of files here."""

from __future__ import annotations

import os
import stat

from ..errors import TableFormatError
from .decode import parse_table
from .reader import REMEDY
from .tuning_table import TuningTable

MAX_FILE_BYTES = 32 << 20
_BYTE_ORDER_MARK = "\ufeff"


def load_table(path: str | os.PathLike[str]) -> TuningTable:
    """Read and check a whole table; line ends may be LF or CRLF.

    Raises:
        TableFormatError: no such file, unreadable, not a table, damaged, edited, or of another schema version.
    """
    return parse_table(read_text(path), os.fspath(path))


def read_text(path: str | os.PathLike[str]) -> str:
    """The UTF-8 text of a regular file of at most 32 MiB.

    Raises:
        TableFormatError: anything else.
    """
    name = os.fspath(path)
    try:
        data = _read(name)
    except FileNotFoundError as err:
        raise TableFormatError(
            f"{name}: no such file", remedy="name a table's file, or write one: autotune run"
        ) from err
    except OSError as err:
        raise _unreadable(name, err.strerror or str(err)) from err
    except ValueError as err:
        raise _unreadable(name, "its name holds a NUL") from err
    if not data.strip():
        raise _unfit(name, "the file is empty")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise _unfit(name, f"not UTF-8 text: byte {err.start} is {data[err.start]:#04x}") from err
    if text.startswith(_BYTE_ORDER_MARK):
        raise TableFormatError(
            f"{name}: the file begins with a byte order mark", remedy="save it as UTF-8 without a BOM"
        )
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _unfit(name, f"line {line} holds a NUL byte")
    return text


def _read(name: str) -> bytes:
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or device"
            raise _unfit(name, f"this is {kind}, not a file")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_FILE_BYTES:
        raise _unfit(name, f"the file is above {MAX_FILE_BYTES >> 20} MiB, and no table is that large")
    return data


def _unreadable(name: str, why: str) -> TableFormatError:
    return TableFormatError(f"{name!r} cannot be read: {why}", remedy="name a table's file that you may read")


def _unfit(name: str, what: str) -> TableFormatError:
    return TableFormatError(f"{name}: {what}", remedy=REMEDY)
