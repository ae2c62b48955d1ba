"""A table to its file: whole or not at all, whatever interrupts."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import AutotuneError
from .encode import dump_table
from .tuning_table import TuningTable


def save_table(table: TuningTable, path: str | os.PathLike[str]) -> None:
    """Write the table beside its place and move it there in one step. Missing folders are made; mode 0600.

    Raises:
        AutotuneError: the folder cannot be written, or the disk is full; an older file at the path is untouched.
    """
    target = Path(path)
    with _partial(target) as partial:
        _write(partial, dump_table(table).encode("utf-8"))
        os.replace(partial, target)
        _sync_folder(target.parent)


def check_place(path: str | os.PathLike[str]) -> None:
    """Find out whether a table could be saved at the path, before hours of measuring are spent on it.

    Raises:
        AutotuneError: as `save_table`.
    """
    target = Path(path)
    with _partial(target) as partial:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _write(partial, b"")


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A name beside the target, unique among the threads and processes that may write there at the same time."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)
    except OSError as err:
        raise AutotuneError(
            f"the table cannot be written to {target}: {err.strerror or err}",
            remedy="name a path in a folder that you may write, on a disk with room, or set AUTOTUNE_DATA_DIR",
        ) from err


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
