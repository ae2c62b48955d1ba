"""What a table is worth to a job: the time of its collectives in one step, with the default and as tuned.

In:  calls per step, verdicts. Out: words and JSON. Nothing here measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..distil import Verdict
    from ..types import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTotal:
    """The sum over the calls of a step that were decided.

    Args:
        calls: of them.
        missing: calls whose cells were not decided.
        default_us: with the default everywhere; where the tuned config is not the default, from the paired gain.
    """

    calls: float
    missing: float
    default_us: float
    tuned_us: float


def step_total(calls: Mapping[Problem, float], verdicts: Mapping[Problem, Verdict]) -> StepTotal | None:
    """Add up; None where nothing is known of the job, or nothing was decided."""
    decided = {problem: verdicts[problem] for problem in calls if problem in verdicts}
    if not decided:
        return None
    tuned = {problem: calls[problem] * verdict.time_us.median for problem, verdict in decided.items()}
    gains = {p: 1.0 if v.is_default or v.gain is None else v.gain.median for p, v in decided.items()}
    return StepTotal(
        calls=sum(calls[problem] for problem in decided),
        missing=sum(count for problem, count in calls.items() if problem not in decided),
        default_us=sum(tuned[problem] * gains[problem] for problem in decided),
        tuned_us=sum(tuned.values()),
    )


def step_view(total: StepTotal | None) -> list[RenderableType]:
    """A line for people; none where there is nothing to say."""
    from ..report.grid import listing

    if total is None:
        return []
    words = (
        f"{total.calls:g} calls take {total.tuned_us / 1e3:.3g} ms, with the default {total.default_us / 1e3:.3g} ms "
        f"({total.default_us / total.tuned_us:.2f}x)"
    )
    if total.missing:
        words += f"; {total.missing:g} more were not decided"
    return [listing([("a step", words)])]


def step_document(total: StepTotal | None) -> dict[str, float] | None:
    """As JSON; null where there is nothing to say."""
    if total is None:
        return None
    return {
        "calls": total.calls,
        "calls_not_decided": total.missing,
        "default_us": total.default_us,
        "tuned_us": total.tuned_us,
    }
