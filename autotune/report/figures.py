"""How figures are written: the same everywhere, in text for people and in JSON for programs. Pure."""

from __future__ import annotations

from typing import Any

from ..measure import Comparison, Interval
from ..table import Rule
from ..types import Config, Memory, Problem, RuleKey
from ..units import format_bytes, format_us

UNKNOWN = "-"


def gain_text(ratio: float | None) -> str:
    """``1.31x``."""
    return UNKNOWN if ratio is None else f"{ratio:.2f}x"


def range_text(low: float | None, high: float | None) -> str:
    """``[1.25, 1.38]``: the ends of a ratio's 95 % interval; empty where there is none."""
    return "" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


def comparison_text(comparison: Comparison) -> str:
    """``1.31x [1.25, 1.38]``."""
    return f"{gain_text(comparison.median)} {range_text(comparison.low, comparison.high)}".rstrip()


def times_text(low_us: float | None, high_us: float | None) -> str:
    """``[11.9, 12.8]``, in microseconds."""
    return "" if low_us is None or high_us is None else f"[{format_us(low_us)}, {format_us(high_us)}]"


def config_text(config: Config, message_bytes: int) -> str:
    """The config without a segment that does not cut the message."""
    if config.segment_bytes is None or config.segment_bytes < message_bytes:
        return str(config)
    return str(Config(algorithm=config.algorithm, codec=config.codec, knobs=config.knobs))


def sizes_text(rule: Rule) -> str:
    """``8B to 64MiB``, both ends included."""
    first, last = format_bytes(rule.from_bytes), format_bytes(rule.to_bytes - 1)
    return first if first == last else f"{first} to {last}"


def kind_text(key: RuleKey) -> str:
    """``all_reduce float32 sum``, or ``broadcast, symmetric memory``: a key without its ranks."""
    return _words(key) + _conditions(key)


def _words(key: RuleKey) -> str:
    words = [key.collective.value]
    if key.dtype is not None and key.op_class is not None:
        words += [key.dtype.value, key.op_class.value]
    return " ".join(words)


def _conditions(key: RuleKey) -> str:
    """What is not as in most keys."""
    memory = "" if key.memory is Memory.PRIVATE else f", {key.memory.value} memory"
    return memory if key.max_error is None else f"{memory}, error up to {key.max_error:g}"


def ranks_text(n_ranks: int) -> str:
    """``2 ranks``."""
    return "1 rank" if n_ranks == 1 else f"{n_ranks} ranks"


def group_text(key: RuleKey) -> str:
    """``4 ranks``; on several hosts ``4 ranks as 2+2``."""
    hosts = f" as {'+'.join(map(str, key.placement))}" if len(key.placement) > 1 else ""
    return ranks_text(key.n_ranks) + hosts


def problem_text(problem: Problem) -> str:
    """``all_reduce float32 sum 4MiB, 2 ranks``."""
    key = problem.key
    return f"{_words(key)} {format_bytes(problem.message_bytes)}, {group_text(key)}{_conditions(key)}"


def percent_text(share: float | None) -> str:
    """``42 %``."""
    return UNKNOWN if share is None else f"{share * 100:.0f} %"


# Any: the tree of JSON, here and wherever a document is built.
def config_fields(config: Config) -> dict[str, Any]:
    """A config in JSON, as in a table's file."""
    return {
        "algorithm": config.algorithm,
        "segment_bytes": config.segment_bytes,
        "codec": config.codec,
        "knobs": dict(config.knobs),
    }


def problem_fields(problem: Problem) -> dict[str, Any]:
    """A problem in JSON, with the names of a table's file."""
    key = problem.key
    return {
        "backend": key.backend,
        "collective": key.collective.value,
        "dtype": None if key.dtype is None else key.dtype.value,
        "op_class": None if key.op_class is None else key.op_class.value,
        "n_ranks": key.n_ranks,
        "placement": list(key.placement),
        "memory": key.memory.value,
        "max_error": key.max_error,
        "message_bytes": problem.message_bytes,
    }


def interval_fields(time_us: Interval | None) -> dict[str, Any]:
    """``median_us``, ``low_us``, ``high_us``; null where unknown."""
    if time_us is None:
        return dict.fromkeys(("median_us", "low_us", "high_us"))
    return {"median_us": time_us.median, "low_us": time_us.low, "high_us": time_us.high}


def comparison_fields(name: str, comparison: Comparison | None) -> dict[str, Any]:
    """``NAME``, ``NAME_low``, ``NAME_high``; null where nothing was compared."""
    if comparison is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: comparison.median, f"{name}_low": comparison.low, f"{name}_high": comparison.high}
