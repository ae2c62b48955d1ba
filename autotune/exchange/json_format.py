"""The table itself, as ``load_table`` reads it."""

from __future__ import annotations

from dataclasses import dataclass

from ..table import TuningTable, dump_table
from .exporter import PLAIN, Exported, Request


@dataclass(frozen=True, slots=True)
class JsonExporter:
    """JSON of docs/table.md."""

    name: str = "json"
    suffix: str = ".json"
    summary: str = "autotune itself: the table as `select` and `AUTOTUNE_TABLE` take it"
    library: None = None
    loses: tuple[str, ...] = ()
    checked: str = "read back equal by every test run"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        return Exported(text=dump_table(table), usage=("export AUTOTUNE_TABLE={path}",))
