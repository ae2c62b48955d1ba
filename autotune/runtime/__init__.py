"""What a job uses at run time: the choice for a call, and (in communicator.py) the calls themselves.

Reads the settings, the host's remembered fingerprint and one table; imports the standard library only. The names below
load on first use, so that a job that imports ``autotune.runtime.torch`` pays for nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in the package above
if TYPE_CHECKING:
    from .selection import Selection
    from .selector import Selector, reload, select
    from .source import Source, find_table, open_table

__all__ = ["Selection", "Selector", "Source", "find_table", "open_table", "reload", "select"]

_HOMES = {
    "Selection": "selection",
    "Selector": "selector",
    "Source": "source",
    "find_table": "source",
    "open_table": "source",
    "reload": "selector",
    "select": "selector",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
