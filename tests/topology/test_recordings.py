"""Recordings on disk and loose files: recognised by content, grouped by folder, refused when they are nothing known."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.errors import ProbeError, UsageError
from autotune.topology import host
from autotune.topology.document import to_json as topology_to_json
from autotune.topology.recognition import recognise
from autotune.topology.recording_file import from_json, to_json
from autotune.topology.recordings import MAX_FILE_BYTES, load, save

Recorded = Callable[[str], dict[str, str]]
MACHINES = Path(__file__).parents[1] / "golden" / "machines"
A3 = MACHINES / "cluster-a3-super-pod" / "recording"


def names(path: Path) -> list[str | None]:
    return [found.name for found in load([path]).hosts]


def test_what_is_saved_comes_back(recorded: Recorded, tmp_path: Path) -> None:
    recording = recorded("two-sockets-smt-roce") | {"npu-smi info": "!absent", "/odd/é": "line\nline\t\"'"}
    path = save(recording, tmp_path / "new" / "hosta")
    assert path == tmp_path / "new" / "hosta" / "recording.json"
    assert from_json(path.read_text("utf-8"), "x") == recording
    (found,) = load([tmp_path / "new"]).hosts
    assert (found.name, found.recording) == ("hosta", recording)
    assert os.listdir(path.parent) == ["recording.json"]


def test_an_older_recording_is_replaced_as_a_whole(tmp_path: Path) -> None:
    save({"/a": "1", "/b": "2"}, tmp_path)
    save({"/a": "3"}, tmp_path)
    assert load([tmp_path]).hosts[0].recording == {"/a": "3"}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProbeError, match="cannot be written") as caught:
        save({"/a": "1"}, tmp_path / "file")
    assert "--save DIR" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1, column 2"),
        ("[1]", "no recording, but list"),
        ("{}", "no recording, but dict"),
        ('{"autotune recording": "2", "/a": "b"}', "a recording of version '2'"),
        ('{"/a": 1}', "/a is int, not a text"),
        ('{"a": "b"}', "'a' is neither an absolute path nor a known command"),
        ('{"rm -rf x": "b"}', "'rm -rf x' is neither"),
        ('{"/a": "b", "/a": "c"}', "'/a' stands twice"),
        ("[" * 100_000, "no recording"),
    ],
)
def test_damaged_recordings_are_refused(text: str, words: str) -> None:
    with pytest.raises(ProbeError) as caught:
        from_json(text, "rec.json")
    assert caught.value.message.startswith("rec.json")
    assert words in caught.value.message


def test_entries_stand_a_line_each_and_sorted() -> None:
    lines = to_json({"/b": "1", "/a": "2"}).splitlines()
    assert lines == ["{", '"autotune recording": "1",', '"/a": "2",', '"/b": "1"', "}"]


COMMANDS = {
    "npu-smi info": "| NPU   Name  | Health | Power(W) |\n| Chip  | Bus-Id | AICore(%) |\n",
    "npu-smi info -l": "\tTotal Count                    : 8\n\n\tNPU ID                         : 0\n",
    "npu-smi info -m": "\tNPU ID                         Chip ID                        Chip Logic ID   Chip Name\n",
    "npu-smi info -t topo": "\t   NPU0  NPU1  CPU Affinity\nNPU0  X  HCCS  0-23\nNPU1  HCCS  X  0-23\n",
    "npu-smi info -t usages -i 3": "\tNPU ID             : 3\n\tChip Count    : 1\n\tHBM Capacity(MB)   : 65536\n",
    "/etc/hccn.conf": "address_0=192.0.2.1\nnetmask_0=255.255.255.0\n",
    "nvidia-smi topo -m": "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV12\t0-23\nGPU1\tNV12\t X \t0-23\n",
    "nvidia-smi -L": "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n",
    "nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv,noheader": (
        "0, NVIDIA A100-SXM4-40GB, 40960 MiB, 00000000:07:00.0\n"
    ),
    "rocm-smi --showtopo": "====== Weight between two GPUs ======\n       GPU0  GPU1\nGPU0   0     15\n",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_outputs_are_recognised(command: str, end: str) -> None:
    text = COMMANDS[command].replace("\n", end)
    assert recognise(text, "paste.txt").entries == {command: text}


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("hccn_tool -i 3 -ip -g.txt", "hccn_tool -i 3 -ip -g"),
        ("hccn_tool_3_net_health.log", "hccn_tool -i 3 -net_health -g"),
        ("hccn_tool_-i_12_-lldp_-g", "hccn_tool -i 12 -lldp -g"),
        ("npu-smi info -t spod-info -i 1 -c 0.txt", "npu-smi info -t spod-info -i 1 -c 0"),
        ("npu_smi_info_t_hccs_i_1_c_1.txt", "npu-smi info -t hccs -i 1 -c 1"),
    ],
)
def test_the_file_s_name_tells_which_device_an_answer_is_about(file: str, command: str) -> None:
    assert recognise("ipaddr:192.0.2.1\n", f"folder/{file}").entries == {command: "ipaddr:192.0.2.1\n"}


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ipaddr:192.0.2.1\nnetmask:255.255.255.0\n", "hccn_tool -i 0 -ip -g.txt"),
        ("link status: UP\n", "hccn_tool_0_ip.txt"),
        ("Chassis ID TLV\n\tMAC: 00:00:5e:00:53:01\n", "hccn_tool"),
        ("SDID   : 3\nSuper Pod ID : 0\n", "spod-info -i 0 -c 0.txt"),
    ],
)
def test_an_answer_without_its_device_is_never_a_guess(text: str, remedy: str) -> None:
    with pytest.raises(ProbeError, match="does not say of which") as caught:
        recognise(text, "answer.txt")
    assert remedy in caught.value.remedy


def test_a_terminal_s_copy_is_taken_apart() -> None:
    text = (
        "Last login: Mon\n[root@hosta ~]# npu-smi   info -l\r\n\tTotal Count : 1\r\n"
        "[root@hosta ~]# ls /home\nsecret.txt\n"
        "hosta:~$ hccn_tool -i 0 -ip -g\nipaddr:192.0.2.1\n"
        "# cat /etc/hccn.conf\naddress_0=192.0.2.1\n"
    )
    entries = recognise(text, "copy.txt").entries
    assert list(entries) == ["npu-smi info -l", "hccn_tool -i 0 -ip -g", "/etc/hccn.conf"]
    assert "secret" not in "".join(entries.values())
    assert entries["hccn_tool -i 0 -ip -g"].strip() == "ipaddr:192.0.2.1"


@pytest.mark.parametrize("text", ["", "hello\nworld\n", "\0\1\2", '{"a": 1}', "{", "x" * 300, "<html></html>"])
def test_what_is_nothing_known_is_an_error_with_its_first_line(text: str) -> None:
    with pytest.raises(ProbeError) as caught:
        recognise(text, "some/file")
    assert caught.value.message.startswith("some/file begins ")
    assert repr(text.split("\n")[0][:70].strip())[1:-1] in caught.value.message
    assert "npu-smi info" in caught.value.message
    assert len(caught.value.message) < 600


def test_a_topology_as_probe_prints_it_is_recognised(recorded: Recorded) -> None:
    topology = host.parse(recorded("virtual-machine"))
    document = json.loads(topology_to_json(topology))
    for value in (document, {"fingerprint": "0" * 16, "topology": document}):
        assert recognise(json.dumps(value), "topology.json").topology == topology


def test_a_damaged_topology_says_where_and_in_which_file(recorded: Recorded) -> None:
    document = json.loads(topology_to_json(host.parse(recorded("virtual-machine"))))
    document["devices"][0]["kind"] = "toaster"
    with pytest.raises(ProbeError, match=r"topology.json: .*\$\.devices\[0\]"):
        recognise(json.dumps(document), "topology.json")


def test_a_folder_is_a_host_and_folders_in_it_are_hosts(tmp_path: Path) -> None:
    for name in ("hosta", "hostb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "topo.txt").write_text(COMMANDS["npu-smi info -t topo"])
        (tmp_path / name / ".hidden").write_text("x")
        (tmp_path / name / "deeper").mkdir()
    assert names(tmp_path) == ["hosta", "hostb"]
    assert names(tmp_path / "hosta") == ["hosta"]
    assert names(tmp_path / "hosta" / "topo.txt") == ["hosta"]


def test_files_that_hold_a_whole_host_are_hosts_wherever_they_lie(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("hosta", "hostb"):
        (tmp_path / f"{name}.json").write_text(to_json(recorded("virtual-machine")), "utf-8")
    assert names(tmp_path) == ["hosta", "hostb"]


def test_the_same_file_named_twice_counts_once(recorded: Recorded, tmp_path: Path) -> None:
    path = save(recorded("virtual-machine"), tmp_path / "hosta")
    assert len(load([path, tmp_path, path.parent]).hosts) == 1


def test_loose_files_complete_a_recording(recorded: Recorded, tmp_path: Path) -> None:
    save(recorded("virtual-machine"), tmp_path)
    (tmp_path / "hccn.conf").write_text(COMMANDS["/etc/hccn.conf"])
    (found,) = load([tmp_path]).hosts
    assert found.recording == recorded("virtual-machine") | {"/etc/hccn.conf": COMMANDS["/etc/hccn.conf"]}


def test_two_files_that_tell_the_same_otherwise_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(COMMANDS["npu-smi info -t topo"])
    (tmp_path / "two").write_text(COMMANDS["npu-smi info -t topo"].replace("HCCS", "PIX"))
    with pytest.raises(ProbeError, match="both tell npu-smi info -t topo of one host, and differ"):
        load([tmp_path])


def test_a_loose_file_beside_two_hosts_is_refused(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("hosta", "hostb"):
        (tmp_path / f"{name}.json").write_text(to_json(recorded("virtual-machine")), "utf-8")
    (tmp_path / "hccn.conf").write_text(COMMANDS["/etc/hccn.conf"])
    with pytest.raises(ProbeError, match="is about one host, and its folder holds 2") as caught:
        load([tmp_path])
    assert "folder of their own" in caught.value.remedy


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="No such file"):
        load([tmp_path / "nothing"])
    with pytest.raises(UsageError, match="there is no file"):
        load([tmp_path])
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ProbeError, match="is longer than"):
        load([tmp_path])


def test_a_rank_table_in_a_recording_is_about_the_cluster(recorded: Recorded, tmp_path: Path) -> None:
    table = (A3 / "ranktable.json").read_text("utf-8")
    save(recorded("virtual-machine") | {"RANK_TABLE_FILE": table}, tmp_path / "hosta")
    found = load([tmp_path])
    assert [where for where, _ in found.rank_tables] == ["RANK_TABLE_FILE of recording of hosta"]
    assert "RANK_TABLE_FILE" not in found.hosts[0].recording
