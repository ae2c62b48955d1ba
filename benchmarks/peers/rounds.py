"""Interleaved rounds: every contender once, in random order, within seconds; more rounds where the decision is open.

In:  contenders whose ranks run, cells, a deadline. Out: samples by cell and contender, handed to `keep` as they come.
May not touch: judgement's rule, files.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from autotune.backends.mpi_ranks import RankSet, RanksFailed
from autotune.backends.mpi_sampling import NoTimes, Outcome, Plan, Sampler, plan_of
from autotune.errors import UsageError
from autotune.measure import MIN_ROUNDS, Timing
from autotune.measure.timing import SINGLE_CALL_US
from autotune.types import Memory, Phase, Sample

from .cells import Cell
from .judgement import Judgement, judge, needs_rounds

HOPELESS = 20.0
HOPELESS_AFTER = 2
"""A peer that was so many times slower than the best one in so many rounds of a cell takes no part in the others."""
PASS_ROUNDS = 3
"""Rounds that an undecided cell gets before the others have their turn again."""
MOST_STARTS = 3
Told = TypeVar("Told")


@dataclass(slots=True)
class Contender:
    """Someone who takes part, with the ranks that run for it.

    Args:
        role: ``ours``, ``peer``, ``prototype`` or ``floor``.
        memory: where the buffers are.
        settings: in words, for the record.
        start: starts its ranks; again after they failed.
        configs: what it runs with, where it has a choice.
        expected_version: what it has to be, to go on where an earlier piece ended; empty for anything.
        faults: what went wrong, for the report.
    """

    name: str
    role: str
    memory: Memory
    settings: str
    start: Callable[[], RankSet]
    configs: dict[Cell, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    version: str = ""
    expected_version: str = ""
    idle_cpu_s: float = 0.0
    _sampler: Sampler | None = None
    _starts: int = 0

    def sample(self, cell: Cell, batch: int, config: str | None = None, like: Plan | None = None) -> Outcome | None:
        """One sample, taken like another's plan says; None where there is none, and `faults` says why."""
        words = config or self.configs.get(cell, "-")
        return self._asked(cell, lambda sampler: sampler.sample(cell, words, batch=batch, like=like))

    def plan(self, cell: Cell, config: str | None = None) -> Plan | None:
        """How its samples would be taken if it were alone; None where there are none."""
        words = config or self.configs.get(cell, "-")
        made = self._asked(cell, lambda sampler: sampler.prepare(cell, words))
        return None if isinstance(made, NoTimes) else made

    def _asked(self, cell: Cell, ask: Callable[[Sampler], Told]) -> Told | None:
        try:
            if self._sampler is None:
                if self._starts == MOST_STARTS:
                    return None
                self._starts += 1
                self._sampler = Sampler(self.start())
                self.version = self._sampler.ranks.version
                if self.expected_version not in ("", self.version):
                    raise UsageError(
                        f"{self.name} is {self.version!r} now and was {self.expected_version!r} in the file",
                        remedy="begin another file",
                    )
            return ask(self._sampler)
        except RanksFailed as failure:
            self._sampler = None
            self.faults.append(f"{cell}: {failure.message}")
            return None

    def close(self) -> None:
        """End its ranks."""
        if self._sampler is not None:
            self.idle_cpu_s += self._sampler.idle_cpu_s()
            self._sampler.ranks.close()
            self._sampler = None


@dataclass(slots=True)
class CellRecord:
    """What was measured in one cell.

    Args:
        out: contenders that have no such collective or answered wrongly, and leave the cell.
        hopeless: peers that are too slow to be the best one; what they have stays.
        like: how every contender's samples are taken, once they have agreed.
    """

    cell: Cell
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    out: dict[str, str] = field(default_factory=dict)
    hopeless: set[str] = field(default_factory=set)
    n_rounds: int = 0
    like: Plan | None = None

    def judgements(self, contenders: Sequence[Contender]) -> list[Judgement]:
        """Ours against the peers, for each kind of memory that ours was measured with."""
        peers = self._samples_of(contenders, "peer")
        prototypes = self._samples_of(contenders, "prototype")
        made = []
        for ours in contenders:
            if ours.role != "ours" or ours.name not in self.samples:
                continue
            alike = [c for c in contenders if c.memory is ours.memory]
            bounds = self._samples_of(alike, "floor")
            made.append(
                judge(self.cell, ours.memory, self.samples[ours.name], peers, prototypes=prototypes, floors=bounds)
            )
        return [judgement for judgement in made if judgement is not None]

    def give_up(self, contenders: Sequence[Contender], after: int) -> None:
        """Note the peers that need not run again, of those that have so many samples."""
        peers = self._samples_of(contenders, "peer")
        medians = {name: statistics.median(s.time_us for s in samples) for name, samples in peers.items()}
        for name, samples in peers.items():
            if len(samples) >= after and min(s.time_us for s in samples) > HOPELESS * min(medians.values()):
                self.hopeless.add(name)

    def agree(self, contenders: Sequence[Contender], opponent: str | None = None) -> Plan | None:
        """One plan for all: a batch of calls and calls that are timed one by one do not compare.

        It is the opponent's, or that of the fastest of ours and the peers, and goes on as their earlier samples were
        taken; None where none of them runs.
        """
        if self.like is None:
            asked = [c for c in contenders if (c.name == opponent if opponent else c.role in ("ours", "peer"))]
            earlier = [plan_like(self.cell, self.samples[c.name]) for c in asked if c.name in self.samples]
            plans = earlier or [plan for contender in asked if (plan := contender.plan(self.cell)) is not None]
            self.like = max(plans, key=lambda plan: (plan.calls, plan.repeats), default=None)
        return self.like

    def _samples_of(self, contenders: Sequence[Contender], role: str) -> dict[str, list[Sample]]:
        return {c.name: self.samples[c.name] for c in contenders if c.role == role and c.name in self.samples}


def plan_like(cell: Cell, earlier: Sequence[Sample]) -> Plan:
    """How samples are taken that go on with these."""
    calls, time_us = earlier[0].batch_calls, statistics.median(sample.time_us for sample in earlier)
    if calls == 1:
        return plan_of(max(time_us, SINGLE_CALL_US), cell)
    return replace(plan_of(min(time_us, SINGLE_CALL_US / 2), cell), calls=calls)


Keep = Callable[[Cell, Contender, Sample, float | None], None]
Flag = Callable[[], float | None]
"""Microseconds of a word from one core to another and back, or None where nobody knows."""


def run_round(
    record: CellRecord,
    contenders: Sequence[Contender],
    keep: Keep,
    flag: Flag,
    hopeless_after: int = HOPELESS_AFTER,
) -> None:
    """One sample of every contender, in random order."""
    number, cell = record.n_rounds, record.cell
    running = [
        contender
        for contender in contenders
        if contender.name not in record.out and contender.name not in record.hopeless
    ]
    random.Random(f"{cell} round {number}").shuffle(running)
    like = record.agree(running)
    flag_us = flag()
    for position, contender in enumerate(running):
        outcome = contender.sample(cell, number, like=like)
        if outcome is None:
            continue
        if not isinstance(outcome, Timing):
            record.out[contender.name] = outcome.words
            record.samples.pop(contender.name, None)
            if outcome.why != "absent":
                contender.faults.append(f"{cell}: {outcome.why}: {outcome.words}")
            continue
        sample = Sample(
            kind=cell.kind,
            phase=Phase.CONFIRM,
            round=number,
            position=position,
            batch_calls=outcome.batch_calls,
            time_us=outcome.time_us,
        )
        record.samples.setdefault(contender.name, []).append(sample)
        keep(cell, contender, sample, flag_us)
    record.n_rounds += 1
    record.give_up(contenders, hopeless_after)


def run(
    records: Sequence[CellRecord],
    contenders: Sequence[Contender],
    *,
    until: float,
    most_rounds: int,
    keep: Keep,
    say: Callable[[str], None],
    flag: Flag = lambda: None,
    hopeless_after: int = HOPELESS_AFTER,
    asks_more: Callable[[CellRecord], bool] = lambda record: False,
) -> None:
    """Nine rounds of every cell; then passes over the undecided ones, the least certain first.

    Args:
        until: time.monotonic() at which to stop; at least one round is run of every cell that has none.
        flag: tells the state of the host, once a round.
        most_rounds: of one cell.
        hopeless_after: rounds of a cell that every peer takes part in.
        asks_more: whether a cell gets more rounds, up to the most, though its verdict is clear.
    """
    order = list(records)
    n_rounds = min(MIN_ROUNDS, most_rounds)
    for number in range(n_rounds):
        random.Random(f"order {number}").shuffle(order)
        for record in order:
            if record.n_rounds > number:
                continue  # an earlier piece ran it
            if number and time.monotonic() > until:
                return
            run_round(record, contenders, keep, flag, hopeless_after)
        say(f"round {number + 1} of {n_rounds}, {len(records)} cells")
    while True:
        open_cells = [
            (max((j.half_width for j in undecided), default=0.0), record)
            for record in records
            if (undecided := [j for j in record.judgements(contenders) if needs_rounds(j, most_rounds=most_rounds)])
            or (record.n_rounds < most_rounds and asks_more(record))
        ]
        if not open_cells:
            return
        open_cells.sort(key=lambda pair: -pair[0] if math.isfinite(pair[0]) else -math.inf)
        say(f"{len(open_cells)} cells undecided, the least certain: {open_cells[0][1].cell}")
        for _, record in open_cells:
            for _ in range(PASS_ROUNDS):
                if time.monotonic() > until:
                    return
                run_round(record, contenders, keep, flag, hopeless_after)
