"""mpirun of three MPIs and srun over two hosts, as docs/hosts.md says; torchrun is in test_launchers.py.

Hosts are network namespaces, to which the launchers log in by a script in ssh's place; Slurm's daemons run in each.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch.on_hosts import Hosts, hosts
from launch.ranks_by_hand import alive, children, environment, kill, n_samples, until
from launch.slurm import Node, Slurm, why_no_slurm
from launch.test_launchers import AS_ROOT, AUTOTUNE, LONG, PEERS, _agents, running

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs torch, on whose store hosts meet: not installed"
)
pytestmark = [pytest.mark.slow, needs_torch]


SMALL = ("run", "--quick", "--collective", "broadcast", "--sizes", "1K", "--ranks", "4", "--budget", "3m", "--json")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts of two ranks."""
    with hosts(tmp_path, 2, 2) as made:
        yield made


def mpirun(name: str, made: Hosts) -> tuple[list[str], dict[str, str]]:
    """The words before the program, and what the environment needs besides MASTER_ADDR and MASTER_PORT."""
    home = PEERS / name
    if not (home / "bin" / "mpirun").exists():
        pytest.skip(f"needs {name}: not in {PEERS} (python benchmarks peers --peers {name} installs it)")
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    n = str(sum(made.per_host))
    names = [made.name(host) for host in range(len(made.per_host))]
    words = [*made.inside(0), str(home / "bin" / "mpirun"), "-n", n]
    if name == "openmpi":
        listed = ",".join(f"{host}:{size}" for host, size in zip(names, made.per_host, strict=True))
        words += ["--host", listed, "--prtemca", "plm_ssh_agent", str(made.ssh)]
        words += [word for variable in made.master for word in ("-x", variable)]
    else:
        boot = ("-launcher", "-launcher-exec") if name == "mpich" else ("-bootstrap", "-bootstrap-exec")
        words += ["-hosts", ",".join(names), "-ppn", str(made.per_host[0])]
        words += [boot[0], "ssh", boot[1], str(made.ssh)]
    return words, {**AS_ROOT, "I_MPI_ROOT": str(home), "PATH": path, **made.master}


def assert_one_result(out: str, err: str, code: int | None) -> None:
    assert code == 0, f"{out}\n{err}"
    document = json.loads(out)  # one rank prints
    assert [cell["placement"] for cell in document["cells"]] == [[2, 2]]
    assert "2 host(s) of 4 ranks" in err


@pytest.mark.parametrize("name", ["openmpi", "mpich", "impi"])
def test_mpirun_on_two_hosts(two: Hosts, tmp_path: Path, name: str) -> None:
    before, more = mpirun(name, two)
    with running(tmp_path, [*before, *AUTOTUNE, *SMALL], **more) as process:
        out, err = process.communicate(timeout=240)
    assert_one_result(out, err, process.returncode)


@pytest.mark.parametrize("name", ["openmpi", "mpich", "impi"])
def test_mpirun_without_a_master_is_one_clear_error(two: Hosts, tmp_path: Path, name: str) -> None:
    before, more = mpirun(name, two)
    before = [word for word in before if word not in (*two.master, "-x")]
    more = {key: value for key, value in more.items() if key not in two.master}
    with running(tmp_path, [*before, *AUTOTUNE, *SMALL], **more) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "started ranks on several hosts, and MASTER_ADDR and MASTER_PORT are not set" in out + err
    assert "Traceback" not in out + err


@pytest.mark.parametrize("name", ["openmpi", "mpich", "impi", "srun"])
def test_a_rank_and_then_an_agent_are_killed_on_the_other_host(
    two: Hosts, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    if name == "srun":
        request.getfixturevalue("slurm")
        words, more = srun(two, tmp_path)
    else:
        words, more = mpirun(name, two)
    with running(tmp_path, [*words, *AUTOTUNE, *LONG, "--ranks", "4"], **more) as process:  # rank 3 in every cell
        until(lambda: n_samples(tmp_path) or process.poll() is not None, "samples", 120)
        assert process.poll() is None, process.communicate()
        (victim,) = children(_agents(tmp_path)[3])
        kill(victim)
        done = n_samples(tmp_path)
        until(lambda: n_samples(tmp_path) > done or process.poll() is not None, "samples of new ranks", 120)
        assert process.poll() is None, process.communicate()
        agents = _agents(tmp_path)
        left = [*agents.values(), *(pid for agent in agents.values() for pid in children(agent))]
        kill(agents[3])
        out, err = process.communicate(timeout=60)
        until(lambda: not any(map(alive, left)), "the end of all", 30)
    assert process.returncode != 0
    assert "rank 3 on hostb" in err or "BAD TERMINATION" in out + err  # Hydra kills the others at once
    assert "Traceback" not in err


@pytest.fixture
def slurm(two: Hosts, tmp_path: Path) -> Iterator[Slurm]:
    missing = why_no_slurm()
    if missing is not None:
        pytest.skip(missing)
    folder = tmp_path / "slurm"
    folder.mkdir()
    nodes = [Node(two.name(host), two.address(host), two.inside(host)) for host in range(2)]
    with Slurm(folder, nodes) as made:
        yield made


def srun(made: Hosts, folder: Path) -> tuple[list[str], dict[str, str]]:
    words = [*made.inside(0), "srun", "-N", str(len(made.per_host)), "--ntasks-per-node", str(made.per_host[0])]
    own = {"SLURM_CONF": str(folder / "slurm" / "slurm.conf"), "PATH": environment(folder)["PATH"]}
    return words, {**own, **made.master}


def test_srun_on_two_hosts(two: Hosts, slurm: Slurm, tmp_path: Path) -> None:
    words, more = srun(two, tmp_path)
    with running(tmp_path, [*words, *AUTOTUNE, *SMALL], **more) as process:
        out, err = process.communicate(timeout=240)
    assert_one_result(out, err, process.returncode)
