"""What a backend promises: rounds in, outcomes out.

In:  a problem and the configs that compete in one round.
Out: one `Timing` or `Failure` for each config, from a `Backend`.
May not touch: clocks, processes, files. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..types import Config, Fidelity, Problem, SampleKind, TrialState, WrongElement

SINGLE_CALL_US = 20.0
BATCH_US = 200.0
SAMPLE_US = 1000.0
"""What the calls of a sample take together at least, where they are timed one by one and asking for one is cheap."""
COSTLY_SAMPLE_US = 10_000.0
"""The same where a sample costs 4 to 9 ms besides its calls (several hosts, torch): a shorter one would save little of
that, and a call's own noise, which falls as samples grow, is most of theirs (docs/search.md)."""
MOST_CALLS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A sample that passed its checks.

    Args:
        time_us: microseconds of one call on the slowest rank: its share of the batch, if calls were timed together.
        batch_calls: calls that were timed together; 1 where the call was timed alone.
        fidelity: of a lossy config.
    """

    time_us: float
    batch_calls: int
    fidelity: Fidelity | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.time_us < math.inf or self.batch_calls < 1:
            raise ValueError(f"not a timing: {self.time_us} us, {self.batch_calls} calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no time.

    Args:
        state: any state but OK.
        message: what happened, for people.
        wrong: the first wrong element, where the state is WRONG_RESULT.
    """

    state: TrialState
    message: str
    wrong: WrongElement | None = None

    def __post_init__(self) -> None:
        if self.state is TrialState.OK or not self.message:
            raise ValueError(f"a failure needs a state other than OK and a message, got {self.state}, {self.message!r}")


Outcome = Timing | Failure


class Backend(Protocol):
    """Something that runs collectives and says how long they took.

    A sample is one number: the time of one call, out of place, on the slowest rank. Where the default takes 20 us or
    more, calls are timed alone, each after a rewrite of the inputs and a barrier that are not timed; a sample holds
    `single_calls` of them, and is their `undisturbed_mean`. Where it takes less, they run back to back in a batch whose
    length `batch_calls` gives and every rank agrees on, over buffers rewritten before the batch. A problem's configs
    are all timed in the one way: the two do not compare. A FRESH sample reads inputs that its rank wrote just before; a
    STEADY one uses the same buffers again and again.

    Inputs are a function of (rank, batch) for which the right answer is exact (see `exact_modulus`). Outputs are
    poisoned before, and checked on the buffers that were timed, before and after timing.

    One caller, one thread. What goes wrong with a config is an outcome; AutotuneError is raised only by a backend that
    cannot go on at all.
    """

    @property
    def name(self) -> str:
        """The word that stands in a rule's key, such as ``"native"``."""
        ...

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        """Every legal config that is worth a sample; no two of them do the same thing."""
        ...

    def default(self, problem: Problem) -> Config:
        """What runs without a table: the opponent of every candidate."""
        ...

    def reference(self, problem: Problem) -> Config | None:
        """The fixed config that reports compare with besides (``ring/64KiB``), where it is legal."""
        ...

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        """One sample of each config, in the order given; `batch` seeds the inputs.

        A config that hangs, crashes or answers wrongly yields a `Failure` and costs the others nothing: the backend
        replaces its ranks and goes on.
        """
        ...

    def restart(self) -> None:
        """Have all that is measured from now on measured by ranks that are started anew."""
        ...

    def close(self) -> None:
        """Give back ranks and memory; allowed twice."""
        ...


def batch_calls(estimate_us: float) -> int:
    """How many calls of about `estimate_us` microseconds make one sample.

    1 from 20 us up; below, as many as take 200 us together, so that the clock and the barrier do not show.
    """
    return 1 if estimate_us >= SINGLE_CALL_US else math.ceil(BATCH_US / max(estimate_us, BATCH_US / 100_000))


def calls_like(calls: int, estimate_us: float) -> int:
    """How many calls of about `estimate_us` microseconds make a sample that is compared with one of so many calls.

    As many; but a batch is shorter where it would take five times as long as a batch need take.
    """
    return 1 if calls == 1 else max(2, min(calls, int(5 * BATCH_US / estimate_us)))


def single_calls(estimate_us: float, sample_us: float) -> int:
    """How many calls of about `estimate_us` microseconds, timed one by one, make a sample: at most eight."""
    return min(MOST_CALLS, int(sample_us / max(estimate_us, 1.0)) + 1)


def undisturbed_mean(times: Sequence[float]) -> float:
    """The mean of a sample's calls without the slowest quarter, rounded up; of one or two, the mean of all.

    One call that waited for a lost packet or for the scheduler takes up to a hundred times as long, and would be all
    that the mean tells. How much is left out follows from the number of calls alone, so that samples which are compared
    hold the same number.
    """
    kept = len(times) if len(times) < 3 else len(times) - -(-len(times) // 4)
    return math.fsum(sorted(times)[:kept]) / kept
