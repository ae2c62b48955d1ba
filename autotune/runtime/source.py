"""Which table a process uses, and its origin. Reads the host's remembered fingerprint and table files, no more."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import TableFormatError, TopologyMismatch, UsageError
from ..settings import Settings
from ..table import TuningTable, load_table, newest_table_path, shipped_table
from ..topology.fingerprint import cached_fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table with its origin.

    Args:
        origin: for people, such as ``AUTOTUNE_TABLE (/srv/table.json)``.
        why_shipped: why no table of this host could be used; None where the table is not the shipped one.
        remark: appended to every reason; None where there is nothing to say.
    """

    table: TuningTable
    origin: str
    why_shipped: str | None = None
    remark: str | None = None


def find_table(settings: Settings, backend: str = "native") -> Source:
    """The table of AUTOTUNE_TABLE, else the backend's newest for this host's fingerprint, else its shipped default.

    Raises:
        UsageError: AUTOTUNE_TABLE is a URL, or there is neither a table of the backend nor a default.
        TableFormatError: the table cannot be read; an older one is not taken in its place.
        TopologyMismatch: the newest table in this host's folder was measured elsewhere.
    """
    fingerprint = cached_fingerprint(settings.cache_dir)
    if settings.table is not None:
        return _from_setting(settings.table, fingerprint)
    if fingerprint is None:
        why = "this host was not probed since it booted: run `autotune probe`, or `autotune run` to measure"
        return _shipped(why, backend)
    path = newest_table_path(settings.data_dir, fingerprint, backend)
    if path is None and backend == "native":
        return _shipped("this host has no table yet: run `autotune run`", backend)
    if path is None:
        return _shipped(f"this host has no table of {backend} yet: run `autotune run --backend {backend}`", backend)
    table = load_table(path)
    if not table.serves(fingerprint):
        raise TopologyMismatch(
            f"{path}: the table was measured on {table.fingerprint}, but lies in this host's folder, {fingerprint}",
            remedy=f"move it away; to use it here all the same, set AUTOTUNE_TABLE={path}",
        )
    return Source(table=table, origin=f"this host's newest table ({path})")


def open_table(table: TuningTable | str | os.PathLike[str]) -> Source:
    """The table of an argument: itself, or the one in a file.

    Raises:
        TableFormatError: the file holds no sound table.
        UsageError: neither a table nor a path.
    """
    if isinstance(table, TuningTable):
        return Source(table=table, origin="the given table")
    if not isinstance(table, (str, os.PathLike)):
        raise UsageError(
            f"table is a {type(table).__name__}, not a table or a path",
            remedy="give a path, or what load_table() returned",
        )
    return Source(table=load_table(table), origin=f"the table {os.fspath(table)}")


def _from_setting(value: str, fingerprint: str | None) -> Source:
    if "://" in value:
        raise UsageError(
            f"AUTOTUNE_TABLE is {value!r}, which is a URL and not the path of a file",
            remedy="download the table and set AUTOTUNE_TABLE to its path",
        )
    try:
        table = load_table(value)
    except TableFormatError as err:
        raise TableFormatError(f"AUTOTUNE_TABLE: {err.message}", remedy=err.remedy) from err
    elsewhere = fingerprint is not None and table.fingerprint is not None and not table.serves(fingerprint)
    return Source(
        table=table,
        origin=f"AUTOTUNE_TABLE ({value})",
        remark=f"the table was measured on another machine ({table.fingerprint})" if elsewhere else None,
    )


def _shipped(why: str, backend: str) -> Source:
    return Source(table=shipped_table(backend), origin="the shipped default rules", why_shipped=why)
