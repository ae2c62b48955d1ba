"""An explanation as text and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..kernels.error_bound import ErrorBound
from ..table import Rule
from ..table.fields import decision_fields, figure_fields
from ..types import Fidelity, TrialState
from ..units import format_bytes, format_us
from .explanation import Candidate, Explanation
from .figures import (
    UNKNOWN,
    comparison_fields,
    config_fields,
    gain_text,
    interval_fields,
    problem_fields,
    problem_text,
    range_text,
    sizes_text,
    times_text,
)
from .grid import grid, listing

_LEGEND = (
    "us: median of the confirm rounds, or of the race; slower: time over the chosen config's in rounds that both ran; "
    "samples: race + confirm + steady (on unchanged buffers)"
)


def explanation_view(explanation: Explanation) -> RenderableType:
    """As text."""
    rule = explanation.rule
    facts = [
        ("call", problem_text(explanation.problem)),
        ("config", str(explanation.config)),
        ("because", explanation.reason),
    ]
    if rule is not None:
        measured = explanation.measured_bytes
        at = "" if measured is None else f", measured at {format_bytes(measured)}"
        ring = "" if rule.ring_gain is None else f", {gain_text(rule.ring_gain)} over ring/64KiB"
        chosen = next((c for c in explanation.candidates if "chosen" in c.roles and c.steady_us is not None), None)
        steady = "" if chosen is None or chosen.steady_us is None else f", steady {format_us(chosen.steady_us)} us"
        time = f"{format_us(rule.median_us)} us {times_text(rule.low_us, rule.high_us)}"
        facts.append(("rule", f"sizes {sizes_text(rule)}{at}: {time} in {rule.n_rounds} rounds{ring}{steady}"))
    if explanation.last_hosts is not None:
        facts.append(
            ("order", f"{explanation.last_hosts}: last in every schedule, the end of a chain, a leaf of a tree")
        )
    if explanation.error_bound is not None:
        facts.append(("error", _error_text(explanation.error_bound, explanation.fidelity)))
    if explanation.why_default:
        facts.append(("default", explanation.why_default))
    parts: list[RenderableType] = [listing(facts)]
    if explanation.candidates:
        parts += [Text(), _table(explanation.candidates), Text(), Text(_LEGEND, style="dim")]
    if rule is not None:
        found = explanation.note if explanation.candidates else f"no trials: {explanation.note}; name theirs with --db"
        parts.append(Text(found, style="dim"))
    return Group(*parts)


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """As JSON."""
    rule = explanation.rule
    return {
        **problem_fields(explanation.problem),
        "config": config_fields(explanation.config),
        "tuned": rule is not None,
        "reason": explanation.reason,
        "why_default": explanation.why_default or None,
        "last_hosts": explanation.last_hosts,
        "error": _error_fields(explanation),
        "rule": None if rule is None else _rule_fields(rule),
        "measured_message_bytes": explanation.measured_bytes,
        "trials_note": explanation.note or None,
        "candidates": [_candidate_fields(candidate) for candidate in explanation.candidates],
    }


def _table(candidates: Sequence[Candidate]) -> RenderableType:
    headings = (">trial", "config", ">us", "95 %", ">slower", "95 %", "samples", "role")
    return grid(headings, _rows(candidates), folds={"role": 8})


def _rows(candidates: Sequence[Candidate]) -> Iterator[tuple[str, ...]]:
    for candidate in candidates:
        trial, time_us, slower = candidate.trial, candidate.time_us, candidate.slower
        failed = "" if trial.state is TrialState.OK else f"{trial.state.value}: {trial.message}"
        yield (
            str(trial.trial_id),
            str(trial.config),
            UNKNOWN if time_us is None else format_us(time_us.median),
            "" if time_us is None else times_text(time_us.low, time_us.high),
            "" if slower is None else gain_text(slower.median),
            "" if slower is None else range_text(slower.low, slower.high),
            f"{candidate.n_race}+{candidate.n_confirm}+{candidate.n_steady}",
            failed or ", ".join(candidate.roles),
        )


def _error_text(bound: ErrorBound, fidelity: Fidelity | None) -> str:
    text = f"at most {bound.relative:.3g} of the sum of the norms of all contributions, in {bound.encodings} encodings"
    if fidelity is None:
        return text
    return f"{text}; on the data {fidelity.error:.3g} of the result's norm, at a density of {fidelity.density:.3g}"


def _error_fields(explanation: Explanation) -> dict[str, Any] | None:
    bound, fidelity = explanation.error_bound, explanation.fidelity
    if bound is None:
        return None
    return {
        "bound": bound.relative,
        "encodings": bound.encodings,
        "measured": fidelity and fidelity.error,
        "density": fidelity and fidelity.density,
    }


def _rule_fields(rule: Rule) -> dict[str, object]:
    decided = decision_fields(rule)
    del decided["config"]  # stands above, as the explanation's
    return decided | figure_fields(rule)


def _candidate_fields(candidate: Candidate) -> dict[str, Any]:
    trial = candidate.trial
    return {
        "trial_id": trial.trial_id,
        "session_id": trial.session_id,
        "config": config_fields(trial.config),
        "roles": list(candidate.roles),
        "state": trial.state.value,
        "message": trial.message,
        "n_race_samples": candidate.n_race,
        "n_confirm_samples": candidate.n_confirm,
        "n_steady_samples": candidate.n_steady,
        **interval_fields(candidate.time_us),
        **comparison_fields("slower", candidate.slower),
        "steady_median_us": candidate.steady_us,
    }
