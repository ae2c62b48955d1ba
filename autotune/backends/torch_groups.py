"""Backends over torch.distributed whose knobs are fixed when a process group is made: gloo's, and in hccl.py HCCL's.

In:  problems and a device. Out: candidates; ranks for `PooledBackend`, which measures. Variables that hold for a whole
process get ranks of their own, since a library reads them once.
May not touch: torch (only the ranks import it, torch_groups_worker.py), the store, tables on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..measure import Outcome
from ..portfolio.family import GLOO, Family, Settings
from ..portfolio.knobs import IN_PIECES, PIECES
from ..types import Config, Problem, SampleKind
from .launch import StartRanks, start_here
from .rank_process import Json
from .torch_dist import TorchBackend

_WORKER = "autotune.backends.torch_groups_worker"
_MOST_SETTINGS = 2
"""Sets of ranks under other variables that are kept beside the first ones: each holds a process a device."""

_IN_PIECES_FROM_BYTES = 1 << 20
_GLOO_TRIES: tuple[Settings, ...] = ((("gloo_threads", 1),), (("gloo_threads", 4),), (("gloo_devices", 2),))


class GroupsBackend(TorchBackend):
    """Implements `measure.Backend`.

    Args:
        family: which part of a config belongs to a group.
        process: variables that the ranks get.
    """

    def __init__(
        self,
        cores: Sequence[int],
        *,
        family: Family,
        timeout_s: float,
        device: str = "cpu",
        start_ranks: StartRanks = start_here,
        process: Settings = (),
    ) -> None:
        super().__init__(cores, timeout_s=timeout_s, device=device, start_ranks=start_ranks)
        self._family = family
        self._process = process
        self._others: dict[Settings, GroupsBackend] = {}

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        """See `measure.Backend`; configs with the same variables run together, on ranks that have these."""
        outcomes: dict[Config, Outcome] = {}
        for process in dict.fromkeys(map(self._family.process_settings, configs)):
            same = [config for config in configs if self._family.process_settings(config) == process]
            if process == self._process:
                found = super().measure_round(problem, same, kind=kind, batch=batch)
            else:
                found = self._under(process).measure_round(problem, same, kind=kind, batch=batch)
            outcomes |= dict(zip(same, found, strict=True))
        return [outcomes[config] for config in configs]

    def worker(self) -> str:
        """See `TorchBackend`: ranks that make groups."""
        return _WORKER

    def opening(self) -> dict[str, Json]:
        """See `TorchBackend`: with the kind of groups and the variables."""
        environment: dict[str, Json] = {name: str(value) for name, value in self._process}
        return {**super().opening(), "family": self.name, "environment": environment}

    def close(self) -> None:
        """End all ranks."""
        super().close()
        for other in self._others.values():
            other.close()
        self._others = {}

    def _under(self, process: Settings) -> GroupsBackend:
        if process not in self._others:
            while len(self._others) >= _MOST_SETTINGS:
                self._others.pop(next(iter(self._others))).close()
            self._others[process] = self.with_process(process)
        return self._others[process]

    def with_process(self, process: Settings) -> GroupsBackend:
        """The same under other variables."""
        return type(self)(  # every subclass keeps these arguments
            self._cores,
            family=self._family,
            timeout_s=self._timeout_s,
            device=self._device,
            start_ranks=self._start_ranks,
            process=process,
        )


class GlooBackend(GroupsBackend):
    """Groups of gloo that differ in its threads and devices; what runs on NPUs is exercised with it on any CPU."""

    name = "gloo"

    def __init__(
        self,
        cores: Sequence[int],
        *,
        timeout_s: float,
        start_ranks: StartRanks = start_here,
        family: Family = GLOO,
        device: str = "cpu",
        process: Settings = (),
    ) -> None:
        super().__init__(
            cores, family=family, timeout_s=timeout_s, device=device, start_ranks=start_ranks, process=process
        )

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """The library's collective on every group, and every schedule on a plain one."""
        own = self.default(problem)
        tried = list(_GLOO_TRIES)
        if problem.message_bytes >= _IN_PIECES_FROM_BYTES and problem.key.collective in IN_PIECES:
            tried.append(((PIECES, 4),))
        return (*super().candidates(problem), *(replace(own, knobs=knobs) for knobs in tried))
