"""Prices between hosts of CPUs, from what a probe measured between a few pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.cost import joined_model
from autotune.errors import UsageError
from autotune.topology.accelerators import Switch
from autotune.topology.devices import Core, Cpu, Device, Host, Nic
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, Provenance
from autotune.types import Collective, Config, DType, OpClass, Problem, RuleKey

GB_PER_S, LATENCY_US = 0.125, 30.0
RING = Config(algorithm="ring", segment_bytes=64 << 10)


def hosts(n_hosts: int, *, measured: bool = True, slow: int | None = None) -> Topology:
    """Hosts of two CPUs; the first CPUs of the first two hosts were measured, and so was the first host inside.

    Args:
        slow: a host at a fifth of the rate; its first CPU, and the others', were measured with those of all others.
    """
    devices: list[Device] = []
    for host in (f"h{number}" for number in range(n_hosts)):
        devices.append(Host(id=host, parent=None))
        for number in range(2):
            core = f"{host}/core{number}"
            devices += [
                Core(id=core, parent=host),
                Cpu(id=f"{host}/cpu{number}", parent=core, number=number, allowed=True),
            ]
    ends = [("h0/cpu0", "h1/cpu0", LinkKind.NETWORK, GB_PER_S, LATENCY_US)] if measured else []
    if slow is not None:
        ends = [
            (f"h{a}/cpu0", f"h{b}/cpu0", LinkKind.NETWORK, GB_PER_S / (5 if slow in (a, b) else 1), LATENCY_US)
            for b in range(n_hosts)
            for a in range(b)
        ]
    ends.append(("h0/cpu0", "h0/cpu1", LinkKind.SHM, 8.0, 1.0))
    links = [
        Link(
            src=src,
            dst=dst,
            kind=kind,
            bandwidth_gb_per_s=gb_per_s,
            latency_us=latency_us,
            source=Provenance.PROBE,
        )
        for one, other, kind, gb_per_s, latency_us in ends
        for src, dst in ((one, other), (other, one))
    ]
    return Topology(devices=tuple(devices), links={(link.src, link.dst): link for link in links})


def problem(placement: tuple[int, ...], size: int) -> Problem:
    key = RuleKey(
        backend="native",
        collective=Collective.ALL_REDUCE,
        dtype=DType.FLOAT32,
        op_class=OpClass.SUM,
        n_ranks=sum(placement),
        placement=placement,
    )
    return Problem(key=key, message_bytes=size)


def test_a_ring_over_hosts_takes_what_its_bytes_take_on_a_port() -> None:
    size = 16 << 20
    price = joined_model(hosts(4), (1, 1, 1, 1)).price(problem((1, 1, 1, 1), size), RING)
    wire_us = 2 * 3 / 4 * size / (GB_PER_S * 1e3)
    assert wire_us < price.time_us < 1.05 * wire_us


def test_ranks_of_a_host_share_its_way_out_and_not_their_memory() -> None:
    """A ring through both hosts sends 3/4 of the message over each border, twice; direct, a quarter from each of two
    ranks to each of two, twice."""
    size = 16 << 20
    model = joined_model(hosts(2), (2, 2))
    assert model.layout.groups == ((0, 1), (2, 3))
    around = model.price(problem((2, 2), size), RING).time_us
    everybody = model.price(problem((2, 2), size), replace(RING, algorithm="direct")).time_us
    assert everybody / around == pytest.approx(2.0 / 1.5, rel=0.02)


@pytest.mark.parametrize(
    ("states", "gain"), [(("up",), 1.0), (("up", "up"), 2.0), (("up", "down"), 1.0), (("up", "slower"), 1.0)]
)
def test_as_many_leaders_as_interfaces_that_are_up_and_equally_fast_cost_least(
    states: tuple[str, ...], gain: float
) -> None:
    plain = hosts(2)
    nics = [
        Nic(
            id=f"h{number}/eth{place}",
            parent=f"h{number}",
            name=f"eth{place}",
            rate_gb_per_s=GB_PER_S / (10 if state == "slower" else 1),
            state="up" if state == "slower" else state,
        )
        for number in range(2)
        for place, state in enumerate(states)
    ]
    topology = Topology(devices=(*plain.devices, *nics), links=plain.links)
    model, asked = joined_model(topology, (2, 2)), problem((2, 2), 64 << 20)
    one, two = (model.price(asked, replace(RING, algorithm=name)).time_us for name in ("leaders", "two_leaders"))
    assert one / two == pytest.approx(gain, rel=0.05)


def test_interfaces_on_a_switch_tell_the_rates_of_their_hosts() -> None:
    """The links that a probe fills are those of the way then: interface to switch, switch to interface."""
    plain = hosts(4, measured=False)
    nics = [Nic(id=f"h{number}/eth0", parent=f"h{number}", name="eth0") for number in range(4)]
    links = {
        (src, dst): Link(
            src=src,
            dst=dst,
            kind=LinkKind.NETWORK,
            bandwidth_gb_per_s=GB_PER_S / (5 if number == 2 else 1),
            latency_us=LATENCY_US / 2,
            source=Provenance.PROBE,
        )
        for number, nic in enumerate(nics)
        for src, dst in ((nic.id, "spine0"), ("spine0", nic.id))
    }
    switch = Switch(id="spine0", parent=None, name="subnet 192.0.2.0/24")
    topology = Topology(devices=(*plain.devices, *nics, switch), links={**plain.links, **links})
    assert joined_model(topology, (1, 1, 1, 1)).layout.order == (0, 1, 3, 2)


def test_hosts_that_nobody_measured_have_no_price() -> None:
    with pytest.raises(UsageError, match="nothing was measured"):
        joined_model(hosts(2, measured=False), (1, 1))


@pytest.mark.parametrize("slow", range(4))
def test_a_host_with_a_slow_link_is_the_end_of_a_chain_wherever_it_stands(slow: int) -> None:
    """Each byte crosses the slow link once each way; in a ring, 3/4 of the message twice."""
    size = 16 << 20
    model = joined_model(hosts(4, slow=slow), (1, 1, 1, 1))
    assert model.layout.order[-1] == slow
    once_us = size / (GB_PER_S / 5 * 1e3)
    in_a_row = model.price(problem((1, 1, 1, 1), size), replace(RING, algorithm="chain")).time_us
    around = model.price(problem((1, 1, 1, 1), size), RING).time_us
    assert once_us < in_a_row < 1.1 * once_us
    assert around / in_a_row == pytest.approx(1.5, rel=0.1)
