"""Where a rank's tensors live, by the words of ``--device``.

In:  a word, a rank's number on its host. Out: torch's device. May not touch: groups, trials. Devices other than CPUs
follow torch's documentation: run on hardware: no.
"""

from __future__ import annotations

import contextlib
import importlib

import torch

from ..errors import BackendUnavailable


def best_device() -> str:
    """What this host has: ``npu``, ``cuda``, or else ``cpu``."""
    with contextlib.suppress(ImportError):
        import torch_npu  # noqa: F401 - it registers the device

        if torch.npu.is_available():
            return "npu"
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_of(name: str, rank: int) -> torch.device:
    """This rank's device, and torch's current one from here on.

    Raises:
        BackendUnavailable: torch knows no such device, or there are fewer than ranks.
    """
    if name == "auto":
        name = best_device()
    if name == "cpu":
        return torch.device("cpu")
    if not hasattr(torch, name):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"torch_{name}")  # registers the device
    try:
        module = torch.get_device_module(name)
    except RuntimeError as err:
        raise BackendUnavailable(
            f"torch knows no device {name!r}: {str(err).splitlines()[0]}", remedy="use --device cpu, npu or cuda"
        ) from err
    n_devices = module.device_count() if module.is_available() else 0
    if rank >= n_devices:
        raise BackendUnavailable(
            f"rank {rank} needs {name}:{rank}, and there are {n_devices}",
            remedy="give --ranks up to that, or --device cpu",
        )
    module.set_device(rank)
    return torch.device(name, rank)
