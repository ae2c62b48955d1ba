"""Jobs that take their table from a server: alone, as a group, by the hundred, and while the server restarts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from page.scene import Scene
from report.made import DIRECT
from serve.running import serving
from serve.scripted import answer, scripted

from autotune.runtime import select, selector
from autotune.runtime.selector import reload
from autotune.table import dump_table
from autotune.topology.fingerprint import remember_fingerprint

WITHIN_S = 600.0

# Ready, and then, at a word, what select() says.
JOB = """
import json, sys
import autotune
select, errors = autotune.select, autotune.AutotuneError
print("ready", flush=True)
sys.stdin.readline()
try:
    answer = select("all_reduce", message_bytes=1 << 20, n_ranks=2)
    print(json.dumps([str(answer.config), answer.tuned, answer.reason]))
except errors as err:
    print(json.dumps([type(err).__name__, False, err.message]))
"""

RANK = """
import json, sys
import numpy as np
import autotune
try:
    with autotune.communicator(int(sys.argv[1]), 2, group=sys.argv[2]) as comm:
        array = np.full(1 << 18, comm.rank + 1, np.float32)
        comm.all_reduce(array)
        print(json.dumps({"sum": float(array[0])}))
except autotune.AutotuneError as err:
    print(json.dumps({"error": type(err).__name__, "message": err.message}))
"""


@pytest.fixture(autouse=True)
def _no_table_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector, "_selectors", {})


def environment(root: Path, url: str, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "AUTOTUNE_TABLE": url,
        "AUTOTUNE_CACHE_DIR": str(root),
        "AUTOTUNE_DATA_DIR": str(root),
        "AUTOTUNE_RUNTIME_DIR": str(root),
        "AUTOTUNE_TIMEOUT": f"{WITHIN_S:g}s",
        **more,
    }


@contextmanager
def jobs(root: Path, scene: Scene, url: str, n_jobs: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of hosts that were probed, each with a cache of its own, ready to call select()."""
    with ExitStack() as stack:
        found = []
        for number in range(n_jobs):
            cache = root / f"job{number}"
            remember_fingerprint(cache, scene.topology)
            job = subprocess.Popen(
                [sys.executable, "-P", "-c", JOB],
                env=environment(cache, url),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(job.communicate)
            stack.callback(job.kill)
            found.append(job)
        for job in found:
            assert job.stdout is not None
            assert job.stdout.readline() == "ready\n"
        yield found


def go(some: Sequence[subprocess.Popen[str]]) -> None:
    for job in some:
        assert job.stdin is not None
        job.stdin.write("go\n")
        job.stdin.flush()


def answers(some: Sequence[subprocess.Popen[str]]) -> list[tuple[str, bool, str]]:
    found = []
    for job in some:
        out, _ = job.communicate(timeout=WITHIN_S)
        config, tuned, reason = json.loads(out)
        found.append((config, tuned, reason))
    return found


def all_get_their_table_across_a_restart(root: Path, scene: Scene, n_before: int, n_at_once: int) -> None:
    """Some while the server is up; of the others half while it is away, and half at once when it is back."""
    half = n_before + n_at_once // 2
    with ExitStack() as stack:
        with serving(scene.path) as url:
            started = stack.enter_context(jobs(root, scene, url, n_before + n_at_once))
            before, meanwhile, after = started[:n_before], started[n_before:half], started[half:]
            go(before)
            found = answers(before)
        go(meanwhile)
        with serving(scene.path, port=int(url.rpartition(":")[2])):
            go(after)
            found += answers([*meanwhile, *after])
    assert len(found) == n_before + n_at_once
    for config, tuned, reason in found:
        assert (config, tuned) == (str(DIRECT), True), reason
        assert "copy" not in reason


def test_jobs_get_their_table_across_a_restart(tmp_path: Path, scene: Scene) -> None:
    all_get_their_table_across_a_restart(tmp_path, scene, 2, 6)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_hundred_jobs_at_once_get_their_table_across_a_restart(tmp_path: Path, scene: Scene) -> None:
    all_get_their_table_across_a_restart(tmp_path, scene, 10, 200)


@pytest.fixture
def probed(tmp_path: Path, scene: Scene) -> None:
    remember_fingerprint(tmp_path / "cache", scene.topology)


@pytest.mark.usefixtures("probed")
def test_select_asks_once_and_says_where_from(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted([answer(dump_table(scene.table))]) as server:
        monkeypatch.setenv("AUTOTUNE_TABLE", server.url)
        for _ in range(3):
            found = select("all_reduce", message_bytes=1 << 20, n_ranks=2)
            assert (found.config, found.tuned) == (DIRECT, True)
        unruled = select("all_reduce", message_bytes=1 << 20, n_ranks=3).reason
        assert f"AUTOTUNE_TABLE ({server.url}/v1/tables/{scene.fingerprint})" in unruled
        assert len(server.requests) == 1
        reload()
        assert len(server.requests) == 2


@pytest.mark.usefixtures("probed")
def test_every_reason_says_that_the_table_is_a_copy(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_TIMEOUT", "1s")
    with scripted([answer(dump_table(scene.table))]) as server:
        monkeypatch.setenv("AUTOTUNE_TABLE", server.url)
        assert "copy" not in select("all_reduce", message_bytes=1 << 20, n_ranks=2).reason
    reload()
    for n_ranks in (2, 3):
        reason = select("all_reduce", message_bytes=1 << 20, n_ranks=n_ranks).reason
        assert "cannot be reached (connection refused), so this is the copy of 2" in reason


def test_a_host_without_a_table_on_the_server_runs_with_the_default(
    tmp_path: Path, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = json.dumps({"code": "no table", "message": "none", "remedy": "autotune run"})
    with scripted([answer(none, status="404 Not Found")]) as server:
        monkeypatch.setenv("AUTOTUNE_TABLE", server.url)
        assert "was not probed" in select("all_reduce", message_bytes=8, n_ranks=2).reason
        remember_fingerprint(tmp_path / "cache", scene.topology)
        reload()
        found = select("all_reduce", message_bytes=8, n_ranks=2)
        assert not found.tuned
        assert "has no table of this host: run `autotune run`" in found.reason


def group(root: Path, url: str) -> list[dict[str, object]]:
    """What two ranks say."""
    with ExitStack() as stack:
        ranks = []
        for rank in range(2):
            command = [sys.executable, "-P", "-c", RANK, str(rank), "served"]
            more = {"AUTOTUNE_TIMEOUT": "20s", "AUTOTUNE_STAGING": "1MiB"}
            job = subprocess.Popen(command, env=environment(root, url, **more), stdout=subprocess.PIPE, text=True)
            stack.callback(job.communicate)
            stack.callback(job.kill)
            ranks.append(job)
        return [json.loads(job.communicate(timeout=WITHIN_S)[0]) for job in ranks]


def test_rank_0_fetches_for_its_group(tmp_path: Path, scene: Scene) -> None:
    with scripted([answer(dump_table(scene.table))]) as server:
        remember_fingerprint(tmp_path, scene.topology)
        assert group(tmp_path, server.url) == [{"sum": 3.0}, {"sum": 3.0}]
        assert len(server.requests) == 1


def test_what_rank_0_cannot_fetch_is_an_error_on_every_rank_and_no_hang(tmp_path: Path, scene: Scene) -> None:
    with scripted([answer("{}")]) as server:
        remember_fingerprint(tmp_path, scene.topology)
        first, second = group(tmp_path, server.url)
        assert first["error"] == "TableFormatError"
        assert second["error"] == "CommunicatorError"
        assert first["message"] == second["message"]
        assert len(server.requests) == 1


def test_without_a_url_no_job_pays_for_asking(tmp_path: Path) -> None:
    program = (
        "import sys, autotune\n"
        "autotune.select('all_reduce', message_bytes=8, n_ranks=2)\n"
        "print(sorted({'urllib.request', 'http.client', 'ssl', 'email'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=environment(tmp_path, ""),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_the_check_sees_what_a_url_costs(tmp_path: Path) -> None:
    """The planted fault."""
    program = "import sys\nimport autotune.runtime.remote\nprint('urllib.request' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=environment(tmp_path, ""),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert done.stdout == "True\n"
