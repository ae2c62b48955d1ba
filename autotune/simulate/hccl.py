"""What HCCL's own choice is predicted to lose on a machine with NPUs.

In:  a `Subject`, collectives, sizes, rank counts. Out: `HcclPrediction` values. May not touch: devices, the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..cost import NetworkModel
from ..errors import UsageError
from ..hccl import Soc, facts
from ..hccl.groups import BACKEND
from ..hccl.prediction import HcclPrediction, predict
from ..hccl.probed import soc_of_machine, soc_of_topology
from ..topology.machines import MachineDescription
from ..types import Collective, DType, Problem, ReduceOp, round_up_message
from .machine import Subject
from .native import rule_key

_MODE = "HCCL_OP_EXPANSION_MODE"
_REMEDY = "give a machine with NPUs, such as atlas-800t-a2"


def simulate_hccl(
    machine: Subject,
    collective: Collective | None,
    sizes: Sequence[int],
    ranks: Iterable[int],
    *,
    mode: str | None = None,
    dtype: DType = DType.FLOAT32,
    op: ReduceOp = ReduceOp.SUM,
) -> list[HcclPrediction]:
    """What HCCL's own choice is predicted to lose, for each rank count, collective and size, in this order.

    Args:
        collective: None for each one whose choice is published.
        mode: HCCL_OP_EXPANSION_MODE; None: not set.

    Raises:
        UsageError: no machine of a known family of chips, a mode that it does not have, or a choice that is not
            published.
    """
    known = facts(_soc_of(machine))
    modes = known.variables[_MODE].words
    if mode is not None and mode not in modes:
        raise UsageError(
            f"mode {mode!r} is not one of {known.soc.value}'s", remedy=f"use one of {', '.join(modes) or 'none'}"
        )
    collectives = known.own_choices if collective is None else (collective,)
    if not collectives:
        raise UsageError(
            f"HCCL's own choice on {known.soc.value} is not published",
            remedy="autotune simulate without --backend hccl",
        )
    found = []
    for n_ranks in ranks:
        model = machine.model(n_ranks)
        if not isinstance(model, NetworkModel):
            raise UsageError("HCCL's ranks sit on NPUs", remedy=_REMEDY)
        for one in collectives:
            key = replace(rule_key(one, n_ranks, machine.placement(n_ranks), dtype, op), backend=BACKEND)
            for size in sizes:
                rounded = round_up_message(one, size, n_ranks, key.dtype.itemsize if key.dtype else 1)
                found.append(predict(known, model, Problem(key=key, message_bytes=rounded), mode))
    return found


def _soc_of(machine: Subject) -> Soc:
    place = machine.place
    found = soc_of_machine(place.name) if isinstance(place, MachineDescription) else soc_of_topology(place)
    if found is None:
        raise UsageError(f"{machine.title}: no NPUs of a known family", remedy=_REMEDY)
    return found
