"""The environment of a measurement: words only, unknown where the machine does not tell, no host name."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from autotune.topology.environment import environment, git_revision

Recorded = Callable[[str], dict[str, str]]
Plant = Callable[[dict[str, str], Path], None]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


def test_of_this_machine() -> None:
    found = environment()
    assert found["kernel"] == os.uname().release
    assert found["python"] == platform.python_version()
    assert found["numpy"] == metadata.version("numpy")
    assert found["cpus"].startswith(f"{len(os.sched_getaffinity(0))} of ")
    assert all(isinstance(value, str) and value for value in found.values())
    assert not any(socket.gethostname() == value for value in found.values())


def test_of_a_recorded_machine(recorded: Recorded, plant: Plant, tmp_path: Path) -> None:
    governors = {
        f"/sys/devices/system/cpu/cpufreq/policy{i}/scaling_governor": word
        for i, word in enumerate(["powersave", "performance", "powersave"])
    }
    plant(recorded("container-cpuset-quota") | governors | {"/proc/sys/kernel/osrelease": "6.1.0-test"}, tmp_path)
    found = environment(str(tmp_path))
    assert found["kernel"] == "6.1.0-test"
    assert found["cpu_model"] == "AMD EPYC 7313P 16-Core Processor"
    assert found["governor"] == "performance,powersave"
    assert found["cpus"] == "2 of 16"
    assert found["cpu_quota_cores"] == "1.5"


def test_of_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    found = environment(str(tmp_path))
    assert {name for name, value in found.items() if value == "unknown"} >= {"kernel", "cpu_model", "governor", "cpus"}
    assert found["cpu_quota_cores"] == "none"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


def test_revision_of_a_branch(checkout: Path) -> None:
    assert git_revision(checkout) is None  # no commit yet
    (checkout / ".git/packed-refs").write_text(
        f"# pack-refs with: peeled\n{OTHER} refs/heads/x\n{COMMIT} refs/heads/main\n"
    )
    assert git_revision(checkout) == COMMIT
    (checkout / ".git/refs/heads/main").write_text(f"{OTHER}\n")  # loose: the newer one
    assert git_revision(checkout) == OTHER


def test_revision_of_a_detached_head(checkout: Path) -> None:
    (checkout / ".git/HEAD").write_text(f"{COMMIT}\n")
    assert git_revision(checkout) == COMMIT


def test_revision_of_a_linked_work_tree(checkout: Path) -> None:
    own = checkout / ".git/worktrees/second"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (checkout / ".git/refs/heads/main").write_text(f"{COMMIT}\n")
    (checkout / "second").mkdir()
    (checkout / "second/.git").write_text(f"gitdir: {own}\n")
    assert git_revision(checkout / "second") == COMMIT


@pytest.mark.parametrize("head", ["", "ref: ", "ref: refs/heads/none", "0123", "\0"])
def test_no_revision_is_none(checkout: Path, head: str) -> None:
    (checkout / ".git/HEAD").write_text(head)
    assert git_revision(checkout) is None


def test_no_checkout_is_none(tmp_path: Path) -> None:
    assert git_revision(tmp_path) is None
