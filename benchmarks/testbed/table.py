"""The judged table of the testbed: every cell against each peer, with its interval, and the targets that it has. Pure.

In:  scenes, their records, the configs that ours ran with. Out: text; whether all of it is as wanted.
May not touch: files, processes.

The verdict on the better peer is that of `peers.judgement`: won or held where the lower end of the 95 % interval of
the paired ratio is at least 0.97. A target of 1.2 is judged by the same rule: met where the lower end is at least 0.97
of it, missed where the upper end is below that, open in between.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from peers.cells import Cell
from peers.judgement import HELD_FROM, Judgement, Verdict, judge
from peers.ours import config_of
from peers.output import aligned
from peers.rounds import CellRecord

from autotune.measure import Comparison, median_interval
from autotune.types import Collective, Memory
from autotune.units import format_us

from .grid import Scene

OURS = "ours private"
PEERS = ("gloo", "openmpi")
RING = "ring/64KiB"
SMALL_BYTES, LONG_BYTES = 4 << 10, 1 << 20
OVER_PEERS, OVER_GLOO, OVER_RING, OVER_OPENMPI, OF_LINE = 1.2, 10.0, 1.4, 1.5, 0.97


class State(enum.Enum):
    """What the rounds say of a target."""

    MET = "met"
    MISSED = "missed"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell of a scene as it was judged.

    Args:
        line_share: of the interface's rate, where it is shaped and the message long enough to fill it.
        targets: beyond the verdict, in words, with their states.
    """

    scene: Scene
    cell: Cell
    judgement: Judgement
    time_us: float
    config: str
    line_share: float | None
    targets: Mapping[str, State]

    @property
    def wanted(self) -> bool:
        """Won or held, and every target met."""
        held = self.judgement.verdict in (Verdict.WON, Verdict.HELD)
        return held and all(state is State.MET for state in self.targets.values())


def judged(scene: Scene, record: CellRecord, configs: Mapping[str, str]) -> Row | None:
    """None where ours or all peers have no samples."""
    own = record.samples.get(OURS)
    if not own:
        return None
    judgement = judge(
        record.cell,
        Memory.PRIVATE,
        own,
        {name: record.samples[name] for name in PEERS if name in record.samples},
        prototypes={RING: record.samples[RING]} if RING in record.samples else {},
        floors={},
    )
    if judgement is None:
        return None
    time_us = median_interval([sample.time_us for sample in own]).median
    long = record.cell.message_bytes >= LONG_BYTES
    line_share = scene.line_share(record.cell, time_us) if long else None
    return Row(
        scene=scene,
        cell=record.cell,
        judgement=judgement,
        time_us=time_us,
        config=str(config_of(configs[OURS])) if OURS in configs else "-",
        line_share=line_share,
        targets=_targets(scene, record.cell, judgement, line_share),
    )


def needs_ring(scene: Scene, cell: Cell) -> bool:
    """Whether the fixed ring takes part: where ranks share hosts, for long sums at a shaped rate."""
    shared = scene.ranks_per_host > 1 and scene.rate_mbit > 0
    return shared and cell.collective is Collective.ALL_REDUCE and cell.message_bytes >= LONG_BYTES


def _targets(scene: Scene, cell: Cell, judgement: Judgement, line_share: float | None) -> dict[str, State]:
    found: dict[str, State] = {}
    if cell.message_bytes <= SMALL_BYTES:
        found[f"{OVER_PEERS}x both"] = _state(judgement.ratio, OVER_PEERS)
        if "gloo" in judgement.ratios:
            found[f"{OVER_GLOO:g}x gloo"] = _state(judgement.ratios["gloo"], OVER_GLOO)
    if cell.collective is Collective.ALL_REDUCE and scene.rate_mbit and cell.message_bytes >= LONG_BYTES:
        if scene.ranks_per_host == 1 and line_share is not None:
            found[f"{OF_LINE:.0%} of line"] = State.MET if line_share >= OF_LINE else State.MISSED
            if cell.message_bytes == LONG_BYTES and "openmpi" in judgement.ratios:
                found[f"{OVER_OPENMPI}x openmpi"] = _state(judgement.ratios["openmpi"], OVER_OPENMPI)
        if (scene.n_hosts, scene.ranks_per_host) == (2, 2) and RING in judgement.prototypes:
            found[f"{OVER_RING}x ring"] = _state(judgement.prototypes[RING], OVER_RING)
    return found


def _state(ratio: Comparison, target: float) -> State:
    if ratio.low is None or ratio.high is None:
        return State.OPEN
    if ratio.high < HELD_FROM * target:
        return State.MISSED
    return State.MET if ratio.low >= HELD_FROM * target else State.OPEN


def text(rows: Sequence[Row], n_cells: int) -> str:
    """The table, and how many of all cells that were asked for are what."""
    head = ["cell", "ours us", "config", *(f"{name} / ours" for name in (*PEERS, RING))]
    lines = [[*head, "of line", "rounds", "verdict", "targets"], *map(_words, rows)]
    counts = {verdict: sum(row.judgement.verdict is verdict for row in rows) for verdict in Verdict}
    told = ", ".join(f"{n} {verdict.value}" for verdict, n in counts.items())
    states = [state for row in rows for state in row.targets.values()]
    targets = ", ".join(f"{states.count(state)} {state.value}" for state in State)
    ends = [
        f"{told}, {n_cells - len(rows)} not measured, of {n_cells} cells",
        f"targets beyond the better peer: {targets}, of {len(states)}",
    ]
    return "\n".join([aligned(lines), *ends])


def _words(row: Row) -> list[str]:
    judgement = row.judgement
    ratios = [judgement.ratios.get(name) or judgement.prototypes.get(name) for name in (*PEERS, RING)]
    share = "" if row.line_share is None else f"{row.line_share:.0%}"
    name = row.scene.name_of(row.cell)
    words = [name, format_us(row.time_us), row.config, *map(_ratio, ratios), share, str(judgement.ratio.n_rounds)]
    return [*words, judgement.verdict.value, _told(row.targets.items())]


def _ratio(ratio: Comparison | None) -> str:
    if ratio is None:
        return "-"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.median:.2f}"
    return f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _told(targets: Iterable[tuple[str, State]]) -> str:
    return ", ".join(f"{words} {state.value}" for words, state in targets)
