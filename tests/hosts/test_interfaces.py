"""Which interfaces are used, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scenes.scene import Played, Scene, Step

from autotune.errors import UsageError
from autotune.runtime import interfaces
from autotune.runtime.interfaces import active_adapters, chosen_carrier, chosen_devices, devices, turned
from autotune.runtime.network_facts import network_facts
from autotune.runtime.whereabouts import host_numbers, whereabouts

Play = Callable[[Scene, Path], Played]

STEPS: list[Step] = [{"do": "join"}, {"do": "all_reduce", "count": 50_000}, {"do": "transports"}, {"do": "close"}]


def check(played: Played, expected: list[list[object]]) -> None:
    assert set(played.codes) == {0}, played.said
    for step in range(len(STEPS)):
        assert set(played.errors(step)) == {"none"}, played.errors(step)
    for result in played.results:
        assert result is not None
        assert result[2]["pairs"] == expected


def test_pairs_of_one_host_share_memory_and_others_use_the_network(play: Play, over: str, tmp_path: Path) -> None:
    played = play(Scene(per_host=(2, 1), steps=STEPS), tmp_path)
    check(played, [[0, 1, "shared memory"], [0, 2, over], [1, 2, over]])


def test_hosts_with_ipv6_addresses_only(play: Play, over: str, tmp_path: Path) -> None:
    prepare = [["-n", f"@{host}", "address", "flush", "dev", "eth0"] for host in range(2)]
    prepare += [
        ["-n", f"@{host}", "address", "add", f"2001:db8::{host + 1}/64", "dev", "eth0", "nodad"] for host in range(2)
    ]
    check(play(Scene(per_host=(1, 1), steps=STEPS, prepare=prepare), tmp_path), [[0, 1, over]])


def test_a_second_interface_that_leads_nowhere_can_be_left_out(play: Play, over: str, tmp_path: Path) -> None:
    prepare = []
    for host in range(2):
        name = f"@{host}"
        prepare += [
            ["-n", name, "link", "add", "eth1", "type", "veth", "peer", "name", "eth2"],
            ["-n", name, "address", "add", f"192.0.2.{host + 1}/24", "dev", "eth1"],
            ["-n", name, "link", "set", "eth1", "up"],
            ["-n", name, "link", "set", "eth2", "up"],
        ]
    scene = Scene(per_host=(1, 1), steps=STEPS, prepare=prepare, environ={"AUTOTUNE_NET_DEVICES": "eth0"})
    check(play(scene, tmp_path), [[0, 1, over]])


def test_interfaces_are_named_as_they_are_there() -> None:
    assert "lo" not in devices()
    assert chosen_devices(None) == ""
    assert set(active_adapters()) <= set(devices())
    with pytest.raises(UsageError, match="AUTOTUNE_NET_DEVICES names 'nic-of-nobody'"):
        chosen_devices("nic-of-nobody")


def test_ucx_carries_where_adapters_are_and_sockets_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "active_adapters", lambda: ("mlx5_0:1",))
    assert chosen_carrier("auto", "") == "ucx"
    assert chosen_carrier("auto", "eth0") == "sockets"
    assert chosen_carrier("auto", "eth0,mlx5_0:1") == "ucx"
    assert chosen_carrier("sockets", "") == "sockets"
    monkeypatch.setattr(interfaces, "active_adapters", tuple)
    assert chosen_carrier("auto", "") == "sockets"
    assert chosen_carrier("ucx", "") == "ucx"
    with pytest.raises(UsageError, match="names mlx5_0:1, which is no network interface"):
        chosen_carrier("sockets", "eth0,mlx5_0:1")


def test_facts_name_what_carries_or_the_problem() -> None:
    facts = network_facts("ucx", None)
    assert (facts.carrier is None) == (facts.problem is not None)
    assert facts.carrier is None or "libucp" in (facts.library or "")
    plain = network_facts("sockets", None)
    assert plain.carrier == "sockets" or "no network interface" in str(plain.problem)
    assert plain.library is None
    refused = network_facts("auto", "nic-of-nobody")
    assert refused.carrier is None
    assert isinstance(refused.problem, UsageError)


def test_a_rank_knows_its_host_and_hosts_of_one_name_are_told_apart(tmp_path: Path) -> None:
    here = whereabouts(tmp_path)
    assert here == whereabouts(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    assert here.host != whereabouts(tmp_path / "elsewhere").host
    assert here.machine == whereabouts(tmp_path / "elsewhere").machine
    assert host_numbers(["x", "x", "y", "z"], ["a", "a", "b", "b"]) == ((0, 0, 1, 2), ("a", "b (host 1)", "b (host 2)"))


def test_what_a_rank_tells_begins_with_the_interface_of_its_place() -> None:
    told = b"192.0.2.1 5000\n198.51.100.1 5000\n203.0.113.1 5000\n2001:db8::1 5000\n"
    equal = ("192.0.2.1", "203.0.113.1")
    assert turned(told, equal, 0) == (b"192.0.2.1 5000\n203.0.113.1 5000\n198.51.100.1 5000\n2001:db8::1 5000\n")
    assert turned(told, equal, 3).splitlines()[:2] == [b"203.0.113.1 5000", b"192.0.2.1 5000"]
    assert turned(told, ("192.0.2.9",), 1) == turned(told, (), 1) == told
