"""The values of a table as plain dicts, in the order in which people read them. For the file and the digest. Pure."""

from __future__ import annotations

from ..types import Config, Memory, RuleKey, Spread
from .defaults import DefaultRow
from .rule import Rule


def key_fields(key: RuleKey) -> dict[str, object]:
    """What a list of size rules belongs to."""
    return {
        "backend": key.backend,
        "collective": key.collective.value,
        "dtype": key.dtype.value if key.dtype else None,
        "op_class": key.op_class.value if key.op_class else None,
        "n_ranks": key.n_ranks,
        "placement": list(key.placement),
        "memory": key.memory.value,
        "max_error": None if key.max_error is None else float(key.max_error),
    }


def decision_fields(rule: Rule) -> dict[str, object]:
    """The part of a rule that decides what runs."""
    return {
        "from_bytes": rule.from_bytes,
        "to_bytes": rule.to_bytes,
        "config": config_fields(rule.config),
        "evidence": rule.evidence.value,
        "is_default": rule.is_default,
    }


def figure_fields(rule: Rule) -> dict[str, object]:
    """The part of a rule that proves it."""
    return {
        "n_rounds": rule.n_rounds,
        "median_us": rule.median_us,
        "low_us": rule.low_us,
        "high_us": rule.high_us,
        "gain": rule.gain,
        "gain_low": rule.gain_low,
        "gain_high": rule.gain_high,
        "ring_gain": rule.ring_gain,
        "trial_ids": list(rule.trial_ids),
    }


def row_fields(row: DefaultRow) -> dict[str, object]:
    """One row of the defaults; all of it decides. Private memory and one host go without saying."""
    memory = {} if row.memory is Memory.PRIVATE else {"memory": row.memory.value}
    spread = {} if row.spread is Spread.ONE_HOST else {"spread": row.spread.value}
    return {
        "collective": row.collective.value,
        **memory,
        **spread,
        "ranks_from": row.ranks_from,
        "ranks_to": row.ranks_to,
        "from_bytes": row.from_bytes,
        "config": config_fields(row.config),
    }


def config_fields(config: Config) -> dict[str, object]:
    """A config; knobs by name."""
    return {
        "algorithm": config.algorithm,
        "segment_bytes": config.segment_bytes,
        "codec": config.codec,
        "knobs": dict(config.knobs),
    }
