"""A table to its file: whole or not at all, whatever interrupts."""

from __future__ import annotations

import os
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
    # A name of its own, since others may write the same table at the same time.
    partial = target.with_name(f".{target.name}.{os.urandom(8).hex()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(partial, dump_table(table).encode("utf-8"))
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        _sync_folder(target.parent)
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
