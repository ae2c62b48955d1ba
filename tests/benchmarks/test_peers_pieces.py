"""The comparison in pieces: what a file keeps, rounds and the state of the host, races of our candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from peers.cells import Cell
from peers.choosing import Choices, choose_for, run_side_by_side, winner
from peers.earlier import read
from peers.ours import Race, config_of, config_words
from peers.output import COLUMNS, SampleFile
from peers.prototypes import Prototype
from peers.rounds import CellRecord, Contender, run, run_round

from autotune.backends.mpi_ranks import RankSet
from autotune.backends.mpi_sampling import Plan, plan_of
from autotune.errors import UsageError
from autotune.measure import Timing
from autotune.types import Collective, Config, Memory, Phase, Sample, SampleKind

CELL = Cell(collective=Collective.ALL_REDUCE, n_ranks=2, size_bytes=64 << 10)
RING = Config(algorithm="ring", segment_bytes=64 << 10)
DIRECT = Config(algorithm="direct", segment_bytes=64 << 10, knobs=(("stores", "cached"),))


def samples(times_us: list[float]) -> list[Sample]:
    return [
        Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=r, position=0, batch_calls=1, time_us=t)
        for r, t in enumerate(times_us)
    ]


def contender(name: str, role: str) -> Contender:
    def start() -> RankSet:
        raise AssertionError("nothing is started here")

    return Contender(name=name, role=role, memory=Memory.PRIVATE, settings="x=1 y=2", start=start, version="v, 1")


def test_a_piece_goes_on_where_the_file_ends(tmp_path: Path) -> None:
    ours, peer = contender("ours private", "ours"), contender("peer", "peer")
    ours.configs[CELL] = config_words(RING)
    path = tmp_path / "t.csv"
    with open(path, "w", newline="") as file:
        rows = SampleFile(file)
        for who, times_us in ((ours, [2.0] * 9), (peer, [3.0] * 8)):
            for sample in samples(times_us):
                rows.keep(CELL, who, sample, 0.08)
    earlier = read(path)
    assert earlier.records[CELL].n_rounds == 9
    assert earlier.rounds([CELL]) == 9
    (judgement,) = earlier.records[CELL].judgements(earlier.known(2))
    assert judgement.ratio.n_rounds == 8
    again = contender("ours private", "ours")
    earlier.restore(again, [CELL])
    assert config_of(again.configs[CELL]) == RING
    assert again.expected_version == "v, 1"


def test_without_a_file_everything_is_still_to_be_done(tmp_path: Path) -> None:
    assert read(tmp_path / "none.csv").rounds([CELL]) == 0


@pytest.mark.parametrize("text", ["a,b\n1,2\n", ",".join(COLUMNS) + "\nall_reduce,two\n"])
def test_files_that_are_not_of_this_benchmark(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"t\.csv"):
        read(path)


def test_a_round_is_marked_with_the_state_and_hopeless_peers_rest() -> None:
    kept: list[tuple[str, float | None]] = []
    field = [timed("ours private", "ours", 1.0), timed("near", "peer", 2.0), timed("hopeless", "peer", 41.0)]
    record = CellRecord(cell=CELL)
    for _ in range(4):
        run_round(record, field, lambda cell, who, sample, flag_us: kept.append((who.name, flag_us)), lambda: 0.5)
    assert {flag_us for _, flag_us in kept} == {0.5}
    assert [name for name, _ in kept].count("near") == 4
    assert [name for name, _ in kept].count("hopeless") == 2
    assert record.hopeless == {"hopeless"}
    assert record.judgements(field)[0].ratios["hopeless"].n_rounds == 2


@pytest.mark.parametrize(("times_us", "batched"), [((25.0, 15.0, 30.0), True), ((25.0, 21.0, 3.0), False)])
def test_all_of_a_cell_are_timed_like_the_fastest_of_ours_and_the_peers(
    times_us: tuple[float, float, float], batched: bool
) -> None:
    roles = ("ours", "peer", "floor")
    field = [timed(role, role, time_us) for role, time_us in zip(roles, times_us, strict=True)]
    record = CellRecord(cell=CELL)
    kept: list[int] = []
    run_round(record, field, lambda cell, who, sample, flag_us: kept.append(sample.batch_calls), lambda: None)
    assert len(set(kept)) == 1
    assert (kept[0] > 1) is batched


@pytest.mark.parametrize(("before", "now_us"), [(1, 15.0), (14, 25.0)])
def test_a_later_piece_times_like_the_earlier_one(before: int, now_us: float) -> None:
    earlier = [replace(sample, batch_calls=before) for sample in samples([20.0] * 9)]
    record = CellRecord(cell=CELL, samples={"ours": earlier})
    like = record.agree([timed("ours", "ours", now_us)])
    assert like is not None
    assert (like.calls > 1) is (before > 1)


@pytest.mark.parametrize(("enough", "n_rounds"), [(0, 9), (12, 12), (99, 15)])
def test_a_cell_whose_verdict_is_clear_gets_more_rounds_if_it_asks_up_to_the_most(enough: int, n_rounds: int) -> None:
    record = CellRecord(cell=CELL)
    run(
        [record],
        [timed("ours private", "ours", 1.0), timed("peer", "peer", 2.0)],
        until=math.inf,
        most_rounds=15,
        keep=lambda cell, who, sample, flag_us: None,
        say=lambda words: None,
        asks_more=lambda record: record.n_rounds < enough,
    )
    assert record.n_rounds == n_rounds


class Timed(Contender):
    """Takes always the same time, without ranks."""

    def plan(self, cell: Cell, config: str | None = None) -> Plan:
        return plan_of(float(self.settings), cell)

    def sample(self, cell: Cell, batch: int, config: str | None = None, like: Plan | None = None) -> Timing:
        assert like is not None
        return Timing(time_us=float(self.settings), batch_calls=like.calls)


def timed(name: str, role: str, time_us: float) -> Contender:
    return Timed(name=name, role=role, memory=Memory.PRIVATE, settings=str(time_us), start=contender(name, role).start)


def raced(times_us: Mapping[Config, Sequence[float]]) -> Race:
    race = Race(list(times_us), lambda config, number: Timing(time_us=times_us[config][number], batch_calls=1))
    run_side_by_side([race], until=math.inf)
    return race


def test_the_default_stays_unless_another_one_is_always_faster() -> None:
    near, far = [10.0, 10.0], [30.0, 30.0]
    assert winner(raced({RING: near + far, DIRECT: [9.0, 9.0, 20.0, 20.0]}), RING) == DIRECT
    assert winner(raced({RING: near + far, DIRECT: [11.0, 9.0, 10.0, 10.0]}), RING) == RING
    assert winner(raced({RING: near + far, DIRECT: [9.9, 9.9, 29.0, 29.0]}), RING) == RING
    assert winner(raced({RING: near + far, DIRECT: [9.0] * 4}), Config(algorithm="tree", segment_bytes=64)) == DIRECT


def test_races_run_side_by_side() -> None:
    order: list[str] = []

    def race(name: str) -> Race:
        def sample(config: Config, number: int) -> Timing:
            order.append(f"{name}{number}")
            return Timing(time_us=1.0, batch_calls=1)

        return Race([RING, DIRECT], sample)

    run_side_by_side([race("a"), race("b")], until=math.inf)
    assert order[:8] == ["a0", "a0", "b0", "b0", "a1", "a1", "b1", "b1"]


class Failing(Timed):
    """Its ranks fail with every config."""

    def sample(self, cell: Cell, batch: int, config: str | None = None, like: Plan | None = None) -> None:
        self.faults.append(str(cell))


def test_a_prototype_that_fails_in_a_cell_has_no_config_there() -> None:
    failing = Failing(name="p", role="prototype", memory=Memory.PRIVATE, settings="1", start=contender("p", "p").start)
    prototype, choices = Prototype(name="fused", program=Path("none")), Choices()
    choose_for([prototype], [failing], [CELL], seconds=0.0, choices=choices)
    assert failing.faults
    assert not failing.configs
    assert not choices.configs
