"""Which backend a command measures with.

In:  a backend's name, a device, cores, settings. Out: the backend.
May not touch: torch; it is imported by the torch backend's ranks only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BackendUnavailable, UsageError
from ..hccl.probed import soc_of_topology
from ..settings import Settings
from ..table import BACKENDS
from ..topology.host import collect, parse
from ..types import Config
from . import hccl, native, torch_dist
from .launch import StartRanks, start_here
from .mpi import MpiBackend
from .mpi_program import KINDS as MPI_KINDS
from .native import NativeBackend
from .pooled import PooledBackend
from .torch_dist import TorchBackend
from .torch_groups import GlooBackend

REFERENCES = {
    "native": native.REFERENCE,
    "torch": torch_dist.REFERENCE,
    "gloo": torch_dist.REFERENCE,
    "hccl": hccl.REFERENCE,
    "openmpi": Config(algorithm="ring"),
    "mpich": Config(algorithm="MPIR_Allreduce_intra_ring"),
}
"""The fixed config that reports compare with besides the default, by backend."""


def make_backend(
    name: str,
    cores: Sequence[int],
    settings: Settings,
    *,
    device: str = "cpu",
    data: str | None = None,
    start_ranks: StartRanks = start_here,
) -> PooledBackend:
    """The backend of this name; its ranks are started by its first round.

    Args:
        cores: that ranks are pinned to, in order.
        device: where the torch backend's tensors live; ``auto`` for the host's accelerators where it has some.
        data: what problems with an error budget are measured on; None where there are none.
        start_ranks: starts the ranks: here, or those of a launcher's job.

    Raises:
        UsageError: no such backend, or a device that it does not have.
        BackendUnavailable: torch is not installed.
    """
    if data is not None and name not in ("native", "torch"):
        raise UsageError(f"the backend {name} has no lossy codecs", remedy="leave --max-error out")
    if name == "torch":
        words = data or "normal"
        return TorchBackend(cores, timeout_s=settings.timeout_s, device=device, data=words, start_ranks=start_ranks)
    if name in ("gloo", "hccl"):
        return _with_groups(name, cores, settings, device, start_ranks)
    if name in MPI_KINDS:
        if device not in ("cpu", "auto"):
            raise UsageError(f"the backend {name} runs on cpu, not on {device}", remedy="leave --device out")
        return MpiBackend(MPI_KINDS[name], cores, settings)
    if name != "native":
        raise UsageError(f"unknown backend {name!r}", remedy=f"use one of {', '.join(BACKENDS)}")
    if device not in ("cpu", "auto"):
        raise UsageError(f"the backend native runs on cpu, not on {device}", remedy="use --backend torch")
    return NativeBackend(
        cores,
        staging_bytes=settings.staging_bytes,
        timeout_s=settings.timeout_s,
        data=data or "normal",
        start_ranks=start_ranks,
    )


def _with_groups(
    name: str, cores: Sequence[int], settings: Settings, device: str, start_ranks: StartRanks
) -> PooledBackend:
    """A backend whose knobs belong to process groups.

    Raises:
        BackendUnavailable: torch, torch_npu, CANN or the NPUs are missing.
    """
    if name == "gloo":
        if device not in ("cpu", "auto"):
            raise UsageError(f"the backend gloo runs on cpu, not on {device}", remedy="use --backend torch")
        return GlooBackend(cores, timeout_s=settings.timeout_s, start_ranks=start_ranks)
    hccl.check_installed()
    soc = soc_of_topology(parse(collect()))
    if soc is None:
        raise BackendUnavailable(
            "the backend hccl needs to know the chips: npu-smi shows no NPU of a known family",
            remedy="autotune probe shows what is seen here",
        )
    return hccl.HcclBackend(cores, soc=soc, timeout_s=settings.timeout_s, start_ranks=start_ranks)
