"""The digest: sha256 over what a table decides, in a written form (docs/table.md, "Digest"). Pure.

Figures, trial ids, environment, fingerprints and times are left out: two tables that choose alike have one digest.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping

from ..types import RuleKey
from .defaults import DefaultRules
from .fields import decision_fields, key_fields, row_fields
from .rule import Rule


def canonical_text(schema_version: int, rules: Mapping[RuleKey, tuple[Rule, ...]], defaults: DefaultRules) -> str:
    """ASCII JSON without spaces, names sorted; keys and default rows sorted by their own canonical text."""
    decisions = {
        "schema_version": schema_version,
        "rules": sorted((_key(key, key_rules) for key, key_rules in rules.items()), key=_text),
        "defaults": {"backend": defaults.backend, "rows": sorted(map(row_fields, defaults.rows), key=_text)},
    }
    return _text(decisions)


def digest_of(schema_version: int, rules: Mapping[RuleKey, tuple[Rule, ...]], defaults: DefaultRules) -> str:
    """sha256 of the canonical text: 64 hex digits."""
    return hashlib.sha256(canonical_text(schema_version, rules, defaults).encode("ascii")).hexdigest()


def _key(key: RuleKey, rules: tuple[Rule, ...]) -> dict[str, object]:
    fields = key_fields(key)
    if key.max_error is not None:
        # The only number that is not whole: its bits, since languages print decimal fractions differently.
        fields["max_error"] = struct.pack(">d", key.max_error).hex()
    return {**fields, "sizes": [decision_fields(rule) for rule in rules]}


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
