"""Sets of ranks as real processes: answers, faults, idleness, nothing left behind; and the sampler in C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from peers import floors
from peers.cells import Cell
from peers.install import compiled
from peers.libraries import FLAGS, SAMPLER, SOURCES
from peers.rounds import CellRecord, Contender, run

from autotune.backends.mpi_protocol import NoTimes
from autotune.backends.mpi_ranks import Launch, RankSet, RanksFailed
from autotune.backends.mpi_sampling import Sampler
from autotune.measure import Timing
from autotune.types import Collective, Memory

COLLECTIVES = (
    Collective.ALL_REDUCE,
    Collective.BROADCAST,
    Collective.ALL_GATHER,
    Collective.REDUCE,
    Collective.REDUCE_SCATTER,
    Collective.ALL_TO_ALL,
)
CELL = Cell(collective=Collective.ALL_REDUCE, n_ranks=2, size_bytes=4096)
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler: cc not found")

RANK = """
import os, socket, sys
address, rank, behaviour = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.write(1, f"about to {behaviour}\\n".encode())  # in one piece: the ranks share the file
if behaviour == "die":
    sys.exit(7)
link = socket.socket(socket.AF_UNIX)
link.connect(b"\\0" + address.encode())
link.sendall(f"hello {rank} {os.getpid()} rank of a test\\n".encode())
for line in link.makefile("r"):
    words = line.split()
    if behaviour == "end":
        sys.exit(0)
    if behaviour == "hang" and rank == 1:
        import signal
        signal.pause()
    link.sendall(("us" + f" {rank + 1}" * int(words[5]) + "\\n").encode())
"""


def launched(tmp_path: Path, behaviour: str, n_ranks: int = 2) -> Launch:
    script = tmp_path / "rank.py"
    script.write_text(RANK)

    def commands(address: str, scratch: Path) -> list[list[str]]:
        (scratch / "session").touch()
        return [[sys.executable, str(script), address, str(rank), behaviour] for rank in range(n_ranks)]

    return Launch(commands=commands, env={})


def running(tmp_path: Path) -> list[int]:
    """Processes whose scratch folder is below tmp_path."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environ = (entry / "environ").read_bytes() if entry.name.isdecimal() else b""
        except OSError:
            continue
        if f"TMPDIR={tmp_path}/".encode() in environ:
            found.append(int(entry.name))
    return found


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_the_slowest_rank_counts_and_nothing_is_left(tmp_path: Path, scratch: Path) -> None:
    with RankSet("test", 2, launched(tmp_path, "answer")) as ranks:
        assert ranks.version == "rank of a test"
        sampler = Sampler(ranks)
        outcome = sampler.sample(CELL, "-", batch=0)
        assert isinstance(outcome, Timing)
        assert outcome.time_us == pytest.approx(2 / outcome.batch_calls)
        assert len(running(scratch)) == 2
    assert running(scratch) == []
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [("die", "ended with 7.*about to die"), ("end", "rank . ended"), ("hang", r"no answer from ranks \[1\] in 0.5 s")],
)
def test_faults_are_named_and_end_the_set(tmp_path: Path, scratch: Path, behaviour: str, words: str) -> None:
    launch = launched(tmp_path, behaviour)
    with pytest.raises(RanksFailed, match=words) as failed, RankSet("t", 2, launch, remedy="leave t out") as ranks:
        ranks.ask("sample x 1 fresh 0 1 1 1 1 -\n", timeout_s=0.5)
    assert failed.value.remedy == "leave t out"
    assert failed.value.hung == (behaviour == "hang")
    assert running(scratch) == []
    assert list(scratch.iterdir()) == []


def stand_in(name: str, role: str, tmp_path: Path, behaviour: str) -> Contender:
    return Contender(
        name=name,
        role=role,
        memory=Memory.PRIVATE,
        settings="",
        start=lambda: RankSet(name, 2, launched(tmp_path, behaviour)),
    )


def test_rounds_go_on_without_a_peer_that_fails(tmp_path: Path, scratch: Path) -> None:
    field = [stand_in("ours", "ours", tmp_path, "answer"), stand_in("good", "peer", tmp_path, "answer")]
    field.append(stand_in("bad", "peer", tmp_path, "end"))
    record = CellRecord(cell=CELL)
    kept: list[tuple[str, int]] = []
    try:
        run(
            [record],
            field,
            until=float("inf"),
            most_rounds=12,
            keep=lambda cell, contender, sample, flag_us: kept.append((contender.name, sample.round)),
            say=lambda words: None,
        )
        (judgement,) = record.judgements(field)
    finally:
        for contender in field:
            contender.close()
    assert {name for name, _ in kept} == {"ours", "good"}
    assert sorted(r for name, r in kept if name == "ours") == list(range(9))  # decided: no round more
    assert judgement.ratio.median == 1.0
    assert len(field[2].faults) == 3  # started anew twice, then left alone
    assert running(scratch) == []


@needs_compiler
def test_floors_are_right_and_idle_ranks_use_no_core(tmp_path: Path, scratch: Path) -> None:
    program = compiled("floors", floors.build_command(tmp_path / "floors"), {})
    with RankSet("floors", 2, floors.launch(program, [min(os.sched_getaffinity(0))])) as ranks:
        sampler = Sampler(ranks)
        for config in ("private", "symmetric", "dram", "copy", "flag"):
            assert isinstance(sampler.sample(CELL, config, batch=3), Timing)
        for batch, collective in enumerate(
            (*COLLECTIVES, *reversed(COLLECTIVES))
        ):  # each after others, and after itself
            for size in (8, 1000, 600 << 10):  # the last is more pieces than the ring has slots
                cell = Cell(collective=collective, n_ranks=2, size_bytes=size)
                assert isinstance(sampler.sample(cell, "pieces", batch=batch), Timing)
        broadcast = Cell(collective=Collective.BROADCAST, n_ranks=2, size_bytes=8)
        assert sampler.sample(broadcast, "private", batch=0) == NoTimes(
            why="refused", words="rank 0: this way is an all_reduce's"
        )
        assert sampler.sample(CELL, "sideways", batch=0) == NoTimes(
            why="refused", words="rank 0: the config is not pieces, private, symmetric, dram, copy or flag"
        )
        before_s = ranks.cpu_seconds()
        subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)  # time passes
        assert ranks.cpu_seconds() - before_s <= 0.02
    assert running(scratch) == []


WRONG = """
#include "sampler.h"
static void none(void) {}
static void run(const float *in, float *out, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] = in[i];
  out[count - 1] += 1;
}
int main(int argc, char **argv) {
  const struct library library = {
      .version = "wrong", .rank = 0, .ranks = 1, .barrier = none, .run = {[ALL_REDUCE] = run}};
  return argc == 3 ? serve(&library, argv[1], argv[2]) : 2;
}
"""


@needs_compiler
def test_sampler_in_c_sees_a_wrong_element_and_a_missing_collective(tmp_path: Path, scratch: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text(WRONG)
    command = ["cc", "-std=c11", *FLAGS, str(source), str(SAMPLER)]
    program = compiled("wrong", [*command, "-o", str(tmp_path / "wrong")], {})
    core = str(min(os.sched_getaffinity(0)))
    alone = Launch(commands=lambda address, scratch: [[str(program), address, core]], env={})
    with RankSet("wrong", 1, alone) as ranks:
        outcome = Sampler(ranks).sample(Cell(collective=Collective.ALL_REDUCE, n_ranks=1, size_bytes=64), "-", batch=0)
        assert outcome == NoTimes(why="wrong", words="rank 0: element 15 of ranks 0 to 0 is 16, expected 15")
        absent = Sampler(ranks).sample(Cell(collective=Collective.REDUCE, n_ranks=1, size_bytes=64), "-", batch=0)
        assert isinstance(absent, NoTimes)
        assert absent.why == "absent"


def peers(tmp_path: Path, words: Sequence[str]) -> subprocess.Popen[str]:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    environment = {**os.environ, "AUTOTUNE_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, str(SOURCES.parent), "--peers", "openmpi", "--out", str(tmp_path / "out"), *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@needs_compiler
def test_quick_run_against_one_mpi_and_an_interrupted_one(tmp_path: Path) -> None:
    shared_before = set(os.listdir("/dev/shm"))
    with peers(tmp_path, ["--quick", "--budget", "60"]) as quick:
        out, err = quick.communicate(timeout=280)
    assert quick.returncode in (0, 1), err  # who wins is the machine's business
    assert "fault:" not in out, out
    summary = json.loads((tmp_path / "out.json").read_text())
    assert len(summary["cells"]) == 24
    ours_and_floors = {f"ours {memory.value}" for memory in Memory}
    ours_and_floors |= {f"floor {way}" for memory in Memory for way in floors.WAYS[memory]}
    assert {c["name"] for c in summary["contenders"]} == {"openmpi", *ours_and_floors}
    assert all(c["idle_cpu_s"] < 0.5 for c in summary["contenders"])

    with peers(tmp_path, ["--quick", "--ranks", "2"]) as interrupted:
        assert interrupted.stderr is not None
        for line in interrupted.stderr:
            if line.startswith("round 1"):
                break
        assert running(tmp_path / "tmp")
        interrupted.send_signal(signal.SIGINT)
        interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert running(tmp_path / "tmp") == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert set(os.listdir("/dev/shm")) <= shared_before
