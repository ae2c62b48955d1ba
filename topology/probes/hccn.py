"""The RoCE interfaces of Ascend NPUs: ``hccn_tool -i N ... -g`` and /etc/hccn.conf.

``collect`` asks for each NPU that ``npu-smi`` names, by the number that the host knows it by. ``parse`` is pure; each
interface stands inside its NPU, so the findings of ``npu_smi`` go before these. Where ``npu-smi`` names no NPU, the
interfaces do. Contradictions: an address in the file that is not the tool's (the file is read when the driver starts,
so the tool is right), two NPUs with one address, a link that is up and not healthy, and TLS that is on for some NPUs
and off for others, over which HCCL's ranks cannot connect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..accelerators import Npu
from ..devices import Device, DeviceId, Nic
from .findings import CommandRunner, Findings
from .hccn_ports import CONF, QUERIES, Port, best_address, read_conf, read_ports
from .npu_smi import chips_or_none, collect_chips
from .npu_smi_chips import has_npu_smi, read_chips
from .pasted import numbered
from .recording import Recorder, Recording


def collect(run: CommandRunner, root: str = "/") -> dict[str, str]:
    """Ask for every interface, and read the file below ``root``; empty where there is no sign of NPUs."""
    recorder = Recorder(root)
    recorder.read(CONF)
    chips = chips_or_none(collect_chips(run))
    numbers = {chip.host_number for chip in chips if chip.host_number is not None}
    for number in sorted(numbers):
        for query in QUERIES:
            words = ("hccn_tool", "-i", str(number), f"-{query}", "-g")
            text = run(words)
            recorder.entries[" ".join(words)] = text
            if text in ("!absent", "!denied"):
                return recorder.entries
    return recorder.entries


def parse(
    recording: Recording,
    host: DeviceId,
    nodes: Mapping[int, DeviceId],
    cpus_of_node: Mapping[int, frozenset[int]],
) -> Findings:
    """An interface inside each NPU that has one; ``nodes`` and ``cpus_of_node`` are not asked.

    Raises:
        ProbeError: a value that cannot be read without guessing.
    """
    unseen: list[str] = []
    ports = read_ports(recording, unseen)
    conf = read_conf(recording, unseen)
    devices: list[Device] = []
    ids = _npu_ids(recording, host)
    if not ids:
        # After a failed npu-smi the file alone is no sign that an NPU can be used.
        for number in sorted(ports if has_npu_smi(recording) else {*ports, *conf}):
            ids[number] = f"{host}/npu{number}"
            address = best_address(number, ports, conf)
            devices.append(Npu(id=ids[number], parent=host, number=number, address=address))
    told = sorted({*ports, *conf})
    strangers = [number for number in told if number not in ids]
    if strangers:
        unseen.append(f"RoCE of {numbered('NPU', strangers)}: in hccn_tool or {CONF}, and no such NPU is seen")
    for number in told:
        if number in ids:
            port = ports.get(number, Port())
            unseen += [f"RoCE of NPU {number}: {what} is {n} (hccn_tool -stat)" for what, n in port.errors]
            devices.append(
                Nic(
                    id=f"{ids[number]}/roce0",
                    parent=ids[number],
                    name="roce0",
                    state=port.link,
                    address=best_address(number, ports, conf),
                    switch_port=port.switch_port,
                )
            )
    return Findings(devices=tuple(devices), unseen=tuple(unseen), contradictions=tuple(_contradictions(ports, conf)))


def _npu_ids(recording: Recording, host: DeviceId) -> dict[int, DeviceId]:
    """By the number that the host knows the NPU by."""
    chips = read_chips(recording).chips if has_npu_smi(recording) else ()
    return {chip.host_number: f"{host}/npu{chip.number}" for chip in chips if chip.host_number is not None}


def _contradictions(ports: Mapping[int, Port], conf: Mapping[int, Port]) -> Iterator[str]:
    for number, port in ports.items():
        filed = conf.get(number, Port())
        for what, now, then in (
            ("address", port.address, filed.address),
            ("netmask", port.netmask, filed.netmask),
            ("gateway", port.gateway, filed.gateway),
        ):
            if now is not None and then is not None and now != then:
                yield f"RoCE of NPU {number}: hccn_tool says {what} {now} and {CONF} says {then}; the file is stale"
        if port.link == "up" and port.net_health not in (None, "Success", "Init"):
            yield f"RoCE of NPU {number}: hccn_tool says that the link is up and that its health is {port.net_health}"
    owners: dict[str, list[int]] = {}
    for number in sorted({*ports, *conf}):
        address = best_address(number, ports, conf)
        if address is not None:
            owners.setdefault(address, []).append(number)
    for address, numbers in owners.items():
        if len(numbers) > 1:
            yield f"RoCE of {numbered('NPU', numbers)}: one address for all, {address}"
    on = [number for number, port in ports.items() if port.tls is True]
    off = [number for number, port in ports.items() if port.tls is False]
    if on and off:
        yield f"TLS is on for {numbered('NPU', on)} and off for {numbered('NPU', off)} (hccn_tool -tls)"
