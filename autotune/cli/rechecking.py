"""``autotune run --confirm``: which rules of a table still hold. Exit code 1 if one of them does not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from ..errors import UsageError
from .options import table_source
from .output import say, show, show_json
from .progress import RunProgress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..settings import Settings
    from ..tune.recheck import Recheck

DEFAULT_BUDGET_S = 180.0


def confirm_rules(
    settings: Settings,
    table: str | None,
    backend: str,
    device: str,
    *,
    budget: str | None,
    workload: str | None,
    command: str,
    as_json: bool,
) -> None:
    """Measure the table's rules again and report."""
    from ..plan import default_plan, load_workload
    from ..run import confirm_table
    from ..tune.recheck import Drift
    from ..units import parse_duration

    source = table_source(table, settings, backend)
    if not source.table.rules:
        raise UsageError("there is no tuned table here to confirm", remedy="make one: autotune run --quick")
    plan = None if workload is None else default_plan(1).override(workload=load_workload(workload))
    with RunProgress() as progress:
        try:
            found = confirm_table(
                source.table,
                settings,
                command=command,
                backend=backend,
                device=device,
                budget_s=DEFAULT_BUDGET_S if budget is None else parse_duration(budget),
                calls=lambda name: None if plan is None else plan.weights(name),
                said=progress.said,
                progress=progress.measuring,
            )
        except KeyboardInterrupt:
            say("interrupted; the same command goes on from there")
            raise typer.Exit(130) from None
    if as_json:
        show_json({"table": source.origin, "rules": [_document(one) for one in found]})
    else:
        show(_view(found, source.origin))
    if any(one.drift in (Drift.LOST, Drift.FAILED) for one in found):
        raise typer.Exit(1)


def _view(found: list[Recheck], origin: str) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from ..report.figures import UNKNOWN, comparison_text, gain_text, problem_text, range_text
    from ..report.grid import grid

    rows = []
    for one in found:
        rule = one.claim.rule
        old = "= default" if rule.is_default else f"{gain_text(rule.gain)} {range_text(rule.gain_low, rule.gain_high)}"
        new = UNKNOWN if one.gain is None else comparison_text(one.gain)
        if rule.is_default and one.gain is not None:
            new = f"{one.claim.opponent} {new}"
        words = f"{one.drift.value}: {one.message}" if one.message else one.drift.value
        rows.append((problem_text(one.claim.problem), str(rule.config), old, new, words))
    counts = Counter(one.drift.value for one in found)
    total = ", ".join(f"{count} {word}" for word, count in counts.items())
    return Group(grid(("call", "config", "old gain", "new gain", "verdict"), rows), Text(f"{origin}: {total}"))


def _document(one: Recheck) -> dict[str, Any]:
    from ..report.figures import comparison_fields, config_fields, problem_fields

    rule, opponent = one.claim.rule, one.claim.opponent
    return {
        **problem_fields(one.claim.problem),
        "config": config_fields(rule.config),
        "is_default": rule.is_default,
        "opponent": None if opponent is None else config_fields(opponent),
        "old_gain": rule.gain,
        "old_gain_low": rule.gain_low,
        "old_gain_high": rule.gain_high,
        **comparison_fields("new_gain", one.gain),
        "n_rounds": 0 if one.gain is None else one.gain.n_rounds,
        "verdict": one.drift.value,
        "message": one.message,
    }
