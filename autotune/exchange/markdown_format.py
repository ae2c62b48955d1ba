"""The rules as Markdown tables, one for each kind of call: for reports, issues and merge requests."""

from __future__ import annotations

from dataclasses import dataclass

from ..table import Rule, TuningTable
from ..units import format_bytes, format_us
from .exporter import PLAIN, Exported, Request

_HEAD = "| sizes | config | us | 95 % | gain over the default | evidence | rounds |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class MarkdownExporter:
    """For people."""

    name: str = "markdown"
    suffix: str = ".md"
    summary: str = "people: a table for each kind of call"
    library: None = None
    loses: tuple[str, ...] = (
        "figures beyond four digits",
        "the defaults, which hold where there is no rule",
        "the trials that prove a rule",
    )
    checked: str = "for people; compared with a golden file in every test run"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        facts = [f"# Tuning table of {table.fingerprint or 'no machine'}", f"{table.created_at}. Test: {table.test}."]
        facts += [f"- {_plain(name)}: {_plain(value)}" for name, value in table.environment.items()]
        blocks = ["\n".join(facts)]
        for key, rules in table.rules.items():
            blocks.append("\n".join([f"## {_plain(str(key))}\n", _HEAD, *map(_row, rules)]))
        return Exported(text="\n\n".join(blocks) + "\n")


def _row(rule: Rule) -> str:
    gain = "default kept" if rule.is_default else ""
    if rule.gain is not None:
        gain = f"{rule.gain:.2f} [{rule.gain_low:.2f}, {rule.gain_high:.2f}]"
    cells = (
        f"{format_bytes(rule.from_bytes)} to {format_bytes(rule.to_bytes - 1)}",
        _plain(str(rule.config)),
        format_us(rule.median_us),
        f"{format_us(rule.low_us)} to {format_us(rule.high_us)}",
        gain,
        rule.evidence.value,
        str(rule.n_rounds),
    )
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text of a file, so that Markdown takes it as it is."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in text)
