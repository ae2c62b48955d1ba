"""Curves and progress drawn with matplotlib, as SVG for the inside of a page; and the colours that stand for something.

In:  panels and progress. Out: SVG text whose colours are classes. matplotlib is imported when a picture is asked for,
and only its figures are used: no display, no global state but the settings of one ``with``.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import BackendUnavailable
from ...topology.graph import Topology
from ...units import format_bytes, format_us
from ..topology_picture import topology_svg
from .curves import Curve, Panel
from .grid import column_title
from .inline_svg import inline_svg
from .progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stand-ins that a reader never sees: the style sheet paints their classes, for light and for dark.
_INK, _GRID, _PAPER = "#010101", "#020202", "#030303"
_HUES = 8  # after which marks change
_MARKS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", (0, (5, 2)), (0, (2, 1.5)))
_COLOURS = {_INK: "ink", _GRID: "grid", _PAPER: "paper"} | {f"#0a00{i:02x}": f"hue-{i}" for i in range(_HUES)}
_PANEL, _WIDE = (4.6, 3.3), (6.4, 3.5)  # inches
INSTALL = "pip install 'mc2-autotune[report]'"


def curves_svg(panel: Panel, *, names: Sequence[str], sizes: tuple[int, int], prefix: str, title: str) -> str:
    """Times over sizes, both logarithmic; bands are 95 % intervals, hollow marks have none, full large ones are chosen.

    Args:
        names: all algorithms of the page, in the order that gives them their marks.
        sizes: the smallest and the largest, so that panels of one page compare.
        title: of the panel's kind, for those who do not see it.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    with _settings():
        figure, axes = _axes(_PANEL)
        axes.set(xscale="log", yscale="log", xlabel="message size", ylabel="time of a call in us")
        parts = {}
        for curve in panel.curves:
            number = names.index(curve.algorithm)
            for gid in _draw_curve(axes, curve, number):
                parts[gid] = (str(number), curve.algorithm)
        low, high = sizes
        axes.set_xlim(low / 1.5, high * 1.5)
        _size_ticks(axes, low, high)
        axes.yaxis.set_major_formatter(lambda value, _: format_us(value))
        label = f"{title}, {column_title(panel.key)}: time of {len(panel.curves)} algorithms over message size"
        return _finished(figure, prefix, label, parts)


def progress_svg(progress: Progress, *, prefix: str) -> str:
    """The best so far, over the race's winner, against seconds: each cell thin, their median and 90th percentile bold.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    with _settings():
        figure, axes = _axes(_WIDE)
        axes.set(xscale="log", xlabel="time of all timed calls in a cell", ylabel="time over the winner's")
        for search in progress.searches:
            times, values = zip(*search.steps, strict=True)
            axes.step(times, values, where="post", color=_INK, linewidth=0.6, alpha=0.22)
        axes.step(progress.times_s, progress.high, where="post", color=_hue(1), linewidth=1.6, linestyle=_DASHES[1])
        axes.step(progress.times_s, progress.median, where="post", color=_hue(0), linewidth=2.2)
        top = max(1.1, *progress.high)
        axes.set_ylim(min(0.98, *progress.median), min(3.0, top * 1.05))
        axes.xaxis.set_major_formatter(lambda value, _: seconds_text(value))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.2f}x")
        label = f"Best so far against seconds of timed calls, {len(progress.searches)} cells"
        return _finished(figure, prefix, label, {})


def topology_picture(topology: Topology, *, prefix: str) -> str:
    """The picture of `topology_picture`, on the page's ground.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    with _settings():
        return inline_svg(topology_svg(topology), prefix=prefix, label="The machine's topology", colours={}, parts={})


def mark_svgs(names: Sequence[str], *, prefix: str) -> Mapping[str, str]:
    """The mark of each algorithm, for a legend.

    Raises:
        BackendUnavailable: matplotlib is not installed.
    """
    found = {}
    with _settings():
        for number, name in enumerate(names):
            figure = _figure(0.5, 0.2)
            axes = figure.add_axes((0, 0, 1, 1))
            axes.axis("off")
            axes.set(xlim=(0, 2), ylim=(-1, 1))
            axes.plot([0, 1, 2], [0, 0, 0], markevery=[1], **_look(number))
            found[name] = _finished(figure, f"{prefix}{number}-", name, {})
    return found


def _draw_curve(axes: Axes, curve: Curve, number: int) -> Iterator[str]:
    """The line with its marks, the band, full marks; the names of these groups."""
    look, name = _look(number), f"curve-{number}"
    xs, ys = [p.message_bytes for p in curve.points], [p.median_us for p in curve.points]
    axes.plot(xs, ys, gid=f"{name}-line", zorder=3, **{**look, "markerfacecolor": _PAPER})
    yield f"{name}-line"
    # Not a number: the band ends where a point has no interval, and does not bridge it.
    lows = [math.nan if p.low_us is None else p.low_us for p in curve.points]
    highs = [math.nan if p.high_us is None else p.high_us for p in curve.points]
    if not all(map(math.isnan, lows)):
        axes.fill_between(xs, lows, highs, color=look["color"], alpha=0.2, linewidth=0, gid=f"{name}-band")
        axes.vlines(xs, lows, highs, color=look["color"], linewidth=1.0, gid=f"{name}-ends")
        yield from (f"{name}-band", f"{name}-ends")
    proved = [p for p in curve.points if p.low_us is not None and not p.is_chosen]
    chosen = [p for p in curve.points if p.is_chosen]
    for what, points, size in (("proved", proved, 4.0), ("chosen", chosen, 7.5)):
        if points:
            marks = {**look, "linestyle": "none", "markersize": size, "gid": f"{name}-{what}", "zorder": 4}
            axes.plot([p.message_bytes for p in points], [p.median_us for p in points], **marks)
            yield f"{name}-{what}"


@contextmanager
def _settings() -> Iterator[None]:
    try:
        import matplotlib
    except ImportError as err:
        raise BackendUnavailable("a page needs matplotlib, which is not installed", remedy=INSTALL) from err
    chosen: dict[Any, Any] = {  # Any: what matplotlib's settings hold
        "svg.hashsalt": "autotune",
        "svg.fonttype": "none",
        "font.size": 10,
        "text.color": _INK,
        "text.parse_math": False,  # a name with two dollar signs is a name
    }
    with matplotlib.rc_context(chosen), warnings.catch_warnings():
        # Text stays text, and is drawn with the reader's fonts, whatever this host's lack.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        yield


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    figure.patch.set_visible(False)
    return figure


def _axes(size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = _figure(*size)
    axes = figure.add_axes((0.75 / size[0], 0.53 / size[1], 1 - 0.84 / size[0], 1 - 0.6 / size[1]))
    axes.patch.set_visible(False)
    axes.grid(visible=True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color=_GRID, labelcolor=_INK, length=3)
    axes.tick_params(which="minor", length=0)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_GRID)
    return figure, axes


def _look(number: int) -> dict[str, Any]:
    """Colour, mark and dash of an algorithm: no two of the first 24 differ in colour alone."""
    return {
        "color": _hue(number),
        "marker": _MARKS[number % len(_MARKS)],
        "linestyle": _DASHES[(number // _HUES) % len(_DASHES)],
        "markersize": 4.0,
        "linewidth": 1.3,
    }


def _hue(number: int) -> str:
    return f"#0a00{number % _HUES:02x}"


def _size_ticks(axes: Axes, low: int, high: int) -> None:
    """A power of four at each tick, eight of them at most."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    step = max(2, math.ceil((last - first) / 6))
    ticks = [1 << power for power in range(first, last + 1, step)]
    axes.set_xticks(ticks, [format_bytes(tick) for tick in ticks])
    axes.set_xticks([], minor=True)


def seconds_text(value: float) -> str:
    """``1.5 s``, ``20 ms``, ``212 us``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale or unit == "us":
            return f"{value / scale:.3g} {unit}"
    raise AssertionError("unreachable")


def _finished(figure: Figure, prefix: str, label: str, parts: Mapping[str, tuple[str, str]]) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return inline_svg(text.getvalue(), prefix=prefix, label=label, colours=_COLOURS, parts=parts)
