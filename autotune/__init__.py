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
    from .runtime.torch.calls import mc2_all_gather as mc2_all_gather
    from .runtime.torch.calls import mc2_all_reduce as mc2_all_reduce
    from .runtime.torch.calls import mc2_reduce_scatter as mc2_reduce_scatter
    from .runtime.torch.ddp import MC2DistributedDataParallel as MC2DistributedDataParallel
    from .runtime.torch.ddp import ddp_hook as ddp_hook
    from .runtime.torch.fused import all_gather_matmul as all_gather_matmul
    from .runtime.torch.fused import matmul_all_reduce as matmul_all_reduce
    from .runtime.torch.fused import matmul_reduce_scatter as matmul_reduce_scatter
    from .runtime.torch.gathering import KVCacheAllGatherer as KVCacheAllGatherer
    from .runtime.torch.gathering import chunked_all_gather as chunked_all_gather
    from .runtime.torch.tiles import load_tiles as load_tiles
    from .runtime.torch.tiles import save_tiles as save_tiles
    from .runtime.torch.tiles import tune_tiles as tune_tiles
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
    # These need torch, so `from autotune import *` leaves them out.
    "MC2DistributedDataParallel": ".runtime.torch.ddp",
    "ddp_hook": ".runtime.torch.ddp",
    "KVCacheAllGatherer": ".runtime.torch.gathering",
    "all_gather_matmul": ".runtime.torch.fused",
    "chunked_all_gather": ".runtime.torch.gathering",
    "load_tiles": ".runtime.torch.tiles",
    "matmul_all_reduce": ".runtime.torch.fused",
    "matmul_reduce_scatter": ".runtime.torch.fused",
    "save_tiles": ".runtime.torch.tiles",
    "tune_tiles": ".runtime.torch.tiles",
    "mc2_all_gather": ".runtime.torch.calls",
    "mc2_all_reduce": ".runtime.torch.calls",
    "mc2_reduce_scatter": ".runtime.torch.calls",
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
