"""The JSON form: what goes in comes out, and anything else is an error with its path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topology_strategies import links, topologies

from autotune.errors import ProbeError
from autotune.topology.document import from_json, to_json
from autotune.topology.graph import Topology
from autotune.topology.links import Link
from autotune.topology.probes.linux import parse

Recorded = Callable[[str], dict[str, str]]

CPU_ENDS = [f"host0/cpu{cpu}" for cpu in range(8)] + ["host0/net-ens5", "host0/numa0"]


@given(measured=st.lists(links(CPU_ENDS), max_size=6))
def test_round_trip(recorded: Recorded, measured: list[Link]) -> None:
    topology = parse(recorded("overlapping-numa")).with_links(measured)
    assert from_json(to_json(topology)) == topology


@given(topology=topologies())
def test_round_trip_of_clusters(topology: Topology) -> None:
    assert from_json(to_json(topology)) == topology


def test_a_text_of_version_1_is_read(recorded: Recorded) -> None:
    topology = parse(recorded("two-sockets-smt-roce"))
    document = json.loads(to_json(topology))
    assert document.pop("shared") == document.pop("contradictions") == []
    assert from_json(json.dumps(document | {"schema_version": 1})) == topology


def test_one_device_a_line(recorded: Recorded) -> None:
    topology = parse(recorded("virtual-machine"))
    text = to_json(topology)
    assert [json.loads(line.strip(" ,"))["id"] for line in text.splitlines() if '"kind"' in line] == [
        device.id for device in topology.devices
    ]


def changed(recorded: Recorded, edit: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(to_json(parse(recorded("two-sockets-smt-roce"))))
    edit(document)
    return json.dumps(document)


def measured_link(**facts: object) -> dict[str, object]:
    return {"src": "host0/cpu0", "dst": "host0/cpu1", "kind": "shm", "source": "probe", **facts}


def limit(**facts: object) -> dict[str, object]:
    ends = {"senders": ["host0/cpu0"], "receivers": ["host0/cpu1"]}
    return {"name": "root", **ends, "bandwidth_gb_per_s": 7, "source": "user", **facts}


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        (lambda d: d.update(schema_version=3), r"\$\.schema_version is 3; allowed is 1 or 2"),
        (lambda d: d.update(schema_version=1), r"\$\.(shared|contradictions) is \[\]; allowed is nothing here"),
        (lambda d: d.update(schema_version=True), r"\$\.schema_version is True"),
        (lambda d: d.pop("links"), r"\$ is \"an object without 'links'\""),
        (lambda d: d.update(names=[]), r"\$\.names"),
        (lambda d: d.update(devices={}), r"\$\.devices is {}; allowed is a list"),
        (lambda d: d["devices"].insert(2, 7), r"\$\.devices\[2\] is 7"),
        (
            lambda d: d["devices"][0].update(kind="toaster"),
            r"\$\.devices\[0\]\.kind is 'toaster'; allowed is one of host",
        ),
        (lambda d: d["devices"][0].update(kind=["host"]), r"\$\.devices\[0\]\.kind"),
        (lambda d: d["devices"][0].update(memory_bytes=1.5), r"\$\.devices\[0\]\.memory_bytes is 1\.5"),
        (lambda d: d["devices"][0].update(memory_bytes=-1), r"\$\.devices\[0\]: host0: memory_bytes is -1"),
        (lambda d: d["devices"][0].update(colour="red"), r"\$\.devices\[0\]\.colour is 'red'"),
        (lambda d: d["devices"][1].pop("number"), r"\$\.devices\[1\] is \"an object without 'number'\""),
        (lambda d: d["devices"][1].update(parent="nowhere"), "its parent nowhere does not stand before it"),
        (lambda d: d["devices"][-1].update(id="host0"), "two devices are called host0"),
        (
            lambda d: next(x for x in d["devices"] if x["kind"] == "numa_node").update(distances=[["host0/numa1"]]),
            "a list of 2",
        ),
        (lambda d: next(x for x in d["devices"] if x["kind"] == "cpu").update(allowed=1), "true or false"),
        (lambda d: d["links"].append(measured_link(kind="string")), r"\$\.links\[0\]\.kind is 'string'"),
        (lambda d: d["links"].append(measured_link(source=None)), r"\$\.links\[0\]\.source is None"),
        (lambda d: d["links"].append(measured_link(latency_us=0)), "latency_us is 0"),
        (lambda d: d["links"].append(measured_link(dst="host0/cpu99")), "there is no device host0/cpu99"),
        (lambda d: d["links"].extend([measured_link()] * 2), r"\$\.links\[1\] is 'host0/cpu0 to host0/cpu1'"),
        (lambda d: d["links"].append(measured_link(kind="pcie", path="near")), r"\$\.links\[0\]\.path is 'near'.*pix"),
        (
            lambda d: d["links"].append(measured_link(path="pix")),
            r"\$\.links\[0\]: .* path is of PCIe links, not of shm",
        ),
        (lambda d: d["links"].append(measured_link(n_bonded=0)), "n_bonded is 0"),
        (lambda d: d["shared"].append(limit(senders=["host0/cpu99"])), "there is no device host0/cpu99"),
        (lambda d: d["shared"].append(limit(receivers=[])), r"\$\.shared\[0\]: shared root: receivers are \(\)"),
        (lambda d: d["shared"].append(limit(bandwidth_gb_per_s=0)), "bandwidth_gb_per_s is 0"),
        (
            lambda d: d["shared"].append({"name": "root"}),
            r"\$\.shared\[0\] is \"an object without 'bandwidth_gb_per_s'\"",
        ),
        (lambda d: d["shared"].extend([limit()] * 2), "two shared resources are called root"),
        (lambda d: d["unseen"].append(3), r"\$\.unseen\[0\]|\$\.unseen\[1\]"),
    ],
)
def test_says_the_path_of_what_is_wrong(
    recorded: Recorded, edit: Callable[[dict[str, Any]], object], path: str
) -> None:
    with pytest.raises(ProbeError, match=path):
        from_json(changed(recorded, edit))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "line 1, column 1"),
        ("{\n", "line 2, column 1"),
        ("\ufeff{}", "BOM"),
        ("[]", "allowed is an object"),
        ('{"links": NaN}', "NaN"),
        ('{"links": [], "links": []}', "each name once"),
        ("[" * 100_000, "not a topology"),
        ('{"schema_version": ' + "9" * 5000 + "}", "not a topology"),
    ],
)
def test_refuses_what_is_no_topology(text: str, fault: str) -> None:
    with pytest.raises(ProbeError, match=fault):
        from_json(text)


@given(cut=st.floats(0, 0.999))
def test_a_cut_text_is_an_error(recorded: Recorded, cut: float) -> None:
    text = to_json(parse(recorded("virtual-machine"))).rstrip()
    with pytest.raises(ProbeError):
        from_json(text[: int(len(text) * cut)])
