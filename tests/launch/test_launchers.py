"""The real launchers: torchrun, mpirun of three MPIs, srun; on one host, and torchrun on two.

MPIs are looked for where benchmarks/peers installs them, in the cache folder that AUTOTUNE_CACHE_DIR names, or
~/.cache/autotune. Slurm's daemons are started for the test, with a configuration of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from launch.ranks_by_hand import alive, children, environment, kill, n_samples, until
from launch.slurm import Slurm, why_no_slurm

import autotune
from autotune.launch.environment import launched
from autotune.table import load_table, newest_table_path
from autotune.topology.fingerprint import cached_fingerprint

CACHE = Path(os.environ.get("AUTOTUNE_CACHE_DIR") or Path.home() / ".cache" / "autotune")
PEERS = CACHE / "benchmarks" / "peers"
AS_ROOT = {f"{word}_ALLOW_RUN_AS_ROOT{end}": "1" for word in ("OMPI", "PRTE") for end in ("", "_CONFIRM")}
AUTOTUNE = [sys.executable, "-P", "-m", "autotune"]
SMALL = ("run", "--quick", "--collective", "broadcast", "--sizes", "64", "--json")
LONG = ("run", "--quick", "--collective", "all_reduce", "--sizes", "8,4K,64K,1M", "--budget", "3m", "--json")


@contextmanager
def running(home: Path, words: list[str], **more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        words,
        env={**environment(home), **more},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()  # a launcher that is killed leaves its ranks behind
        try:
            process.communicate(timeout=30)
        finally:
            process.kill()


def assert_one_result(out: str, err: str, code: int | None) -> None:
    assert code == 0, err
    document = json.loads(out)  # one rank prints
    assert [cell["n_ranks"] for cell in document["cells"]] == [2]
    assert "1 host(s) of 2 ranks" in err


def torchrun(*words: str) -> list[str]:
    pytest.importorskip("torch", reason="needs torch: not importable")
    return [sys.executable, "-m", "torch.distributed.run", *words]


def mpirun(name: str) -> tuple[list[str], dict[str, str]]:
    """The words before the program, and what the environment needs."""
    home = PEERS / name
    if not (home / "bin" / "mpirun").exists():
        pytest.skip(f"needs {name}: not in {PEERS} (python benchmarks peers --peers {name} installs it)")
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    words = [str(home / "bin" / "mpirun"), "-n", "2"]
    if name == "openmpi":
        words += ["--map-by", ":OVERSUBSCRIBE"]
    return words, {**AS_ROOT, "I_MPI_ROOT": str(home), "PATH": path}


def test_torchrun_on_one_host(tmp_path: Path) -> None:
    words = torchrun("--standalone", "--nproc-per-node", "2", "-m", "autotune", *SMALL)
    with running(tmp_path, words) as process:
        out, err = process.communicate(timeout=120)
    assert_one_result(out, err, process.returncode)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openmpi", "mpich", "impi"])
def test_mpirun_on_one_host(tmp_path: Path, name: str) -> None:
    words, more = mpirun(name)
    with running(tmp_path, [*words, *AUTOTUNE, *SMALL], **more) as process:
        out, err = process.communicate(timeout=120)
    assert_one_result(out, err, process.returncode)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    missing = why_no_slurm()
    if missing is not None:
        pytest.skip(missing)
    with Slurm(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.mark.slow
def test_srun_on_one_host(tmp_path: Path, slurm: Slurm) -> None:
    with running(tmp_path, ["srun", "-n", "2", *AUTOTUNE, *SMALL], **slurm.environment) as process:
        out, err = process.communicate(timeout=120)
    assert_one_result(out, err, process.returncode)


@pytest.mark.slow
def test_in_a_batch_script_there_is_no_job(tmp_path: Path, slurm: Slurm) -> None:
    """SLURM_PROCID and SLURM_NTASKS are set there, and nobody started a second rank."""
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {' '.join(AUTOTUNE)} probe --no-measure --json\n")
    words = ["sbatch", "--wait", "-n", "2", "-o", str(tmp_path / "out"), "-e", str(tmp_path / "err"), str(script)]
    with running(tmp_path, words, **slurm.environment) as process:
        process.communicate(timeout=120)
    assert process.returncode == 0, (tmp_path / "err").read_text()
    assert json.loads((tmp_path / "out").read_text())["fingerprint"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torchrun", "openmpi", "mpich", "impi", "srun"])
def test_a_rank_and_then_an_agent_are_killed(tmp_path: Path, name: str, request: pytest.FixtureRequest) -> None:
    """No launcher sees the first; the second ends its job; the same command then goes on to the end."""
    more: dict[str, str] = {}
    if name == "torchrun":
        words = torchrun("--standalone", "--nproc-per-node", "2", "-m", "autotune")
    elif name == "srun":
        slurm: Slurm = request.getfixturevalue("slurm")
        words, more = ["srun", "-n", "2", *AUTOTUNE], dict(slurm.environment)
    else:
        before, more = mpirun(name)
        words = [*before, *AUTOTUNE]
    with running(tmp_path, [*words, *LONG], **more) as process:
        until(lambda: n_samples(tmp_path) or process.poll() is not None, "samples", 60)
        (victim,) = children(_agents(tmp_path)[1])
        kill(victim)
        done = n_samples(tmp_path)
        until(lambda: n_samples(tmp_path) > done or process.poll() is not None, "samples of new ranks", 60)
        assert process.poll() is None, process.communicate()
        left = [*_agents(tmp_path).values(), *_measuring(tmp_path)]
        kill(_agents(tmp_path)[1])
        out, err = process.communicate(timeout=60)
        until(lambda: not any(map(alive, left)), "the end of all", 30)
    assert process.returncode != 0
    if name in ("mpich", "impi"):  # Hydra kills the others at once, and says so itself
        assert "BAD TERMINATION" in out + err
    else:
        assert "error: the agent of rank 1" in err
    assert f"{Path(autotune.__file__).parent}" not in err  # torchrun writes a traceback, but not of ours
    with running(tmp_path, [*words, *LONG], **more) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert json.loads(out)["resumed"] or "starting from" in err


HOSTS = Path(__file__).parents[2] / "benchmarks" / "hosts"


@pytest.mark.slow
def test_torchrun_on_two_hosts(tmp_path: Path) -> None:
    """Two namespaces with a torchrun each, and two ranks in each; by torch.distributed."""
    assert_two_hosts(tmp_path, "--backend", "torch")


@pytest.mark.slow
def test_torchrun_on_two_hosts_with_the_native_backend(tmp_path: Path) -> None:
    assert_two_hosts(tmp_path, "--backend", "native")


@pytest.mark.slow
def test_a_portfolio_is_measured_and_used_on_two_hosts(tmp_path: Path) -> None:
    """With gloo in HCCL's place: a job on both measures, and another one runs on the groups that were chosen."""
    assert_two_hosts(tmp_path, "--backend", "gloo")
    words = ["export", "--backend", "gloo", "--format", "portfolio", "--output", "portfolio.json"]
    with running(tmp_path / "host0", [*AUTOTUNE, *words]) as process:
        said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    (tmp_path / "host1" / "portfolio.json").write_bytes((tmp_path / "host0" / "portfolio.json").read_bytes())
    job = str(Path(__file__).with_name("portfolio_job.py"))
    (out, err), (other, more) = on_two_hosts(tmp_path, job, GLOO_SOCKET_IFNAME="eth0")
    answers = sorted(line for text in (out, other) for line in text.splitlines() if line.startswith("rank "))
    assert answers == [f"rank {rank}: 2+2, routed, right" for rank in range(4)], f"{out}{err}{other}{more}"


def assert_two_hosts(home: Path, *backend: str) -> None:
    for number in range(2):
        (home / f"host{number}").mkdir()
    words = "run --quick --collective broadcast --sizes 1K --ranks 4 --budget 3m --json"
    (out, err), (other, said) = on_two_hosts(home, "-m", "autotune", *words.split(), *backend)
    document = json.loads(out)
    assert [cell["placement"] for cell in document["cells"]] == [[2, 2]]
    assert "2 host(s) of 4 ranks" in err
    assert other == "", said
    tables = [load_table(newest) for number in range(2) if (newest := _newest(home / f"host{number}")) is not None]
    assert len(tables) == 2, "select() finds the table on both hosts"
    assert tables[0].digest == tables[1].digest
    assert tables[0].fingerprint not in tables[0].host_fingerprints


def on_two_hosts(home: Path, *program: str, **more: str) -> list[tuple[str, str]]:
    """What torchrun of a program wrote on each of two hosts, with two ranks on each; host N works in hostN."""
    network = pytest.importorskip("benchmarks.hosts.network", reason="needs benchmarks/hosts: not in this installation")
    missing = network.why_not()
    if missing is not None:
        pytest.skip(missing)
    made = network.Network(n_hosts=2, rate_mbit=1000, prefix=f"lt{os.getpid()}")
    with network.made(made), ExitStack() as stack:
        hosts = []
        for number in range(2):
            words = torchrun("--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "2")
            words += ["--master-addr", made.address(0), "--master-port", "29500", *program]
            words = [*made.inside(number), *words]
            hosts.append(stack.enter_context(running(home / f"host{number}", words, **more)))
        said = [host.communicate(timeout=timeout_s) for host, timeout_s in zip(hosts, (240, 30), strict=True)]
    assert [host.returncode for host in hosts] == [0, 0], "\n".join(text for both in said for text in both)
    return said


def _newest(home: Path) -> Path | None:
    """The table that ``select`` finds there."""
    own = cached_fingerprint(home / "cache")
    assert own is not None
    found = [newest_table_path(home / "data", own, backend) for backend in ("torch", "native", "gloo")]
    return next((path for path in found if path is not None), None)


def _of_home(home: Path) -> dict[int, list[str]]:
    """Command lines of the processes that work in a test's folder."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            try:
                if (entry / "cwd").resolve() == home.resolve():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:  # it has just ended
                continue
    return found


def _measuring(home: Path) -> list[int]:
    """The ranks."""
    return [pid for pid, words in _of_home(home).items() if "autotune.backends.worker" in words]


def _agents(home: Path) -> dict[int, int]:
    """The processes that the launcher started, by rank."""
    found = {}
    for pid, words in _of_home(home).items():
        if "python" in Path(words[0]).name and "autotune" in words and "torch.distributed.run" not in words:
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
            except OSError:  # it has just ended
                continue
            own = launched(dict(line.partition("=")[::2] for line in variables))
            if own is not None:
                found[own.rank] = pid
    return found
