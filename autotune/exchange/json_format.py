"""The table itself, as ``load_table`` reads it."""

from __future__ import annotations

from dataclasses import dataclass

from ..table import TuningTable, dump_table


@dataclass(frozen=True, slots=True)
class JsonExporter:
    """JSON of docs/table.md."""

    name: str = "json"
    suffix: str = ".json"
    loses: tuple[str, ...] = ()

    def render(self, table: TuningTable) -> str:
        return dump_table(table)
