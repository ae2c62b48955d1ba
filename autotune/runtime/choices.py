"""All answers for one kind of call: the sizes at which the choice changes, and a Selection for each stretch. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ..errors import UsageError
from ..table import DefaultRow, Rule
from ..types import Config, Evidence, RuleKey
from ..units import format_bytes
from .selection import Selection
from .source import Source

# edges[i] is the first size of selections[i + 1]; selections[0] holds from 0 bytes.
Choices = tuple[tuple[int, ...], tuple[Selection, ...]]

_TRIALS_SHOWN = 4


def choices(source: Source, key: RuleKey, evidence: frozenset[Evidence]) -> Choices:
    """The answers of a table for a call's key, for every size.

    Of the rules that cover a size, the one with the largest error budget within the call's counts; lossless rules
    come last, and then the default. Rules on other evidence than the admitted are passed over.

    Raises:
        UsageError: a backend that the table knows nothing of.
    """
    defaults = source.table.defaults
    if key.backend != defaults.backend:
        raise UsageError(
            f"backend {key.backend!r} has no rules in {source.origin}",
            remedy=f"use backend={defaults.backend!r}, or a table of {key.backend!r}",
        )
    rows = defaults.by_size(key)
    layers = _layers(source, key)
    edges = {row.from_bytes for row in rows}
    for rules in layers:
        edges.update(rule.from_bytes for rule in rules)
        edges.add(rules[-1].to_bytes)
    starts = sorted(edges)  # the first is 0, where the defaults begin
    return tuple(starts[1:]), tuple(_at(start, source, key, evidence, rows, layers) for start in starts)


def _layers(source: Source, key: RuleKey) -> list[tuple[Rule, ...]]:
    """The rules of all keys that a call may use, best first."""
    lossless = replace(key, max_error=None)
    fitting = [
        (found.max_error or 0.0, rules)
        for found, rules in source.table.rules.items()
        if replace(found, max_error=None) == lossless and (found.max_error or 0.0) <= (key.max_error or 0.0)
    ]
    return [rules for _, rules in sorted(fitting, key=lambda pair: -pair[0])]


def _at(
    size: int,
    source: Source,
    key: RuleKey,
    evidence: frozenset[Evidence],
    rows: tuple[DefaultRow, ...],
    layers: list[tuple[Rule, ...]],
) -> Selection:
    covering = [rule for rules in layers for rule in rules if rule.from_bytes <= size < rule.to_bytes]
    remark = "" if source.remark is None else f"; {source.remark}"
    for rule in covering:
        if rule.evidence in evidence:
            reason = _why(rule, rows) + _where(rule.config) + remark
            return Selection(config=rule.config, tuned=True, reason=reason, evidence=rule.evidence)
    config = [row for row in rows if row.from_bytes <= size][-1].config
    if source.why_shipped is not None:
        why = source.why_shipped
    elif not layers:
        why = f"no rule for {key} in {source.origin}: run `autotune run`"
    elif covering:
        kinds = sorted(kind.value for kind in (*evidence, covering[0].evidence))
        why = f"the rule for this size is only {covering[0].evidence.value}; it counts with evidence={tuple(kinds)}"
    else:
        why = f"outside the sizes of the rules for {key}, {_extent(layers)}"
    reason = f"default {config}: {why}{_where(config)}{remark}"
    return Selection(config=config, tuned=False, reason=reason, evidence=None)


def _where(config: Config) -> str:
    """That another algorithm runs for ranks that share cores, where one does."""
    if config.tuned_algorithm == config.algorithm:
        return ""
    return f"; {config.tuned_algorithm} where ranks are bound to cores that they share, {config.algorithm} elsewhere"


def _why(rule: Rule, rows: tuple[DefaultRow, ...]) -> str:
    text = f"{rule.evidence.value}: "
    if rule.is_default:
        text += f"the default {rule.config} stays, as nothing was significantly better"
    elif rule.gain is None:
        text += f"{rule.config}"
    else:
        default = _only_default(rule, rows)
        text += f"{rule.config} is {rule.gain:.2f}x [{rule.gain_low:.2f}, {rule.gain_high:.2f}] over the default"
        text += f" {default}" if default is not None else ""
    text += f", {rule.n_rounds} rounds"
    if rule.trial_ids:
        more = len(rule.trial_ids) - _TRIALS_SHOWN
        text += (
            ", trials "
            + ", ".join(map(str, rule.trial_ids[:_TRIALS_SHOWN]))
            + (f" and {more} more" if more > 0 else "")
        )
    return text


def _only_default(rule: Rule, rows: tuple[DefaultRow, ...]) -> Config | None:
    """The default that the gain is over; None where it changes within the rule's sizes."""
    ends = [*(later.from_bytes for _, later in pairwise(rows)), rule.to_bytes]
    found = [
        row.config
        for row, end in zip(rows, ends, strict=True)
        if row.from_bytes < rule.to_bytes and rule.from_bytes < end
    ]
    return found[0] if len(set(found)) == 1 else None


def _extent(layers: list[tuple[Rule, ...]]) -> str:
    first = min(rules[0].from_bytes for rules in layers)
    last = max(rules[-1].to_bytes for rules in layers) - 1
    return f"{format_bytes(first)} to {format_bytes(last)}"
