"""What the table decides at each size and rank count, with the proof of each decision. Pure.

In:  a table and trials. Out: `Kind`s (a collective with its type) of columns (rank counts) of `Cell`s (sizes). The
table is what counts; trials are shown where they are those that a rule names.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...table import Rule, TuningTable
from ...types import Config, Problem, RuleKey, Trial, TrialState, round_up_message
from ..explanation import Explanation, Proof, explain_choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A size and a rank count.

    Args:
        message_bytes: measured; where no trial is at hand, a size that stands for the rule's.
        rule: that decides; None where the run came to no decision.
        proof: the trials judged again; None where they are not at hand.
        failure: a trial that says why there is no decision.
    """

    key: RuleKey
    message_bytes: int
    rule: Rule | None
    proof: Explanation | None = None
    failure: Trial | None = None

    @property
    def problem(self) -> Problem:
        return Problem(key=self.key, message_bytes=self.message_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """All cells of a key, by ascending size."""

    key: RuleKey
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Keys that differ in ranks only, ascending.

    Args:
        key: of one rank, for titles.
    """

    key: RuleKey
    columns: tuple[Column, ...]


def kinds_of(table: TuningTable, trials: Iterable[Trial], reference: Config) -> tuple[Kind, ...]:
    """Every decision of the table, and the cells that trials could not decide."""
    by_id: dict[int, Trial] = {}
    by_cell: defaultdict[tuple[int, Problem], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.trial_id is not None:
            by_id[trial.trial_id] = trial
        by_cell[trial.session_id, trial.problem].append(trial)
    blocks: defaultdict[RuleKey, list[Column]] = defaultdict(list)
    for key in _keys(table, by_cell):
        rules = table.rules.get(key, ())
        cells = [cell for rule in rules for cell in _cells(key, rule, rules, by_id, by_cell, table, reference)]
        cells += _undecided(key, rules, by_cell)
        cells.sort(key=lambda cell: cell.message_bytes)
        blocks[replace(key, n_ranks=1, placement=(1,))].append(Column(key=key, cells=tuple(cells)))
    return tuple(
        Kind(key=kind, columns=tuple(sorted(columns, key=lambda c: (c.key.n_ranks, c.key.placement))))
        for kind, columns in blocks.items()
    )


def _keys(table: TuningTable, by_cell: Iterable[tuple[int, Problem]]) -> list[RuleKey]:
    """Those of the table, then those of trials that gave no rule."""
    tried = (problem.key for _, problem in by_cell if problem.key.backend == table.defaults.backend)
    return list(dict.fromkeys((*table.rules, *tried)))


def _cells(
    key: RuleKey,
    rule: Rule,
    rules: Sequence[Rule],
    by_id: Mapping[int, Trial],
    by_cell: Mapping[tuple[int, Problem], list[Trial]],
    table: TuningTable,
    reference: Config,
) -> list[Cell]:
    """One for each problem whose trials the rule names; one for the rule where they are not at hand."""
    named = [by_id[trial_id] for trial_id in rule.trial_ids if trial_id in by_id]
    proved = dict.fromkeys((t.session_id, t.problem) for t in named if _within(t.problem, key, rule))
    if not proved:
        return [Cell(key=key, message_bytes=_stands_for(rule, rules), rule=rule)]
    cells = []
    for session_id, problem in proved:
        explained = explain_choice(
            problem,
            config=rule.config,
            reason="",
            rule=rule,
            proof=Proof(trials=tuple(by_cell[session_id, problem]), note=""),
            table=table,
            reference=reference,
        )
        cells.append(Cell(key=key, message_bytes=problem.message_bytes, rule=rule, proof=explained))
    return cells


def _within(problem: Problem, key: RuleKey, rule: Rule) -> bool:
    """A database that is not the table's may have other trials under the same numbers."""
    return problem.key == key and rule.from_bytes <= problem.message_bytes < rule.to_bytes


def _stands_for(rule: Rule, rules: Sequence[Rule]) -> int:
    """The first and the last rule begin and end with a measured size; between, borders are geometric means."""
    if rule is rules[0]:
        return rule.from_bytes
    if rule is rules[-1]:
        return rule.to_bytes - 1
    middle = math.isqrt(rule.from_bytes * rule.to_bytes)
    power: int = 1 << round(math.log2(max(1, middle)))
    return power if rule.from_bytes <= power < rule.to_bytes else middle


def _undecided(key: RuleKey, rules: Sequence[Rule], by_cell: Mapping[tuple[int, Problem], list[Trial]]) -> list[Cell]:
    """Sizes outside the rules on which a trial failed."""
    found: dict[int, Cell] = {}
    for (_, problem), trials in by_cell.items():
        size = problem.message_bytes
        covered = bool(rules) and rules[0].from_bytes <= size < rules[-1].to_bytes
        failed = next((trial for trial in trials if trial.state is not TrialState.OK), None)
        if problem.key == key and not covered and failed is not None:
            found[size] = Cell(key=key, message_bytes=size, rule=None, failure=failed)
    return list(found.values())


def row_sizes(kind: Kind) -> tuple[int, ...]:
    """The rows of a kind: all sizes, those counted once that are one asked size rounded up to different ranks."""
    rows: list[int] = []
    for size in sorted({cell.message_bytes for column in kind.columns for cell in column.cells}):
        owners = [column.key for column in kind.columns if any(c.message_bytes == size for c in column.cells)]
        if not any(all(rounded_size(row, key) == size for key in owners) for row in rows):
            rows.append(size)
    return tuple(rows)


def cell_at(column: Column, size: int) -> Cell | None:
    """The column's cell on a row: measured there, or else the rule that covers the size; None where none does."""
    rounded = rounded_size(size, column.key)
    for cell in column.cells:
        if cell.message_bytes in (size, rounded):
            return cell
    for cell in column.cells:
        if cell.rule is not None and cell.rule.from_bytes <= rounded < cell.rule.to_bytes:
            return cell
    return None


def rounded_size(size: int, key: RuleKey) -> int:
    """A size as it is measured on a key: a whole number of elements of every rank."""
    return round_up_message(key.collective, size, key.n_ranks, key.dtype.itemsize if key.dtype else 1)
