"""Which table a process uses, and its origin.

Reads the host's remembered fingerprint and a table's file; asks a server only where AUTOTUNE_TABLE is a URL.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import TableFormatError, TopologyMismatch, UsageError
from ..settings import Settings
from ..table import TuningTable, load_table, newest_table_path, shipped_table
from ..topology.fingerprint import cached_fingerprint
from ..topology.second_level import second_level_bytes
from .staleness import changes_here, words

_NOT_PROBED = "this host was not probed since it booted: run `autotune probe`, or `autotune run` to measure"


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
        UsageError: AUTOTUNE_TABLE is a URL that cannot be meant, or there is neither a table of the backend nor a
            default.
        TableFormatError: the table cannot be read; an older one is not taken in its place.
        TableUnavailable: AUTOTUNE_TABLE's server is down and no copy was kept, or it refuses.
        TopologyMismatch: the newest table in this host's folder was measured elsewhere.
    """
    fingerprint = cached_fingerprint(settings.cache_dir)
    if settings.table is not None and is_url(settings.table):
        return _from_url(settings.table, settings, fingerprint, backend)
    if settings.table is not None:
        return _from_setting(settings.table, fingerprint)
    if fingerprint is None:
        return _shipped(_NOT_PROBED, backend)
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
    return Source(table=table, origin=f"this host's newest table ({path})", remark=_remark(table, fingerprint))


def open_table(table: TuningTable | str | os.PathLike[str]) -> Source:
    """The table of an argument: itself, or the one in a file.

    Raises:
        TableFormatError: the file holds no sound table.
        UsageError: neither a table nor a path; a URL, too, since a secret is sent to that of AUTOTUNE_TABLE only.
    """
    if isinstance(table, TuningTable):
        return Source(table=table, origin="the given table")
    if not isinstance(table, (str, os.PathLike)):
        raise UsageError(
            f"table is a {type(table).__name__}, not a table or a path",
            remedy="give a path, or what load_table() returned",
        )
    if isinstance(table, str) and is_url(table):
        raise UsageError(
            f"the table {table.partition('://')[0]}://... is a URL and not the path of a file",
            remedy="set AUTOTUNE_TABLE to the URL, and name no table",
        )
    return Source(table=load_table(table), origin=f"the table {os.fspath(table)}")


def is_url(table: str) -> bool:
    """Whether AUTOTUNE_TABLE names a server and not a file."""
    return "://" in table


def _from_setting(value: str, fingerprint: str | None) -> Source:
    try:
        table = load_table(value)
    except TableFormatError as err:
        raise TableFormatError(f"AUTOTUNE_TABLE: {err.message}", remedy=err.remedy) from err
    return Source(table=table, origin=f"AUTOTUNE_TABLE ({value})", remark=_remark(table, fingerprint))


def _from_url(url: str, settings: Settings, fingerprint: str | None, backend: str) -> Source:
    from .remote import fetch_table

    found = fetch_table(
        url,
        fingerprint,
        backend,
        token=settings.token,
        cache_dir=settings.cache_dir,
        patience_s=settings.timeout_s / 3,  # rank 0 asks while its group waits for it
    )
    if found.table is None and fingerprint is None:
        return _shipped(_NOT_PROBED, backend)
    if found.table is None:
        return _shipped(f"{found.address} has no table of this host: run `autotune run` with its database", backend)
    remarks = [remark for remark in (found.remark, _remark(found.table, fingerprint)) if remark is not None]
    return Source(
        table=found.table, origin=f"AUTOTUNE_TABLE ({found.address})", remark="; ".join(remarks) if remarks else None
    )


def _remark(table: TuningTable, fingerprint: str | None) -> str | None:
    """What a reason should add: that the table is another machine's, or older than what runs on this one."""
    if fingerprint is not None and table.fingerprint is not None and not table.serves(fingerprint):
        return f"the table was measured on another machine ({table.fingerprint})"
    return words(changes_here(table.environment))


def _shipped(why: str, backend: str) -> Source:
    table = shipped_table(backend, l2_bytes=second_level_bytes())
    return Source(table=table, origin="the shipped default rules", why_shipped=why)
