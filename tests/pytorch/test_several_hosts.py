"""mc2 over several hosts, which are network namespaces: as gloo does, and started by torchrun itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

ROOT = Path(__file__).resolve().parents[2]
CANNOT = 77  # of on_hosts.py

COLLECTIVES = ("all_reduce", "average", "reduce_and_scatter", "moves", "exchanges", "coalesced", "objects")
BOTH = [
    *(f"collectives.{name}" for name in COLLECTIVES),
    "behaviour.groups",
    "training.data_parallel",
    "several_hosts.placed",
]
CHECKS = {
    (2, 2): [
        *BOTH,
        *(f"behaviour.{name}" for name in ("works", "messages", "threads", "left", "other_order", "later_error")),
        *(f"training.{name}" for name in ("sharded", "calls", "compressed")),
    ],
    (4, 1): BOTH,
}


def on_hosts(hosts: int, per_host: int, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in every host; skips where that cannot be done."""
    if (missing := libraries_missing()) is not None:
        pytest.skip(missing)
    paths = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("on_hosts.py")), str(hosts), str(per_host), "150", *command],
        env=os.environ | {"PYTHONPATH": paths} | environ,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if ended.returncode == CANNOT or "unshare:" in ended.stderr:
        pytest.skip(f"needs network namespaces: {ended.stderr.strip().splitlines()[-1]}")
    return ended


def libraries_missing() -> str | None:
    from autotune.errors import AutotuneError
    from autotune.kernels.network import connection

    try:
        connection(0, 1)
    except AutotuneError as err:
        return f"needs UCX: {err.message}"
    return None


@pytest.mark.parametrize(("hosts", "per_host"), CHECKS, ids=["2x2", "4x1"])
def test_as_gloo_does(hosts: int, per_host: int, tmp_path: Path) -> None:
    checks = CHECKS[hosts, per_host]
    command = [sys.executable, "-P", "-m", "pytorch.host_rank", *checks]
    ended = on_hosts(hosts, per_host, *command, AUTOTUNE_RUNTIME_DIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr + ended.stdout
    said: dict[str, dict[int, Any]] = {check: {} for check in checks}
    for rank, check, value in map(json.loads, ended.stdout.splitlines()):
        said[check][rank] = value
    assert all(sorted(by_rank) == [0, 1, 2, 3] for by_rank in said.values()), said
    for kind, message, _ in said.get("behaviour.other_order", {}).values():
        assert kind == "CommunicatorError"
        assert "rank 0: 1 all_reduce(RedOpType.SUM float32 x 4)" in message
        assert "rank 3: 1 all_reduce(RedOpType.SUM float32 x 9)" in message
    for kind, message, _ in said.get("behaviour.later_error", {}).values():
        assert kind == "CommunicatorError"
        assert "count" in message
    for value in said["several_hosts.placed"].values():
        for placement, *forced in (value[:3], value[3:]):
            assert placement == [per_host] * hosts
            if per_host > 1:
                assert forced == [[], []]
            else:
                assert [kind for kind, _, _ in forced] == ["UsageError", "UsageError"]
                assert all("no algorithm of topo 'hierarchical'" in message for _, message, _ in forced)


def test_torchrun_starts_a_job_on_two_hosts(tmp_path: Path) -> None:
    program = ROOT / "docs" / "examples" / "torch_ddp.py"
    run = (
        f'exec "{sys.executable}" -m torch.distributed.run --nnodes 2 --node-rank "$RANK" --nproc-per-node 2 '
        f'--master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" "{program}"'
    )
    ended = on_hosts(2, 1, "sh", "-c", run, AUTOTUNE_RUNTIME_DIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("step 15: loss ") == 1, ended.stdout
    assert "leaked" not in ended.stderr
