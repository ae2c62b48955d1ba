"""Links in the picture of a topology: their colours, widths and ways, and the words of the legend. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..topology.devices import DeviceId, Nic, RdmaPort
from ..topology.graph import Topology
from ..topology.links import Link, LinkKind
from ..topology.render import link_words
from ..topology.routes import is_seat, reach
from .picture_layout import NIC_HEIGHT, SWITCH_HEIGHT, Layout, Point

# Colours that the colour-blind tell apart (Okabe and Ito 2008), grey for the slow and usual.
COLOURS = {
    LinkKind.HCCS: "#0072b2",
    LinkKind.HCCS_SW: "#56b4e9",
    LinkKind.SIO: "#d55e00",
    LinkKind.UB: "#0072b2",
    LinkKind.NVLINK: "#009e73",
    LinkKind.XGMI: "#d55e00",
    LinkKind.PCIE: "#9a9a9a",
    LinkKind.RDMA: "#cc79a7",
    LinkKind.NETWORK: "#e69f00",
    LinkKind.SHM: "#009e73",
}
_ORDER = tuple(COLOURS)
_STRAIGHT = 8  # a ring of more dies has bent lines
_CPU_PAIRS = 2  # of each class of distance so many are drawn


def drawn_links(topology: Topology, places: Layout) -> dict[str, list[Link]]:
    """The links that are drawn, by the words of their class; both directions are one line.

    Left out are those that would hide the others: between CPUs all but the first pairs of a class, from an accelerator
    all but its nearest interfaces, and those between interfaces.
    """
    nearest: dict[DeviceId, int] = {}
    for (src, dst), link in topology.links.items():
        if is_seat(topology.device(src)) and isinstance(topology.device(dst), Nic | RdmaPort):
            nearest[src] = min(reach(link), nearest.get(src, reach(link)))
    drawn: dict[str, list[Link]] = {}
    for (src, dst), link in topology.links.items():
        if src not in places.at or dst not in places.at or (src > dst and (dst, src) in topology.links):
            continue
        nics = [end for end in (src, dst) if isinstance(topology.device(end), Nic | RdmaPort)]
        seats = [end for end in (src, dst) if end in nearest]
        if len(nics) == 2 or (nics and seats and reach(link) > nearest[seats[0]]):
            continue
        alike = drawn.setdefault(link_words(topology, link), [])
        if topology.link_distance(link) is None or len(alike) < _CPU_PAIRS:
            alike.append(link)
    return drawn


def legend(topology: Topology, drawn: Iterable[str]) -> list[tuple[Link, str]]:
    """A line for each class of links that is drawn, with its figures or their range over the whole topology.

    Args:
        drawn: the words of the classes, which the tree uses too.
    """
    classes: dict[str, list[Link]] = {words: [] for words in drawn}
    for link in topology.links.values():
        words = link_words(topology, link)
        if words in classes:
            classes[words].append(link)
    rows: list[tuple[Link, str]] = []

    def near_first(item: tuple[str, list[Link]]) -> tuple[int, tuple[int, int], str]:
        distance = topology.link_distance(item[1][0])
        return (_ORDER.index(item[1][0].kind), (0, 0) if distance is None else distance.order, item[0])

    for words, links in sorted(classes.items(), key=near_first):
        figures = [
            _range([link.bandwidth_gb_per_s for link in links], "GB/s"),
            _range([link.latency_us for link in links], "us"),
        ]
        sources = " and ".join(sorted({link.source.value for link in links}))
        known = [figure for figure in figures if figure]
        name = words if topology.link_distance(links[0]) is not None else _shouted(words)
        rows.append((links[0], f"{name}   {', '.join([*known, sources]) if known else 'figures not known'}"))
    return rows


def _shouted(words: str) -> str:
    """``nvlink x12`` as the tools write it: ``NVLINK x12``."""
    return " ".join(word if word[0] == "x" and word[1:].isdigit() else word.upper() for word in words.split(" "))


def _range(figures: Sequence[float | None], unit: str) -> str:
    known = sorted({figure for figure in figures if figure is not None})
    if not known:
        return ""
    return f"{known[0]:.4g} {unit}" if len(known) == 1 else f"{known[0]:.4g} to {known[-1]:.4g} {unit}"


def way(topology: Topology, places: Layout, link: Link) -> tuple[Sequence[float], Sequence[float]]:
    """A straight line; on a large ring one that bends to its middle, unless it joins a module's dies."""
    here, there = places.at[link.src], places.at[link.dst]
    for switch, (x, y) in ((link.src, there), (link.dst, here)):
        if switch in places.spans and y > places.at[switch][1]:
            low, high = places.spans[switch]
            upper = places.at[switch][1]
            start = y - SWITCH_HEIGHT if link.src in places.spans and link.dst in places.spans else y
            foot, middle = min(max(x, low), high), (start + upper) / 2
            return _bent([(x, start), (x, middle), (foot, middle), (foot, upper)])
    if link.src in places.dies and link.dst in places.dies:
        host = topology.host_of(link.src).id
        if link.kind is not LinkKind.SIO and len(topology.accelerators(host)) > _STRAIGHT:
            return _bent([here, places.centre[host], there])
    elif topology.link_distance(link) is not None:
        rise = 0.12 + 0.12 * math.dist(here, there)
        return _bent([here, ((here[0] + there[0]) / 2, (here[1] + there[1]) / 2 + 2 * rise), there])
    elif link.src in places.dies or link.dst in places.dies:
        (die, nic) = (here, there) if link.src in places.dies else (there, here)
        here, there = die, (nic[0], nic[1] + NIC_HEIGHT)
    return ([here[0], there[0]], [here[1], there[1]])


def _bent(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """The Bezier curve of these control points (de Casteljau), in 24 pieces."""
    xs: list[float] = []
    ys: list[float] = []
    for step in range(25):
        t = step / 24
        now = list(points)
        while len(now) > 1:
            now = [(a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t) for a, b in pairwise(now)]
        xs.append(now[0][0])
        ys.append(now[0][1])
    return xs, ys


def line_width(link: Link) -> float:
    """By the logarithm: 3 GB/s and 450 GB/s stand in one picture. Where it is not known, by the bonded links."""
    if link.bandwidth_gb_per_s is None:
        return 0.7 + 0.5 * math.log2(link.n_bonded or 1)
    return min(4.5, max(0.5, 0.5 + 0.45 * math.log2(1 + link.bandwidth_gb_per_s / 2)))


def line_style(link: Link) -> str:
    """Dashed where the bandwidth is not known."""
    return "--" if link.bandwidth_gb_per_s is None else "-"


def alpha(link: Link, n_alike: float) -> float:
    """Of many lines that are alike each is paler, so that they stay a picture."""
    return min(0.55 if link.kind is LinkKind.PCIE else 0.95, 0.25 + 16 / n_alike)
