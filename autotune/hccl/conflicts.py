"""Which settings of one process do not go together, by the conflicts of socs/*.json. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .algo import read_algo
from .facts import Conflict, SocFacts, Test


def conflicts_of(facts: SocFacts, values: Mapping[str, str | None]) -> Iterator[Conflict]:
    """Those that hold.

    Args:
        values: of the variables that are set; None where a value is not known.
    """
    for conflict in facts.conflicts:
        if all(_holds(test, name in values, values.get(name), value, facts) for name, test, value in conflict.when):
            yield conflict


def _holds(test: Test, given: bool, text: str | None, value: str, facts: SocFacts) -> bool:
    match test:
        case Test.SET:
            return given
        case Test.IS:
            return text == value
        case Test.NOT:
            return text is not None and text not in (value, "")
        case Test.BELOW:
            return text is not None and text.isdigit() and int(text) < int(value)
        case Test.IS_OR_UNSET:
            return not given or text == value
        case Test.BELOW_OR_UNSET:
            return not given or (text is not None and text.isdigit() and int(text) < int(value))
        case Test.NAMES:
            levels = {} if text is None else read_algo(text, facts)[0]
            return any(value in by_level.values() for by_level in levels.values())
