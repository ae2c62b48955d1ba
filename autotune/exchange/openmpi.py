"""Open MPI's classic rules file (version 2), which coll/tuned of Open MPI 5 and older reads.

Source: open-mpi/ompi v5.0.x, ompi/mca/coll/tuned/coll_tuned_dynamic_file.c and coll_tuned_dynamic_rules.c: the entry of
a communicator is the last one whose size is not above its own, or the first one; a message takes the last row whose
size is not above its own; algorithm 0 is Open MPI's own decision. So every run of ours is closed by such a row, and
every rank count of ours stands between two entries that decide nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..table import TuningTable
from .decisions import Line, lines_of, merged
from .exporter import PLAIN, Exported, Request, nothing_left
from .openmpi_start import under_one_start
from .words import Start, library

_KNOBS = {"faninout": 0, "max_requests": 0}
_OWN = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class OpenMpiExporter:
    """The text file of ``coll_tuned_dynamic_rules_filename``."""

    name: str = "openmpi"
    suffix: str = ".conf"
    summary: str = "Open MPI 5 and older: rules of `coll/tuned`"
    library: str = "openmpi"
    loses: tuple[str, ...] = (
        "element types and operations: one list of rules for each collective and rank count",
        "where ranks sit: rules hold for every communicator of that many ranks",
        "our segments, except for a pipeline, whose segment size is written",
        "scatter and gather, on which ranks could disagree",
        "settings of the whole job for each size: one set of them goes with the rules, in the lines to export",
        "that such settings were measured on one host: they hold between hosts as well",
        "the size of an MPI_IN_PLACE all_gather or all_to_all, which Open MPI takes for 0 bytes",
    )
    checked: str = (
        "loaded by Open MPI 5 on a CPU, which then ran the chosen algorithms (tests/exchange/test_real_mpi.py)"
    )

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        words = library(self.library)
        of_job = under_one_start(table, request, words)
        lines, notes = lines_of(of_job.table, request, words, sees=lambda key: None, check=objection)
        if not lines and not of_job.start:
            raise nothing_left(self.name, notes, table, request)
        by_call: dict[tuple[int, str], dict[int, list[Line]]] = {}
        for line in lines:
            call = by_call.setdefault((int(line.call.facts["number"]), line.call.name), {})
            call.setdefault(line.key.n_ranks, []).append(line)
        settings = [f"# the job needs: {line}" for line in settings_of(of_job.start)]
        out = ["rule-file-version-2", *settings, f"{len(by_call)} # collectives"]
        for (number, name), by_ranks in sorted(by_call.items()):
            out += _collective(number, name, by_ranks)
        return Exported(text="\n".join(out) + "\n", notes=(*of_job.notes, *notes), usage=usage(of_job.start))


def usage(start: Start) -> tuple[str, ...]:
    """Lines of a shell: the rules, and what the whole job is started with."""
    return (
        "export OMPI_MCA_coll_tuned_use_dynamic_rules=1",
        "export OMPI_MCA_coll_tuned_dynamic_rules_filename={path}",
        "export OMPI_MCA_coll_tuned_priority=100",
        *settings_of(start),
    )


def settings_of(start: Start) -> tuple[str, ...]:
    """Lines of a shell for settings of the whole job."""
    found = library("openmpi").environment(start)
    return tuple(f"export {name}={shlex.quote(value)}" for name, value in found.items())


def objection(line: Line) -> str | None:
    """Why Open MPI could not run a line's algorithm with that many ranks, or could not be told of it."""
    ranks = line.facts.get("ranks")
    if ranks is not None and line.key.n_ranks != ranks:
        return f"{line.word} is for {ranks} ranks"
    if line.key.backend == "openmpi":
        other = [name for name in line.knobs if name not in _KNOBS]
        if other:
            return f"knob {other[0]!r} is not one of {', '.join(_KNOBS)}"
        if any(isinstance(value, str) for value in line.knobs.values()):
            return "a knob is not a number"
    return None


def columns(line: Line) -> tuple[int, int, int, int]:
    """Algorithm, fan-in or fan-out, segment size and outstanding requests."""
    own = line.key.backend == "openmpi"
    knobs = {name: int(line.knobs.get(name, 0)) if own else 0 for name in _KNOBS}
    carries = own or line.facts.get("segmented", False)
    segment_bytes = (line.config.segment_bytes or 0) if carries else 0
    return (int(line.facts["number"]), knobs["faninout"], segment_bytes, knobs["max_requests"])


def _collective(number: int, name: str, by_ranks: dict[int, list[Line]]) -> list[str]:
    entries: dict[int, list[Line]] = {0: []}
    for n_ranks, lines in sorted(by_ranks.items()):
        entries[n_ranks] = merged(lines, columns)
        entries.setdefault(n_ranks + 1, [])
    out = [f"{number} # {name}", f"{len(entries)} # communicator sizes"]
    for n_ranks, lines in sorted(entries.items(), key=lambda item: item[0]):
        rows = list(_rows(lines))
        out += [f"{n_ranks} # ranks", f"{len(rows)} # message sizes: bytes algorithm fan segment requests"]
        out += [" ".join(map(str, row)) for row in rows]
    return out


def _rows(lines: Sequence[Line]) -> Iterable[tuple[int, ...]]:
    """Rows from 0 bytes upwards; what no line covers is Open MPI's own decision."""
    at = 0
    if not lines or lines[0].low > 0:
        yield (0, *_OWN)
    for line in lines:
        if at and line.low > at:
            yield (at, *_OWN)
        yield (line.low, *columns(line))
        at = line.high + 1
    if at:
        yield (at, *_OWN)
