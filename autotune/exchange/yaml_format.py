"""The table as YAML, for people and for tools that read YAML: the names and values of docs/table.md. Needs yaml."""

from __future__ import annotations

from dataclasses import dataclass

from ..table import TuningTable, document


@dataclass(frozen=True, slots=True)
class YamlExporter:
    """YAML 1.1 that every safe loader reads; names sorted."""

    name: str = "yaml"
    suffix: str = ".yaml"
    loses: tuple[str, ...] = ()

    def render(self, table: TuningTable) -> str:
        import yaml  # 16 ms that only this format needs

        class Dumper(yaml.SafeDumper):
            def ignore_aliases(self, data: object) -> bool:
                return True  # equal values are written out, not as &id001 and *id001

        def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
            # A fingerprint such as 12e4567890123456 is a number to loaders of YAML 1.2.
            style = "'" if value[:1].isdigit() else None
            return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

        Dumper.add_representer(str, text)
        return yaml.dump(document(table), Dumper=Dumper, sort_keys=True, allow_unicode=True, width=120)
