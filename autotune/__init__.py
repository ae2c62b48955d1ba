"""Measure the collectives of the machine you have, remember what was best, apply it to every call.

The names below load on first use, so that ``import autotune`` costs a job nearly nothing. Standard library only.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take the name for true; importing it from typing would cost 6 ms
if TYPE_CHECKING:
    from .errors import AutotuneError
    from .kernels import ErrorFeedback
    from .runtime.communicator import communicator
    from .runtime.selection import Selection
    from .runtime.selector import select
    from .table import load_table

    __version__: str

__all__ = ["AutotuneError", "ErrorFeedback", "Selection", "__version__", "communicator", "load_table", "select"]

_HOMES = {
    "AutotuneError": ".errors",
    "ErrorFeedback": ".kernels",
    "Selection": ".runtime.selection",
    "communicator": ".runtime.communicator",
    "load_table": ".table",
    "select": ".runtime.selector",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version()
    elif name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(_HOMES[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """The installed distribution's version; ``0+unknown`` in a checkout that was not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mc2-autotune")
    except PackageNotFoundError:
        return "0+unknown"
