"""The picture of a topology as SVG: hosts, dies, links coloured by kind and as wide as their bandwidth, a legend.

In: a topology. Out: the text of an SVG file, the same for the same topology. Needs matplotlib (the extra ``plot``),
which is imported when a picture is asked for. ``picture_layout`` says where things stand, ``picture_links`` how links
look.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import BackendUnavailable
from ..topology.accelerators import Gpu, Npu, SuperPod, Switch
from ..topology.devices import Cache, Core, Cpu, Device, Host, Nic, NumaNode, RdmaPort, Socket
from ..topology.graph import Topology
from ..topology.links import Link, LinkKind
from ..units import format_bytes
from .picture_layout import MARGIN, Box, Layout, host_title, layout
from .picture_links import COLOURS, alpha, drawn_links, legend, line_style, line_width, way

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One tint for each NUMA node.
_TINTS = ("#dbe9f6", "#fde6cf", "#dcefd9", "#f6dcdc", "#e6e0f0", "#ece2da", "#f8e1f0", "#e7e7d2")
_INK, _FRAME, _PAPER = "#222222", "#8a8f98", "#fafbfc"
_DIE = 0.36
_LEGEND = 0.26  # height of a line


def topology_svg(topology: Topology) -> str:
    """The picture as the text of an SVG file, byte for byte the same for the same topology.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    figure = topology_figure(topology)
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "autotune", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def topology_figure(topology: Topology) -> Figure:
    """The picture as a matplotlib figure, for other formats and for tests.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise BackendUnavailable(
            "a picture needs matplotlib, which is not installed", remedy="pip install 'mc2-autotune[plot]'"
        ) from err
    places = layout(topology)
    drawn = drawn_links(topology, places)
    rows = legend(topology, drawn)
    foot = len(rows) * _LEGEND + (MARGIN if rows else 0.0)
    width = max(places.width, 5.2 if rows else 3.0)
    figure = Figure(figsize=(width, places.height + foot))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(-foot, places.height), aspect="equal")
    axes.axis("off")
    figure.patch.set_facecolor("white")
    for box in sorted(places.boxes, key=lambda box: box.depth):
        _draw_box(axes, topology, box)
    for (x, y), words in places.notes:
        axes.text(x, y, words, ha="right", va="center", size=6.5, color=_INK, zorder=5)
    _draw_links(axes, topology, places, drawn)
    _draw_dies(axes, topology, places)
    _draw_legend(axes, rows, MARGIN)
    return figure


def _draw_box(axes: Axes, topology: Topology, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    device = box.device
    fill, edge, width, text_size = _box_style(topology, device)
    axes.add_patch(
        FancyBboxPatch(
            (box.left, box.bottom),
            box.width,
            box.height,
            boxstyle=f"round,pad=0,rounding_size={0.03 if isinstance(device, Core | Nic | RdmaPort) else 0.08}",
            facecolor=fill,
            edgecolor=edge,
            linewidth=width,
            linestyle="--" if device is None else "-",
            zorder=1 + 0.1 * box.depth if not isinstance(device, Nic | RdmaPort | Switch) else 4,
        )
    )
    words = box.text or ("" if device is None else _box_words(topology, device))
    if isinstance(device, Core | Nic | RdmaPort | Switch) or device is None:
        place, side, rise = box.centre, "center", "center"
    else:
        place, side, rise = (box.left + 0.1, box.bottom + box.height - 0.08), "left", "top"
    axes.text(*place, words, ha=side, va=rise, size=text_size, color=_INK, zorder=5)


def _box_style(topology: Topology, device: Device | None) -> tuple[str, str, float, float]:
    """(fill, edge, line width, text size)."""
    match device:
        case Host():
            return (_PAPER, _FRAME, 1.2, 8.5)
        case None:
            return ("white", _FRAME, 1.0, 9.0)
        case SuperPod():
            return ("#eef3f8", COLOURS[LinkKind.HCCS], 1.2, 9.5)
        case NumaNode():
            return (_tint(topology, device), _FRAME, 0.7, 7.0)
        case Core():
            usable = any(cpu.allowed for cpu in topology.within(device.id, Cpu))
            return ("white" if usable else "#d0d0d0", _FRAME, 0.6, 6.0)
        case Nic() | RdmaPort():
            return ("#f3e3ec", COLOURS[LinkKind.RDMA], 0.7, 5.5)
        case Switch():
            return ("#f1f1f1", _INK, 1.0, 8.0)
        case _:
            return ("none", _FRAME, 0.7, 7.0)


def _box_words(topology: Topology, device: Device) -> str:
    match device:
        case SuperPod():
            return f"super pod {device.name or device.id}"
        case Host():
            return host_title(topology, device)
        case Socket():
            return f"socket {device.number}"
        case NumaNode():
            size = "" if device.memory_bytes is None else f"   {device.memory_bytes / 2**30:.4g} GiB"
            return f"NUMA {device.number}{size}"
        case Cache():
            return f"L{device.level} {format_bytes(device.size_bytes)}"
        case Core():
            return "\n".join(str(cpu.number) for cpu in topology.within(device.id, Cpu)[:2])
        case Nic() | RdmaPort():
            return device.name
        case Switch():
            return f"switch {device.name or device.id}"
        case _:
            return ""


def _tint(topology: Topology, device: Device) -> str:
    """The colour of the NUMA node that a device is in; nodes are counted host by host, so that hosts look alike."""
    node = _numa_node(topology, device)
    if node is None:
        return "white"
    nodes = topology.within(topology.host_of(node.id).id, NumaNode)
    return _TINTS[sorted(each.number for each in nodes).index(node.number) % len(_TINTS)]


def _numa_node(topology: Topology, device: Device) -> NumaNode | None:
    node: Device | None = device
    while node is not None and not isinstance(node, NumaNode):
        node = None if node.parent is None else topology.device(node.parent)
    return node


def _draw_dies(axes: Axes, topology: Topology, places: Layout) -> None:
    from matplotlib.patches import FancyBboxPatch

    for card in places.cards:
        xs, ys = zip(*(places.dies[die] for die in card), strict=True)
        axes.plot(xs, ys, color="#5b6470", linewidth=32, solid_capstyle="round", zorder=2.5, alpha=0.25)
    for die, (x, y) in places.dies.items():
        device = topology.device(die)
        axes.add_patch(
            FancyBboxPatch(
                (x - _DIE / 2, y - _DIE / 2),
                _DIE,
                _DIE,
                boxstyle="round,pad=0,rounding_size=0.07",
                facecolor=_tint(topology, device),
                edgecolor=_INK,
                linewidth=0.9,
                zorder=6,
            )
        )
        number = device.number if isinstance(device, Npu | Gpu) else ""
        axes.text(x, y + 0.055, str(number), ha="center", va="center", size=9, weight="bold", color=_INK, zorder=7)
        axes.text(x, y - 0.095, _node_words(topology, device), ha="center", va="center", size=5, color=_INK, zorder=7)


def _node_words(topology: Topology, device: Device) -> str:
    node = _numa_node(topology, device)
    return device.kind.value.upper() if node is None else f"NUMA {node.number}"


def _draw_links(axes: Axes, topology: Topology, places: Layout, drawn: Mapping[str, Sequence[Link]]) -> None:
    n_hosts = max(1, len(places.centre))
    for words, links in sorted(drawn.items(), key=lambda item: len(item[1]), reverse=True):
        for link in links:
            xs, ys = way(topology, places, link)
            axes.plot(
                xs,
                ys,
                color=COLOURS[link.kind],
                linewidth=line_width(link),
                linestyle=line_style(link),
                alpha=alpha(link, len(links) / n_hosts),
                solid_capstyle="round",
                zorder=2 if link.kind is LinkKind.PCIE else 3,
                gid=words,
            )


def _draw_legend(axes: Axes, rows: Sequence[tuple[Link, str]], left: float) -> None:
    for index, (link, words) in enumerate(rows):
        height = -(index + 0.5) * _LEGEND
        axes.plot(
            [left, left + 0.5],
            [height, height],
            color=COLOURS[link.kind],
            linewidth=line_width(link),
            linestyle=line_style(link),
        )
        axes.text(left + 0.62, height, words, va="center", size=7.5, color=_INK)
