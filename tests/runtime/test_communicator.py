"""``autotune.communicator`` in rank processes: identity, the group's one table, settings that must agree."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from table_strategies import ALL_REDUCE_4, kept

from autotune.runtime import open_table
from autotune.table import save_table, shipped_table
from autotune.types import Config

WITHIN_S = 60.0

RANK = """
import json, sys
import numpy as np
import autotune
from autotune.errors import AutotuneError
from autotune.kernels import Shape
from autotune.kernels.symmetric import Placing
from autotune.types import Collective, DType, ReduceOp

asked = json.loads(sys.argv[1])
try:
    with autotune.communicator(**asked) as comm:
        n, array = comm.n_ranks, np.full(1000, comm.rank + 1, np.float32)
        comm.all_reduce(array)
        gathered = comm.all_gather(np.array([comm.rank]))
        part = comm.reduce_scatter(np.ones(n * 2), np.empty(2), "avg")
        sent = comm.broadcast(np.array([comm.rank]), n - 1)
        total = comm.reduce(np.array([1]), root=n - 1)
        scattered = comm.scatter(np.arange(n) if comm.rank == 0 else None, np.empty(1, np.int64))
        collected = comm.gather(np.array([7]), np.empty(n, np.int64) if comm.rank == 0 else None)
        turned = comm.all_to_all(np.full(n, comm.rank), np.empty(n, np.int64))
        slices = comm.prepare(Shape(Collective.ALL_REDUCE, DType.FLOAT32, ReduceOp.SUM, 0, 1000)).slices
        large = Shape(Collective.ALL_REDUCE, DType.FLOAT32, ReduceOp.SUM, 0, 4096)
        zero_copy = [comm.prepare(large, placing=placing).zero_copy for placing in Placing]
        shared = comm.allocate((n, 4096))
        shared[comm.rank] = comm.rank + 1
        comm.all_gather(shared[comm.rank], shared)
        comm.all_reduce(shared)
        in_symmetric_memory = shared[:, -1].tolist()
        comm.free(shared)
    answer = {
        "rank": comm.rank, "n_ranks": n, "slices": slices,
        "zero_copy": zero_copy, "in_symmetric_memory": in_symmetric_memory,
        "sums": [float(array[0]), float(array[-1])], "gathered": gathered.ravel().tolist(), "part": part.tolist(),
        "sent": sent.tolist(), "total": total.tolist() if comm.rank == n - 1 else None, "scattered": scattered.tolist(),
        "collected": None if collected is None else collected.tolist(), "turned": turned.tolist(),
    }
except AutotuneError as err:
    answer = {"error": type(err).__name__, "message": err.message, "remedy": err.remedy}
print(json.dumps(answer))
"""


class Host:
    """A host of its own: nothing in its home, no table, no variable of ours."""

    def __init__(self, root: Path) -> None:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOTUNE_", "XDG_"))}
        for name in ("RANK", "WORLD_SIZE"):
            ours.pop(name, None)
        self.runtime_dir = root
        self._environ = {**ours, "HOME": str(root), "AUTOTUNE_RUNTIME_DIR": str(root), "AUTOTUNE_TIMEOUT": "20s"}

    def run(self, ranks: list[dict[str, Any]], environ: list[dict[str, str]] | None = None) -> list[dict[str, Any]]:
        """A process for each rank with these arguments and variables; what each of them answers."""
        with contextlib.ExitStack() as stack:
            processes = []
            for rank, arguments in enumerate(ranks):
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", RANK, json.dumps(arguments)],
                    env={**self._environ, **(environ[rank] if environ else {})},
                    stdout=subprocess.PIPE,
                    text=True,
                )
                processes.append(stack.enter_context(process))
                stack.callback(process.kill)
            return [json.loads(process.communicate(timeout=WITHIN_S)[0]) for process in processes]

    def sockets(self) -> list[Path]:
        return [path for path in self.runtime_dir.rglob("*") if path.is_socket()]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def numbered(n: int, **others: str) -> list[dict[str, Any]]:
    return [{"rank": rank, "n_ranks": n, **others} for rank in range(n)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A measured table in which 4000 bytes over 2 ranks are cut small."""
    config = Config(algorithm="ring", segment_bytes=64)
    key = replace(ALL_REDUCE_4, n_ranks=2, placement=(2,))
    path = tmp_path / "table.json"
    save_table(replace(shipped_table(), rules={key: (kept(8, 1 << 20, config),)}), path)
    return path


@pytest.mark.parametrize("n", [1, 3])
def test_the_shipped_rules_carry_out_every_collective(n: int, host: Host) -> None:
    for rank, answer in enumerate(host.run(numbered(n))):
        assert answer == {
            "rank": rank,
            "n_ranks": n,
            "slices": 1,
            "zero_copy": [False, True, True],
            "in_symmetric_memory": [n * (part + 1.0) for part in range(n)],
            "sums": [n * (n + 1) / 2] * 2,
            "gathered": list(range(n)),
            "part": [1.0, 1.0],
            "sent": [n - 1],
            "total": [n] if rank == n - 1 else None,
            "scattered": [rank],
            "collected": [7] * n if rank == 0 else None,
            "turned": list(range(n)),
        }
    assert host.sockets() == []


def test_lossy_rules_are_for_groups_with_an_error_budget(host: Host, table: Path, tmp_path: Path) -> None:
    found = open_table(table).table
    (key,) = found.rules
    coded = Config(algorithm="ring", segment_bytes=1024, codec="threshold(0.0)")
    path = tmp_path / "lossy.json"
    lossy = {replace(key, max_error=0.01): (kept(8, 1 << 20, coded),)}
    save_table(replace(found, rules={**found.rules, **lossy}), path)
    slices = {}
    for budget in (None, 0.001, 0.01):
        answers = host.run([{**rank, "max_error": budget} for rank in numbered(2, table=str(path))])
        assert [answer["sums"] for answer in answers] == [[3.0, 3.0]] * 2
        slices[budget] = answers[0]["slices"]
    assert slices[None] == slices[0.001] > slices[0.01]
    answers = host.run([{**rank, "max_error": 0.1 + rank["rank"]} for rank in numbered(2)])
    assert all("max_error" in answer["message"] for answer in answers)


def test_rank_and_size_come_from_the_environment(host: Host) -> None:
    environ = [{"RANK": str(rank), "WORLD_SIZE": "2"} for rank in (1, 0)]
    assert [answer["rank"] for answer in host.run([{}, {}], environ)] == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        ({}, {}, "rank is not given, and RANK is not set"),
        ({"rank": 0}, {}, "n_ranks is not given, and WORLD_SIZE is not set"),
        ({}, {"RANK": "x", "WORLD_SIZE": "2"}, "RANK is 'x'"),
        ({"rank": 2, "n_ranks": 2}, {}, "rank 2 is not in a group of 2"),
        ({"rank": 0, "n_ranks": 1, "group": "a b"}, {}, "group name 'a b'"),
        ({"rank": 0, "n_ranks": 1, "max_error": 0}, {}, "max_error 0 is not a relative error"),
        ({"rank": 0, "n_ranks": 1}, {"AUTOTUNE_CHECK": "yes"}, "AUTOTUNE_CHECK is 'yes'"),
        ({"rank": 0, "n_ranks": 1}, {"AUTOTUNE_STAGING": "1"}, "AUTOTUNE_STAGING is '1'"),
        ({"rank": 0, "n_ranks": 1}, {"AUTOTUNE_SYMMETRIC": "2048GiB"}, "AUTOTUNE_SYMMETRIC is '2048GiB'"),
        ({"rank": 0, "n_ranks": 1}, {"AUTOTUNE_SYMMETRIC": "0"}, "16384 bytes do not fit into symmetric memory"),
        ({"rank": 0, "n_ranks": 1}, {"AUTOTUNE_TIMEOUT": "soon"}, "AUTOTUNE_TIMEOUT"),
    ],
)
def test_what_cannot_be_meant(arguments: dict[str, Any], environ: dict[str, str], words: str, host: Host) -> None:
    (answer,) = host.run([arguments], [environ])
    assert answer["error"] == "UsageError"
    assert words in answer["message"]
    assert answer["remedy"]


@pytest.mark.parametrize("how", ["argument", "AUTOTUNE_TABLE"])
def test_the_config_is_the_tables(how: str, host: Host, table: Path) -> None:
    if how == "argument":
        answers = host.run(numbered(2, table=str(table)))
    else:
        answers = host.run(numbered(2), [{"AUTOTUNE_TABLE": str(table)}] * 2)
    assert [answer["slices"] for answer in answers] == [32, 32]  # 4000 bytes in two blocks of 64 at a time


def test_tables_that_differ_are_an_error_on_all_ranks(host: Host, table: Path) -> None:
    ranks = numbered(3)
    ranks[2]["table"] = str(table)
    for answer in host.run(ranks):
        assert answer["error"] == "CommunicatorError"
        assert "ranks 0 and 2 differ in table digest" in answer["message"]
        assert "AUTOTUNE_TABLE" in answer["remedy"]


@pytest.mark.parametrize(
    ("name", "value"), [("AUTOTUNE_STAGING", "1MiB"), ("AUTOTUNE_SYMMETRIC", "1MiB"), ("AUTOTUNE_CHECK", "1")]
)
def test_settings_that_differ_are_an_error_on_all_ranks(name: str, value: str, host: Host) -> None:
    for answer in host.run(numbered(2), [{}, {name: value}]):
        assert answer["error"] == "CommunicatorError"
        assert f"ranks 0 and 1 differ in {name}" in answer["message"]


def test_settings_that_agree_are_taken(host: Host) -> None:
    environ = [{"AUTOTUNE_CHECK": "1", "AUTOTUNE_STAGING": "64KiB", "AUTOTUNE_SYMMETRIC": "32KiB"}] * 2
    assert [answer.get("sums") for answer in host.run(numbered(2), environ)] == [[3.0, 3.0]] * 2


def test_a_rank_that_does_not_come_is_an_error_in_time(host: Host) -> None:
    ranks = [{"rank": rank, "n_ranks": 3} for rank in (0, 2)]
    for answer in host.run(ranks, [{"AUTOTUNE_TIMEOUT": "3s"}] * 2):
        assert answer["error"] == "CommunicatorError"
        assert "rank(s) 1 did not join the group within 3 s" in answer["message"]
    assert host.sockets() == []
