"""Which subnet each interface is in: of a host's from /proc/net/route, of NPUs' from hccn_tool and /etc/hccn.conf.

The addresses of a host's interfaces are never read; its routes name subnets only. IPv4. The parsing half is pure.
"""

from __future__ import annotations

import ipaddress
import re

from .hccn_ports import best_address, read_conf, read_ports
from .recording import Recorder, Recording, not_readable, text_of

Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network

_ROUTES = "/proc/net/route"
_WORD = re.compile(r"[0-9A-F]{8}")


def collect_subnets(recorder: Recorder) -> None:
    """Record the routes of subnets that an interface is in: those without a gateway."""
    recorder.read(_ROUTES, keep=lambda line: line.split()[2:3] == ["00000000"])


def subnets_of_interfaces(recording: Recording) -> dict[str, tuple[Subnet, ...]]:
    """Subnets by the interface's name; links-local ones and single addresses are none.

    Raises:
        ProbeError: a line that is no route.
    """
    found: dict[str, list[Subnet]] = {}
    for line in (text_of(recording, _ROUTES) or "").splitlines():
        words = line.split()
        if len(words) < 8 or not _WORD.fullmatch(words[1]) or not _WORD.fullmatch(words[7]):
            raise not_readable(_ROUTES, line, "a route: interface, destination, ..., mask")
        # The kernel writes the four bytes in the order of the machine; every Linux that we know here is little-endian.
        destination, mask = (int.from_bytes(bytes.fromhex(word), "little") for word in (words[1], words[7]))
        try:
            subnet = ipaddress.IPv4Network((destination, str(ipaddress.IPv4Address(mask))))
        except ValueError as err:
            raise not_readable(_ROUTES, line, "a destination and mask that fit each other") from err
        if 0 < subnet.prefixlen < 31 and not subnet.is_link_local:
            found.setdefault(words[0], []).append(subnet)
    return {name: tuple(subnets) for name, subnets in found.items()}


def subnets_of_npus(recording: Recording) -> dict[str, Subnet]:
    """Subnets by the address of the NPU's interface, where address and mask are known."""
    ports, conf = read_ports(recording, []), read_conf(recording, [])
    found: dict[str, Subnet] = {}
    for number in {*ports, *conf}:
        address = best_address(number, ports, conf)
        told = (source[number].netmask for source in (ports, conf) if number in source)
        mask = next((mask for mask in told if mask is not None), None)
        if address is not None and mask is not None:
            try:
                found[address] = ipaddress.ip_network(f"{address}/{mask}", strict=False)
            except ValueError as err:
                raise not_readable(f"hccn_tool -i {number} -ip -g", mask, "the mask of a subnet") from err
    return found
