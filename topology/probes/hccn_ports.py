"""The RoCE interface of each NPU as ``hccn_tool`` and /etc/hccn.conf tell it: addresses, link, switch, TLS. Pure.

In: a recording. Out: a ``Port`` for each number that they know NPUs by. An answer that has none of the expected facts
(no such device, not configured, tool busy) is said in ``unseen``; a fact whose value cannot be read is an error.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from .pasted import Line, Word, fact_of, facts_of, lines_of, numbered, printed, shortened, unreadable, whole
from .recording import Recording, text_of, why_missing

CONF = "/etc/hccn.conf"

_COMMAND = re.compile(r"hccn_tool -i ([0-9]{1,5}) -([a-z_]{1,20}) -g")
_CONF_LINE = re.compile(r"(address|netmask|gateway)_([0-9]{1,5})")
_TLS = re.compile(r"tls switch\s*(?::\s*|\[)([01])(?![0-9])")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """What is known of one interface.

    Args:
        link: ``"up"`` or ``"down"``.
        net_health: in the tool's words, such as ``"Success"``.
        switch_port: ``switch-mac/port``, from LLDP.
        tls: whether HCCL's control connections are encrypted.
        errors: counters of damaged packets that are not 0.
    """

    address: str | None = None
    netmask: str | None = None
    gateway: str | None = None
    link: str | None = None
    net_health: str | None = None
    switch_port: str | None = None
    tls: bool | None = None
    errors: tuple[tuple[str, int], ...] = ()


def read_ports(recording: Recording, unseen: list[str]) -> dict[int, Port]:
    """What ``hccn_tool`` says, by the number after ``-i``; what it does not say is added to ``unseen``.

    Raises:
        ProbeError: a value that cannot be read without guessing.
    """
    ports: dict[int, Port] = {}
    silent: dict[str, list[int]] = {}
    asked = sorted((int(match[1]), match[2], match[0]) for key in recording if (match := _COMMAND.fullmatch(key)))
    for number, query, command in asked:
        if query not in QUERIES:
            continue
        lines, why = printed(recording, command)
        before = ports.get(number, Port())
        after = QUERIES[query](command, lines, before)
        if after is not None:
            ports[number] = after
        else:
            short = f"hccn_tool -{query}"
            reason = why.replace(command, short) or f"{short} says {shortened(lines[0].text)!r}"
            silent.setdefault(reason, []).append(number)
    unseen += [f"RoCE of {numbered('NPU', numbers)}: {reason}" for reason, numbers in silent.items()]
    return ports


def read_conf(recording: Recording, unseen: list[str]) -> dict[int, Port]:
    """What /etc/hccn.conf says, by the number in its keys.

    Raises:
        ProbeError: a line that is no ``key=value``, a key that stands twice, or an address that is none.
    """
    if CONF not in recording:
        return {}
    text = text_of(recording, CONF)
    if text is None:
        unseen.append(f"configured RoCE addresses: {why_missing(recording, CONF)}")
        return {}
    ports: dict[int, Port] = {}
    seen: set[str] = set()
    for line in lines_of(text):
        if line.text.lstrip().startswith("#"):
            continue
        key, equals, _ = (word.strip() for word in line.text.partition("="))
        if not equals or not key:
            raise unreadable(CONF, line.words[0], "a line such as address_0=192.0.2.10", f"look at it: cat {CONF}")
        if key in seen:
            raise unreadable(CONF, line.words[0], f"each key once, and {key} stands here again", f"edit {CONF}")
        seen.add(key)
        match = _CONF_LINE.fullmatch(key)
        if match is not None:
            value = line.cells("=")[1]
            address = _address(CONF, value, remedy=f"look at it: cat {CONF}")
            number = int(match[2])
            ports[number] = _with_address(ports.get(number, Port()), match[1], address)
    return ports


def best_address(number: int | None, ports: Mapping[int, Port], conf: Mapping[int, Port]) -> str | None:
    """The address of an NPU, from the tool, or else from the file; None where neither has one."""
    if number is None:
        return None
    told = [source[number].address for source in (ports, conf) if number in source]
    return next((address for address in told if address is not None), None)


def _with_address(port: Port, what: str, address: str) -> Port:
    match what:
        case "address":
            return replace(port, address=address)
        case "netmask":
            return replace(port, netmask=address)
        case _:
            return replace(port, gateway=address)


def _address(command: str, word: Word, remedy: str | None = None) -> str:
    try:
        return str(ipaddress.ip_address(word.text))
    except ValueError as err:
        raise unreadable(command, word, "an IP address such as 192.0.2.10", remedy) from err


def _ip(command: str, lines: Sequence[Line], port: Port) -> Port | None:
    address, netmask = (fact_of(command, lines, key) for key in ("ipaddr", "netmask"))
    if address is None:
        return None
    port = replace(port, address=_address(command, address))
    return port if netmask is None else replace(port, netmask=_address(command, netmask))


def _link(command: str, lines: Sequence[Line], port: Port) -> Port | None:
    word = fact_of(command, lines, "link status")
    if word is None:
        return None
    if word.text not in ("UP", "DOWN"):
        raise unreadable(command, word, "UP or DOWN")
    return replace(port, link=word.text.lower())


def _net_health(command: str, lines: Sequence[Line], port: Port) -> Port | None:
    word = fact_of(command, lines, "net health status")
    if word is None:
        return None
    if not re.fullmatch(r"[A-Za-z][A-Za-z ]{0,40}", word.text):
        raise unreadable(command, word, "a health such as Success, Fault or Init")
    return replace(port, net_health=word.text)


def _lldp(command: str, lines: Sequence[Line], port: Port) -> Port | None:
    """The switch's MAC under ``Chassis ID TLV`` and the port's name under ``Port ID TLV``."""
    block = ""
    told: dict[str, str] = {}
    for line in lines:
        key, colon, value = (piece.strip() for piece in line.text.partition(":"))
        if line.text.strip().endswith(" TLV"):
            block = line.text.strip()
        elif block == "Chassis ID TLV" and colon and key == "MAC":
            if not _MAC.fullmatch(value):
                raise unreadable(command, line.words[-1], "a MAC address such as 00:00:5e:00:53:01")
            told["mac"] = value.lower().replace("-", ":")
        elif block == "Port ID TLV" and colon and key == "Ifname" and value:
            told["port"] = value
    return replace(port, switch_port=f"{told['mac']}/{told['port']}") if len(told) == 2 else None


def _gateway(command: str, lines: Sequence[Line], port: Port) -> Port | None:
    """``default gateway:192.0.2.1, Iface:eth0``."""
    word = fact_of(command, lines, "default gateway")
    if word is None:
        return None
    first = Word(text=word.text.partition(",")[0].strip(), line=word.line, column=word.column)
    return replace(port, gateway=_address(command, first))


def _stat(command: str, lines: Sequence[Line], port: Port) -> Port | None:
    counters = {key: whole(command, word, "a count") for key, word in facts_of(lines) if key.endswith("_err_pkt_num")}
    return replace(port, errors=tuple((key, n) for key, n in counters.items() if n > 0)) if counters else None


def _tls(command: str, lines: Sequence[Line], port: Port) -> Port | None:
    """``tls switch: 0``, or ``dev_id:0, tls switch[0](0:disable, 1:enable), ...``."""
    for line in lines:
        match = _TLS.search(line.text)
        if match is not None:
            return replace(port, tls=match[1] == "1")
        if "tls switch" in line.text:
            raise unreadable(command, Word(text=line.text, line=line.number, column=1), "tls switch: 0 or 1")
    return None


# Each reads one answer into the port; None where none of its facts is in the text.
QUERIES: Mapping[str, Callable[[str, Sequence[Line], Port], Port | None]] = {
    "ip": _ip,
    "link": _link,
    "net_health": _net_health,
    "lldp": _lldp,
    "gateway": _gateway,
    "stat": _stat,
    "tls": _tls,
}
