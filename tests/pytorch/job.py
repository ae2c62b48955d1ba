"""Ranks of a torch job for tests: processes that import torch once and run one named check after another.

In:  the name of a check and plain arguments. Out: what each rank's check returned, or a failed test with what it said.
Every wait has an end; none of the processes outlives its job.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

Value = Any  # what JSON can say
_TESTS = Path(__file__).resolve().parent.parent
_START_S = 120.0  # importing torch, on a busy machine


class Job:
    """n ranks, whose default group is made by `backend`; a context manager."""

    def __init__(self, n: int, backend: str = "cpu:mc2", **environ: str) -> None:
        self.n = n
        self._whole = True
        self._stack = contextlib.ExitStack()
        self._links: list[socket.socket] = []
        self._written: list[Any] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            for rank in range(n):
                self._start(rank, backend, folder, environ, stack)
            self._stack = stack.pop_all()
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            self._replies(_START_S, "start")
            stack.pop_all()

    def _start(
        self, rank: int, backend: str, folder: str, environ: dict[str, str], stack: contextlib.ExitStack
    ) -> None:
        ours, theirs = socket.socketpair()
        self._links.append(stack.enter_context(ours))
        written = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed by the stack
        self._written.append(written)
        setup = {"rank": rank, "n": self.n, "backend": backend, "store": f"{folder}/store"}
        paths = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        own = {"PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "AUTOTUNE_RUNTIME_DIR": folder}
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pytorch.job", str(theirs.fileno()), json.dumps(setup)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env=os.environ | own | environ,
            )
        self._processes.append(process)
        stack.callback(_end, process)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        self._stack.close()

    def kill(self, rank: int) -> None:
        self._processes[rank].send_signal(signal.SIGKILL)

    def said(self, rank: int) -> str:
        """What a rank has written so far."""
        self._written[rank].seek(0)
        return str(self._written[rank].read().decode(errors="replace"))

    def exits(self, within_s: float = 30.0) -> list[int]:
        """End of input for all ranks; their exit codes."""
        for link in self._links:
            link.shutdown(socket.SHUT_WR)
        return [process.wait(within_s) for process in self._processes]

    def ask(self, check: str, *, within_s: float = 60.0, but: tuple[int, ...] = (), **arguments: Value) -> list[Any]:
        """Run ``module.function`` of tests/pytorch on all ranks; what each returned.

        Args:
            but: ranks that are left out; theirs is None.
        """
        line = json.dumps({"check": check, "arguments": arguments}).encode() + b"\n"
        assert self._whole, "a rank of this job did not answer an earlier check"
        for rank, link in enumerate(self._links):
            if rank not in but:
                link.sendall(line)
        return self._replies(within_s, check, but)

    def _replies(self, within_s: float, what: str, but: tuple[int, ...] = ()) -> list[Any]:
        deadline = time.monotonic() + within_s
        found: list[Any] = []
        failed = ""
        for rank in range(self.n):
            reply: dict[str, Any] = {"value": None}
            if rank not in but:
                line = self._line(rank, deadline)
                self._whole = self._whole and bool(line)
                reply = json.loads(line) if line else {"error": f"no answer to {what}\n{self.said(rank)}"}
            if "error" in reply:
                failed += f"rank {rank}: {reply['error']}\n"
            found.append(reply.get("value"))
        assert not failed, failed
        return found

    def _line(self, rank: int, deadline: float) -> bytes:
        """A rank's next line; empty if it does not come in time."""
        link, line = self._links[rank], bytearray()
        while not line.endswith(b"\n"):
            link.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                part = link.recv(1 << 16)
            except OSError:
                return b""
            if not part:
                return b""
            line += part
        return bytes(line)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.kill()
    process.wait()


def _serve(link: socket.socket, setup: dict[str, Any]) -> None:
    import faulthandler
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    import autotune.runtime.torch  # noqa: F401 - registers mc2
    from autotune.kernels import _native

    _native.die_with_parent()
    torch.set_num_threads(1)
    store = dist.FileStore(setup["store"], setup["n"])
    dist.init_process_group(
        setup["backend"], store=store, rank=setup["rank"], world_size=setup["n"], timeout=timedelta(seconds=30)
    )
    requests = link.makefile("rb")
    link.sendall(b"{}\n")
    for line in requests:
        faulthandler.dump_traceback_later(45.0)  # where it hangs, for the parent to show
        link.sendall(json.dumps(_answer(json.loads(line))).encode() + b"\n")


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    module, _, name = request["check"].partition(".")
    try:
        return {"value": getattr(importlib.import_module(f"pytorch.{module}"), name)(**request["arguments"])}
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        _serve(own, json.loads(sys.argv[2]))
