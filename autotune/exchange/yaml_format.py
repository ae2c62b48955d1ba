"""The table as YAML, for people and for tools that read YAML: the names and values of docs/table.md. Needs yaml."""

from __future__ import annotations

from dataclasses import dataclass

from ..table import TuningTable, document
from .exporter import PLAIN, Exported, Request


@dataclass(frozen=True, slots=True)
class YamlExporter:
    """YAML 1.1 that every safe loader reads; names sorted."""

    name: str = "yaml"
    suffix: str = ".yaml"
    summary: str = "people, and tools that read YAML; names and values as in the JSON"
    library: None = None
    loses: tuple[str, ...] = ()
    checked: str = "read back equal by every test run (PyYAML)"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        import yaml  # 16 ms that only this format needs

        class Dumper(yaml.SafeDumper):
            def ignore_aliases(self, data: object) -> bool:
                return True  # equal values are written out, not as &id001 and *id001

        def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
            # A fingerprint such as 12e4567890123456 is a number to loaders of YAML 1.2.
            style = "'" if value[:1].isdigit() else None
            return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

        Dumper.add_representer(str, text)
        return Exported(text=yaml.dump(document(table), Dumper=Dumper, sort_keys=True, allow_unicode=True, width=120))
