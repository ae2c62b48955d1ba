"""``autotune serve`` in a process of its own, and the answers to requests as they come over the wire."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:  # Any: what JSON holds
        found: dict[str, Any] = json.loads(self.body)
        return found


def ask(url: str, path: str, *, method: str = "GET", **headers: str) -> Reply:
    """One request; names of headers with underscores."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=WAIT_S)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Reply(status=response.status, headers=found, body=response.read())
    finally:
        connection.close()


def need_extras() -> None:
    """Skip a test where no server can run."""
    for name in ("starlette", "uvicorn", "jinja2", "matplotlib"):
        pytest.importorskip(name, reason=f"needs the extra serve: {name} is not installed")


@contextmanager
def serving(database: Path | str, *words: str, port: int = 0, token: str = "") -> Iterator[str]:
    """A server, by its URL; it is gone when the block ends."""
    need_extras()
    command = [sys.executable, "-P", "-m", "autotune", "serve", "--db", str(database), "--port", str(port), *words]
    environment = {**os.environ, "AUTOTUNE_TOKEN": token, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()  # ends with the process, too
        assert line.startswith("serving "), line + process.stderr.read()
        yield line.split(" at ")[1].split("/,")[0].strip().rstrip("/")
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
