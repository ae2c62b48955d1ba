"""The backends openmpi and mpich: trials of an MPI's own algorithms, which are its settings, under its own launcher.

In:  problems. Out: their candidates and defaults; ranks for `PooledBackend`, which measures.
May not touch: the store, tables on disk.

The ranks run a loop in C (mpi_csrc), started once for all algorithms of a rank count: a library reads those settings
when a communicator is made or with each call, and both happen between two samples. Settings that it reads when a job
starts (how it moves messages) have ranks of their own. The default is what runs without us: the library's own choice,
called ``auto``, under no settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BackendUnavailable, UsageError
from ..exchange.words import LIBRARY_CHOICE, Start, library
from ..settings import Settings
from ..table import shipped_table
from ..types import Collective, Config, DType, Memory, Problem, ReduceOp, RuleKey, SampleKind, TrialState
from .mpi_knobs import call_of, candidates, sample_words, why_not
from .mpi_program import KINDS, Kind, Mpi, compiled, find_mpi
from .mpi_protocol import NoTimes, ProtocolError
from .mpi_ranks import RankSet, RanksFailed
from .mpi_sampling import Outcome, Sampler
from .pooled import PooledBackend
from .rank_process import Json, PoolFailed
from .round_request import config_of

_STATES = {"wrong": TrialState.WRONG_RESULT, "refused": TrialState.INVALID, "absent": TrialState.INVALID}
_RINGS = ("ring", "MPIR_Allreduce_intra_ring", "MPIR_Allgather_intra_ring")


class MpiBackend(PooledBackend):
    """Implements `measure.Backend`.

    Args:
        kind: of ``KINDS``.
        cores: that ranks are pinned to, in order.

    Raises:
        BackendUnavailable: the MPI or a C compiler is not installed.
    """

    def __init__(self, kind: Kind, cores: Sequence[int], settings: Settings) -> None:
        super().__init__()
        self.name = kind.name
        self._mpi = find_mpi(kind, settings.mpi)
        self._program = compiled(self._mpi, settings.cache_dir)
        self._cores = tuple(cores)
        self._defaults = shipped_table(kind.name).defaults

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """The library's own choice, and every algorithm of its that is legal, under every start."""
        return (self.default(problem), *candidates(self.name, problem))

    def default(self, problem: Problem) -> Config:
        """The library's own choice.

        Raises:
            UsageError: a problem that MPI does not have, or that its rules cannot decide.
        """
        key = problem.key
        why = why_not(self.name, problem)
        if key.memory is not Memory.PRIVATE:
            why = f"MPI has no {key.memory.value} memory"
        if why is not None:
            raise UsageError(why, remedy="leave it out of the plan: --collective, --memory, or dtypes in a plan file")
        return self._defaults.lookup(key, problem.message_bytes)

    def reference(self, problem: Problem) -> Config | None:
        """The ring, where the collective has one."""
        call = call_of(self.name, problem.key.collective)
        ring = next((name for name in _RINGS if call is not None and name in call.algorithms), None)
        return None if ring is None else Config(algorithm=ring)

    def start(self, placement: tuple[int, ...]) -> MpiRanks:
        """See `PooledBackend`.

        Raises:
            UsageError: ranks on several hosts.
            BackendUnavailable: the ranks did not start.
        """
        if len(placement) > 1:
            raise UsageError(
                f"the backend {self.name} measures on one host, not on {len(placement)}",
                remedy="run it on one host, without a launcher",
            )
        return MpiRanks(self._mpi, self._program, sum(placement), self._cores)


class MpiRanks:
    """Ranks under the MPI's launcher that answer the requests of `PooledBackend`.

    One set runs without settings; each start has one more, made when a config first asks for it. A set that is not
    asked takes no core.
    """

    def __init__(self, mpi: Mpi, program: Path, n_ranks: int, cores: Sequence[int]) -> None:
        self.n_ranks = n_ranks
        self._name = mpi.kind.name
        self._mpi, self._program, self._cores = mpi, program, tuple(cores)
        self._samplers: dict[Start, Sampler] = {}
        self._refused: dict[Start, str] = {}
        try:
            self._under(())
        except RanksFailed as err:
            raise BackendUnavailable(err.message, remedy=err.remedy) from err

    def ask(self, request: Mapping[str, Json]) -> list[dict[str, Json]]:
        """See `launch.Ranks`; one answer stands for all ranks."""
        problem = _problem(self._name, self.n_ranks, request)
        kind, batch = SampleKind(request["kind"]), int(str(request["batch"]))
        listed = request["configs"]
        assert isinstance(listed, list)
        cell = cell_of(problem, kind)
        try:
            outcomes: list[Json] = [_answer(self._outcome(cell, config_of(fields), batch)) for fields in listed]
        except (RanksFailed, ProtocolError) as err:
            self.close()
            hung = isinstance(err, RanksFailed) and err.hung
            state = TrialState.TIMEOUT if hung else TrialState.CRASHED
            raise PoolFailed(err.message, remedy=err.remedy, state=state) from err
        return [{"outcomes": outcomes}]

    def _outcome(self, cell: _Cell, config: Config, batch: int) -> Outcome:
        start = library(self._name).start_of(config)
        if start not in self._samplers and start not in self._refused:
            try:
                self._under(start)
            except RanksFailed as err:  # this build of the library does not have it; the other ranks live on
                self._refused[start] = err.message
        if start in self._refused:
            return NoTimes(why="refused", words=self._refused[start])
        sampler, words = self._samplers[start], sample_words(self._name, cell.problem, config)
        # Like the library's own choice without settings, for every config of a cell.
        own = sample_words(self._name, cell.problem, Config(algorithm=LIBRARY_CHOICE))
        like = self._samplers[()].prepare(cell, own)
        return like if isinstance(like, NoTimes) else sampler.sample(cell, words, batch=batch, like=like)

    def _under(self, start: Start) -> None:
        launch = self._mpi.launch(self._program, self.n_ranks, self._cores, start)
        remedy = f"{self._mpi.launcher} -n {self.n_ranks} hostname shows whether it starts programs here at all"
        self._samplers[start] = Sampler(RankSet(self._name, self.n_ranks, launch, remedy=remedy))

    def close(self) -> None:
        """End all ranks and their launchers."""
        for sampler in self._samplers.values():
            sampler.ranks.close()
        self._samplers = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """`mpi_sampling.Cell` of a problem."""

    problem: Problem
    kind: SampleKind

    @property
    def collective(self) -> Collective:
        return self.problem.key.collective

    @property
    def message_bytes(self) -> int:
        return self.problem.message_bytes

    @property
    def count(self) -> int:
        parts = self.problem.key.n_ranks if self.collective.splits_by_rank else 1
        return self.message_bytes // self.problem.timed_dtype.itemsize // parts


def cell_of(problem: Problem, kind: SampleKind) -> _Cell:
    """A problem as the sampler takes it."""
    return _Cell(problem=problem, kind=kind)


def mpi_environment(backend: str, settings: Settings) -> dict[str, str]:
    """What measurements depend on besides the host: the MPI and its version.

    Raises:
        BackendUnavailable: it is not installed.
    """
    return {backend: find_mpi(KINDS[backend], settings.mpi).version}


def _problem(backend: str, n_ranks: int, request: Mapping[str, Json]) -> Problem:
    collective, dtype = Collective(request["collective"]), DType(request["dtype"])
    key = RuleKey(
        backend=backend,
        collective=collective,
        dtype=dtype if collective.computes else None,
        op_class=ReduceOp(request["op"]).op_class if collective.computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )
    parts = n_ranks if collective.splits_by_rank else 1
    return Problem(key=key, message_bytes=int(str(request["count"])) * dtype.itemsize * parts)


def _answer(outcome: Outcome) -> dict[str, Json]:
    if isinstance(outcome, NoTimes):
        return {"state": _STATES[outcome.why].value, "message": outcome.words, "wrong": None}
    return {"time_us": outcome.time_us, "calls": outcome.batch_calls}
