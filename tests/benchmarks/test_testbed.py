"""The testbed's cells and candidates, the files that a run goes on with, the judged table. Nothing is measured here."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hosts.network import Network
from peers.cells import Cell
from peers.judgement import Verdict
from peers.ours import config_of, config_words
from peers.rounds import CellRecord, Contender, plan_like
from testbed import kept, table
from testbed.command import OPPONENT, main
from testbed.grid import COLLECTIVES, LARGE_BYTES, PLACEMENTS, RATES_MBIT, SIZES, Scene
from testbed.pauses import PausingRanks, started
from testbed.table import OURS, RING, State, judged

from autotune.backends.mpi_ranks import Launch, RankSet
from autotune.backends.mpi_sampling import plan_of
from autotune.errors import UsageError
from autotune.types import Collective, Config, Memory, Phase, Sample, SampleKind

C = Collective
FOUR, TWO_BY_TWO = Scene.of("4x1", "1000"), Scene.of("2x2", "1000")
CONFIG = Config(algorithm="ring", segment_bytes=64 << 10, knobs=(("order", "near"),))


def never() -> RankSet:
    raise AssertionError("nobody starts ranks here")


def samples(times_us: list[float], first_round: int = 0) -> list[Sample]:
    return [
        Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=first_round + r, position=0, batch_calls=1, time_us=t)
        for r, t in enumerate(times_us)
    ]


def record(cell: Cell, **times_us: float) -> CellRecord:
    """Ten rounds in which everybody takes a little longer and longer."""
    names = {"ours": OURS, "ring": RING}
    grown = [1 + r / 100 for r in range(10)]
    found = {names.get(who, who): samples([time_us * g for g in grown]) for who, time_us in times_us.items()}
    return CellRecord(cell=cell, samples=found, n_rounds=10)


def cell_of(scene: Scene, collective: Collective, size_bytes: int) -> Cell:
    return scene.cells([collective], [size_bytes])[0]


def test_all_cells_have_names_of_their_own() -> None:
    scenes = [Scene.of(placement, str(rate)) for placement in PLACEMENTS for rate in RATES_MBIT]
    found = [scene.name_of(cell) for scene in scenes for cell in scene.cells(COLLECTIVES, SIZES)]
    assert len(found) == len(set(found)) == 96
    assert FOUR.name_of(cell_of(FOUR, C.ALL_REDUCE, 8)) == "4x1/1000/all_reduce/8B"


def test_only_chooses_by_name() -> None:
    def chosen(*patterns: str) -> list[str]:
        return [FOUR.name_of(cell) for cell in FOUR.cells(COLLECTIVES, (8, 1 << 10), patterns)]

    assert chosen("4x1/1000/*/8B") == ["4x1/1000/all_reduce/8B", "4x1/1000/all_gather/8B"]
    assert chosen("*/all_gather/1KiB", "*/all_gather/8B") == ["4x1/1000/all_gather/8B", "4x1/1000/all_gather/1KiB"]
    assert chosen("4x1/0/*") == []


@pytest.mark.parametrize("words", [("4", "1000"), ("4x1x1", "1000"), ("4x0", "0"), ("4x1", "fast"), ("-4x1", "0")])
def test_scenes_that_cannot_be_meant(words: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        Scene.of(*words)


def test_who_sends_more_between_hosts_is_no_candidate_for_large_messages() -> None:
    def algorithms(scene: Scene, size_bytes: int) -> set[str]:
        return {config.algorithm for config in scene.candidates(cell_of(scene, C.ALL_REDUCE, size_bytes))}

    assert {"ring", "direct"} <= algorithms(FOUR, LARGE_BYTES)
    assert not {"tree", "flat", "folded_leaders", "chain"} & algorithms(FOUR, LARGE_BYTES)
    assert "ring" in algorithms(TWO_BY_TWO, LARGE_BYTES - 4)
    assert {"hierarchical", "hierarchical_ring"} <= algorithms(TWO_BY_TWO, LARGE_BYTES)
    assert "ring" not in algorithms(TWO_BY_TWO, LARGE_BYTES)
    assert {"flat", "tree", "folded_leaders"} <= algorithms(FOUR, 8)


def test_share_of_the_line() -> None:
    # 1.5 MiB of 1448 bytes in frames of 1514, at 125 bytes a microsecond.
    time_us = 1.5 * (1 << 20) / 125 * 1514 / 1448
    assert FOUR.line_share(cell_of(FOUR, C.ALL_REDUCE, 1 << 20), time_us) == pytest.approx(1)
    assert FOUR.line_share(cell_of(FOUR, C.ALL_GATHER, 1 << 20), time_us) == pytest.approx(0.5)
    assert Scene.of("4x1", "0").line_share(cell_of(FOUR, C.ALL_REDUCE, 1 << 20), time_us) is None


def test_samples_are_read_back_and_go_on(tmp_path: Path) -> None:
    path = tmp_path / "new" / f"{FOUR.name}.csv"
    assert kept.read_back(path) == ({}, {})
    cell = cell_of(FOUR, C.ALL_GATHER, 1 << 10)
    ours = Contender(name=OURS, role="ours", memory=Memory.PRIVATE, settings="", start=never)
    ours.configs[cell] = config_words(CONFIG)
    peer = Contender(name="gloo", role="peer", memory=Memory.PRIVATE, settings="a, b", start=never)
    for first_round in (0, 3):
        with kept.appended(path) as file:
            for sample in samples([5.0, 6.0, 7.0], first_round):
                file.keep(cell, ours, sample)
                file.keep(cell, peer, sample)
    records, configs = kept.read_back(path)
    assert records[cell].n_rounds == 6
    assert records[cell].samples == {name: samples([5.0, 6.0, 7.0] * 2) for name in (OURS, "gloo")}
    assert {who: config_of(words) for who, words in configs[cell].items()} == {OURS: CONFIG}


@pytest.mark.parametrize("fault", ["a,b\n1,2\n", None])
def test_files_that_cannot_be_read_back(tmp_path: Path, fault: str | None) -> None:
    path = tmp_path / "cut.csv"
    if fault is None:
        with kept.appended(path):
            pass
        fault = path.read_text() + "all_reduce,4,8,8,fresh,gloo\n"
    path.write_text(fault)
    with pytest.raises(UsageError, match=r"cut\.csv, line \d"):
        kept.read_back(path)


def test_samples_that_go_on_are_taken_as_the_earlier_ones() -> None:
    cell = cell_of(FOUR, C.ALL_REDUCE, 8)
    alone, batched = (samples([time_us] * 3) for time_us in (18.0, 22.0))
    batched = [replace(sample, batch_calls=11) for sample in batched]
    assert plan_like(cell, alone).calls == 1
    assert plan_like(cell, alone).repeats > 1
    assert (plan_like(cell, batched).calls, plan_like(cell, batched).repeats) == (11, 1)


def test_all_samples_of_a_cell_are_taken_as_the_opponents() -> None:
    cell = cell_of(FOUR, C.ALL_REDUCE, 8)
    field = [Contender(name=n, role="peer", memory=Memory.PRIVATE, settings="", start=never) for n in (OURS, OPPONENT)]
    found = CellRecord(cell=cell, samples={OPPONENT: samples([47.0])})
    assert found.agree(field, OPPONENT) == plan_of(47.0, cell)
    assert plan_of(47.0, cell).calls == 1
    assert found.agree(field) is found.like


def test_a_small_cell_has_to_be_far_ahead() -> None:
    cell = cell_of(FOUR, C.ALL_REDUCE, 8)
    good = judged(FOUR, record(cell, ours=50, openmpi=70, gloo=1000), {OURS: config_words(CONFIG)})
    near = judged(FOUR, record(cell, ours=50, openmpi=55, gloo=400), {})
    assert good is not None
    assert near is not None
    assert (good.judgement.verdict, good.wanted) == (Verdict.WON, True)
    assert good.targets == {"1.2x both": State.MET, "10x gloo": State.MET}
    assert (near.judgement.verdict, near.wanted) == (Verdict.WON, False)
    assert near.targets == {"1.2x both": State.MISSED, "10x gloo": State.MISSED}
    few = CellRecord(
        cell=cell, samples={name: found[:3] for name, found in record(cell, ours=5, gloo=9).samples.items()}
    )
    row = judged(FOUR, few, {})
    assert row is not None
    assert set(row.targets.values()) == {State.OPEN}
    assert judged(FOUR, CellRecord(cell=cell), {}) is None
    assert judged(FOUR, record(cell, gloo=9), {}) is None


def test_long_messages_have_to_fill_the_line_and_beat_the_ring() -> None:
    mebi = 1 << 20
    line_us = 1.5 * mebi / 125 * 1514 / 1448
    cell = cell_of(FOUR, C.ALL_REDUCE, mebi)
    slow = judged(FOUR, record(cell, ours=1.1 * line_us, gloo=1.2 * line_us, openmpi=1.3 * line_us), {})
    assert slow is not None
    assert slow.targets == {"97% of line": State.MISSED, "1.5x openmpi": State.MISSED}
    shared = cell_of(TWO_BY_TWO, C.ALL_REDUCE, mebi)
    row = judged(TWO_BY_TWO, record(shared, ours=8000, gloo=9000, openmpi=9000, ring=12000), {})
    assert row is not None
    assert row.targets == {"1.4x ring": State.MET}
    assert table.needs_ring(TWO_BY_TWO, shared)
    assert not table.needs_ring(FOUR, cell)
    assert not table.needs_ring(TWO_BY_TWO, cell_of(TWO_BY_TWO, C.ALL_GATHER, mebi))


def test_the_table_says_what_is_missing() -> None:
    cell = cell_of(FOUR, C.ALL_REDUCE, 8)
    row = judged(FOUR, record(cell, ours=50, openmpi=70, gloo=1000), {OURS: config_words(CONFIG)})
    assert row is not None
    lines = table.text([row], 3).splitlines()
    assert lines[0].index("verdict") + len("verdict") == lines[1].index("won") + len("won")
    assert "1.40 [1.40, 1.40]" in lines[1]
    assert "20.00 [20.00, 20.00]" in lines[1]
    assert lines[2:] == [
        "1 won, 0 held, 0 lost, 0 undecided, 2 not measured, of 3 cells",
        "targets beyond the better peer: 2 met, 0 missed, 0 open, of 2",
    ]


RANK = """
import os, socket, sys, time
with socket.socket(socket.AF_UNIX) as link, link.makefile("r") as requests:
    link.connect(b"\\0" + sys.argv[1].encode())
    answer, last = f"hello {sys.argv[2]} {os.getpid()} echo", time.monotonic()
    while True:
        link.sendall(answer.encode() + b"\\n")
        line = requests.readline()
        if not line:
            break
        pause_ms, words = 1000 * (time.monotonic() - last), line.split()
        answer, last = "us" + f" {pause_ms}" * int(words[5]), time.monotonic()
        if words[9] == "wrong":
            answer = "wrong on purpose"
"""


def test_timings_of_longer_messages_begin_with_full_buckets() -> None:
    network = Network(n_hosts=2, rate_mbit=100, burst_bytes=128 << 10)
    words = [sys.executable, "-c", RANK]
    launch = Launch(commands=lambda address, _: [[*words, address, str(rank)] for rank in range(2)], env={})
    with started("echo", network, 2, launch) as ranks:
        assert isinstance(ranks, PausingRanks)
        short, long = (
            ranks.ask(f"sample all_reduce {n} fresh 0 3 1 1 0 -\n", timeout_s=20) for n in (1 << 10, 4 << 10)
        )
        parts = ranks.ask("sample all_gather 2048 fresh 0 2 1 1 0 -\n", timeout_s=20)
        assert ranks.ask("sample all_reduce 4096 fresh 0 3 1 1 0 wrong\n", timeout_s=20) == ["wrong on purpose\n"] * 2
    for rank in range(2):
        assert len(set(short[rank].split())) == 2  # one request, whose time is told three times
        times_ms = [float(word) for word in (*long[rank].split()[1:], *parts[rank].split()[1:])]
        assert len(times_ms) == 5
        assert min(times_ms) >= (128 << 10) * 8 / 100e6 * 1e3
    with started("echo", replace(network, rate_mbit=None), 2, launch) as ranks:
        assert type(ranks) is RankSet


def test_showing_measures_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "none")
    assert main(["--out", out, "--show", "--only", "4x1/0/*"]) == 1
    assert "0 won, 0 held, 0 lost, 0 undecided, 16 not measured, of 16 cells" in capsys.readouterr().out
    assert main(["--out", out, "--only", "5x1/*"]) == 2
    assert "no cell is called so" in capsys.readouterr().err
    assert not Path(out).exists()
