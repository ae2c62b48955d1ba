"""Whether a table is older than what runs here now: what changed since it was measured, by name, old and new value.

In:  the environment in a table, this host's identity. Out: `Change` values, and words. Pure but for ``changes_here``,
which reads the identity. Asked once, when a table is loaded; it decides nothing, since a rule may well still hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..topology.identity import identity

REMEDY = "autotune run --confirm"
_TITLES = {"cpu_model": "CPU", "libc": "C library"}
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that a table's figures depend on, and that is another one now."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        """As shown to people: ``kernel 6.1.0 -> 6.8.0``."""
        title = _TITLES.get(self.name, self.name.replace("driver_", "driver "))
        return f"{title} {self.before} -> {self.now}"


def changes(environment: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """What differs, of the names that both tell; in the order of names.

    Several CPU models stand in one word, joined; one of them is enough for ``now``.
    """
    return tuple(
        Change(name=name, before=environment[name], now=now[name])
        for name in sorted(environment.keys() & now.keys())
        if _UNKNOWN not in (environment[name], now[name])
        and now[name] != environment[name]
        and not (name == "cpu_model" and now[name] in environment[name].split(" + "))
    )


def changes_here(environment: Mapping[str, str], root: str = "/") -> tuple[Change, ...]:
    """What differs on this host."""
    return changes(environment, identity(environment, root))


def words(found: Sequence[Change]) -> str | None:
    """For the reason of a selection; None where nothing changed."""
    if not found:
        return None
    return f"since it was measured: {', '.join(map(str, found))}: `{REMEDY}` tells whether it still holds"
