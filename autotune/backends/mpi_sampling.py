"""What a sample is where a set of ranks outside Python takes it (measure.Backend: fresh inputs, calls of 20 us and more
timed one by one).

In:  a set of ranks, a cell, a config. Out: `Timing`s, or NoTimes.
May not touch: how the ranks do it.

A call of about 20 us or more is timed alone, after a barrier and a rewrite of the input that are not timed, up to 8
times or 1 ms; the sample is their `undisturbed_mean`. Shorter calls are timed as a batch of at least 200 us, back to
back, over a rotation of buffers that were rewritten before the batch. Each timing counts with its slowest rank.
What is compared is timed in the same way, as the default's time says: a call alone and one of a batch do not compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from ..measure import Timing, batch_calls, calls_like, single_calls, undisturbed_mean
from ..measure.timing import BATCH_US, SAMPLE_US
from ..types import Collective, SampleKind
from .mpi_protocol import NoTimes, Request, Times, parse_answer, slowest
from .mpi_ranks import RankSet

MOST_BUFFERS = 8
ROTATION_BYTES = 256 << 10
KEEP_BYTES = 64 << 20
"""Buffers above this are given back after a sample: 8 ranks of 7 libraries would not fit beside each other."""
LARGE_BYTES = 8 << 20
"""No call of this size is short: the first one says enough, and more of them would take most of a run."""
TIMEOUT_S = 120.0

Outcome = Timing | NoTimes


class Cell(Protocol):
    """What is sampled; hashable."""

    @property
    def collective(self) -> Collective: ...

    @property
    def message_bytes(self) -> int:
        """The larger of a rank's input and output."""

    @property
    def count(self) -> int:
        """Elements of the buffer; of one rank's part where the collective splits by rank."""

    @property
    def kind(self) -> SampleKind: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many calls a library's samples of a cell have. Agreed once: batches of different lengths do not compare."""

    calls: int
    repeats: int
    buffers: int


@dataclass(slots=True)
class Sampler:
    """Takes samples of one library's ranks.

    Args:
        idle_cpu_s: processor time that the ranks used outside their own samples.
    """

    ranks: RankSet
    busy_cpu_s: float = 0.0
    _estimates_us: dict[tuple[Cell, str], float] = field(default_factory=dict)
    _cpu_at_start_s: float | None = None

    def sample(self, cell: Cell, config: str, *, batch: int, like: Plan | None = None) -> Outcome:
        """One sample, taken as `prepare` says.

        Raises:
            RanksFailed: the ranks ended or hung.
            ProtocolError: they answered nonsense.
        """
        plan = self.prepare(cell, config, like)
        if isinstance(plan, NoTimes):
            return plan
        times = self._ask(cell, config, plan, batch)
        if isinstance(times, NoTimes):
            return times
        return Timing(time_us=max(undisturbed_mean(times) / plan.calls, 1e-4), batch_calls=plan.calls)

    def prepare(self, cell: Cell, config: str, like: Plan | None = None) -> Plan | NoTimes:
        """How a cell is sampled: as an estimate says, or like another's plan, to compare with that.

        The estimate is made once, and touches the pages; also where it is like another's, since what a set of ranks has
        done before shows in its short calls.

        Raises:
            RanksFailed, ProtocolError: as `sample`.
        """
        estimate_us = self._estimates_us.get((cell, config))
        if estimate_us is None:
            made = self._estimate_us(cell, config)
            if isinstance(made, NoTimes):
                return made
            self._estimates_us[cell, config] = estimate_us = made
        if like is None:
            return plan_of(estimate_us, cell)
        return replace(like, calls=calls_like(like.calls, estimate_us))

    def idle_cpu_s(self) -> float:
        """Processor time that the ranks have used outside their samples since the first one."""
        if self._cpu_at_start_s is None:
            return 0.0
        return self.ranks.cpu_seconds() - self._cpu_at_start_s - self.busy_cpu_s

    def _estimate_us(self, cell: Cell, config: str) -> float | NoTimes:
        # First touch of pages; then an estimate, a longer one where the clock needs it. The shortest of several counts,
        # since one disturbed estimate would have short calls timed one by one for the whole run.
        estimates_us: list[float] = []
        for calls in (1, 4, 4, 32, 32):
            times = self._ask(cell, config, Plan(calls=calls, repeats=1, buffers=1), 0)
            if isinstance(times, NoTimes):
                return times
            estimates_us.append(times[0] / calls)
            if cell.message_bytes >= LARGE_BYTES:
                return estimates_us[0]
            if len(estimates_us) == 3 and min(estimates_us[1:]) >= BATCH_US / 4:
                break
        return min(estimates_us[1:])

    def _ask(self, cell: Cell, config: str, plan: Plan, batch: int) -> tuple[float, ...] | NoTimes:
        request = Request(
            collective=cell.collective,
            count=cell.count,
            kind=cell.kind,
            batch=batch,
            repeats=plan.repeats,
            calls=plan.calls,
            buffers=plan.buffers,
            keep_bytes=KEEP_BYTES,
            config=config,
        )
        before_s = self.ranks.cpu_seconds()
        if self._cpu_at_start_s is None:
            self._cpu_at_start_s = before_s
        try:
            lines = self.ranks.ask(request.line(), timeout_s=TIMEOUT_S)
        finally:
            self.busy_cpu_s += self.ranks.cpu_seconds() - before_s
        answers = [parse_answer(line, repeats=plan.repeats) for line in lines]
        bad = [(rank, answer) for rank, answer in enumerate(answers) if isinstance(answer, NoTimes)]
        if bad:
            rank, answer = bad[0]
            return NoTimes(why=answer.why, words=f"rank {rank}: {answer.words}")
        return slowest([answer for answer in answers if isinstance(answer, Times)])


def plan_of(estimate_us: float, cell: Cell) -> Plan:
    """How a cell is sampled whose calls take about `estimate_us`."""
    calls = batch_calls(estimate_us)
    if calls == 1:
        return Plan(calls=1, repeats=single_calls(estimate_us, SAMPLE_US), buffers=1)
    fresh = cell.kind is SampleKind.FRESH
    buffers = max(1, min(calls, MOST_BUFFERS, ROTATION_BYTES // cell.message_bytes)) if fresh else 1
    return Plan(calls=calls, repeats=1, buffers=buffers)
