"""The JSON rules of Open MPI 6 (rule_file_version 3).

Source: open-mpi/ompi main, docs/tuning-apps/collectives/tuned.rst, ompi/mca/coll/tuned/coll_tuned_dynamic_file.c: the
first communicator entry that fits decides, in it the first row that fits, and nothing that fits means Open MPI's own
decision. Algorithms are written as numbers: some were renamed since version 5, none was renumbered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..table import TuningTable
from ..types import RuleKey
from .decisions import Line, lines_of, merged
from .exporter import PLAIN, Exported, Request, nothing_left
from .openmpi import OpenMpiExporter, columns, objection, usage
from .openmpi_start import under_one_start
from .words import library

_ORDER = ("single-node", "one-per-node", "any")


@dataclass(frozen=True, slots=True)
class OpenMpiJsonExporter:
    """The JSON file of ``coll_tuned_dynamic_rules_filename``."""

    name: str = "openmpi-json"
    suffix: str = ".json"
    summary: str = "Open MPI 6: rules of `coll/tuned`"
    library: str = "openmpi"
    loses: tuple[str, ...] = (
        *(loss for loss in OpenMpiExporter().loses if not loss.startswith("where ranks sit")),
        "how ranks are spread, beyond all on one host, one on each host, or otherwise",
    )
    checked: str = "read by a strict reader after the documentation; no Open MPI 6 was at hand"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        words = library(self.library)
        of_job = under_one_start(table, request, words)
        lines, notes = lines_of(of_job.table, request, words, sees=_distribution, check=objection)
        if not lines and not of_job.start:
            raise nothing_left(self.name, notes, table, request)
        by_call: dict[str, dict[RuleKey, list[Line]]] = {}
        for line in lines:
            by_call.setdefault(line.call.name, {}).setdefault(line.key, []).append(line)
        document = {
            "rule_file_version": 3,
            "module": "tuned",
            "collectives": {
                name: [_entry(key, found) for key, found in sorted(by_key.items(), key=lambda item: _place(item[0]))]
                for name, by_key in sorted(by_call.items())
            },
        }
        text = json.dumps(document, indent=1) + "\n"
        return Exported(text=text, notes=(*of_job.notes, *notes), usage=usage(of_job.start))


def _distribution(key: RuleKey) -> str:
    if len(key.placement) == 1:
        return "single-node"
    return "one-per-node" if set(key.placement) == {1} else "any"


def _place(key: RuleKey) -> tuple[int, int]:
    return (key.n_ranks, _ORDER.index(_distribution(key)))


def _entry(key: RuleKey, lines: list[Line]) -> dict[str, object]:
    return {
        "comm_size_min": key.n_ranks,
        "comm_size_max": key.n_ranks,
        "comm_rank_distribution": _distribution(key),
        "rules": [_row(line) for line in merged(lines, columns)],
    }


def _row(line: Line) -> dict[str, int]:
    algorithm, faninout, segment_bytes, max_requests = columns(line)
    optional = {"faninout": faninout, "seg_size": segment_bytes, "reqs": max_requests}
    row = {"msg_size_min": line.low, "msg_size_max": line.high, "alg": algorithm}
    return row | {name: value for name, value in optional.items() if value}
