"""What backends share whose ranks are processes of their own: rounds asked of a pool, and pools replaced.

In:  problems and configs. Out: outcomes, from ranks that run in processes of their own and are replaced when one hangs,
dies or breaks its group. May not touch: candidates and defaults (native.py, torch_dist.py), the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..measure import Failure, Outcome, Timing
from ..types import Config, Fidelity, Problem, ReduceOp, SampleKind, TrialState, WrongElement
from .launch import Ranks
from .rank_process import Json, PoolFailed
from .round_request import fields_of

WATCHDOG_S = 60.0  # a round of the largest messages takes a few seconds; its first touch of pages more
_OPS = {"sum": ReduceOp.SUM, "minmax": ReduceOp.MAX, "prod": ReduceOp.PROD}


class PooledBackend(ABC):
    """`measure.Backend`, but for what to try: that is a backend's own."""

    name: str

    def __init__(self) -> None:
        self._pool: Ranks | None = None
        self._placement: tuple[int, ...] = ()

    @abstractmethod
    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """See `measure.Backend`."""

    @abstractmethod
    def default(self, problem: Problem) -> Config:
        """See `measure.Backend`."""

    @abstractmethod
    def reference(self, problem: Problem) -> Config | None:
        """See `measure.Backend`."""

    def judged_on(self, problem: Problem) -> dict[str, Json]:
        """What a request says besides, of problems with an error budget."""
        return {}

    @abstractmethod
    def start(self, placement: tuple[int, ...]) -> Ranks:
        """So many new ranks on each host."""

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        """See `measure.Backend`. A failed round is repeated one config at a time, to find which one it was."""
        try:
            return self._ask(problem, configs, kind, batch)
        except PoolFailed as failure:
            self._pool = None
            if len(configs) == 1:
                return [Failure(state=failure.state, message=failure.message)]
            return [self.measure_round(problem, [config], kind=kind, batch=batch)[0] for config in configs]

    def _ask(self, problem: Problem, configs: Sequence[Config], kind: SampleKind, batch: int) -> list[Outcome]:
        key = problem.key
        dtype = problem.timed_dtype
        parts = key.n_ranks if key.collective.splits_by_rank else 1
        request: dict[str, Json] = {
            "do": "round",
            "collective": key.collective.value,
            "dtype": dtype.value,
            "op": _OPS[key.op_class.value if key.op_class else "sum"].value,
            "count": problem.message_bytes // dtype.itemsize // parts,
            "memory": key.memory.value,
            "kind": kind.value,
            "batch": batch,
            "default": fields_of(self.default(problem)),
            "configs": [fields_of(config) for config in configs],
            **self.judged_on(problem),
        }
        answers = self._pool_of(key.placement).ask(request)
        outcomes = answers[0]["outcomes"]
        assert isinstance(outcomes, list)
        return [_outcome(outcome) for outcome in outcomes]

    def _pool_of(self, placement: tuple[int, ...]) -> Ranks:
        if self._placement != placement:
            self.close()
        if self._pool is None:
            self._pool, self._placement = self.start(placement), placement
        return self._pool

    def restart(self) -> None:
        """See `measure.Backend`: the next round starts ranks."""
        self.close()

    def close(self) -> None:
        """End the ranks."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _outcome(answer: Json) -> Outcome:
    assert isinstance(answer, dict)
    if "time_us" in answer:
        fidelity = None
        if "error" in answer:
            fidelity = Fidelity(error=float(str(answer["error"])), density=float(str(answer["density"])))
        return Timing(time_us=float(str(answer["time_us"])), batch_calls=int(str(answer["calls"])), fidelity=fidelity)
    wrong = answer["wrong"]
    element = None
    if isinstance(wrong, dict):
        element = WrongElement(
            rank=int(str(wrong["rank"])),
            index=int(str(wrong["index"])),
            got=str(wrong["got"]),
            expected=str(wrong["expected"]),
        )
    return Failure(state=TrialState(answer["state"]), message=str(answer["message"]), wrong=element)
