"""What a run says while it lasts, and what came of it. Values only.

In:  what the loop counts. Out: `Progress`, `TuneReport`, and `Interrupted`, which carries the report of a run that was
cut short.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Phase, Problem, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is about to be measured.

    Args:
        n_configs: that take part in the round.
        cells_done: of cells_total, those of an earlier, interrupted run included.
        left_s: expected seconds to the end; None until it can be said.
    """

    problem: Problem
    phase: Phase
    round: int
    n_configs: int
    cells_done: int
    cells_total: int
    elapsed_s: float
    left_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """What came of a run. Every problem of the plan stands in exactly one of the first three lists.

    Args:
        measured: decided, in this run or before an interruption.
        failed: no decision possible: the default, or every config, gave no right answer.
        not_measured: the time was out; the same command goes on with them.
        between: sizes that were not planned, decided to find where the best config changes.
        undecided: where more rounds might still show a config to be faster than the default, which stays until then.
        failures: trials that ended in another state than OK; not those of lossy configs that were off by too much.
    """

    measured: tuple[Problem, ...]
    failed: tuple[Problem, ...]
    not_measured: tuple[Problem, ...]
    failures: tuple[Trial, ...]
    elapsed_s: float
    between: tuple[Problem, ...] = ()
    undecided: tuple[Problem, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.not_measured


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the report of what was done by then. The session can be resumed."""

    def __init__(self, report: TuneReport) -> None:
        super().__init__("interrupted; the same command continues")
        self.report = report
