"""Values out of JSON or YAML as the types they are annotated with, or the path of what is wrong. Pure.

``built`` makes a dataclass from a mapping and guesses nothing: a fact too many, one too few, a text for a number are
each a ``NotAllowed``, which names the path, what stands there and what may. The caller adds the file and the remedy.
"""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Never, TypeVar, cast, get_args, get_origin, get_type_hints

_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_MAX_SHOWN = 80
_KNOWN: dict[type, dict[str, tuple[object, bool]]] = {}
_V = TypeVar("_V")


class NotAllowed(ValueError):
    """A value that cannot be what the annotation says: ``PATH is GOT; allowed is ALLOWED``."""

    def __init__(self, path: str, got: object, allowed: str) -> None:
        shown = repr(got)
        shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[: _MAX_SHOWN - 3]}..."
        super().__init__(f"{path} is {shown}; allowed is {allowed}")


def fail(path: str, got: object, allowed: str) -> Never:
    """Raise ``NotAllowed``."""
    raise NotAllowed(path, got, allowed)


def built(value: object, value_class: type[_V], path: str) -> _V:
    """The dataclass that a mapping describes, its parts too.

    A fact may be left out where the class has a default, or where it may be None.

    Raises:
        NotAllowed: with the path of the first thing that is wrong.
    """
    facts = _facts(value_class)
    required = {name for name, (hint, has_default) in facts.items() if not (has_default or _may_be_none(hint))}
    given = mapping(value, path, required=required, optional=facts.keys())
    values: dict[str, Any] = {  # Any: each value is checked against its annotation
        name: converted(given[name], hint, f"{path}.{name}") if name in given else None
        for name, (hint, has_default) in facts.items()
        if name in given or not has_default
    }
    try:
        return value_class(**values)
    except NotAllowed:
        raise
    except ValueError as err:  # the invariants of the class itself
        raise ValueError(f"{path}: {err}") from err


def mapping(value: object, path: str, *, required: Set[str], optional: Set[str] = frozenset()) -> Mapping[str, object]:
    """The mapping, with all names that are required and none but those.

    Raises:
        NotAllowed: with the path of the first thing that is wrong.
    """
    if not isinstance(value, dict):
        fail(path, value, "an object")
    for name in sorted(required - value.keys()):
        fail(path, f"an object without {name!r}", f"one that has {', '.join(sorted(required))}")
    for name in value.keys() - required - optional:
        fail(f"{path}.{name}", value[name], f"nothing here but {', '.join(sorted(required | optional))}")
    return value


def items(value: object, path: str) -> list[tuple[object, str]]:
    """The items of a list, each with its path.

    Raises:
        NotAllowed: it is no list.
    """
    if not isinstance(value, list):
        fail(path, value, "a list")
    return [(item, f"{path}[{index}]") for index, item in enumerate(value)]


def converted(value: object, hint: object, path: str) -> object:
    """The value as its annotated type: int, float, str, bool, an enum, a dataclass, a tuple or dict, or one or None.

    Raises:
        NotAllowed: with the path of the first thing that is wrong.
    """
    options = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    if value is None and type(None) in options:
        return None
    wanted = next(option for option in options if option is not type(None))
    if get_origin(wanted) is tuple:
        parts = items(value, path)
        inner = get_args(wanted)
        inner = inner[:1] * len(parts) if inner[-1] is ... else inner
        if len(parts) != len(inner):
            fail(path, value, f"a list of {len(inner)}")
        return tuple(converted(part, one, at) for (part, at), one in zip(parts, inner, strict=True))
    if get_origin(wanted) is dict:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            fail(path, value, "an object")
        return {name: converted(part, get_args(wanted)[1], f"{path}.{name}") for name, part in value.items()}
    if isinstance(wanted, type) and is_dataclass(wanted):
        return built(value, wanted, path)
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        allowed = {word.value: word for word in wanted}
        if not isinstance(value, str) or value not in allowed:
            fail(path, value, f"one of {', '.join(allowed)}")
        return allowed[value]
    if wanted is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    if type(value) is not wanted or (isinstance(value, float) and not math.isfinite(value)):
        fail(path, value, _WORDS[cast(type, wanted)])
    return value


def _facts(value_class: type) -> dict[str, tuple[object, bool]]:
    """Of every field, its annotated type and whether it has a default; read once a class, since it takes long."""
    if value_class not in _KNOWN:
        hints = get_type_hints(value_class)
        _KNOWN[value_class] = {
            field.name: (hints[field.name], field.default is not MISSING or field.default_factory is not MISSING)
            for field in fields(value_class)
            if field.init
        }
    return _KNOWN[value_class]


def _may_be_none(hint: object) -> bool:
    return type(None) in get_args(hint)
