"""Measured times in the form of nccl-tests: size, count, type, op, time, algbw, busbw, wrong. Pure.

In:  `BenchResult` values. Out: lines of text of one width, so that they can be printed one by one as they are measured;
a table over rank counts; JSON. Bandwidths are in GB/s (1e9 bytes per second), by the formulas of nccl-tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..measure import Comparison, Failure, Interval, algbw_gb_per_s, busbw_gb_per_s
from ..types import Config, Problem, RuleKey, TrialState
from ..units import format_bytes, format_us
from .figures import (
    UNKNOWN,
    comparison_fields,
    comparison_text,
    config_fields,
    interval_fields,
    percent_text,
    problem_fields,
)
from .grid import grid

NO_RULE = "*"
"""Behind a contender's name: the table has no rule, so this is its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """One contender on one problem.

    Args:
        contender: as it was asked for: ``"tuned"``, ``"default"``, or an algorithm.
        size_bytes: as asked for; the problem's message_bytes is that, rounded up to whole elements.
        has_rule: whether a table's rule chose the config; None where no table was asked.
        time_us: of one call on the slowest rank, over the rounds; None after a failure.
        gain: the first contender's time over this one's, in paired rounds; None for the first and after a failure.
        same_as_first: it runs the first contender's config, which was measured once for both.
        link_gb_per_s: bandwidth of the slowest link between neighbouring ranks; None where the topology does not know.
    """

    contender: str
    size_bytes: int
    problem: Problem
    config: Config
    has_rule: bool | None = None
    time_us: Interval | None = None
    failure: Failure | None = None
    gain: Comparison | None = None
    same_as_first: bool = False
    link_gb_per_s: float | None = None

    @property
    def count(self) -> int:
        """Elements, as given to the call: those of one rank, where the collective splits by rank."""
        parts = self.problem.key.n_ranks if self.problem.key.collective.splits_by_rank else 1
        return self.problem.message_bytes // self.problem.timed_dtype.itemsize // parts

    @property
    def algbw_gb_per_s(self) -> float | None:
        return None if self.time_us is None else algbw_gb_per_s(self.problem.message_bytes, self.time_us.median)

    @property
    def busbw_gb_per_s(self) -> float | None:
        if self.time_us is None:
            return None
        key = self.problem.key
        return busbw_gb_per_s(key.collective, key.n_ranks, self.problem.message_bytes, self.time_us.median)

    @property
    def utilisation(self) -> float | None:
        """busbw over the link's bandwidth."""
        busbw, link = self.busbw_gb_per_s, self.link_gb_per_s
        return None if busbw is None or link is None else busbw / link

    @property
    def n_wrong(self) -> int | None:
        """Wrong answers; a config is given up at its first. None where it did not get as far as an answer."""
        if self.failure is None:
            return 0
        return 1 if self.failure.state is TrialState.WRONG_RESULT else None


class BenchLines:
    """Headings and lines of equal width.

    Args:
        chosen: every contender, config and has_rule to come, so that the columns are wide enough from the start.
        n_rounds: for the legend.
        compared: whether there is more than one contender, the first of `chosen` being the first.
        links: whether the topology knows the bandwidth of any link.
    """

    def __init__(
        self, chosen: Sequence[tuple[str, Config, bool | None]], *, n_rounds: int, compared: bool, links: bool
    ) -> None:
        width = max(len(_named(*one)) for one in chosen)
        columns: list[tuple[str, str, Callable[[BenchResult], str]]] = [
            ("ranks", ">5", lambda result: str(result.problem.key.n_ranks)),
            ("size", ">7", lambda result: format_bytes(result.problem.message_bytes)),
            ("count", ">9", lambda result: str(result.count)),
            ("type", "<8", lambda result: result.problem.timed_dtype.value),
            ("op", "<6", _op),
            ("config", f"<{width}", lambda result: _named(result.contender, result.config, result.has_rule)),
            ("time us", ">8", _time),
            ("algbw", ">6", lambda result: _rate(result.algbw_gb_per_s)),
            ("busbw", ">6", lambda result: _rate(result.busbw_gb_per_s)),
        ]
        if links:
            columns.append(("link", ">5", lambda result: percent_text(result.utilisation)))
        columns.append(("wrong", ">5", lambda result: UNKNOWN if result.n_wrong is None else str(result.n_wrong)))
        if compared:
            columns.append(("gain [95 %]", "<18", _gain))
        self._columns = columns
        self.legend = (
            f"# time us: slowest rank, median of {n_rounds} interleaved rounds; algbw, busbw: GB/s (1e9 bytes/s)"
        )
        if links:
            self.legend += "\n# link: busbw over the slowest measured link between neighbouring ranks"
        if compared:
            self.legend += f"\n# gain: time of {chosen[0][0]} over this one's, in paired rounds"
        if any(has_rule is False for _, _, has_rule in chosen):
            self.legend += f"\n# {NO_RULE} the table has no rule for this size, and gives its default"

    @property
    def heading(self) -> str:
        titles = "  ".join(f"{name:{form}}" for name, form, _ in self._columns).rstrip()
        return f"{self.legend}\n{titles}"

    def line(self, result: BenchResult) -> str:
        """One result; a failure's message stands on a line of its own below it."""
        cells = "  ".join(f"{write(result):{form}}" for _, form, write in self._columns).rstrip()
        return cells if result.failure is None else f"{cells}\n  {result.failure.state.value}: {result.failure.message}"


def scaling_view(results: Sequence[BenchResult]) -> RenderableType:
    """The same results over rank counts, for each size and contender."""
    rows = [
        (
            format_bytes(result.size_bytes) if result is of_size[0] else "",
            _named(result.contender, result.config, result.has_rule),
            _ranks(result.problem.key),
            _time(result),
            _rate(result.algbw_gb_per_s),
            _rate(result.busbw_gb_per_s),
            percent_text(result.utilisation),
            UNKNOWN if speed_up is None else f"{speed_up:.2f}",
        )
        for of_size in _by_size(results)
        for result, speed_up in zip(of_size, _speed_ups(of_size), strict=True)
    ]
    headings = (">size", "config", ">ranks", ">time us", ">algbw", ">busbw", ">link", ">speed-up")
    legend = "# speed-up: bytes of all ranks in a second, over those of the fewest ranks; linear is n over the fewest"
    return Group(Text(legend), grid(headings, rows))


def _ranks(key: RuleKey) -> str:
    """``4``; on several hosts ``2+2``."""
    return "+".join(map(str, key.placement))


def bench_document(results: Sequence[BenchResult]) -> list[dict[str, Any]]:
    """JSON, one object a result, in the order measured; ``speed_up`` is over the smallest rank count."""
    speed_ups = {
        id(result): speed_up
        for of_size in _by_size(results)
        for result, speed_up in zip(of_size, _speed_ups(of_size), strict=True)
    }
    return [
        {
            "contender": result.contender,
            **problem_fields(result.problem),
            "type": result.problem.timed_dtype.value,
            "count": result.count,
            "config": config_fields(result.config),
            "has_rule": result.has_rule,
            "state": "ok" if result.failure is None else result.failure.state.value,
            "message": "" if result.failure is None else result.failure.message,
            "n_rounds": None if result.time_us is None else result.time_us.n_values,
            **interval_fields(result.time_us),
            "algbw_gb_per_s": result.algbw_gb_per_s,
            "busbw_gb_per_s": result.busbw_gb_per_s,
            "link_gb_per_s": result.link_gb_per_s,
            "utilisation": result.utilisation,
            "n_wrong": result.n_wrong,
            "same_config_as_first": result.same_as_first,
            **comparison_fields("gain", result.gain),
            "speed_up": speed_ups[id(result)],
        }
        for result in results
    ]


def _by_size(results: Sequence[BenchResult]) -> Iterator[list[BenchResult]]:
    """The results of one size and contender, by ascending rank count."""
    blocks: dict[tuple[int, str], list[BenchResult]] = {}
    for result in results:
        blocks.setdefault((result.size_bytes, result.contender), []).append(result)
    for _, block in sorted(blocks.items(), key=lambda item: item[0][0]):
        yield sorted(block, key=lambda result: result.problem.key.n_ranks)


def _speed_ups(block: Sequence[BenchResult]) -> list[float | None]:
    """What all ranks together move in a second, over the same of the smallest rank count."""
    rates = [None if r.algbw_gb_per_s is None else r.problem.key.n_ranks * r.algbw_gb_per_s for r in block]
    return [None if rate is None or rates[0] is None else rate / rates[0] for rate in rates]


def _named(contender: str, config: Config, has_rule: bool | None) -> str:
    """``tuned direct/64KiB``; an algorithm needs no second name."""
    return str(config) if contender == str(config) else f"{contender}{NO_RULE if has_rule is False else ''} {config}"


def _op(result: BenchResult) -> str:
    op_class = result.problem.key.op_class
    return UNKNOWN if op_class is None else op_class.value


def _time(result: BenchResult) -> str:
    if result.failure is not None:
        return "failed"
    return UNKNOWN if result.time_us is None else format_us(result.time_us.median)


def _rate(gb_per_s: float | None) -> str:
    return UNKNOWN if gb_per_s is None else f"{gb_per_s:.2f}"


def _gain(result: BenchResult) -> str:
    if result.same_as_first:
        return "same config"
    return "" if result.gain is None else comparison_text(result.gain)
