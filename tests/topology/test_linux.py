"""The Linux probe: what cannot be read without guessing is an error, what is absent is said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ProbeError
from autotune.topology.devices import Cache, Core, NumaNode, Socket
from autotune.topology.probes.linux import collect, parse
from autotune.topology.render import tree

Recorded = Callable[[str], dict[str, str]]

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (f"{CPU}/online", "0-x", "a CPU list such as 0-3,8"),
        (f"{CPU}/online", "0-999999999", "a CPU list such as 0-3,8"),
        (f"{CPU}/online", "", "no CPUs"),
        ("/proc/self/status", "Cpus_allowed_list:\t7", "an allowed CPU among those online, 0-1"),
        ("/proc/self/status", "Cpus_allowed_list:\t", "an allowed CPU among those online, 0-1"),
        ("/proc/meminfo", "MemTotal: many", "a line MemTotal: NUMBER kB"),
        ("/dev/shm", "big", "NUMBER bytes"),
        (f"{CPU}/cpu0/topology/physical_package_id", "first", "a whole number"),
        (f"{CPU}/cpu0/topology/core_cpus_list", "0-1", "CPU 0 with siblings that say the same of themselves"),
        (f"{CPU}/cpu0/topology/core_cpus_list", "1", "CPU 0 with siblings that say the same of themselves"),
        (f"{CPU}/cpu0/cache/index0/size", "32", "a size such as 32768K"),
        (f"{CPU}/cpu0/cache/index0/size", "0K", "a size such as 32768K"),
        (f"{CPU}/cpu0/cache/index0/level", "9", "a cache level from 1 to 5"),
        (f"{NODE}/node0/distance", "10 20", "1 distances"),
        (f"{NODE}/node0/distance", "near", "1 distances"),
        (f"{NODE}/node0/meminfo", "Node 0 MemTotal: 12 pages", "a line MemTotal: NUMBER kB"),
        ("/sys/class/net/eth0/speed", "fast", "a whole number"),
        ("/sys/class/net/eth0/mtu", "-1", "a whole number from 0 up"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "some", "a whole number from 0 up"),
    ],
)
def test_says_file_got_and_expected(recorded: Recorded, path: str, text: str, expected: str) -> None:
    recording = recorded("virtual-machine")
    assert path in recording
    recording[path] = text
    with pytest.raises(ProbeError) as caught:
        parse(recording)
    assert path.removesuffix("/core_cpus_list") in caught.value.message
    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (f"{CPU}/online", "CPUs online: /sys/devices/system/cpu/online is absent, taken from /proc/cpuinfo"),
        ("/proc/self/status", "CPUs that this process may use: not in /proc/self/status, taken to be all"),
        ("/proc/cpuinfo", "CPU model: no 'model name' and no 'CPU part' in /proc/cpuinfo"),
        ("/dev/shm", "shared memory: /dev/shm is absent"),
        ("/proc/self/mountinfo", "limits of the control group: no control groups are mounted here"),
        (f"{CPU}/cpu1/topology/physical_package_id", f"sockets of CPUs 1: no topology/physical_package_id in {CPU}"),
        (f"{CPU}/cpu1/topology/core_cpus_list", f"hardware threads of CPUs 1: no topology/core_cpus_list in {CPU}"),
        (f"{CPU}/cpu0/cache/index3/size", f"caches L3: size, type or sharing is not told in {CPU}"),
        (f"{NODE}/node0/cpulist", f"NUMA nodes: none in {NODE}"),
    ],
)
def test_says_what_it_could_not_see_and_builds_the_rest(recorded: Recorded, gone: str, words: str) -> None:
    recording = recorded("virtual-machine")
    del recording[gone]
    topology = parse(recording)
    assert words in topology.unseen
    assert topology.n_cores == 2


def test_says_that_a_file_is_denied(recorded: Recorded) -> None:
    recording = recorded("virtual-machine")
    recording[f"{CPU}/online"] = "!EACCES"
    assert any("cannot be read (EACCES)" in words for words in parse(recording).unseen)


def test_caches_that_a_cpu_does_not_tell_are_said(recorded: Recorded) -> None:
    recording = {path: text for path, text in recorded("virtual-machine").items() if "/cache/" not in path}
    assert f"caches of CPUs 0-1: none in {CPU}" in parse(recording).unseen


def test_older_kernels_name_the_siblings_otherwise(recorded: Recorded) -> None:
    recording = recorded("two-sockets-smt-roce")
    renamed = {path.replace("core_cpus_list", "thread_siblings_list"): text for path, text in recording.items()}
    assert parse(renamed) == parse(recording)


def test_an_offline_thread_leaves_its_core_with_one(recorded: Recorded) -> None:
    recording = recorded("two-sockets-smt-roce")
    recording[f"{CPU}/online"] = "0-30"
    topology = parse(recording)
    assert len(topology.of(Core)) == 16
    assert [len(topology.children(core.id)) for core in topology.of(Core)].count(1) == 1


def test_sub_numa_clusters_stand_inside_the_cache_that_spans_them(recorded: Recorded) -> None:
    recording = recorded("virtual-machine")
    recording |= {f"{NODE}/node0/cpulist": "0", f"{NODE}/node0/distance": "10 11"}
    recording |= {f"{NODE}/node1/cpulist": "1", f"{NODE}/node1/distance": "11 10"}
    topology = parse(recording)
    (shared,) = (cache for cache in topology.of(Cache) if cache.level == 3)
    assert [node.parent for node in topology.of(NumaNode)] == [shared.id, shared.id]
    a, b = topology.allowed_cpus
    assert str(topology.distance(a, b)) == "same L3, NUMA distance 11"


def test_a_numa_node_that_spans_sockets_stands_around_them(recorded: Recorded) -> None:
    recording = recorded("virtual-machine")
    recording[f"{CPU}/cpu1/topology/physical_package_id"] = "1"
    topology = parse(recording)
    assert [socket.parent for socket in topology.of(Socket)] == ["host0/l3-0-1", "host0/l3-0-1"]
    assert topology.device("host0/l3-0-1").parent == "host0/numa0"


def test_nothing_there_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ProbeError) as caught:
        parse(collect(str(tmp_path)))
    assert "no CPUs" in caught.value.message
    assert caught.value.remedy == "mount /sys and /proc, then probe again"


@given(data=st.data())
def test_a_damaged_recording_is_an_error_or_a_topology(recorded: Recorded, data: st.DataObject) -> None:
    """Texts replaced, cut or removed: never another exception, and what is built can be drawn."""
    recording = recorded(data.draw(st.sampled_from(["overlapping-numa", "kunpeng-4-numa", "virtual-machine"])))
    for path in data.draw(st.lists(st.sampled_from(sorted(recording)), max_size=4)):
        text = recording.get(path, "")
        odd = st.sampled_from(
            ["", "0", "-1", "0-3", "1-9", "max", "!EIO", "\0", "10 20 30", "9" * 30, text[:-1], text * 2]
        )
        recording[path] = data.draw(odd | st.text(max_size=8))
        if data.draw(st.booleans()):
            del recording[path]
    with contextlib.suppress(ProbeError):
        assert tree(parse(recording)).endswith("\n")
