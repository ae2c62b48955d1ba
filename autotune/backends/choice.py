"""Which backend a command measures with.

In:  a backend's name, a device, cores, settings. Out: the backend.
May not touch: torch; it is imported by the torch backend's ranks only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UsageError
from ..settings import Settings
from ..table import BACKENDS
from . import native, torch_dist
from .native import NativeBackend
from .pooled import PooledBackend
from .torch_dist import TorchBackend

REFERENCES = {"native": native.REFERENCE, "torch": torch_dist.REFERENCE}
"""The fixed config that reports compare with besides the default, by backend."""


def make_backend(
    name: str, cores: Sequence[int], settings: Settings, *, device: str = "cpu", data: str | None = None
) -> PooledBackend:
    """The backend of this name; its ranks are started by its first round.

    Args:
        cores: that ranks are pinned to, in order.
        device: where the torch backend's tensors live.
        data: what problems with an error budget are measured on; None where there are none.

    Raises:
        UsageError: no such backend, or a device that it does not have.
        BackendUnavailable: torch is not installed.
    """
    if data is not None and name != "native":
        raise UsageError(f"the backend {name} has no lossy codecs", remedy="leave --max-error out")
    if name == "torch":
        return TorchBackend(cores, timeout_s=settings.timeout_s, device=device)
    if name != "native":
        raise UsageError(f"unknown backend {name!r}", remedy=f"use one of {', '.join(BACKENDS)}")
    if device != "cpu":
        raise UsageError(f"the backend native runs on cpu, not on {device}", remedy="use --backend torch")
    return NativeBackend(
        cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s, data=data or "normal"
    )
