"""The backends with a real MPI: results that are checked, settings that take effect, ranks that end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from mpi.installed import home_of, installed
from mpi.test_knobs import TUNED, problem

from autotune.backends.mpi import MpiBackend, MpiRanks
from autotune.backends.mpi_knobs import sample_words
from autotune.backends.mpi_program import FLAGS, KINDS, environment, find_mpi
from autotune.errors import BackendUnavailable, UsageError
from autotune.exchange.words import library
from autotune.measure import Failure, Timing
from autotune.settings import read
from autotune.topology.host import collect, parse
from autotune.topology.pairs import pinning_order
from autotune.types import Collective, Config, DType, Memory, SampleKind, TrialState

CORES = pinning_order(parse(collect()))
AUTO = Config(algorithm="auto")


@pytest.fixture
def openmpi() -> Iterator[MpiBackend]:
    with closing(backend("openmpi", home_of("openmpi"))) as found:
        yield found


def backend(name: str, home: Path | None) -> MpiBackend:
    return MpiBackend(KINDS[name], CORES, replace(read(), mpi=home))


def test_a_round_of_every_algorithm_is_right_and_leaves_nothing(openmpi: MpiBackend) -> None:
    cell = problem("openmpi", Collective.ALL_REDUCE, n_ranks=2, size=4096)
    configs = openmpi.candidates(cell)
    assert configs[0] == openmpi.default(cell) == AUTO
    for batch, kind in enumerate((SampleKind.FRESH, SampleKind.STEADY)):
        outcomes = openmpi.measure_round(cell, configs, kind=kind, batch=batch)
        timings = [outcome for outcome in outcomes if isinstance(outcome, Timing)]
        assert len(timings) == len(configs)
        assert len({timing.batch_calls == 1 for timing in timings}) == 1, "configs are timed in different ways"
    gathered = problem("openmpi", Collective.ALL_GATHER, n_ranks=2, size=7)  # bytes that no float divides
    assert isinstance(openmpi.measure_round(gathered, [AUTO], kind=SampleKind.FRESH, batch=5)[0], Timing)
    pool = openmpi._pool
    assert isinstance(pool, MpiRanks)
    starts = {start: list(sampler.ranks._pids.values()) for start, sampler in pool._samplers.items()}
    words = library("openmpi")
    assert set(starts) == {(), *words.starts}
    names = {name for start in starts for name in words.environment(start)}
    for start, of_start in starts.items():
        for pid in of_start:
            set_there = Path(f"/proc/{pid}/environ").read_text().split("\0")
            of_job = dict(word.split("=", 1) for word in set_there if word.partition("=")[0] in names)
            assert of_job == words.environment(start)
    pids = [pid for of_start in starts.values() for pid in of_start]
    openmpi.close()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_what_cannot_be_measured_is_refused_before_ranks_start(openmpi: MpiBackend) -> None:
    half = problem("openmpi", Collective.ALL_REDUCE, dtype=DType.BFLOAT16)
    with pytest.raises(UsageError, match="no bfloat16"):
        openmpi.default(half)
    shared = problem("openmpi", Collective.ALL_REDUCE)
    with pytest.raises(UsageError, match="no symmetric memory"):
        openmpi.default(replace(shared, key=replace(shared.key, memory=Memory.SYMMETRIC)))
    with pytest.raises(UsageError, match="on one host"):
        openmpi.start((2, 2))


def test_a_config_that_the_library_does_not_have_is_invalid_and_costs_the_others_nothing(openmpi: MpiBackend) -> None:
    cell = problem("openmpi", Collective.BROADCAST, n_ranks=2, size=64)
    strange = Config(algorithm="binomial", segment_bytes=1 << 40)  # no int holds it
    outcomes = openmpi.measure_round(cell, [AUTO, strange, AUTO], kind=SampleKind.FRESH, batch=0)
    assert isinstance(outcomes[0], Timing)
    assert isinstance(outcomes[2], Timing)
    assert isinstance(outcomes[1], Failure)
    assert outcomes[1].state is TrialState.INVALID
    assert "_segmentsize=1099511627776" in outcomes[1].message


def test_a_start_that_this_build_does_not_have_is_invalid_and_costs_the_others_nothing(
    openmpi: MpiBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = (("pml", "of_another_build"),)
    monkeypatch.setattr("autotune.backends.mpi.library", lambda name: replace(library(name), starts=(absent,)))
    cell = problem("openmpi", Collective.BROADCAST, n_ranks=2, size=64)
    for batch in range(2):
        outcomes = openmpi.measure_round(cell, [replace(AUTO, knobs=absent), AUTO], kind=SampleKind.FRESH, batch=batch)
        assert isinstance(outcomes[0], Failure)
        assert outcomes[0].state is TrialState.INVALID
        assert isinstance(outcomes[1], Timing)


def test_ranks_that_do_not_start_are_a_clear_error_and_get_none_of_the_users_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_MCA_coll_tuned_allreduce_algorithm", "4")  # would be measured as the default
    monkeypatch.setenv("OMPI_MCA_btl", "self,sm")
    home = home_of("openmpi")
    real = find_mpi(KINDS["openmpi"], home)
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "mpicc").symlink_to(real.compiler)
    (broken / "mpirun").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {real.launcher} --version\n'
        f"env > {tmp_path}/environment\necho no slots >&2\nexit 7\n"
    )
    (broken / "mpirun").chmod(0o755)
    with closing(backend("openmpi", tmp_path)) as found, pytest.raises(BackendUnavailable, match="no slots"):
        found.measure_round(problem("openmpi", Collective.ALL_REDUCE), [AUTO], kind=SampleKind.FRESH, batch=0)
    given = (tmp_path / "environment").read_text()
    assert "OMPI_MCA_btl=self,sm" in given
    assert "OMPI_MCA_coll_" not in given


def hashes(name: str, home: Path, tmp_path: Path, configs: Sequence[str], env: dict[str, str]) -> list[str]:
    """What all_reduce gives under each config, one launch for all."""
    mpi = find_mpi(KINDS[name], home)
    program = tmp_path / f"{name}-which"
    if not program.exists():
        source = Path(__file__).with_name("which_algorithm.c")
        sampler = next(Path(flag[2:]) for flag in FLAGS if flag.startswith("-I")) / "sampler.c"
        path = {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        command = [str(mpi.compiler), *FLAGS, str(source), str(sampler), "-o", str(program)]
        subprocess.run(command, check=True, env={**os.environ, **path}, timeout=300)
    words = [str(mpi.launcher), "-n", "4", *mpi.kind.options, str(program), *configs]
    around = {**os.environ, **environment(mpi.kind, crowded=len(CORES) < 4), **env}
    done = subprocess.run(words, env=around, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert set(lines[::2]) == {""}, lines
    return lines[1::2]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_a_config_set_while_ranks_run_is_what_the_environment_would_set(name: str, tmp_path: Path) -> None:
    """Between samples of other configs too, and the library's own choice stays what it is."""
    home = installed(name)
    cell = problem(name, Collective.ALL_REDUCE, size=4 * 4096)
    plain = [config for config in backend(name, home).candidates(cell) if not config.knobs]  # AUTO first
    asked = [config for config in plain if config.segment_bytes in (None, 16 << 10)]
    words = [sample_words(name, cell, config) for config in asked]
    together = hashes(name, home, tmp_path, [*words, *reversed(words)], {})
    assert together[: len(words)] == together[len(words) :][::-1]
    prefix = "OMPI_MCA_" if name == "openmpi" else ""
    for config_words, found in zip(words, together, strict=False):
        settings = dict(word.split("=", 1) for word in config_words.split()[2:])
        alone = hashes(name, home, tmp_path, ["-"], {prefix + key: value for key, value in settings.items()})
        assert alone == [found], config_words
    assert len(set(together)) > 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
@pytest.mark.parametrize("collective", TUNED)
def test_every_algorithm_of_every_collective_answers_right(name: str, collective: Collective) -> None:
    with closing(backend(name, installed(name))) as found:
        for n_ranks, size in ((2, 8), (2, 40_000), (3, 1000)):
            cell = problem(name, collective, n_ranks, size, DType.INT32)
            outcomes = found.measure_round(cell, found.candidates(cell), kind=SampleKind.FRESH, batch=n_ranks)
            assert [o for o in outcomes if not isinstance(o, Timing)] == []
