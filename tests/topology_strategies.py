"""Hypothesis strategies for topologies with accelerators, switches and super pods: legal ones, small on purpose."""

from __future__ import annotations

import hypothesis.strategies as st

from autotune.topology.accelerators import Card, Gpu, Npu, SuperPod, Switch
from autotune.topology.devices import Device, Host, Nic, NumaNode
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, PciePath, Provenance, SharedResource

FIGURES = st.none() | st.floats(min_value=1e-6, max_value=1e6)
WORDS = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@st.composite
def links(draw: st.DrawFn, ends: list[str]) -> Link:
    src, dst = draw(st.lists(st.sampled_from(ends), min_size=2, max_size=2, unique=True))
    kind = draw(st.sampled_from(LinkKind))
    return Link(
        src=src,
        dst=dst,
        kind=kind,
        latency_us=draw(FIGURES),
        bandwidth_gb_per_s=draw(FIGURES),
        source=draw(st.sampled_from(Provenance)),
        path=draw(st.none() | st.sampled_from(PciePath)) if kind is LinkKind.PCIE else None,
        n_bonded=draw(st.none() | st.integers(1, 18)),
    )


@st.composite
def shared(draw: st.DrawFn, ends: list[str], name: str) -> SharedResource:
    some = st.lists(st.sampled_from(ends), min_size=1, max_size=4, unique=True).map(tuple)
    return SharedResource(
        name=name,
        senders=draw(some),
        receivers=draw(some),
        bandwidth_gb_per_s=draw(st.floats(min_value=1e-6, max_value=1e6)),
        source=draw(st.sampled_from(Provenance)),
    )


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Up to three hosts, in a super pod or alone, with up to four accelerators each."""
    devices: list[Device] = []
    pod = draw(st.booleans())
    if pod:
        devices += [SuperPod(id="pod0", parent=None, name=draw(WORDS)), Switch(id="pod0/plane", parent="pod0")]
    for host in (f"host{number}" for number in range(draw(st.integers(1, 3)))):
        devices.append(Host(id=host, parent="pod0" if pod else None, name=draw(WORDS)))
        devices.append(NumaNode(id=f"{host}/numa0", parent=host, number=0))
        in_cards = draw(st.booleans())
        for number in range(draw(st.integers(0, 4))):
            parent = f"{host}/numa0"
            if in_cards:
                parent = f"{host}/card{number // 2}"
                if number % 2 == 0:
                    card = Card(id=parent, parent=host, number=draw(st.none() | st.just(number)), product=draw(WORDS))
                    devices.append(card)
            devices.append(draw(_accelerator(f"{host}/die{number}", parent, number)))
            if draw(st.booleans()):
                nic = Nic(
                    id=f"{host}/net-roce{number}",
                    parent=f"{host}/die{number}",
                    name=f"roce{number}",
                    address=draw(WORDS),
                    switch_port=draw(WORDS),
                )
                devices.append(nic)
    devices.append(Switch(id="leaf0", parent=None, name=draw(WORDS)))
    ends = [device.id for device in devices]
    drawn = draw(st.lists(links(ends), max_size=8))
    limits = [draw(shared(ends, f"limit {index}")) for index in range(draw(st.integers(0, 3)))]
    words = st.lists(st.text(max_size=12), max_size=2).map(tuple)
    return Topology(
        devices=tuple(devices),
        links={(link.src, link.dst): link for link in drawn},
        shared=tuple(limits),
        unseen=draw(words),
        contradictions=draw(words),
    )


@st.composite
def _accelerator(draw: st.DrawFn, name: str, parent: str, number: int) -> Device:
    memory = draw(st.none() | st.integers(0, 1 << 40))
    if draw(st.booleans()):
        return Gpu(id=name, parent=parent, number=number, model=draw(WORDS), memory_bytes=memory, bus_id=draw(WORDS))
    return Npu(
        id=name,
        parent=parent,
        number=number,
        chip_name=draw(WORDS),
        memory_bytes=memory,
        bus_id=draw(WORDS),
        physical_id=draw(st.none() | st.integers(0, 99)),
        address=draw(WORDS),
        super_device_id=draw(WORDS),
        health=draw(WORDS),
    )
