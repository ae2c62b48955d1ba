"""Hosts with several interfaces: what reaches the others is used, or an error on all ranks says why."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from scenes.scene import Played, Scene, Step

Play = Callable[[Scene, Path], Played]
Words = list[list[str]]

STEPS: list[Step] = [{"do": "join"}, {"do": "all_reduce", "count": 50_000}, {"do": "transports"}, {"do": "close"}]
TIMEOUT_S = 5.0


def used(played: Played) -> set[str]:
    """The interfaces that carried messages, by all ranks alike."""
    assert set(played.codes) == {0}, played.said
    for step in range(len(STEPS)):
        assert set(played.errors(step)) == {"none"}, played.errors(step)
    pairs = [result[2]["pairs"] for result in played.results if result is not None]
    assert all(own == pairs[0] for own in pairs)
    return {kind.partition("/")[2] for pair in pairs[0] for kind in pair[2:]}


def cable(*addresses: str) -> Words:
    """A second interface of two hosts, eth1, joined straight."""
    made = [["-n", "@0", "link", "add", "eth1", "type", "veth", "peer", "name", "eth1", "netns", "@1"]]
    return made + [words for host, address in enumerate(addresses) for words in up(host, "eth1", address)]


def up(host: int, name: str, address: str) -> Words:
    return [
        ["-n", f"@{host}", "address", "add", address, "dev", name],
        ["-n", f"@{host}", "link", "set", name, "up"],
    ]


def to_nowhere(host: int, address: str) -> Words:
    """eth1, which is up and has an address, and whose other end is nobody's."""
    made = [["-n", f"@{host}", "link", "add", "eth1", "type", "veth", "peer", "name", "end1"]]
    return [*made, ["-n", f"@{host}", "link", "set", "end1", "up"], *up(host, "eth1", address)]


def test_two_interfaces_in_two_subnets_both_reach(play: Play, tmp_path: Path) -> None:
    prepare = cable("192.0.2.1/24", "192.0.2.2/24")
    assert used(play(Scene(per_host=(1, 1), steps=STEPS, prepare=prepare), tmp_path)) <= {"eth0", "eth1"}


def test_ranks_of_a_host_share_its_equal_interfaces_out(play: Play, carrier: str, tmp_path: Path) -> None:
    """The first rank of each host is reached by the first one, the second by the second."""
    steps = [STEPS[0], STEPS[2], STEPS[3]]
    prepare = cable("192.0.2.1/24", "192.0.2.2/24")
    played = play(Scene(per_host=(2, 2), steps=steps, prepare=prepare), tmp_path)
    assert played.codes == [0] * 4, played.said
    for results in played.results:
        assert results is not None
        pairs = {(low, high): kinds for low, high, *kinds in results[1]["pairs"]}
        if carrier == "sockets":  # UCX sends each message by all of them
            found = [pairs[low, high] for low, high in ((0, 2), (1, 2), (0, 3), (1, 3))]
            assert found == [["sockets/eth0"], ["sockets/eth0"], ["sockets/eth1"], ["sockets/eth1"]]


@pytest.mark.parametrize("name", [pytest.param("eth0", marks=pytest.mark.slow), "eth1"])
def test_of_two_interfaces_the_named_one_is_used(name: str, play: Play, tmp_path: Path) -> None:
    prepare = cable("192.0.2.1/24", "192.0.2.2/24")
    scene = Scene(per_host=(1, 1), steps=STEPS, prepare=prepare, environ={"AUTOTUNE_NET_DEVICES": name})
    assert used(play(scene, tmp_path)) == {name}


@pytest.mark.parametrize(
    "addresses", [("192.0.2.1/24", "203.0.113.1/24"), ("192.0.2.1/24", "192.0.2.2/24")], ids=["two nets", "one net"]
)
def test_interfaces_that_lead_nowhere_are_not_used(addresses: tuple[str, str], play: Play, tmp_path: Path) -> None:
    """In one net, the address promises what no cable keeps: that is noticed, or an error on all ranks in time."""
    prepare = [words for host, address in enumerate(addresses) for words in to_nowhere(host, address)]
    played = play(Scene(per_host=(1, 1), steps=STEPS, prepare=prepare, timeout_s=TIMEOUT_S), tmp_path)
    if addresses[0].rpartition(".")[0] != addresses[1].rpartition(".")[0] or played.errors(0) == ["none", "none"]:
        assert used(played) == {"eth0"}
    else:
        assert_errors(played)


def assert_errors(played: Played) -> None:
    """On both ranks, in time; each names a rank and its host."""
    for error in played.errors(0):
        assert re.search(r"rank \d on ", error), error
    assert all(result is not None and result[0]["seconds"] < 4 * TIMEOUT_S for result in played.results)


def test_a_named_interface_that_leads_nowhere_is_an_error_on_all_ranks(play: Play, tmp_path: Path) -> None:
    prepare = [*to_nowhere(0, "192.0.2.1/24"), *to_nowhere(1, "192.0.2.2/24")]
    environ = {"AUTOTUNE_NET_DEVICES": "eth1"}
    assert_errors(
        play(Scene(per_host=(1, 1), steps=STEPS[:1], prepare=prepare, environ=environ, timeout_s=TIMEOUT_S), tmp_path)
    )


def test_an_interface_without_an_address_is_not_used(play: Play, carrier: str, tmp_path: Path) -> None:
    """The ports of a bond, and of a bridge: what they are joined to has the address. Few kernels here know bonds."""
    prepare = []
    for host in range(2):
        name = f"@{host}"
        prepare += [
            ["-n", name, "address", "flush", "dev", "eth0"],
            ["-n", name, "link", "add", "bond0", "type", "bridge"],
            ["-n", name, "link", "set", "eth0", "master", "bond0"],
            *up(host, "bond0", f"198.18.0.{host + 1}/24"),
        ]
    played = play(Scene(per_host=(1, 1), steps=STEPS, prepare=prepare, timeout_s=TIMEOUT_S), tmp_path)
    if carrier == "sockets" or played.errors(0) == ["none", "none"]:
        assert used(played) == {"bond0"}
    else:  # UCX tries the ports all the same
        assert_errors(played)


@pytest.mark.slow
def test_a_bond_is_used(play: Play, tmp_path: Path) -> None:
    prepare = [["-n", "@0", "link", "add", "probe0", "type", "bond"]]
    try:
        play(Scene(per_host=(1, 1), steps=[], prepare=prepare), tmp_path)
    except AssertionError as err:
        if "Unknown device type" not in str(err) and "not supported" not in str(err):
            raise
        pytest.skip("needs bonds: not in this kernel")
    prepare = []
    for host in range(2):
        name = f"@{host}"
        prepare += [
            ["-n", name, "address", "flush", "dev", "eth0"],
            ["-n", name, "link", "set", "eth0", "down"],
            ["-n", name, "link", "add", "bond0", "type", "bond", "mode", "active-backup"],
            ["-n", name, "link", "set", "eth0", "master", "bond0"],
            *up(host, "bond0", f"198.18.0.{host + 1}/24"),
        ]
    assert used(play(Scene(per_host=(1, 1), steps=STEPS, prepare=prepare), tmp_path)) == {"bond0"}


@pytest.mark.slow
def test_interfaces_of_different_names(play: Play, tmp_path: Path) -> None:
    prepare = [
        ["-n", "@1", "link", "set", "eth0", "down"],
        ["-n", "@1", "link", "set", "eth0", "name", "ens5"],
        ["-n", "@1", "link", "set", "ens5", "up"],
    ]
    scene = Scene(
        per_host=(1, 1),
        steps=STEPS,
        prepare=prepare,
        own_environ={"0": {"AUTOTUNE_NET_DEVICES": "eth0"}, "1": {"AUTOTUNE_NET_DEVICES": "ens5"}},
    )
    assert used(play(scene, tmp_path)) <= {"eth0", "ens5"}
