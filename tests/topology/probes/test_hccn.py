"""``hccn_tool`` and /etc/hccn.conf: one interface inside each NPU, and everything that does not fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import accelerator_texts as texts
import pytest

from autotune.errors import ProbeError
from autotune.topology.accelerators import Npu
from autotune.topology.devices import Nic
from autotune.topology.probes import hccn
from autotune.topology.probes.findings import Findings

Recorded = Callable[[str], dict[str, str]]

SWITCH = "00:00:5e:00:53:01/400GE1/0/7"


def parse(recording: dict[str, str]) -> Findings:
    return hccn.parse(recording, "host0", {}, {})


def port(number: int = 0, address: str = "192.0.2.10", **changes: str) -> dict[str, str]:
    entries = texts.hccn_port(number, address, "192.0.2.1", SWITCH)
    return entries | {f"hccn_tool -i {number} -{query} -g": text for query, text in changes.items()}


def refused(recording: dict[str, str]) -> str:
    with pytest.raises(ProbeError) as caught:
        parse(recording)
    assert caught.value.remedy
    return caught.value.message


def test_an_interface_stands_inside_its_npu(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-a2-mesh"))
    assert len(findings.devices) == 8
    assert findings.devices[3] == Nic(
        id="host0/npu3/roce0",
        parent="host0/npu3",
        name="roce0",
        state="up",
        address="192.0.2.23",
        switch_port="00:00:5e:00:53:13/400GE1/1/2:1",
    )
    assert findings.unseen == findings.contradictions == ()


def test_in_a_container_the_hosts_number_finds_the_npu(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-a2-container-two-of-eight"))
    assert [(device.parent, device.address) for device in findings.devices if isinstance(device, Nic)] == [
        ("host0/npu0", "198.51.100.64"),
        ("host0/npu1", "198.51.100.65"),
    ]
    assert findings.unseen == ("RoCE of NPUs 0-3,6-7: in hccn_tool or /etc/hccn.conf, and no such NPU is seen",)


def test_without_npu_smi_the_interfaces_name_the_npus() -> None:
    findings = parse(port(3) | {"/etc/hccn.conf": "address_3=192.0.2.10\naddress_5=192.0.2.12\n"})
    assert [(npu.number, npu.address) for npu in findings.devices if isinstance(npu, Npu)] == [
        (3, "192.0.2.10"),
        (5, "192.0.2.12"),
    ]
    assert parse({}) == Findings()


def test_after_a_failed_npu_smi_the_file_alone_names_none() -> None:
    findings = parse({"npu-smi info": "!denied", "/etc/hccn.conf": "address_3=192.0.2.10\n"})
    assert findings.devices == ()
    assert findings.unseen == ("RoCE of NPU 3: in hccn_tool or /etc/hccn.conf, and no such NPU is seen",)


def test_a_stale_file_is_a_contradiction_with_both_values(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-a2-interleaved-numa"))
    assert findings.contradictions == (
        "RoCE of NPU 2: hccn_tool says address 203.0.113.42 and /etc/hccn.conf says 203.0.113.102; the file is stale",
        "TLS is on for NPU 7 and off for NPUs 0-6 (hccn_tool -tls)",
    )
    states = [device.state for device in findings.devices if isinstance(device, Nic)]
    assert states == ["up"] * 5 + ["down"] + ["up"] * 2
    conf = {"/etc/hccn.conf": "address_0=192.0.2.10\nnetmask_0=255.255.0.0\ngateway_0=192.0.2.2\n"}
    assert [words.split(" says ")[1] for words in parse(port() | conf).contradictions] == [
        "netmask 255.255.255.0 and /etc/hccn.conf",
        "gateway 192.0.2.1 and /etc/hccn.conf",
    ]


def test_other_contradictions() -> None:
    assert parse(port(0) | port(1)).contradictions == ("RoCE of NPUs 0-1: one address for all, 192.0.2.10",)
    assert parse(port(net_health="net health status: Fault")).contradictions == (
        "RoCE of NPU 0: hccn_tool says that the link is up and that its health is Fault",
    )
    assert parse(port(net_health="net health status: Init")).contradictions == ()


def test_tls_in_both_forms() -> None:
    both = port(0, tls="tls switch: 1") | port(1, "192.0.2.11", tls="dev_id:1, tls switch[0](0:disable, 1:enable)")
    assert parse(both).contradictions == ("TLS is on for NPU 0 and off for NPU 1 (hccn_tool -tls)",)


def test_what_an_interface_does_not_tell_is_said_once() -> None:
    silent = port(ip="hccn_tool is busy, please try again") | port(1, ip="hccn_tool is busy, please try again")
    findings = parse(silent)
    assert findings.unseen == ("RoCE of NPUs 0-1: hccn_tool -ip says 'hccn_tool is busy, please try again'",)
    assert [device.state for device in findings.devices if isinstance(device, Nic)] == ["up", "up"]
    assert parse({"hccn_tool -i 0 -ip -g": "!absent"}).unseen == ("RoCE of NPU 0: hccn_tool is not installed",)
    assert parse({"hccn_tool -i 0 -ip -g": "!exit 1: no such device"}).unseen == (
        "RoCE of NPU 0: hccn_tool -ip failed (exit 1: no such device)",
    )
    assert parse(port(stat="roce_rx_err_pkt_num:12\nroce_tx_err_pkt_num:0")).unseen == (
        "RoCE of NPU 0: roce_rx_err_pkt_num is 12 (hccn_tool -stat)",
    )
    assert "cannot be read (EACCES)" in parse({"/etc/hccn.conf": "!EACCES"}).unseen[0]


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        (port(ip="ipaddr:192.0.2.300"), "hccn_tool -i 0 -ip -g, line 1, column 8: got '192.0.2.300'"),
        (port(link="link status: SIDEWAYS"), "got 'SIDEWAYS', expected UP or DOWN"),
        (port(net_health="net health status: 7"), "got '7', expected a health"),
        (port(lldp="Chassis ID TLV\n\tMAC: 00:00\nPort ID TLV\n\tIfname: 1"), "line 2, column 7: got '00:00'"),
        (port(gateway="default gateway:gate, Iface:eth0"), "got 'gate', expected an IP address"),
        (port(stat="roce_rx_err_pkt_num:many"), "got 'many', expected a count"),
        (port(tls="tls switch: perhaps"), "expected tls switch: 0 or 1"),
        ({"/etc/hccn.conf": "address_0=192.0.2\n"}, "/etc/hccn.conf, line 1, column 11: got '192.0.2'"),
        ({"/etc/hccn.conf": "address_0 192.0.2.1\n"}, "expected a line such as address_0=192.0.2.10"),
        (
            {"/etc/hccn.conf": "address_0=192.0.2.1\naddress_0=192.0.2.2\n"},
            "line 2, column 1: got 'address_0=192.0.2.2'",
        ),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(recording: dict[str, str], words: str) -> None:
    assert words in refused(recording)


def test_the_file_may_have_comments_other_keys_and_crlf() -> None:
    conf = "\ufeff# ports\r\naddress_0=192.0.2.10\r\nsend_arp_status_0=1\r\n\r\n"
    assert [npu.address for npu in parse({"/etc/hccn.conf": conf}).devices if isinstance(npu, Npu)] == ["192.0.2.10"]


def test_collect_asks_by_the_hosts_numbers(recorded: Recorded, tmp_path: Path) -> None:
    recording = recorded("atlas-a2-container-two-of-eight")
    conf = tmp_path / "etc" / "hccn.conf"
    conf.parent.mkdir()
    conf.write_text(recording["/etc/hccn.conf"], "utf-8")
    asked = hccn.collect(lambda words: recording[" ".join(words)], str(tmp_path))
    assert asked == {key: text for key, text in recording.items() if "hccn" in key}


def test_collect_stops_where_the_tool_is_not_there(recorded: Recorded, tmp_path: Path) -> None:
    recording = recorded("atlas-a3-container-one-module")
    asked = hccn.collect(lambda words: recording.get(" ".join(words), "!absent"), str(tmp_path))
    assert asked == {"hccn_tool -i 10 -ip -g": "!absent"}
    runs: list[Sequence[str]] = []

    def no_npus(words: Sequence[str]) -> str:
        runs.append(words)
        return "!absent"

    assert hccn.collect(no_npus, str(tmp_path)) == {}
    assert len(runs) == 1
