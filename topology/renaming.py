"""A topology under other names, so that several can stand in one: every host and what is in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from .devices import Device, DeviceId, NumaNode
from .graph import Topology


def renamed(topology: Topology, roots: Mapping[DeviceId, DeviceId]) -> Topology:
    """The topology with other names for some of its outermost devices and hosts, and so for all that is in them.

    Args:
        roots: from the first part of an id (``host0`` of ``host0/cpu3``) to what stands in its place.
    """
    words = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(roots))) + r")\b") if roots else None

    def name(device_id: DeviceId) -> DeviceId:
        root, slash, rest = device_id.partition("/")
        return roots.get(root, root) + slash + rest

    def said(text: str) -> str:
        return text if words is None else words.sub(lambda match: roots[match[0]], text)

    def moved(device: Device) -> Device:
        parent = None if device.parent is None else name(device.parent)
        if isinstance(device, NumaNode):
            distances = tuple((name(other), distance) for other, distance in device.distances)
            return replace(device, id=name(device.id), parent=parent, distances=distances)
        return replace(device, id=name(device.id), parent=parent)

    links = [replace(link, src=name(link.src), dst=name(link.dst)) for link in topology.links.values()]
    return Topology(
        devices=tuple(map(moved, topology.devices)),
        links={(link.src, link.dst): link for link in links},
        shared=tuple(
            replace(
                shared,
                name=said(shared.name),
                senders=tuple(map(name, shared.senders)),
                receivers=tuple(map(name, shared.receivers)),
            )
            for shared in topology.shared
        ),
        unseen=tuple(map(said, topology.unseen)),
        contradictions=tuple(map(said, topology.contradictions)),
    )
