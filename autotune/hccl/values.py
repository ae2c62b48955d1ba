"""Whether a setting's value is legal on a family of chips. Pure.

In:  a `Setting` and a value as text. Out: what is wrong with it, or None.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..table.reader import did_you_mean
from .facts import Setting, ValueKind

_WHOLE = re.compile(r"[0-9]{1,12}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFault:
    """What is wrong with a value.

    Args:
        silent: HCCL says nothing and does something else, or nothing.
    """

    what: str
    why: str
    remedy: str
    silent: bool = False


def value_fault(setting: Setting, value: str) -> ValueFault | None:
    """The first thing that is wrong; HCCL_ALGO has a reader of its own (algo.py)."""
    name = setting.name
    match setting.kind:
        case ValueKind.WHOLE:
            return _whole_fault(setting, value)
        case ValueKind.WORDS:
            return None if value in setting.words else _word_fault(setting, value)
        case ValueKind.CODES:
            assert setting.codes is not None, "codes have words"
            if value in map(str, setting.codes.values()):
                return None
            shown = ", ".join(f"{code} ({word})" for word, code in setting.codes.items())
            return ValueFault(what=f"{name}={value}", why=f"allowed: {shown}", remedy=f"use one of {shown}")
        case ValueKind.SHARE:
            return (
                None
                if _is_share(value)
                else ValueFault(
                    what=f"{name}={value}", why="it is a share from 0 to 1", remedy=f"export {name}={setting.default}"
                )
            )
        case ValueKind.NO_EFFECT:
            assert setting.why is not None, "a setting without effect says why"
            return ValueFault(what=f"{name} does nothing here", why=setting.why, remedy=f"unset {name}", silent=True)
        case ValueKind.FREE | ValueKind.ALGORITHMS:
            return None


def _whole_fault(setting: Setting, value: str) -> ValueFault | None:
    assert setting.low is not None, "a whole number has its ends"
    assert setting.high is not None, "a whole number has its ends"
    name, unit = setting.name, "" if setting.unit is None else f" {setting.unit}"
    step = setting.multiple_of or 1
    allowed = f"a whole number from {setting.low} to {setting.high}{unit}" + (f", a multiple of {step}" * (step > 1))
    number = int(value) if _WHOLE.match(value) else None
    if number is None or not setting.low <= number <= setting.high or number % step:
        usual = setting.low if setting.default is None else setting.default
        return ValueFault(what=f"{name}={value}", why=f"it is {allowed}", remedy=f"export {name}={usual}")
    if setting.advised is not None and number > setting.advised:
        return ValueFault(
            what=f"{name}={value}",
            why=f"more than the {setting.advised} that are advised",
            remedy=f"export {name}={setting.advised}",
            silent=True,
        )
    return None


def _word_fault(setting: Setting, value: str) -> ValueFault:
    words = ", ".join(setting.words)
    return ValueFault(
        what=f"{setting.name}={value}{did_you_mean(value, setting.words)}",
        why=f"allowed: {words}",
        remedy=f"use one of {words}",
    )


def _is_share(value: str) -> bool:
    try:
        number = float(value)
    except ValueError:
        return False
    return math.isfinite(number) and 0.0 <= number <= 1.0
