"""A table's rules in a library's own terms: what is left once everything that the library cannot see is gone. Pure.

In:  a table, the evidence that counts, a library, what the format can tell calls apart by.
Out: `Line` values: one range of sizes with one of the library's algorithms; and a note for everything left out.
May not touch: how a format writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..table import Rule, TuningTable
from ..types import Config, DType, Memory, OpClass, RuleKey
from ..units import format_bytes
from .exporter import Request
from .sizes import inclusive
from .words import LIBRARY_CHOICE, Call, Library, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a library is to do for a range of sizes.

    Args:
        key: whose rules these are.
        low: first size, as the library counts it.
        high: last size, inclusive.
        word: the library's algorithm; its facts are ``call.algorithms[word]``.
    """

    key: RuleKey
    call: Call
    low: int
    high: int
    word: str
    config: Config

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.call.algorithms[self.word]

    @property
    def knobs(self) -> dict[str, int | str]:
        return dict(self.config.knobs)


Check = Callable[[Line], str | None]
"""Why a line is not legal; None where it is."""


def lines_of(
    table: TuningTable, request: Request, library: Library, *, sees: Callable[[RuleKey], object], check: Check
) -> tuple[list[Line], tuple[str, ...]]:
    """The lines of every key that the library can tell apart, and notes.

    Of several keys that look the same to it, one gives the lines: lossless, private memory, float32 and sum before
    others.

    Args:
        sees: what the library knows of a key, besides its collective and rank count.
        check: what the format's own rules forbid; such a line is left out with the reason.
    """
    chosen, notes = visible_rules(table, request, sees)
    lines: list[Line] = []
    for key, rules in chosen.items():
        if key.collective not in library.calls:
            notes.append(f"{key} is left out: {library.refused[key.collective]}")
            continue
        for call in library.calls[key.collective]:
            found, refused = _translated(key, call, rules, library, check)
            lines += found
            notes += [f"{key}, {sizes}: left out: {why}" for why, sizes in refused.items()]
    return lines, tuple(notes)


def visible_rules(
    table: TuningTable, request: Request, sees: Callable[[RuleKey], object]
) -> tuple[dict[RuleKey, tuple[Rule, ...]], list[str]]:
    """The rules that count, one key for each that a library can tell apart; and what was left out for it."""
    notes: list[str] = []
    taken: dict[object, RuleKey] = {}
    chosen: dict[RuleKey, tuple[Rule, ...]] = {}
    for key in sorted(table.rules, key=_preference):
        rules = tuple(rule for rule in table.rules[key] if rule.evidence in request.evidence)
        other = sorted({rule.evidence.value for rule in table.rules[key]} - {e.value for e in request.evidence})
        if other:
            options = " ".join(f"--evidence {word}" for word in other)
            notes.append(f"{key}: rules on {' and '.join(other)} evidence are left out; {options} takes them")
        if not rules:
            continue
        if key.max_error is not None or key.memory is not Memory.PRIVATE:
            what = "lossy rules" if key.max_error is not None else "rules for symmetric memory"
            notes.append(f"{key} is left out: the library has no {what}")
            continue
        seen = (key.collective, key.n_ranks, sees(key))
        if seen not in taken:
            taken[seen], chosen[key] = key, rules
        elif _decisions(rules) != _decisions(chosen[taken[seen]]):
            notes.append(
                f"{key} is left out, though it decides otherwise: the library cannot tell it from {taken[seen]}"
            )
    ordered = {key: chosen[key] for key in table.rules if key in chosen}
    return ordered, notes


def merged(lines: Iterable[Line], written: Callable[[Line], object] = lambda line: None) -> list[Line]:
    """Adjoining lines that say the same as one.

    Args:
        written: what a format writes of a line besides its sizes and its word.
    """
    found: list[Line] = []
    for line in lines:
        last = found[-1] if found else None
        if last is not None and last.high + 1 == line.low and _said(last, written) == _said(line, written):
            found[-1] = replace(last, high=line.high)
        else:
            found.append(line)
    return found


def _said(line: Line, written: Callable[[Line], object]) -> tuple[object, ...]:
    return (line.key, line.call.name, line.word, written(line))


def _translated(
    key: RuleKey, call: Call, rules: Sequence[Rule], library: Library, check: Check
) -> tuple[list[Line], dict[str, str]]:
    lines: list[Line] = []
    refused: dict[str, list[Rule]] = {}
    for rule in rules:
        span = inclusive(call.counted, rule.from_bytes, rule.to_bytes, key.n_ranks)
        if span is None or rule.config.algorithm == LIBRARY_CHOICE:
            continue
        try:
            word = library.word(call, rule.config, key.backend)
        except Refused as why:
            refused.setdefault(str(why), []).append(rule)
            continue
        line = Line(key=key, call=call, low=span[0], high=span[1], word=word, config=rule.config)
        objection = check(line)
        if objection is not None:
            refused.setdefault(objection, []).append(rule)
        else:
            lines.append(line)
    return lines, {why: _sizes(found) for why, found in refused.items()}


def _sizes(rules: Sequence[Rule]) -> str:
    """As ``8B to 1023B, 64KiB to 1MiB``."""
    spans: list[tuple[int, int]] = []
    for rule in rules:
        if spans and spans[-1][1] == rule.from_bytes:
            spans[-1] = (spans[-1][0], rule.to_bytes)
        else:
            spans.append((rule.from_bytes, rule.to_bytes))
    return ", ".join(f"{format_bytes(low)} to {format_bytes(after - 1)}" for low, after in spans)


def _decisions(rules: Sequence[Rule]) -> list[tuple[int, int, Config]]:
    return [(rule.from_bytes, rule.to_bytes, rule.config) for rule in rules]


def _preference(key: RuleKey) -> tuple[object, ...]:
    return (
        key.max_error is not None,
        key.memory is not Memory.PRIVATE,
        key.dtype not in (None, DType.FLOAT32),
        key.op_class not in (None, OpClass.SUM),
        len(key.placement),
        str(key),
    )
