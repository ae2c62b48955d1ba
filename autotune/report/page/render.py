"""The pages as HTML text: each whole in one file, with its style and script inside, and nothing to fetch.

In:  contents. Out: HTML that is the same for the same contents. Every text is escaped by Jinja2; only pictures and the
page's own style and script go in as they are. The Content-Security-Policy names the hashes of these two and forbids all
else, so that no text, whatever it holds, can run or load anything.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ...errors import BackendUnavailable
from ...topology.devices import Host
from ...topology.labels import label
from ...units import format_duration
from ..figures import kind_text
from .cells import kinds_of
from .contents import Contents
from .curves import Panel, algorithms, panel, sizes
from .figures import INSTALL, curves_svg, mark_svgs, progress_svg, seconds_text, topology_picture
from .grid import LEGEND, column_title, heat_map
from .progress import progress
from .words import failures, summary

if TYPE_CHECKING:
    from jinja2 import Environment

# matplotlib's settings belong to the process, so that two pages are not drawn at once.
_drawing = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRow:
    """A machine in the list of a server.

    Args:
        href: of its report; empty where it has no table yet.
        words: what it is, in a line; empty where that is not known.
        tables: of each backend: ``native v3, 2026-01-31T12:00:00Z``.
        last_run: when the newest run began; empty where none did.
    """

    fingerprint: str
    href: str
    words: str
    tables: tuple[str, ...]
    n_runs: int
    last_run: str


def report_page(contents: Contents) -> str:
    """The report.

    Raises:
        BackendUnavailable: Jinja2 or matplotlib is not installed.
    """
    environment = _environment()
    kinds = kinds_of(contents.table, contents.trials, contents.reference)
    panels = [(kind, p) for kind in kinds for column in kind.columns if (p := panel(column)) is not None]
    found = progress(kinds)
    failed, failed_counts = failures(contents.trials)
    with _drawing:
        charts, marks = _charts([(kind_text(kind.key), p) for kind, p in panels])
        searching = None if found is None else progress_svg(found, prefix="progress-")
        machine = None if contents.topology is None else topology_picture(contents.topology, prefix="machine-")
    return environment.get_template("report.html").render(
        **_frame(),
        contents=contents,
        hosts=_hosts(contents),
        summary=summary(kinds),
        maps=[heat_map(kind, number) for number, kind in enumerate(kinds)],
        legend=LEGEND,
        charts=charts,
        marks=marks,
        searching=searching,
        progress=found,
        reached=None if found is None else found.reached_s(1.02),
        failed=failed,
        failed_counts=failed_counts,
        machine=machine,
        duration=format_duration,
        seconds=seconds_text,
    )


def machines_page(rows: Sequence[MachineRow], *, store: str, version: str) -> str:
    """The list of a server's machines.

    Raises:
        BackendUnavailable: Jinja2 is not installed.
    """
    return _environment().get_template("machines.html").render(**_frame(), rows=rows, store=store, version=version)


def problem_page(message: str, remedy: str) -> str:
    """An error, for a reader with a browser.

    Raises:
        BackendUnavailable: Jinja2 is not installed.
    """
    return _environment().get_template("problem.html").render(**_frame(), message=message, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    title: str
    ranks: str
    svg: str


def _charts(panels: Sequence[tuple[str, Panel]]) -> tuple[list[_Chart], list[tuple[int, str, str]]]:
    """The curves, and (number, algorithm, mark) for their legend."""
    if not panels:
        return [], []
    drawn = [p for _, p in panels]
    names, extent = algorithms(drawn), sizes(drawn)
    charts = [
        _Chart(
            title=title,
            ranks=column_title(p.key),
            svg=curves_svg(p, names=names, sizes=extent, prefix=f"chart-{number}-", title=title),
        )
        for number, (title, p) in enumerate(panels)
    ]
    marks = mark_svgs(names, prefix="mark-")
    return charts, [(number, name, marks[name]) for number, name in enumerate(names)]


def _hosts(contents: Contents) -> list[str]:
    if contents.topology is None:
        return []
    return [label(contents.topology, device) for device in contents.topology.devices if isinstance(device, Host)]


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as err:
        raise BackendUnavailable("a page needs Jinja2, which is not installed", remedy=INSTALL) from err
    return Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _frame() -> dict[str, str]:
    """What every page has: style, script, and the policy that admits these two alone."""
    environment = _environment()
    parts = {name: environment.get_template(f"page.{name}").render().strip() for name in ("css", "js")}
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'sha256-{_hash(parts['css'])}'; script-src 'sha256-{_hash(parts['js'])}'"
    )
    return {"style": parts["css"], "script": parts["js"], "policy": policy}


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
