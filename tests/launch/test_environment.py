"""What launchers set: recorded from the real ones, shortened; and the sets that nobody can mean."""

from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.launch.environment import Launched, Launcher, Master, launched

MASTER = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"}
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    **MASTER,
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-hosta-10201@1",
    "PMIX_RANK": "1",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_FD": "9"}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "7",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3),1",
}
VARIABLES = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


def place(found: Launched | None) -> tuple[Launcher, int, int, int, int]:
    assert found is not None
    return found.launcher, found.rank, found.n_ranks, found.local_rank, found.local_size


def test_every_launcher_is_read() -> None:
    assert place(launched(TORCHRUN)) == (Launcher.TORCHRUN, 3, 4, 1, 2)
    assert place(launched(OPENMPI)) == (Launcher.OPENMPI, 1, 2, 1, 2)
    assert place(launched(HYDRA)) == (Launcher.HYDRA, 1, 2, 1, 2)
    assert place(launched(SLURM | MASTER)) == (Launcher.SLURM, 5, 7, 1, 2)
    assert place(launched(VARIABLES)) == (Launcher.VARIABLES, 1, 2, 1, 2)


def test_without_a_launcher_or_with_one_rank_there_is_no_job() -> None:
    assert launched({}) is None
    assert launched({"SLURM_JOB_ID": "12", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None  # a batch script
    assert launched({**VARIABLES, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}) is None
    assert launched({"RANK": "", "WORLD_SIZE": ""}) is None


def test_the_store_is_the_agents_under_torchrun_only() -> None:
    found = launched(TORCHRUN)
    assert found is not None
    assert found.master == Master(address="192.0.2.1", port=29500, served=True)
    found = launched(SLURM | MASTER | {"TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert found is not None
    assert found.master == Master(address="192.0.2.1", port=29500, served=False)


def test_the_innermost_launcher_counts() -> None:
    assert place(launched(SLURM | TORCHRUN))[0] is Launcher.TORCHRUN
    assert place(launched(OPENMPI | TORCHRUN))[0] is Launcher.TORCHRUN
    assert place(launched(SLURM | OPENMPI))[0] is Launcher.OPENMPI
    assert place(launched(SLURM | HYDRA))[0] is Launcher.HYDRA


def test_a_job_has_one_name_on_all_its_ranks_and_another_one_has_another() -> None:
    def name(env: dict[str, str]) -> str:
        found = launched(env)
        assert found is not None
        return found.job

    assert name(TORCHRUN) == name({**TORCHRUN, "RANK": "2", "LOCAL_RANK": "0"})
    assert name(TORCHRUN) != name({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "1"})
    assert name(TORCHRUN) != name({**TORCHRUN, "MASTER_PORT": "29501"})
    assert name(OPENMPI) == name({**OPENMPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    assert name(OPENMPI) != name({**OPENMPI, "PMIX_NAMESPACE": "prterun-hosta-10202@1"})
    assert name(SLURM | MASTER) != name({**SLURM, **MASTER, "SLURM_STEP_ID": "1"})


@pytest.mark.parametrize("env", [TORCHRUN, OPENMPI, HYDRA, SLURM | MASTER, VARIABLES])
def test_half_a_set_is_an_error_that_names_what_is_missing(env: dict[str, str]) -> None:
    marks = {"TORCHELASTIC_RUN_ID", "SLURM_STEP_NUM_TASKS"}  # without these it is another launcher, or none
    optional = {"GROUP_RANK", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE", "PMI_FD", "PMIX_RANK"}
    needed = env.keys() - marks - optional - {"PMIX_NAMESPACE", "SLURM_NTASKS"}
    for name in sorted(needed):
        with pytest.raises(UsageError, match=rf"{name} is not set"):
            launched({other: value for other, value in env.items() if other != name})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"RANK": "4"}, "RANK is 4, and WORLD_SIZE is 4"),
        ({"RANK": "-1"}, "RANK is '-1', which is no whole number"),
        ({"WORLD_SIZE": "9" * 30}, "which is no whole number below"),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK is 2 of 2"),
        ({"LOCAL_WORLD_SIZE": "5"}, "of 5 on this host"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT is 0"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT is 'http'"),
    ],
)
def test_contradictions_are_errors(more: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        launched(TORCHRUN | more)


def test_variables_set_by_hand_must_agree_with_the_launcher() -> None:
    assert place(launched(OPENMPI | {"RANK": "1", "WORLD_SIZE": "2"}))[0] is Launcher.OPENMPI
    with pytest.raises(UsageError, match=r"RANK is 0, and mpirun \(Open MPI\) says 1"):
        launched(OPENMPI | {"RANK": "0", "WORLD_SIZE": "2"})
    with pytest.raises(UsageError, match="SLURM_NODEID is 4, and SLURM_STEP_TASKS_PER_NODE has 4 nodes"):
        launched(SLURM | MASTER | {"SLURM_NODEID": "4"})
    with pytest.raises(UsageError, match="SLURM_STEP_TASKS_PER_NODE is '2x3'"):
        launched(SLURM | MASTER | {"SLURM_STEP_TASKS_PER_NODE": "2x3"})


def test_several_hosts_need_a_master() -> None:
    with pytest.raises(UsageError, match="srun started ranks on several hosts, and MASTER_ADDR and MASTER_PORT") as err:
        launched(SLURM)
    assert "MASTER_ADDR" in err.value.remedy
