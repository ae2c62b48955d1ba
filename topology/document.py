"""A topology as a JSON text and back: what the store keeps and ``autotune probe --json`` prints.

``to_json`` writes one device or link a line, so that two texts compare well. ``from_json`` is strict: it says the JSON
path, what stands there and what is allowed, and builds nothing from a text that is wrong anywhere. Pure.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterable, Set
from dataclasses import asdict
from typing import Any, Never, cast, get_args, get_origin, get_type_hints

from ..errors import ProbeError
from .devices import DEVICE_CLASSES, Device
from .graph import Link, LinkKind, Provenance, Topology

SCHEMA_VERSION = 1
_MAX_CHARACTERS = 64 << 20
_REMEDY = "write the topology again with: autotune probe --json"
_CLASSES = {device_class.kind.value: device_class for device_class in DEVICE_CLASSES}
_FACTS: dict[str, dict[str, object]] = {
    kind: {name: hint for name, hint in get_type_hints(device_class).items() if name not in ("kind", "decides")}
    for kind, device_class in _CLASSES.items()
}  # of each kind of device, the annotated type of every fact
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def to_json(topology: Topology) -> str:
    """The JSON text: ``schema_version``, ``devices``, ``links``, ``unseen``; facts that are not known are left out."""
    devices = [{"kind": device.kind.value} | _known(asdict(device)) for device in topology.devices]
    links = [
        _known(asdict(link)) | {"kind": link.kind.value, "source": link.source.value}
        for link in topology.links.values()
    ]
    return (
        f'{{"schema_version": {SCHEMA_VERSION},\n'
        f' "devices": {_one_a_line(devices)},\n "links": {_one_a_line(links)},\n'
        f' "unseen": {_one_a_line(topology.unseen)}}}\n'
    )


def from_json(text: str) -> Topology:
    """Read what ``to_json`` wrote.

    Raises:
        ProbeError: with the JSON path of the first thing that is wrong.
    """
    document = _fields(_parsed(text), "$", required={"schema_version", "devices", "links", "unseen"})
    if _converted(document["schema_version"], int, "$.schema_version") != SCHEMA_VERSION:
        _fail("$.schema_version", document["schema_version"], f"{SCHEMA_VERSION}, what this version of autotune reads")
    devices = [_device(item, path) for item, path in _items(document["devices"], "$.devices")]
    links: dict[tuple[str, str], Link] = {}
    for item, path in _items(document["links"], "$.links"):
        link = _link(item, path)
        if (link.src, link.dst) in links:
            _fail(path, f"{link.src} to {link.dst}", "one link between two devices")
        links[link.src, link.dst] = link
    unseen = _converted(document["unseen"], tuple[str, ...], "$.unseen")
    try:
        return Topology(devices=tuple(devices), links=links, unseen=cast(tuple[str, ...], unseen))
    except ValueError as err:
        raise ProbeError(f"topology: {err}", remedy=_REMEDY) from err


def _known(facts: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}


def _one_a_line(items: Iterable[object]) -> str:
    lines = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in items)
    return f"[\n  {lines}\n ]" if lines else "[]"


def _fail(path: str, got: object, allowed: str) -> Never:
    shown = repr(got)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    raise ProbeError(f"topology: {path} is {shown}; allowed is {allowed}", remedy=_REMEDY)


def _parsed(text: str) -> object:
    if len(text) > _MAX_CHARACTERS:
        _fail("$", f"{len(text)} characters", f"at most {_MAX_CHARACTERS}")
    try:
        return json.loads(
            text, object_pairs_hook=_without_doubles, parse_constant=lambda word: _fail("$", word, "numbers")
        )
    except json.JSONDecodeError as err:
        raise ProbeError(f"topology: line {err.lineno}, column {err.colno}: {err.msg}", remedy=_REMEDY) from err
    except (RecursionError, ValueError) as err:  # nested without end; a number of thousands of digits
        raise ProbeError(f"topology: not a topology ({err})", remedy=_REMEDY) from err


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            _fail("$", name, "each name once in an object")
        names.add(name)
    return dict(pairs)


def _fields(value: object, path: str, *, required: Set[str], optional: Set[str] = frozenset()) -> dict[str, object]:
    if not isinstance(value, dict):
        _fail(path, value, "an object")
    for name in sorted(required - value.keys()):
        _fail(path, f"an object without {name!r}", f"one that has {', '.join(sorted(required))}")
    for name in value.keys() - required - optional:
        _fail(f"{path}.{name}", value[name], f"nothing here but {', '.join(sorted(required | optional))}")
    return value


def _items(value: object, path: str) -> list[tuple[object, str]]:
    if not isinstance(value, list):
        _fail(path, value, "a list")
    return [(item, f"{path}[{index}]") for index, item in enumerate(value)]


def _device(item: object, path: str) -> Device:
    if not isinstance(item, dict):
        _fail(path, item, "an object")
    kind = item.get("kind")
    if not isinstance(kind, str) or kind not in _CLASSES:
        _fail(f"{path}.kind", kind, f"one of {', '.join(_CLASSES)}")
    hints = _FACTS[kind]
    required = {name for name, hint in hints.items() if not _may_be_left_out(hint)}
    facts = _fields(item, path, required=required | {"kind"}, optional=hints.keys())
    values: dict[str, Any] = {"parent": None}  # Any: each value has just been checked against its annotation
    for name, hint in hints.items():
        if name in facts:
            values[name] = _converted(facts[name], hint, f"{path}.{name}")
    try:
        return _CLASSES[kind](**values)
    except ValueError as err:
        raise ProbeError(f"topology: {path}: {err}", remedy=_REMEDY) from err


def _link(item: object, path: str) -> Link:
    hints: dict[str, object] = {"src": str, "dst": str, "kind": str, "source": str}
    figures: dict[str, object] = {"latency_us": float | None, "bandwidth_gb_per_s": float | None}
    facts = _fields(item, path, required=hints.keys(), optional=figures.keys())
    values: dict[str, Any] = {  # Any: as in _device
        name: _converted(facts.get(name), hint, f"{path}.{name}") for name, hint in (hints | figures).items()
    }
    for name, words in (("kind", LinkKind), ("source", Provenance)):
        allowed = {word.value: word for word in words}
        if values[name] not in allowed:
            _fail(f"{path}.{name}", values[name], f"one of {', '.join(allowed)}")
        values[name] = allowed[values[name]]
    try:
        return Link(**values)
    except ValueError as err:
        raise ProbeError(f"topology: {path}: {err}", remedy=_REMEDY) from err


def _may_be_left_out(hint: object) -> bool:
    return type(None) in get_args(hint) or get_origin(hint) is tuple


def _converted(value: object, hint: object, path: str) -> object:
    """The value as its annotated type: int, float, str, bool or a tuple of such, or one of these or None."""
    options = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    if value is None and type(None) in options:
        return None
    wanted = next(option for option in options if option is not type(None))
    if get_origin(wanted) is tuple:
        items = _items(value, path)
        inner = get_args(wanted)
        inner = inner[:1] * len(items) if inner[-1] is ... else inner
        if len(items) != len(inner):
            _fail(path, value, f"a list of {len(inner)}")
        return tuple(_converted(item, part, item_path) for (item, item_path), part in zip(items, inner, strict=True))
    if wanted is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    if type(value) is not wanted or (isinstance(value, float) and not math.isfinite(value)):
        _fail(path, value, _WORDS[wanted])
    return value
