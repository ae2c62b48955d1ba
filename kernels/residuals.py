"""What error feedback keeps, by the caller's name of the buffer: the part that arrays of the host and tensors share.

In:  names, entries of whatever kind. Out: the entries, or an error that says which names there are.
May not touch: what is in them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ..errors import UsageError

Entry = TypeVar("Entry")


class Residuals(Generic[Entry]):
    """Entries by name. Not thread-safe: a name belongs to one call at a time."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def names(self) -> tuple[str, ...]:
        """The names that have a residual, in the order of their first calls."""
        return tuple(self._entries)

    def reset(self, name: str | None = None) -> None:
        """Forget a name's residual, type and size; with None those of all names.

        Raises:
            UsageError: the name is unknown.
        """
        if name is None:
            self._entries.clear()
            return
        self._known(name)
        del self._entries[name]

    def _known(self, name: str) -> Entry:
        if name not in self._entries:
            known = ", ".join(map(repr, self._entries)) or "none yet"
            raise UsageError(f"error feedback has no buffer {name!r}", remedy=f"it knows: {known}")
        return self._entries[name]
