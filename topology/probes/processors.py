"""The processors of a Linux host: CPUs, cores, sockets, caches and NUMA nodes as sets of CPUs, and the CPU's name.

In: /proc/cpuinfo, /sys/devices/system/cpu and node. Out: groupings, which ``nesting`` makes a tree of. The parsing half
is pure but for the list ``unseen``, to which it adds what it could not see, in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...errors import ProbeError
from ..cpulist import format_cpu_list
from ..devices import Cache, Core, Cpu, DeviceId, NumaNode, Socket
from .nesting import Grouping
from .recording import (
    Recorder,
    Recording,
    cpus_at,
    kib_after,
    natural,
    not_readable,
    text_of,
    whole_number,
    why_missing,
)

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"
_STATUS = "/proc/self/status"
_CPUINFO = "/proc/cpuinfo"
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")  # the newer name first
_CACHE_FACTS = ("level", "type", "size", "shared_cpu_list")
_MODEL_LINE = re.compile(r"(processor|model name|CPU implementer|CPU part)\s*:")


def collect_processors(recorder: Recorder) -> None:
    """Record what the kernel tells of CPUs, without lines that drift (clocks) or identify (serial numbers)."""
    recorder.read(f"{_CPU}/online")
    recorder.read(f"{_CPU}/offline")
    recorder.read(_CPUINFO, keep=lambda line: _MODEL_LINE.match(line) is not None)
    recorder.read(_STATUS, keep=lambda line: line.startswith("Cpus_allowed_list:"))
    seen: set[tuple[str | None, ...]] = set()
    for name in recorder.names(_CPU):
        if re.fullmatch(r"cpu[0-9]+", name):
            recorder.read(f"{_CPU}/{name}/topology/physical_package_id")
            for siblings in _SIBLINGS:
                if recorder.read(f"{_CPU}/{name}/topology/{siblings}") is not None:
                    break
            _collect_caches(recorder, f"{_CPU}/{name}/cache", seen)
    for name in recorder.names(_NODE):
        if re.fullmatch(r"node[0-9]+", name):
            recorder.read(f"{_NODE}/{name}/cpulist")
            recorder.read(f"{_NODE}/{name}/distance")
            recorder.read(f"{_NODE}/{name}/meminfo", keep=lambda line: "MemTotal:" in line)


def _collect_caches(recorder: Recorder, directory: str, seen: set[tuple[str | None, ...]]) -> None:
    """Record each cache once, under the first of the CPUs that share it."""
    for index in recorder.names(directory):
        if re.fullmatch(r"index[0-9]+", index):
            key = tuple(recorder.peek(f"{directory}/{index}/{fact}") for fact in ("level", "type", "shared_cpu_list"))
            if key[-1] is None or key not in seen:
                seen.add(key)
                for fact in _CACHE_FACTS:
                    recorder.read(f"{directory}/{index}/{fact}")


def parse_processors(recording: Recording, host: DeviceId, unseen: list[str]) -> list[Grouping]:
    """Every device that is a set of CPUs, and the NUMA nodes without CPUs.

    Raises:
        ProbeError: no CPU in the recording, or a value that cannot be read without guessing.
    """
    online = _online(recording, unseen)
    allowed = _allowed(recording, online, unseen)
    cpus: list[Grouping] = []
    for cpu in sorted(online):
        device = Cpu(id=f"{host}/cpu{cpu}", parent=host, number=cpu, allowed=cpu in allowed)
        cpus.append(Grouping(device=device, cpus=frozenset({cpu})))
    return [
        *cpus,
        *_sockets(recording, host, online, unseen),
        *_numa_nodes(recording, host, online, unseen),
        *_cores(recording, host, online, unseen),
        *_caches(recording, host, online, unseen),
    ]


def cpu_model(recording: Recording) -> str | None:
    """The words of /proc/cpuinfo, or implementer and part on aarch64; several models are joined, None is not known."""
    models: set[str] = set()
    for stanza in re.split(r"^(?=processor\s*:)", text_of(recording, _CPUINFO) or "", flags=re.MULTILINE):
        facts = dict(re.findall(r"^(model name|CPU implementer|CPU part)\s*:\s*(\S.*)$", stanza, flags=re.MULTILINE))
        if "model name" in facts:
            models.add(" ".join(facts["model name"].split()))
        elif "CPU implementer" in facts and "CPU part" in facts:
            ids = (facts["CPU implementer"].strip(), facts["CPU part"].strip())
            models.add(_ARM_PARTS.get(ids, f"implementer {ids[0]} part {ids[1]}"))
    return " + ".join(sorted(models)) or None


# aarch64 kernels tell numbers only. The names that Linux has for the parts (arch/arm64/include/asm/cputype.h); the
# words are part of the fingerprint, so an entry, once there, stays as it is.
_ARM_PARTS = {
    ("0x48", "0xd01"): "HiSilicon Kunpeng 920 (TSV110)",
    ("0x41", "0xd08"): "Arm Cortex-A72",
    ("0x41", "0xd0c"): "Arm Neoverse N1",
    ("0x41", "0xd40"): "Arm Neoverse V1",
    ("0x41", "0xd49"): "Arm Neoverse N2",
    ("0x41", "0xd4f"): "Arm Neoverse V2",
}


def _online(recording: Recording, unseen: list[str]) -> frozenset[int]:
    online = cpus_at(recording, f"{_CPU}/online")
    if online is None:
        numbers = re.findall(r"^processor\s*:\s*([0-9]{1,5})\s*$", text_of(recording, _CPUINFO) or "", re.MULTILINE)
        online = frozenset(map(int, numbers))
        unseen.append(f"CPUs online: {why_missing(recording, f'{_CPU}/online')}, taken from /proc/cpuinfo")
    if not online:
        raise ProbeError(
            f"no CPUs: neither {_CPU}/online nor /proc/cpuinfo names one",
            remedy="mount /sys and /proc, then probe again",
        )
    offline = cpus_at(recording, f"{_CPU}/offline")
    if offline:
        unseen.append(f"CPUs offline: {format_cpu_list(offline)}")
    return online


def _allowed(recording: Recording, online: frozenset[int], unseen: list[str]) -> frozenset[int]:
    _, label, words = (text_of(recording, _STATUS) or "").partition("Cpus_allowed_list:")
    if not label:
        unseen.append(f"CPUs that this process may use: not in {_STATUS}, taken to be all")
        return online
    allowed = cpus_at({_STATUS: words}, _STATUS)
    if not allowed or not allowed & online:
        raise not_readable(_STATUS, words.strip(), f"an allowed CPU among those online, {format_cpu_list(online)}")
    return allowed & online


def _sockets(recording: Recording, host: DeviceId, online: frozenset[int], unseen: list[str]) -> Iterator[Grouping]:
    packages: dict[int, set[int]] = {}
    for cpu in sorted(online):
        package = whole_number(recording, f"{_CPU}/cpu{cpu}/topology/physical_package_id", least=-1)
        if package is not None and package >= 0:  # -1: the firmware does not tell
            packages.setdefault(package, set()).add(cpu)
    missing = online.difference(*packages.values())
    if missing:
        unseen.append(f"sockets of CPUs {format_cpu_list(missing)}: no topology/physical_package_id in {_CPU}")
    for package, cpus in packages.items():
        device = Socket(id=f"{host}/socket{package}", parent=host, number=package)
        yield Grouping(device=device, cpus=frozenset(cpus))


def _cores(recording: Recording, host: DeviceId, online: frozenset[int], unseen: list[str]) -> Iterator[Grouping]:
    missing: set[int] = set()
    siblings: dict[int, frozenset[int]] = {}
    for cpu in sorted(online):
        paths = [f"{_CPU}/cpu{cpu}/topology/{name}" for name in _SIBLINGS]
        told = next((cpus for path in paths if (cpus := cpus_at(recording, path)) is not None), None)
        if told is None:
            missing.add(cpu)
        siblings[cpu] = frozenset({cpu}) if told is None else told & online
    for cpu, cpus in siblings.items():
        if cpu not in cpus or any(siblings[other] != cpus for other in cpus):
            directory = f"{_CPU}/cpu{cpu}/topology"
            raise not_readable(
                directory, format_cpu_list(cpus), f"CPU {cpu} with siblings that say the same of themselves"
            )
        if cpu == min(cpus):
            yield Grouping(device=Core(id=f"{host}/core{cpu}", parent=host), cpus=cpus)
    if missing:
        unseen.append(f"hardware threads of CPUs {format_cpu_list(missing)}: no topology/core_cpus_list in {_CPU}")


def _caches(recording: Recording, host: DeviceId, online: frozenset[int], unseen: list[str]) -> Iterator[Grouping]:
    sizeless: set[str] = set()
    covered: set[int] = set()
    seen: set[tuple[int, frozenset[int]]] = set()
    levels = (path for path in recording if re.fullmatch(rf"{_CPU}/cpu[0-9]+/cache/index[0-9]+/level", path))
    for path in sorted(levels, key=natural):
        directory = path.removesuffix("/level")
        level = whole_number(recording, path)
        size = _cache_bytes(recording, f"{directory}/size")
        shared = cpus_at(recording, f"{directory}/shared_cpu_list")
        kind = text_of(recording, f"{directory}/type")
        if kind == "Instruction" or level is None:
            continue
        if not 1 <= level <= 5:
            raise not_readable(path, str(level), "a cache level from 1 to 5")
        cpus = (shared or frozenset()) & online
        if size is None or not cpus or kind not in ("Data", "Unified"):
            sizeless.add(f"L{level}")
            continue
        covered |= cpus
        if (level, cpus) not in seen:
            seen.add((level, cpus))
            device = Cache(id=f"{host}/l{level}-{format_cpu_list(cpus)}", parent=host, level=level, size_bytes=size)
            yield Grouping(device=device, cpus=cpus)
    if sizeless:
        unseen.append(f"caches {', '.join(sorted(sizeless))}: size, type or sharing is not told in {_CPU}")
    elif online - covered:
        unseen.append(f"caches of CPUs {format_cpu_list(online - covered)}: none in {_CPU}")


def _cache_bytes(recording: Recording, path: str) -> int | None:
    """``32768K`` -> bytes; the kernel writes no other unit."""
    text = text_of(recording, path)
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,11}K", text):
        raise not_readable(path, text, "a size such as 32768K")
    return int(text[:-1]) * 1024


def _numa_nodes(recording: Recording, host: DeviceId, online: frozenset[int], unseen: list[str]) -> Iterator[Grouping]:
    numbers = sorted(
        int(match[1])
        for path in recording
        if (match := re.fullmatch(rf"{_NODE}/node([0-9]{{1,5}})/cpulist", path)) is not None
    )
    if not numbers:
        unseen.append(f"NUMA nodes: none in {_NODE}")
    for number in numbers:
        directory = f"{_NODE}/node{number}"
        cpus = cpus_at(recording, f"{directory}/cpulist") or frozenset()
        device = NumaNode(
            id=f"{host}/numa{number}",
            parent=host,
            number=number,
            memory_bytes=kib_after(recording, f"{directory}/meminfo", "MemTotal:"),
            distances=_distances(recording, host, number, numbers),
        )
        yield Grouping(device=device, cpus=cpus & online)


def _distances(
    recording: Recording, host: DeviceId, number: int, numbers: list[int]
) -> tuple[tuple[DeviceId, int], ...]:
    """``10 21`` -> the distance to each other node; the kernel writes one figure for each node online, in order."""
    path = f"{_NODE}/node{number}/distance"
    text = text_of(recording, path)
    if text is None:
        return ()
    words = text.split()
    if len(words) != len(numbers) or not all(re.fullmatch(r"[0-9]{1,3}", word) for word in words):
        raise not_readable(
            path, text, f"{len(numbers)} distances, one for each of the nodes {format_cpu_list(numbers)}"
        )
    return tuple(
        (f"{host}/numa{other}", int(word)) for other, word in zip(numbers, words, strict=True) if other != number
    )
