"""What a log says, as values; what a user has to add; and the error of a log that cannot be read. Pure.

A figure's size is already ours (message_bytes), whatever the tool counts; its time is the slowest rank's where the log
tells ranks apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ...errors import AutotuneError, UsageError
from ...types import Collective, Config, DType, ReduceOp, TrialState
from ..sizes import Counted


class LogError(AutotuneError):
    """A log that is damaged, or that is not of the format it was taken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the user says about a log. None is what the log must say itself, or what has a default.

    Args:
        seats: ranks that the topology has room for; counts where nothing else tells the number of ranks.
    """

    collective: Collective | None = None
    n_ranks: int | None = None
    dtype: DType | None = None
    op: ReduceOp | None = None
    seats: int | None = None

    def collective_of(self, found: Collective | None, where: str) -> Collective:
        """The collective of the log, which the user may confirm and must give where the log has none.

        Raises:
            UsageError: nobody says it, or the two disagree.
        """
        if found is not None and self.collective not in (None, found):
            raise _disagree(where, "--collective", self.collective, found.value)
        collective = found or self.collective
        if collective is None:
            raise UsageError(f"{where}: the log does not say which collective it is of", remedy="add --collective NAME")
        return collective

    def ranks_of(self, found: int | None, where: str) -> int:
        """The number of ranks.

        Raises:
            UsageError: nobody says it, or log and user disagree.
        """
        if found is not None and self.n_ranks not in (None, found):
            raise _disagree(where, "--ranks", self.n_ranks, found)
        n_ranks = found or self.n_ranks or self.seats
        if n_ranks is None:
            raise UsageError(f"{where}: the log does not say how many ranks it is of", remedy="add --ranks N")
        return n_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A bandwidth that the log itself prints for a figure.

    Args:
        bus: bus bandwidth; else the size over the time.
        printed: as it stands there, in GB/s.
    """

    bus: bool
    printed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement of a log.

    Args:
        line: where it stands, from 1.
        dtype: None where the log does not say, or where elements are only moved.
        time_us: None exactly where the state is not OK.
        message: why the state is not OK; empty otherwise.
        config: what ran, where the log says it.
        batch_calls: calls that the time is the mean of.
    """

    line: int
    collective: Collective
    n_ranks: int
    message_bytes: int
    time_us: float | None
    dtype: DType | None = None
    op: ReduceOp | None = None
    state: TrialState = TrialState.OK
    message: str = ""
    config: Config | None = None
    placement: tuple[int, ...] | None = None
    batch_calls: int = 1
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Everything a log says.

    Args:
        notes: what was passed over, assumed or found odd; a sentence each, without full stop.
    """

    format_name: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()


class Importer(Protocol):
    """A format that logs are read from."""

    @property
    def name(self) -> str:
        """As given to ``autotune import --format``."""

    @property
    def summary(self) -> str:
        """What it is, in a phrase."""

    @property
    def backend(self) -> str | None:
        """Whose collectives the program runs; None where that has to be said."""

    @property
    def must_say(self) -> tuple[str, ...]:
        """What such a log leaves to the user, as options."""

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        """What the program means by a size."""

    def recognises(self, text: str) -> bool:
        """Whether a text looks like such a log."""

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        """All figures.

        Args:
            source: names the log in errors.

        Raises:
            LogError: with line, column, what stands there and what is allowed.
            UsageError: the log leaves out what hints do not say, or contradicts them.
        """


def _disagree(where: str, option: str, given: object, found: object) -> UsageError:
    value = given.value if isinstance(given, Collective) else given
    return UsageError(f"{where}: {option} is {value}, but the log is of {found}", remedy=f"leave {option} out")
