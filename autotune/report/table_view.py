"""A tuning table for people: what is known of it, then its rules, one block a key. Pure."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ..table import DefaultRules, Rule, TuningTable
from ..units import format_bytes, format_us
from .figures import gain_text, range_text, sizes_text, times_text
from .grid import grid, listing
from .heat_map import KEPT


def table_view(table: TuningTable, origin: str) -> RenderableType:
    """The table; without rules, its defaults instead.

    Args:
        origin: where the table comes from, in words.
    """
    facts = [
        ("table", origin),
        ("measured", f"{table.created_at} on {table.fingerprint}" if table.fingerprint else "never: shipped rules"),
        ("test", table.test),
        ("environment", ", ".join(f"{name} {value}" for name, value in table.environment.items())),
        ("digest", table.digest),
    ]
    parts: list[RenderableType] = [
        listing([(name, value) for name, value in facts if value]),
    ]
    for key, rules in table.rules.items():
        parts += [Text(), Text(str(key), style="bold"), _rules(rules)]
    if not table.rules:
        parts += [Text(), Text(f"default rules ({table.defaults.backend})", style="bold"), _defaults(table.defaults)]
    return Group(*parts)


def _rules(rules: tuple[Rule, ...]) -> RenderableType:
    rows = [
        (
            sizes_text(rule),
            str(rule.config),
            format_us(rule.median_us),
            times_text(rule.low_us, rule.high_us),
            KEPT if rule.is_default else gain_text(rule.gain),
            range_text(rule.gain_low, rule.gain_high),
            gain_text(rule.ring_gain),
        )
        for rule in rules
    ]
    return grid(("sizes", "config", ">us", "95 %", ">gain", "95 %", ">ring"), rows)


def _defaults(defaults: DefaultRules) -> RenderableType:
    rows = []
    for row in defaults.rows:
        ranks = f"{row.ranks_from} and more" if row.ranks_to is None else f"{row.ranks_from} to {row.ranks_to - 1}"
        sizes = f"from {format_bytes(row.from_bytes)}"
        rows.append((row.collective.value, row.memory.value, row.spread.value, ranks, sizes, str(row.config)))
    return grid(("collective", "memory", "hosts", "ranks", "sizes", "config"), rows)
