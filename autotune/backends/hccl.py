"""The hccl backend: HCCL's own collectives under every legal setting, and our schedules over HCCL, on NPUs.

In:  problems. Out: candidates of the chips that are here, and the default, HCCL's own choice; ranks that hold one NPU
each. May not touch: torch, torch_npu (only the ranks import them), the store, tables on disk.

What may be tried is ``hccl.legal``; nothing that is known to hang is. Run on hardware: no.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence

from ..errors import BackendUnavailable
from ..hccl import Soc, facts
from ..hccl.groups import BACKEND, PORTABLE, HcclFamily
from ..hccl.installed import cann_home
from ..hccl.legal import ALONE, Surroundings, candidates, objection
from ..measure import Failure, Outcome
from ..portfolio.family import Family, Settings
from ..table import LIBRARY
from ..types import Config, Problem, SampleKind, TrialState
from .launch import StartRanks, start_here
from .torch_groups import GroupsBackend

REFERENCE = Config(algorithm=f"{PORTABLE}ring")
"""The fixed schedule that gains are reported against besides the default's."""


class HcclBackend(GroupsBackend):
    """Implements `measure.Backend`.

    Args:
        soc: the chips that are here.
        around: what runs beside the group that is tuned.
    """

    name = BACKEND

    def __init__(
        self,
        cores: Sequence[int],
        *,
        soc: Soc,
        timeout_s: float,
        start_ranks: StartRanks = start_here,
        around: Surroundings = ALONE,
        family: Family | None = None,
        device: str = "npu",
        process: Settings = (),
    ) -> None:
        super().__init__(
            cores,
            family=family or HcclFamily(),
            timeout_s=timeout_s,
            device=device,
            start_ranks=start_ranks,
            process=process,
        )
        self._facts = facts(soc)
        self._around = around

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """HCCL's own choice, every legal setting one at a time, and every schedule on a plain group."""
        portable = [config for config in super().candidates(problem) if config != self.default(problem)]
        portable = [config for config in portable if config != LIBRARY]
        return candidates(self._facts, problem, portable, self._around)

    def reference(self, problem: Problem) -> Config | None:
        """`REFERENCE`, where the collective has a ring."""
        return None if super().reference(problem) is None else REFERENCE

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        """See `measure.Backend`. What may not be tried is not, whoever asks for it."""
        why = {config: objection(self._facts, problem.key, config, self._around) for config in configs}
        legal = [config for config in configs if why[config] is None]
        found = dict(
            zip(legal, super().measure_round(problem, legal, kind=kind, batch=batch) if legal else (), strict=True)
        )
        return [
            found[config] if config in found else Failure(state=TrialState.INVALID, message=str(why[config]))
            for config in configs
        ]

    def with_process(self, process: Settings) -> GroupsBackend:
        """The same under other variables."""
        return HcclBackend(
            self._cores,
            soc=self._facts.soc,
            timeout_s=self._timeout_s,
            start_ranks=self._start_ranks,
            around=self._around,
            device=self._device,
            process=process,
        )


def check_installed(
    environ: Mapping[str, str] | None = None,
    installed: Callable[[str], bool] = lambda name: importlib.util.find_spec(name) is not None,
) -> None:
    """Whether the ranks could load HCCL through torch_npu.

    Raises:
        BackendUnavailable: they could not.
    """
    around = os.environ if environ is None else environ
    missing = next((name for name in ("torch", "torch_npu") if not installed(name)), None)
    if missing is not None:
        raise BackendUnavailable(
            f"the backend hccl needs {missing}, which is not installed",
            remedy="on a host with NPUs and CANN: pip install torch torch_npu; here: --backend gloo, or simulate",
        )
    if cann_home(around) is None:
        raise BackendUnavailable(
            "the backend hccl needs CANN: libhccl.so is not on the library path",
            remedy="source /usr/local/Ascend/ascend-toolkit/set_env.sh, or wherever CANN is",
        )
