"""The comparison with other libraries: its rules, its lines, its files. Processes are tested in test_ranks.py."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from peers import floors
from peers.cells import SIZES, Cell, grid
from peers.command import options
from peers.judgement import Verdict, geometric_means, judge, needs_rounds, verdict_of
from peers.libraries import LIBRARIES, launch
from peers.output import COLUMNS, SampleFile, tables, verdicts, write_summary
from peers.rounds import CellRecord, Contender

from autotune.backends.mpi_protocol import NoTimes, ProtocolError, Request, Times, parse_answer, parse_hello, slowest
from autotune.backends.mpi_ranks import RankSet
from autotune.backends.mpi_sampling import Plan, plan_of
from autotune.errors import UsageError
from autotune.measure import Comparison
from autotune.types import Collective, Memory, Phase, Sample, SampleKind

CELL = Cell(collective=Collective.ALL_REDUCE, n_ranks=2, size_bytes=64 << 10)


def samples(times_us: list[float]) -> list[Sample]:
    return [
        Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=r, position=0, batch_calls=1, time_us=t)
        for r, t in enumerate(times_us)
    ]


def comparison(median: float, low: float | None, high: float | None) -> Comparison:
    return Comparison(n_rounds=12, median=median, low=low, high=high, p_value=0.5)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (comparison(1.2, 1.15, 1.25), Verdict.WON),
        (comparison(1.0, 0.97, 1.03), Verdict.HELD),
        (comparison(1.0, 0.96, 1.04), Verdict.UNDECIDED),
        (comparison(1.5, 1.3, 1.7), Verdict.UNDECIDED),  # faster without doubt, but by how much?
        (comparison(0.9, 0.85, 0.969), Verdict.LOST),
        (comparison(0.7, 0.3, 0.9), Verdict.LOST),
        (comparison(2.0, None, None), Verdict.UNDECIDED),
    ],
)
def test_verdict(ratio: Comparison, verdict: Verdict) -> None:
    assert verdict_of(ratio) is verdict


def test_best_peer_is_the_one_with_the_lowest_paired_ratio() -> None:
    # The host slows down threefold half way: medians over all rounds would not see who is ahead in each.
    ours = samples([10.0] * 6 + [30.0] * 6)
    peers = {"near": samples([11.0] * 6 + [33.0] * 6), "far": samples([20.0] * 6 + [60.0] * 6)}
    bounds = {"slow": samples([9.0] * 12), "fast": samples([5.0] * 12)}
    judgement = judge(CELL, Memory.PRIVATE, ours, peers, prototypes={"p": ours}, floors=bounds)
    assert judgement is not None
    assert judgement.best_peer == "near"
    assert judgement.ratio.median == pytest.approx(1.1)
    assert judgement.verdict is Verdict.WON
    assert judgement.prototypes["p"].median == 1.0
    assert judgement.floor_share is not None
    assert 5 / 30 <= judgement.floor_share.median <= 5 / 10
    assert not needs_rounds(judgement, most_rounds=60)


def test_without_a_common_round_there_is_no_judgement() -> None:
    assert judge(CELL, Memory.PRIVATE, samples([1.0]), {"gone": []}, prototypes={}, floors={}) is None
    assert not needs_rounds(None, most_rounds=60)


def test_undecided_cells_get_rounds_up_to_the_limit() -> None:
    judgement = judge(CELL, Memory.PRIVATE, samples([1.0] * 5), {"p": samples([2.0] * 5)}, prototypes={}, floors={})
    assert judgement is not None
    assert judgement.half_width == math.inf
    assert needs_rounds(judgement, most_rounds=6)
    assert not needs_rounds(judgement, most_rounds=5)


def test_geometric_mean_is_of_one_collective_and_leaves_out_small_symmetric_messages() -> None:
    def made(size: int, ratio: float, memory: Memory) -> object:
        cell = Cell(collective=Collective.ALL_REDUCE, n_ranks=2, size_bytes=size)
        bounds = {"f": samples([0.5] * 9)} if memory is Memory.PRIVATE else {}
        judgement = judge(cell, memory, samples([1.0] * 9), {"p": samples([ratio] * 9)}, prototypes={}, floors=bounds)
        assert judgement is not None
        return judgement

    judged = [
        made(8, 1.0, Memory.PRIVATE),
        made(1 << 20, 4.0, Memory.PRIVATE),
        made(8, 0.1, Memory.SYMMETRIC),
        made(16 << 10, 9.0, Memory.SYMMETRIC),
    ]
    private, symmetric = geometric_means(judged)  # type: ignore[arg-type] # made() returns Judgements
    assert private.ratio == pytest.approx(2.0)
    assert (private.n_cells, private.n_decided) == (2, 2)
    assert private.at_floor == pytest.approx(4.0)
    assert symmetric.at_floor is None
    assert symmetric.ratio == pytest.approx(9.0)
    assert "from 16 KiB" in symmetric.label


def test_request_line_is_what_the_samplers_read() -> None:
    request = Request(
        collective=Collective.ALL_TO_ALL,
        count=3,
        kind=SampleKind.STEADY,
        batch=1,
        repeats=2,
        calls=5,
        buffers=4,
        keep_bytes=99,
        config='{"a":1}',
    )
    assert request.line() == 'sample all_to_all 3 steady 1 2 5 4 99 {"a":1}\n'


def test_answers() -> None:
    assert parse_answer("us 1.5 2\n", repeats=2) == Times(us=(1.5, 2.0))
    assert parse_answer("absent\n", repeats=1) == NoTimes(why="absent", words="the library has no such collective")
    assert parse_answer("wrong element 3 is 1, expected 2\n", repeats=1) == NoTimes(
        why="wrong", words="element 3 is 1, expected 2"
    )
    assert slowest([Times(us=(1.0, 5.0)), Times(us=(2.0, 4.0))]) == (2.0, 5.0)


@pytest.mark.parametrize("line", ["", "us\n", "us 1\n", "us 1 x\n", "us 1 nan\n", "us 1 -2\n", "wrong\n", "absent x\n"])
def test_what_is_no_answer(line: str) -> None:
    with pytest.raises(ProtocolError, match="a rank wrote"):
        parse_answer(line, repeats=2)


@pytest.mark.parametrize("line", ["", "hello\n", "hello 0 x y\n", "hello -1 2 v\n", "hallo 0 1 v\n"])
def test_what_is_no_greeting(line: str) -> None:
    with pytest.raises(ProtocolError):
        parse_hello(line)


def test_sizes_are_rounded_up_to_whole_elements_of_every_rank() -> None:
    cell = Cell(collective=Collective.ALL_GATHER, n_ranks=8, size_bytes=8)
    assert (cell.message_bytes, cell.count) == (32, 1)
    assert Cell(collective=Collective.BROADCAST, n_ranks=8, size_bytes=8).count == 2
    assert cell.problem(Memory.PRIVATE).message_bytes == 32


@pytest.mark.parametrize(
    ("estimate_us", "plan"),
    [
        (20.0, Plan(calls=1, repeats=8, buffers=1)),
        (400.0, Plan(calls=1, repeats=3, buffers=1)),
        (5000.0, Plan(calls=1, repeats=1, buffers=1)),
        (19.9, Plan(calls=11, repeats=1, buffers=4)),
    ],
)
def test_plan(estimate_us: float, plan: Plan) -> None:
    assert plan_of(estimate_us, CELL) == plan


def test_steady_batches_stay_on_one_buffer() -> None:
    (cell,) = grid([Collective.ALL_REDUCE], [2], [8], SampleKind.STEADY)
    assert plan_of(1.0, cell) == Plan(calls=200, repeats=1, buffers=1)


@pytest.mark.parametrize(
    ("size", "memory", "ways"),
    [
        (64 << 10, Memory.PRIVATE, ("pieces", "private")),
        (16 << 20, Memory.PRIVATE, ("pieces", "private", "dram", "copy")),
        (256 << 20, Memory.PRIVATE, ("pieces", "dram", "copy")),
        (16 << 20, Memory.SYMMETRIC, ("symmetric",)),
        (256 << 20, Memory.SYMMETRIC, ()),
    ],
)
def test_between_a_cores_own_cache_and_the_last_one_every_floor_is_measured(
    size: int, memory: Memory, ways: tuple[str, ...]
) -> None:
    cell = Cell(collective=Collective.ALL_REDUCE, n_ranks=2, size_bytes=size)
    assert floors.ways(cell, memory, 2 << 20, 480 << 20) == ways
    others = ("pieces",) if memory is Memory.PRIVATE else ()
    assert floors.ways(replace(cell, collective=Collective.BROADCAST), memory, 2 << 20, 480 << 20) == others
    assert floors.ways(replace(cell, n_ranks=4), memory, 2 << 20, 480 << 20) == ()


def test_every_peer_yields_where_ranks_exceed_cores() -> None:
    settled = {name: library for name, library in LIBRARIES.items() if name != "gloo"}  # gloo blocks anyway
    for library in settled.values():
        assert library.settings(True) != library.settings(False), library.name


def test_launch_names_the_cores_in_order() -> None:
    started = launch(LIBRARIES["gloo"], Path("/home"), n_ranks=2, cores=[0, 4])
    assert [command[-5:] for command in started.commands("socket", Path("/scratch"))] == [
        ["socket", "0,4", "0", "2", "/scratch"],
        ["socket", "0,4", "1", "2", "/scratch"],
    ]


def contender(name: str, role: str) -> Contender:
    def start() -> RankSet:
        raise AssertionError("nothing is started here")

    return Contender(name=name, role=role, memory=Memory.PRIVATE, settings="x=1 y=2", start=start, version="v, 1")


def test_samples_and_summary_can_be_read_back(tmp_path: Path) -> None:
    ours, peer = contender("ours private", "ours"), contender("peer", "peer")
    ours.configs[CELL] = '{"algorithm":"ring"}'
    record = CellRecord(cell=CELL, samples={"ours private": samples([2.0] * 9), "peer": samples([3.0] * 9)})
    file = io.StringIO()
    rows = SampleFile(file)
    for who in (ours, peer):
        for sample in record.samples[who.name]:
            rows.keep(CELL, who, sample)
    read = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert tuple(read[0]) == COLUMNS
    assert len(read) == 18
    assert (read[0]["config"], read[9]["version"], read[9]["time_us"]) == ('{"algorithm":"ring"}', "v, 1", "3.00000")

    judgements = record.judgements([ours, peer])
    configs = {(CELL, "ours private"): "ring/64KiB"}
    write_summary(tmp_path / "s.json", judgements, [ours, peer], configs, {"cores": [0, 1]})
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["cells"][0]["ratios"]["peer"]["median"] == pytest.approx(1.5)
    assert summary["cells"][0]["config"] == "ring/64KiB"

    table = tables([record], [ours, peer], configs)
    assert table.startswith("all_reduce, 2 ranks, private buffers, fresh inputs\n")
    assert "1.50 peer" in table
    assert "1 won, 0 held, 0 lost, 0 undecided of 1 cells" in verdicts(judgements)


def test_options_default_to_the_whole_grid_without_forced_rings() -> None:
    chosen = options([])
    assert len(chosen.grid) == 6 * 3 * len(SIZES)
    assert chosen.peers == ("gloo", "openmpi", "mpich", "impi", "oneccl")


@pytest.mark.parametrize(
    "words", [["--peers", "nccl"], ["--budget", "0"], ["--table", "t", "--config", "ring/4K"], ["--resume", "t.txt"]]
)
def test_words_that_cannot_be_meant(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options(words)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["ring/64KiB", "direct/64KiB/outbox=cached", "flat/1MiB/slices_in_flight=8"])
def test_a_config_is_read_as_it_is_written(text: str) -> None:
    assert str(options(["--config", text]).fixed) == text


def test_sizes_are_read_strictly() -> None:
    with pytest.raises(UsageError, match="ambiguous"):
        options(["--sizes", "1MB"])
