"""Which family of chips a topology or a machine's description is of. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ..topology.accelerators import Npu
from ..topology.graph import Topology
from .load import facts
from .soc import Soc


def soc_of_machine(name: str) -> Soc | None:
    """Of a name of topology/machines."""
    return next((soc for soc in Soc if name in facts(soc).machines), None)


def soc_of_topology(topology: Topology) -> Soc | None:
    """Of the NPUs there; None where there are none, or of several families."""
    models = {device.chip_name for device in topology.accelerators() if isinstance(device, Npu)}
    found = {
        soc for soc in Soc if any(fnmatchcase(model or "", pattern) for model in models for pattern in facts(soc).chips)
    }
    return found.pop() if len(found) == 1 else None
