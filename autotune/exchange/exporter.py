"""What every export format provides, and the list of formats."""

from __future__ import annotations

from typing import Protocol

from ..table import TuningTable
from .json_format import JsonExporter
from .yaml_format import YamlExporter


class Exporter(Protocol):
    """A format that a table can be written in."""

    @property
    def name(self) -> str:
        """As given to ``autotune export --format``."""

    @property
    def suffix(self) -> str:
        """Of the file, with its dot."""

    @property
    def loses(self) -> tuple[str, ...]:
        """What the format cannot express, one phrase each; empty where it holds the whole table."""

    def render(self, table: TuningTable) -> str:
        """The text of the whole file."""


EXPORTERS: dict[str, Exporter] = {exporter.name: exporter for exporter in (JsonExporter(), YamlExporter())}
