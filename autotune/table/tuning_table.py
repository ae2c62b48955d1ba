"""The shipped artefact as a value: every decision of a tuning run, with its evidence. Pure; files: load.py, save.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from ..types import RuleKey
from .canonical import digest_of
from .defaults import DefaultRules
from .rule import Rule, check_adjoining, check_text

SCHEMA_VERSION = 1
_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z")
_UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTable:
    """Which config is best for every key and size that was measured, and the default for all others.

    Args:
        fingerprint: of the machine that was measured, 16 hex digits; None for a table of no machine.
        host_fingerprints: of the hosts of a cluster, so that each of them finds the table; kept sorted, each once.
        environment: versions and settings at the time of measuring, for judging staleness.
        created_at: UTC, as ``2026-01-31T12:00:00Z``.
        test: in words, the significance test that a config must pass to replace the default.
        rules: ascending, adjoining size ranges for every key; copied, and read-only afterwards.

    Raises:
        ValueError: an invariant does not hold.
    """

    fingerprint: str | None
    environment: Mapping[str, str]
    created_at: str
    test: str
    rules: Mapping[RuleKey, tuple[Rule, ...]]
    defaults: DefaultRules
    host_fingerprints: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ValueError(f"schema version {self.schema_version}; this autotune knows {SCHEMA_VERSION}")
        for fingerprint in (self.fingerprint, *self.host_fingerprints):
            if fingerprint is not None and not is_fingerprint(fingerprint):
                raise ValueError(f"fingerprint {fingerprint!r} is not 16 hexadecimal digits")
        _check_utc(self.created_at)
        for text in (self.test, self.defaults.backend, *self.environment, *self.environment.values()):
            check_text(text)
        for key, rules in self.rules.items():
            self._check_rules(key, rules)
        object.__setattr__(self, "host_fingerprints", tuple(sorted(set(self.host_fingerprints))))
        object.__setattr__(self, "environment", MappingProxyType(dict(sorted(self.environment.items()))))
        ordered = sorted(self.rules.items(), key=lambda item: _order(item[0]))
        object.__setattr__(self, "rules", MappingProxyType(dict(ordered)))

    def _check_rules(self, key: RuleKey, rules: tuple[Rule, ...]) -> None:
        if key.backend != self.defaults.backend:
            raise ValueError(f"{key}: the table's defaults are for the backend {self.defaults.backend!r}")
        try:
            check_adjoining(rules)
        except ValueError as err:
            raise ValueError(f"{key}: {err}") from err
        lossy = next((rule.config for rule in rules if rule.config.codec != "none"), None)
        if key.max_error is None and lossy is not None:
            raise ValueError(f"{key}: the lossy config {lossy} needs a key with an error budget")

    @property
    def digest(self) -> str:
        """sha256 of the decisions in their canonical form, 64 hex digits; equal on ranks that choose alike."""
        return digest_of(self.schema_version, self.rules, self.defaults)

    def serves(self, fingerprint: str) -> bool:
        """Whether the table was measured on that machine, or on a cluster that the host belongs to."""
        return fingerprint == self.fingerprint or fingerprint in self.host_fingerprints


def is_fingerprint(text: str) -> bool:
    """Whether the text has the form of a topology's fingerprint."""
    return _FINGERPRINT.match(text) is not None


def _check_utc(text: str) -> None:
    if not _UTC.match(text):
        raise ValueError(f"created_at {text!r} is not a time in UTC as 2026-01-31T12:00:00Z")
    datetime.fromisoformat(text)


def _order(key: RuleKey) -> tuple[object, ...]:
    return (
        key.backend,
        key.collective.value,
        key.dtype.value if key.dtype else "",
        key.op_class.value if key.op_class else "",
        key.n_ranks,
        key.placement,
        key.memory.value,
        key.max_error or 0.0,
    )
