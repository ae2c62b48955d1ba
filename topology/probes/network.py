"""Network interfaces and RDMA ports, from /sys/class/net and /sys/class/infiniband. Their addresses are never read.

Virtual interfaces (loopback, bridges, veth, bonds, software RDMA) and the virtual functions of a physical device come
and go with containers, so they are named but not counted.
"""

from __future__ import annotations

import re

from ..devices import DeviceId, Nic, RdmaPort
from .recording import Recorder, Recording, natural, not_readable, text_of, whole_number

_NET = "/sys/class/net"
_RDMA = "/sys/class/infiniband"
_NAMES_SHOWN = 6


def collect_network(recorder: Recorder) -> None:
    """Record every interface and port that stands for a device; of a virtual one only that it is virtual."""
    for top, facts in ((_NET, ("speed", "mtu", "operstate")), (_RDMA, ())):
        for name in recorder.names(top):
            path = f"{top}/{name}"
            target = recorder.link(path)
            if target is None or "/virtual/" in target:
                continue
            for fact in (*facts, "device/numa_node"):
                recorder.read(f"{path}/{fact}")
            recorder.link(f"{path}/device/driver")
            recorder.link(f"{path}/device/physfn")
            for port in recorder.names(f"{path}/ports"):
                for fact in ("rate", "state", "link_layer"):
                    recorder.read(f"{path}/ports/{port}/{fact}")


def parse_network(
    recording: Recording, host: DeviceId, numa_nodes: dict[int, DeviceId]
) -> tuple[list[Nic | RdmaPort], list[str]]:
    """(interfaces and ports, each inside its NUMA node or the host; what was not counted, in words).

    Raises:
        ProbeError: a rate or another value that cannot be read without guessing.
    """
    found: list[Nic | RdmaPort] = []
    unseen: list[str] = []
    for top, what in ((_NET, "network interfaces"), (_RDMA, "RDMA devices")):
        counted, skipped = _physical(recording, top)
        for name in counted:
            path = f"{top}/{name}"
            node = whole_number(recording, f"{path}/device/numa_node", least=-1)
            parent = host if node is None or node < 0 else numa_nodes.get(node, host)
            driver = recording.get(f"{path}/device/driver", "").rpartition("/")[2] or None
            if top == _NET:
                found.append(_nic(recording, path, name, host, parent, driver))
            else:
                found += _ports(recording, path, name, host, parent, driver)
        if skipped:
            more = f" and {len(skipped) - _NAMES_SHOWN} more" if len(skipped) > _NAMES_SHOWN else ""
            unseen.append(f"virtual {what}, not counted: {', '.join(skipped[:_NAMES_SHOWN])}{more}")
        elif not counted:
            unseen.append(f"{what}: none in {top}")
    return found, unseen


def _physical(recording: Recording, top: str) -> tuple[list[str], list[str]]:
    counted: list[str] = []
    skipped: list[str] = []
    names = {path[len(top) + 1 :] for path in recording if path.startswith(f"{top}/")}
    for name in sorted((name for name in names if "/" not in name and name != "lo"), key=natural):
        path = f"{top}/{name}"
        virtual = "/virtual/" in recording[path] or f"{path}/device/physfn" in recording
        (skipped if virtual else counted).append(name)
    return counted, skipped


def _nic(recording: Recording, path: str, name: str, host: DeviceId, parent: DeviceId, driver: str | None) -> Nic:
    # The kernel writes an unknown speed as -1, as 0, or as -1 read as unsigned.
    speed_mbit = whole_number(recording, f"{path}/speed", least=-1)
    known = speed_mbit is not None and 0 < speed_mbit < (1 << 32) - 1
    return Nic(
        id=f"{host}/net-{name}",
        parent=parent,
        name=name,
        driver=driver,
        rate_gb_per_s=speed_mbit / 8000 if known and speed_mbit is not None else None,
        mtu_bytes=whole_number(recording, f"{path}/mtu"),
        state=text_of(recording, f"{path}/operstate"),
    )


def _ports(
    recording: Recording, path: str, name: str, host: DeviceId, parent: DeviceId, driver: str | None
) -> list[RdmaPort]:
    numbers = {
        match[1]
        for key in recording
        if (match := re.fullmatch(rf"{re.escape(path)}/ports/([0-9]{{1,3}})/\w+", key)) is not None
    }
    ports: list[RdmaPort] = []
    for number in sorted(map(int, numbers)):
        port = f"{path}/ports/{number}"
        state = _state(recording, f"{port}/state")
        ports.append(
            RdmaPort(
                id=f"{host}/rdma-{name}-{number}",
                parent=parent,
                name=name,
                port=number,
                driver=driver,
                link_layer=text_of(recording, f"{port}/link_layer"),
                rate_gb_per_s=_rate(recording, f"{port}/rate") if state == "active" else None,
                state=state,
            )
        )
    return ports


def _state(recording: Recording, path: str) -> str | None:
    """``4: ACTIVE`` -> ``"active"``."""
    text = text_of(recording, path)
    if text is None:
        return None
    match = re.fullmatch(r"[0-9]: ([A-Z_]+)", text)
    if match is None:
        raise not_readable(path, text, "a state such as '4: ACTIVE'")
    return match[1].lower()


def _rate(recording: Recording, path: str) -> float | None:
    """``100 Gb/sec (4X EDR)`` -> 12.5 GB/s. The kernel writes bits; the part in brackets says the same again."""
    text = text_of(recording, path)
    if text is None:
        return None
    match = re.match(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec(?: |\Z)", text)
    if match is None or float(match[1]) == 0:
        raise not_readable(path, text, "a rate such as '100 Gb/sec (4X EDR)'")
    return float(match[1]) / 8
