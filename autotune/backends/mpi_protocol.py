"""The lines between the driver and the ranks. Pure; mpi_csrc/sampler.c is the other end (or, in Python, a rank of
benchmarks/peers).

In:  a request, or a line that a rank sent. Out: the line, or what it says, checked.
May not touch: sockets, clocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import AutotuneError
from ..types import Collective, SampleKind


class ProtocolError(AutotuneError):
    """A rank answered something that is not an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`repeats` timings of `calls` back-to-back calls each.

    Args:
        count: elements of float32; of one rank's part where the collective splits by rank.
        batch: seeds the inputs.
        buffers: pairs of buffers that the calls go round.
        keep_bytes: buffers above this size are given back after the sample.
        config: what the library is to run with, in its own words; no line breaks.
    """

    collective: Collective
    count: int
    kind: SampleKind
    batch: int
    repeats: int
    calls: int
    buffers: int
    keep_bytes: int
    config: str = "-"

    def line(self) -> str:
        """As it is sent, line break included."""
        words = (
            "sample",
            self.collective.value,
            self.count,
            self.kind.value,
            self.batch,
            self.repeats,
            self.calls,
            self.buffers,
            self.keep_bytes,
            self.config,
        )
        return " ".join(map(str, words)) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A rank's first line."""

    rank: int
    pid: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Microseconds of each timing (of all its calls together), on one rank."""

    us: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTimes:
    """Why a rank has no times: `absent` (no such collective), `wrong` (a result), `refused` (anything else)."""

    why: str
    words: str


Answer = Times | NoTimes


def parse_hello(line: str) -> Hello:
    """``hello RANK PID VERSION WORDS``.

    Raises:
        ProtocolError: anything else.
    """
    words = line.split(maxsplit=3)
    if len(words) != 4 or words[0] != "hello" or not (words[1].isdecimal() and words[2].isdecimal()):
        raise _unreadable(line, "hello RANK PID VERSION")
    return Hello(rank=int(words[1]), pid=int(words[2]), version=words[3].strip())


def parse_answer(line: str, *, repeats: int) -> Answer:
    """``us T1 T2 ...``, ``absent``, ``wrong WORDS`` or ``refused WORDS``.

    Raises:
        ProtocolError: anything else, or another number of times than was asked for.
    """
    what, _, rest = line.strip().partition(" ")
    if what == "us":
        try:
            times = tuple(float(word) for word in rest.split())
        except ValueError:
            times = ()
        if len(times) == repeats and all(0.0 <= time < math.inf for time in times):
            return Times(us=times)
    elif what in ("wrong", "refused") and rest:
        return NoTimes(why=what, words=rest)
    elif what == "absent" and not rest:
        return NoTimes(why=what, words="the library has no such collective")
    raise _unreadable(line, f"us and {repeats} times, absent, wrong WORDS or refused WORDS")


def slowest(answers: list[Times]) -> tuple[float, ...]:
    """Each timing's time on its slowest rank."""
    return tuple(max(times) for times in zip(*(answer.us for answer in answers), strict=True))


def _unreadable(line: str, allowed: str) -> ProtocolError:
    return ProtocolError(
        f"a rank wrote {line[:200]!r}, expected {allowed}",
        remedy="build the program that the ranks run again",
    )
