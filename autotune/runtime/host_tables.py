"""The tables that jobs on this host get, one for each backend that has one, with what tells whether they still hold.

In:  the settings, the host's fingerprint as it is now. Out: `HostTable` values; a table that is refused is one too,
with its error. Only the doctor asks; a job asks ``source`` for the one that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import AutotuneError
from ..settings import Settings
from ..table import BACKENDS
from .source import find_table


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTable:
    """A table that jobs on this host get.

    Args:
        serves: whether it was measured on a machine of this host's topology, as that is now.
        environment: at the time of measuring.
        fault: why no job can use it, and what helps; None where it can be used.
    """

    origin: str
    fingerprint: str | None = None
    serves: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    fault: tuple[str, str] | None = None


def tables_here(settings: Settings, fingerprint: str) -> tuple[HostTable, ...]:
    """The tables of all backends but those that have only the shipped rules, which depend on nothing here."""
    found = (_table_of(settings, backend, fingerprint) for backend in BACKENDS)
    return tuple(table for table in found if table is not None)


def _table_of(settings: Settings, backend: str, fingerprint: str) -> HostTable | None:
    try:
        source = find_table(settings, backend)
    except AutotuneError as err:
        return HostTable(origin=f"the table of {backend}", fault=(err.message, err.remedy))
    table = source.table
    if source.why_shipped is not None or table.defaults.backend != backend:
        return None
    return HostTable(
        origin=source.origin,
        fingerprint=table.fingerprint,
        serves=table.fingerprint is None or table.serves(fingerprint),
        environment=table.environment,
    )
