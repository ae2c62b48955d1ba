"""JSON text to a table, strictly: nothing is guessed, skipped or half-loaded. Pure; docs/table.md has the format."""

from __future__ import annotations

from ..errors import TableFormatError
from ..types import Collective, Config, DType, Evidence, KnobValue, Memory, OpClass, RuleKey, Spread
from ..units import MAX_BYTES
from .defaults import DefaultRow, DefaultRules
from .reader import REMEDY, Node, read_json
from .rule import MAX_WHOLE, Rule
from .tuning_table import SCHEMA_VERSION, TuningTable

_MAX_RANKS = 1 << 31


def parse_table(text: str, source: str) -> TuningTable:
    """A table from the text of its file.

    Args:
        source: names the text in errors, usually the file's path.

    Raises:
        TableFormatError: not such a text, of another schema version, or decisions that the digest does not cover.
    """
    root = read_json(text, source)
    check_version(root)
    parts = root.members(
        "schema_version",
        "digest",
        "fingerprint",
        "host_fingerprints",
        "environment",
        "created_at",
        "test",
        "rules",
        "defaults",
    )
    fingerprint = parts["fingerprint"].optional()
    try:
        table = TuningTable(
            fingerprint=None if fingerprint is None else fingerprint.text(),
            host_fingerprints=tuple(item.text() for item in parts["host_fingerprints"].items()),
            environment={name: value.text() for name, value in parts["environment"].entries().items()},
            created_at=parts["created_at"].text(),
            test=parts["test"].text(),
            rules=_rules(parts["rules"]),
            defaults=parse_defaults(parts["defaults"]),
        )
    except ValueError as err:
        raise root.error(str(err)) from err
    written = parts["digest"].text()
    if written != table.digest:
        raise TableFormatError(
            f"{source}: $.digest: found {written[:64]!r}, but the rules and defaults give {table.digest!r}: "
            "they were changed after the table was written",
            remedy=REMEDY,
        )
    return table


def check_version(root: Node) -> None:
    """The schema version, before anything that depends on it.

    Raises:
        TableFormatError: no version, or another than this code's.
    """
    found = root.entries().get("schema_version")
    if found is None:
        raise root.error("'schema_version' is missing, so this is no tuning table")
    version = found.whole()
    if version != SCHEMA_VERSION:
        raise TableFormatError(
            f"{root.source}: {found.path}: found schema version {version}; this autotune reads {SCHEMA_VERSION}",
            remedy="upgrade autotune: pip install --upgrade mc2-autotune"
            if version > SCHEMA_VERSION
            else "write a new table: autotune run",
        )


def parse_defaults(node: Node) -> DefaultRules:
    """The default's rules.

    Raises:
        TableFormatError: a row that cannot be read, or rows that do not answer for everything once.
    """
    parts = node.members("backend", "rows")
    backend, rows = parts["backend"].text(), parse_rows(parts["rows"])
    try:
        return DefaultRules(backend=backend, rows=rows)
    except ValueError as err:
        raise node.error(str(err)) from err


def parse_rows(node: Node) -> tuple[DefaultRow, ...]:
    """Rows of defaults, which need not answer for everything.

    Raises:
        TableFormatError: a row that cannot be read.
    """
    return tuple(_row(row) for row in node.items())


def _rules(node: Node) -> dict[RuleKey, tuple[Rule, ...]]:
    rules: dict[RuleKey, tuple[Rule, ...]] = {}
    for item in node.items():
        key, key_rules = _key(item)
        if key in rules:
            raise item.error(f"the rules for {key} stand there twice")
        rules[key] = key_rules
    return rules


def _key(node: Node) -> tuple[RuleKey, tuple[Rule, ...]]:
    parts = node.members(
        "backend", "collective", "dtype", "op_class", "n_ranks", "placement", "memory", "max_error", "sizes"
    )
    dtype, op_class, max_error = (parts[name].optional() for name in ("dtype", "op_class", "max_error"))
    rules = tuple(_rule(rule) for rule in parts["sizes"].items())
    try:
        key = RuleKey(
            backend=parts["backend"].text(),
            collective=parts["collective"].word(Collective),
            dtype=None if dtype is None else dtype.word(DType),
            op_class=None if op_class is None else op_class.word(OpClass),
            n_ranks=parts["n_ranks"].whole(1, _MAX_RANKS),
            placement=tuple(part.whole(1, _MAX_RANKS) for part in parts["placement"].items()),
            memory=parts["memory"].word(Memory),
            max_error=None if max_error is None else max_error.number(),
        )
    except ValueError as err:
        raise node.error(str(err)) from err
    return key, rules


def _rule(node: Node) -> Rule:
    parts = node.members(
        "from_bytes",
        "to_bytes",
        "config",
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
    try:
        return Rule(
            from_bytes=parts["from_bytes"].whole(0, MAX_BYTES),
            to_bytes=parts["to_bytes"].whole(1, MAX_BYTES + 1),
            config=_config(parts["config"]),
            evidence=parts["evidence"].word(Evidence),
            is_default=parts["is_default"].truth(),
            n_rounds=parts["n_rounds"].whole(1),
            median_us=parts["median_us"].number(),
            low_us=parts["low_us"].number(),
            high_us=parts["high_us"].number(),
            gain=_number_or_none(parts["gain"]),
            gain_low=_number_or_none(parts["gain_low"]),
            gain_high=_number_or_none(parts["gain_high"]),
            ring_gain=_number_or_none(parts["ring_gain"]),
            trial_ids=tuple(trial.whole() for trial in parts["trial_ids"].items()),
        )
    except ValueError as err:
        raise node.error(str(err)) from err


def _row(node: Node) -> DefaultRow:
    parts = node.members("collective", "ranks_from", "ranks_to", "from_bytes", "config", may_have=("memory", "spread"))
    ranks_to = parts["ranks_to"].optional()
    try:
        return DefaultRow(
            collective=parts["collective"].word(Collective),
            ranks_from=parts["ranks_from"].whole(1, _MAX_RANKS),
            ranks_to=None if ranks_to is None else ranks_to.whole(2, _MAX_RANKS),
            from_bytes=parts["from_bytes"].whole(0, MAX_BYTES),
            config=_config(parts["config"]),
            memory=parts["memory"].word(Memory) if "memory" in parts else Memory.PRIVATE,
            spread=parts["spread"].word(Spread) if "spread" in parts else Spread.ONE_HOST,
        )
    except ValueError as err:
        raise node.error(str(err)) from err


def _config(node: Node) -> Config:
    parts = node.members("algorithm", "segment_bytes", "codec", "knobs")
    segment_bytes = parts["segment_bytes"].optional()
    knobs = [(name, _knob(value)) for name, value in sorted(parts["knobs"].entries().items())]
    try:
        return Config(
            algorithm=parts["algorithm"].text(),
            segment_bytes=None if segment_bytes is None else segment_bytes.whole(1, MAX_BYTES),
            codec=parts["codec"].text(),
            knobs=tuple(knobs),
        )
    except ValueError as err:
        raise node.error(str(err)) from err


def _knob(node: Node) -> KnobValue:
    return node.text() if isinstance(node.value, str) else node.whole(-MAX_WHOLE)


def _number_or_none(node: Node) -> float | None:
    return None if node.optional() is None else node.number()
