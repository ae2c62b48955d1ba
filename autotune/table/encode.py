"""A table as JSON text: sorted, one rule a line, so that two versions diff well. Pure; docs/table.md has the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .fields import decision_fields, figure_fields, key_fields, row_fields
from .tuning_table import TuningTable


# Any: the tree of JSON, whose typing would name nothing that the schema does not.
def document(table: TuningTable) -> dict[str, Any]:
    """The table as plain dicts, lists and scalars, in the order in which the file shows them."""
    return {
        "schema_version": table.schema_version,
        "digest": table.digest,
        "fingerprint": table.fingerprint,
        "host_fingerprints": list(table.host_fingerprints),
        "created_at": table.created_at,
        "test": table.test,
        "environment": dict(table.environment),
        "rules": [
            {**key_fields(key), "sizes": [{**decision_fields(rule), **figure_fields(rule)} for rule in rules]}
            for key, rules in table.rules.items()
        ],
        "defaults": {"backend": table.defaults.backend, "rows": [row_fields(row) for row in table.defaults.rows]},
    }


def dump_table(table: TuningTable) -> str:
    """The text of the table's file. ``parse_table`` reads it back, exactly equal."""
    fields = document(table)
    environment, rules, defaults = fields.pop("environment"), fields.pop("rules"), fields.pop("defaults")
    members = [[f"{_line(name)}: {_line(value)}"] for name, value in fields.items()]
    members.append(
        _named("environment", _block("{", ([f"{_line(k)}: {_line(v)}"] for k, v in environment.items()), "}"))
    )
    members.append(_named("rules", _block("[", (_with_rows(key, "sizes") for key in rules), "]")))
    members.append(_named("defaults", _with_rows(defaults, "rows")))
    return "\n".join(_block("{", members, "}")) + "\n"


def _with_rows(fields: Mapping[str, Any], name: str) -> list[str]:
    """An object on one line, up to its list of rows, each of which has a line."""
    head = {field: value for field, value in fields.items() if field != name}
    return _block(f"{_line(head)[:-1]}, {_line(name)}: [", ([_line(row)] for row in fields[name]), "]}")


def _block(opening: str, members: Iterable[list[str]], closing: str) -> list[str]:
    """The lines of members between brackets: indented, each but the last followed by a comma."""
    lines: list[str] = []
    for member in members:
        if lines:
            lines[-1] += ","
        lines += [f"  {line}" for line in member]
    return [opening, *lines, closing] if lines else [opening + closing]


def _named(name: str, lines: list[str]) -> list[str]:
    return [f"{_line(name)}: {lines[0]}", *lines[1:]]


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
