"""Rank tables that were damaged: an error or a sound table, and in a time that grows with the table."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rank_table_trees import MAKERS, faults_of, topology_file

from autotune.errors import ProbeError
from autotune.topology.rank_table import is_rank_table, is_topology_file, read_rank_table, read_topology_file

_ODD = st.sampled_from([None, True, -1, 0, 3, 1e300, "", "0", "1.2", "xx", "<id>", "9" * 30, [], {}, [[]], "\0", "é"])


def _mutated(data: st.DataObject, value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value with one place in it replaced, doubled or taken away."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 9)):
        name = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 9)) == 0:
            return {key: each for key, each in value.items() if key != name}
        return value | {name: _mutated(data, value[name])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 9)):
        index = data.draw(st.integers(0, len(value) - 1))
        how = data.draw(st.integers(0, 9))
        if how < 2:
            return [*value[:index], *value[index + how :], *value[index : index + how]]
        return [*value[:index], _mutated(data, value[index]), *value[index + 1 :]]
    return data.draw(_ODD)


@settings(max_examples=400)
@given(version=st.sampled_from(sorted(MAKERS)), n=st.integers(1, 3), data=st.data())
def test_a_mutated_table_is_an_error_or_a_sound_table(version: str, n: int, data: st.DataObject) -> None:
    tree = MAKERS[version]()
    for _ in range(n):
        tree = _mutated(data, tree)
    with contextlib.suppress(ProbeError):
        table = read_rank_table(json.dumps(tree), "hccl.json")
        ranks = [device.rank for device in table.devices]
        assert ranks == list(range(len(ranks)))
        assert ranks
        addresses = [address for device in table.devices for address in device.addresses]
        assert len(set(addresses)) == len(addresses)


@settings(max_examples=200)
@given(n=st.integers(1, 3), data=st.data())
def test_a_mutated_topology_file_is_an_error_or_a_sound_one(n: int, data: st.DataObject) -> None:
    tree = topology_file()
    for _ in range(n):
        tree = _mutated(data, tree)
    text = json.dumps(tree)
    assert isinstance(is_topology_file(text), bool)
    with contextlib.suppress(ProbeError):
        found = read_topology_file(text, "topo.json")
        assert len(found.edges) == len(tree["edge_list"])
        assert {end for edge in found.edges for end in (edge.local_a, edge.local_b)} <= {None, *found.local_ids}


@settings(max_examples=200)
@given(text=st.text(max_size=200), cut=st.integers(0, 1200), version=st.sampled_from(sorted(MAKERS)))
def test_a_cut_or_overwritten_text_is_an_error(text: str, cut: int, version: str) -> None:
    whole = json.dumps(MAKERS[version](), indent=1)
    damaged = whole[: min(cut, len(whole) - 2)] + text
    with contextlib.suppress(ProbeError):
        assert read_rank_table(damaged, "hccl.json").devices
    assert isinstance(is_rank_table(damaged), bool)


def test_many_ranks_and_faults_take_no_longer_than_they_must() -> None:
    """Ranks of 400 servers, each with a rank of another one between its own: linear, not quadratic."""
    servers = [
        {
            "server_id": f"n{server}",
            "device": [
                {"device_id": str(i), "device_ip": f"2001:db8::{server:x}:{i}", "rank_id": str(rank)}
                for i, rank in enumerate((server, 799 - server))
            ],
        }
        for server in range(400)
    ]
    words = faults_of({"status": "completed", "version": "1.0", "server_list": servers})
    assert words.count("wanted is that the ranks of a server are together") == 399
