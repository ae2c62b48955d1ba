"""What every export format provides, what it may be asked for, and what it gives back. Plain values."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..errors import AutotuneError
from ..hccl.soc import Soc as Soc
from ..table import TuningTable
from ..types import Evidence, Trial


class Wire(enum.Enum):
    """How NCCL moves data."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asks an export for. Formats pass over what they have no use for.

    Args:
        evidence: rules that count; formats that hold the whole table write all of them.
        trials: measurements behind the rules, for what a choice costs that the table does not hold.
        weights: how much a message size counts, by message_bytes; empty: all measured sizes count the same.
        channels: NCCL's channels, where a config names none.
        protocol: NCCL's protocol, where a config names none.
        soc: the chips that HCCL runs on; None: any.
        max_groups: the most process groups of a portfolio.
        max_group_memory_bytes: of all groups of a portfolio together, on each rank; None: no limit.
        base: text of the selection tree that MPICH would use otherwise; None: not at hand.
    """

    evidence: frozenset[Evidence] = frozenset({Evidence.MEASURED})
    trials: tuple[Trial, ...] = ()
    weights: Mapping[int, float] = field(default_factory=dict)
    channels: int | None = None
    protocol: Wire | None = None
    soc: Soc | None = None
    base: str | None = None
    max_groups: int = 4
    max_group_memory_bytes: int | None = None


PLAIN = Request()
"""Measured rules, and nothing else asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The text of the whole file, and what is to be said of it.

    Args:
        notes: what of this table is not in the text, and what was assumed; a sentence each, without full stop.
        usage: lines of a shell that make the library use the file ``{path}``, and ``{beside}`` where there is one.
        beside: text of a second file, which is of no use without the first, nor the first without it.
    """

    text: str
    beside: str | None = None
    notes: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()

    def files(self, path: Path) -> dict[Path, str]:
        """What is to be written, with the table at this path."""
        return {path: self.text} if self.beside is None else {path: self.text, _beside(path): self.beside}

    def lines(self, path: Path) -> tuple[str, ...]:
        """The usage of files that stand there, for a shell."""
        quoted = {"path": shlex.quote(str(path)), "beside": shlex.quote(str(_beside(path)))}
        return tuple(line.format(**quoted) for line in self.usage)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.device{path.suffix}")


class Exporter(Protocol):
    """A format that a table can be written in."""

    @property
    def name(self) -> str:
        """As given to ``autotune export --format``."""

    @property
    def suffix(self) -> str:
        """Of the file, with its dot."""

    @property
    def summary(self) -> str:
        """What reads the file, in a phrase."""

    @property
    def library(self) -> str | None:
        """The library of words.json that the format is for; None where names are written as they are."""

    @property
    def loses(self) -> tuple[str, ...]:
        """What the format cannot express, one phrase each; empty where it holds the whole table."""

    @property
    def checked(self) -> str:
        """What has read such a file so far, and whether that ran on hardware."""

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        """The text of the whole file.

        Raises:
            AutotuneError: nothing of the table can be written so.
        """


def nothing_left(format_name: str, notes: tuple[str, ...], table: TuningTable, request: Request) -> AutotuneError:
    """The table has no rule that the format can hold."""
    why = f": {notes[0]}" if notes else ", as the table has none"
    more = f" (and {len(notes) - 1} more reasons)" if len(notes) > 1 else ""
    kinds = {rule.evidence for rules in table.rules.values() for rule in rules}
    options = " ".join(f"--evidence {kind.value}" for kind in Evidence if kind in kinds)
    return AutotuneError(
        f"no rule can be written as {format_name}{why}{more}",
        remedy=f"autotune export --format {format_name} {options}"
        if kinds and not kinds & request.evidence
        else "autotune export --format json holds every table",
    )
