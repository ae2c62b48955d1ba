"""The rules as CSV (RFC 4180), one a line: for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

from ..table import Rule, TuningTable
from ..types import RuleKey
from .exporter import PLAIN, Exported, Request

COLUMNS = (
    "backend",
    "collective",
    "dtype",
    "op_class",
    "n_ranks",
    "placement",
    "memory",
    "max_error",
    "from_bytes",
    "to_bytes",
    "algorithm",
    "segment_bytes",
    "codec",
    "knobs",
    "evidence",
    "is_default",
    "n_rounds",
    "median_us",
    "low_us",
    "high_us",
    "gain",
    "gain_low",
    "gain_high",
    "ring_gain",
    "trial_ids",
)


@dataclass(frozen=True, slots=True)
class CsvExporter:
    """Columns are the fields of docs/table.md. Empty is null; knobs are a JSON object; lists have a + between."""

    name: str = "csv"
    suffix: str = ".csv"
    summary: str = "spreadsheets and data frames: one rule a line"
    library: None = None
    loses: tuple[str, ...] = (
        "the defaults, which hold where there is no rule",
        "fingerprint, environment, time, test and digest",
    )
    checked: str = "read back by Python's csv in every test run"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_row(key, rule) for key, rules in table.rules.items() for rule in rules)
        return Exported(text=out.getvalue())


def _row(key: RuleKey, rule: Rule) -> list[object]:
    config = rule.config
    return [
        key.backend,
        key.collective.value,
        key.dtype.value if key.dtype else None,
        key.op_class.value if key.op_class else None,
        key.n_ranks,
        "+".join(map(str, key.placement)),
        key.memory.value,
        key.max_error,
        rule.from_bytes,
        rule.to_bytes,
        config.algorithm,
        config.segment_bytes,
        config.codec,
        json.dumps(dict(config.knobs), ensure_ascii=False),
        rule.evidence.value,
        str(rule.is_default).lower(),
        rule.n_rounds,
        rule.median_us,
        rule.low_us,
        rule.high_us,
        rule.gain,
        rule.gain_low,
        rule.gain_high,
        rule.ring_gain,
        "+".join(map(str, rule.trial_ids)),
    ]
