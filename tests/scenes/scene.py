"""Hosts, ranks in them, and what happens to both: ``python scene.py FOLDER``; `play` runs it from a test.

In:  FOLDER/scene.json. Out: FOLDER/rank<r>.json of every rank that lived to write it, and the exit codes on standard
output. The program goes into a user namespace of its own where it is not root, and takes everything away at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosts.network import Network

HERE = Path(__file__).resolve().parent
_BENCHMARKS = HERE.parents[1] / "benchmarks"
_PATHS = [str(HERE.parent), str(_BENCHMARKS)]

Step = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is played.

    Args:
        per_host: ranks of each host.
        steps: of all ranks; ``rank.py`` has the words.
        own: by rank (as text, for JSON), what it does instead of `steps`.
        environ: of all ranks; `own_environ` of one rank.
        events: when a rank has noted ``key``, ``ip`` is called with these words (``@1`` stands for host 1), or the
            rank of ``kill`` is killed.
        within_s: the longest that it may take.
    """

    per_host: tuple[int, ...]
    steps: list[Step]
    own: dict[str, list[Step]] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    own_environ: dict[str, dict[str, str]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    prepare: list[list[str]] = field(default_factory=list)
    timeout_s: float = 20.0
    within_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How it went: by rank the exit code, and what each step came to (None where the rank wrote nothing)."""

    codes: list[int]
    results: list[list[dict[str, Any]] | None]
    said: str

    def errors(self, step: int) -> list[str]:
        """Every rank's error of a step."""
        return [
            str(result[step].get("error", "none")) if result is not None else "nothing written"
            for result in self.results
        ]


def play(scene: Scene, folder: Path) -> Played:
    """Run it in a process of its own."""
    (folder / "scene.json").write_text(json.dumps(asdict(scene)))
    program = [sys.executable, str(HERE / "scene.py"), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=scene.within_s + 60, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    results = []
    for rank in range(sum(scene.per_host)):
        written = folder / f"rank{rank}.json"
        results.append(json.loads(written.read_text()) if written.exists() else None)
    return Played(codes=json.loads(done.stdout.splitlines()[-1]), results=results, said=done.stderr)


def main(folder: Path) -> None:
    from hosts.launch import environment
    from hosts.network import Network, enter_private, made

    enter_private()
    fields = json.loads((folder / "scene.json").read_text())
    scene = Scene(**{**fields, "per_host": tuple(fields["per_host"])})
    network = Network(n_hosts=len(scene.per_host), rate_mbit=None, prefix=f"att{os.getpid()}")
    host_of = [host for host, size in enumerate(scene.per_host) for _ in range(size)]
    from scenes.notes import NoteServer

    with contextlib.ExitStack() as stack:
        stack.enter_context(made(network))
        for words in scene.prepare:
            _ip(network, words)
        if scene.prepare:
            _settle(network)
        server = stack.enter_context(NoteServer(folder / "notes"))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stack.callback(server.shutdown)
        ranks: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, ranks)
        for rank, host in enumerate(host_of):
            env = {
                **os.environ,
                **environment(network, rank, scene.per_host),
                "AUTOTUNE_RUNTIME_DIR": str(folder),
                "PYTHONPATH": os.pathsep.join([*_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]),
                **scene.environ,
                **scene.own_environ.get(str(rank), {}),
            }
            words = [sys.executable, str(HERE / "rank.py"), str(folder), str(rank)]
            ranks.append(subprocess.Popen([*network.inside(host), *words], env=env, process_group=0))
        for event in scene.events:
            if server.wait([event["key"]], scene.within_s):
                if "kill" in event:
                    ranks[event["kill"]].send_signal(signal.SIGKILL)
                else:
                    _ip(network, event["ip"])
                server.notes["event"] = "done"
        codes = []
        for process in ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(scene.within_s)
            codes.append(process.returncode if process.returncode is not None else 1000)
    print(json.dumps(codes))


def _ip(network: Network, words: Sequence[str]) -> None:
    named = [network.host(int(word[1:])) if word.startswith("@") else word for word in words]
    subprocess.run(["ip", *named], check=True, timeout=20)


def _settle(network: Network) -> None:
    """Wait until the kernel has noticed what is plugged in; not long, since a cable's end may be down on purpose."""
    deadline_s = time.monotonic() + 2.0
    for number in range(network.n_hosts):
        words = ["ip", "-n", network.host(number), "-o", "link", "show", "up"]
        while time.monotonic() < deadline_s:
            told = subprocess.run(words, check=True, timeout=20, stdout=subprocess.PIPE, text=True).stdout
            if not re.search(r" state (LOWERLAYER)?DOWN ", told):
                break


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in ranks:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


if __name__ == "__main__":
    sys.path[:1] = _PATHS
    main(Path(sys.argv[1]))
