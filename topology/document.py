"""A topology as a JSON text and back: what the store keeps and ``autotune probe --json`` prints.

``to_json`` writes one device or link a line, so that two texts compare well. ``from_json`` is strict: it says the JSON
path, what stands there and what is allowed, and builds nothing from a text that is wrong anywhere. Pure.

Version 2 added ``shared``, ``contradictions``, accelerators and what joins them; a text of version 1 is read as one
that has none.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import cast

from ..errors import ProbeError
from .accelerators import Card, Gpu, Npu, SuperPod, Switch
from .devices import Cache, Core, Cpu, Device, Host, Nic, NumaNode, RdmaPort, Socket
from .graph import Topology
from .links import Link, SharedResource
from .strict import NotAllowed, built, converted, fail, items, mapping

SCHEMA_VERSION = 2
_ADDED = {"shared": 2, "contradictions": 2}  # in which version
_MAX_CHARACTERS = 64 << 20
_REMEDY = "write the topology again with: autotune probe --json"
_DEVICES: tuple[type[Device], ...] = (
    Host,
    Socket,
    NumaNode,
    Cache,
    Core,
    Cpu,
    Nic,
    RdmaPort,
    SuperPod,
    Switch,
    Card,
    Npu,
    Gpu,
)
_CLASSES = {device_class.kind.value: device_class for device_class in _DEVICES}


def to_json(topology: Topology) -> str:
    """The JSON text: ``schema_version``, ``devices``, ``links``, ``shared``, ``unseen``, ``contradictions``.

    Facts that are not known are left out.
    """
    devices = [{"kind": device.kind.value} | _known(asdict(device)) for device in topology.devices]
    lists: dict[str, Iterable[object]] = {
        "devices": devices,
        "links": [_known(asdict(link)) for link in topology.links.values()],
        "shared": [_known(asdict(resource)) for resource in topology.shared],
        "unseen": topology.unseen,
        "contradictions": topology.contradictions,
    }
    body = ",\n".join(f' "{name}": {_one_a_line(items)}' for name, items in lists.items())
    return f'{{"schema_version": {SCHEMA_VERSION},\n{body}}}\n'


def from_json(text: str) -> Topology:
    """Read what ``to_json`` wrote, now or in an earlier version.

    Raises:
        ProbeError: with the JSON path of the first thing that is wrong.
    """
    try:
        return _topology(_document(_parsed(text)))
    except ValueError as err:
        raise ProbeError(f"topology: {err}", remedy=_REMEDY) from err


def _topology(document: Mapping[str, object]) -> Topology:
    devices = [_device(item, path) for item, path in items(document["devices"], "$.devices")]
    links: dict[tuple[str, str], Link] = {}
    for item, path in items(document["links"], "$.links"):
        link = built(item, Link, path)
        if (link.src, link.dst) in links:
            fail(path, f"{link.src} to {link.dst}", "one link between two devices")
        links[link.src, link.dst] = link
    shared = [built(item, SharedResource, path) for item, path in items(document["shared"], "$.shared")]
    words = {
        name: cast(tuple[str, ...], converted(document[name], tuple[str, ...], f"$.{name}"))
        for name in ("unseen", "contradictions")
    }
    return Topology(devices=tuple(devices), links=links, shared=tuple(shared), **words)


def _document(value: object) -> Mapping[str, object]:
    """The document as of this version: what an older text could not have is empty."""
    if not isinstance(value, dict):
        fail("$", value, "an object")
    names = {"schema_version", "devices", "links", "unseen"} | _ADDED.keys()
    if "schema_version" not in value:
        fail("$", "an object without 'schema_version'", f"one that has {', '.join(sorted(names))}")
    version = cast(int, converted(value["schema_version"], int, "$.schema_version"))
    if not 1 <= version <= SCHEMA_VERSION:
        known = " or ".join(map(str, range(1, SCHEMA_VERSION + 1)))
        fail("$.schema_version", version, f"{known}, what this version of autotune reads")
    newer = {name for name, since in _ADDED.items() if since > version}
    return {**{name: [] for name in newer}, **mapping(value, "$", required=names - newer)}


def _device(item: object, path: str) -> Device:
    if not isinstance(item, dict):
        fail(path, item, "an object")
    kind = item.get("kind")
    if not isinstance(kind, str) or kind not in _CLASSES:
        fail(f"{path}.kind", kind, f"one of {', '.join(_CLASSES)}")
    return built({name: value for name, value in item.items() if name != "kind"}, _CLASSES[kind], path)


def _known(facts: dict[str, object]) -> dict[str, object]:
    return {
        name: value.value if isinstance(value, enum.Enum) else value
        for name, value in facts.items()
        if value is not None
    }


def _one_a_line(items: Iterable[object]) -> str:
    lines = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in items)
    return f"[\n  {lines}\n ]" if lines else "[]"


def _parsed(text: str) -> object:
    if len(text) > _MAX_CHARACTERS:
        fail("$", f"{len(text)} characters", f"at most {_MAX_CHARACTERS}")
    try:
        return json.loads(
            text, object_pairs_hook=_without_doubles, parse_constant=lambda word: fail("$", word, "numbers")
        )
    except json.JSONDecodeError as err:
        raise ValueError(f"line {err.lineno}, column {err.colno}: {err.msg}") from err
    except NotAllowed:
        raise
    except (RecursionError, ValueError) as err:  # nested without end; a number of thousands of digits
        raise ValueError(f"not a topology ({err})") from err


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            fail("$", name, "each name once in an object")
        names.add(name)
    return dict(pairs)
