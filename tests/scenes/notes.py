"""A key-value store for the ranks of a scene, so that they need no torch: a server on a Unix socket, and its client.

A Unix socket with a path is reached from every network namespace that shares the file system. Each request is a line
of JSON on a connection of its own; a `wait` is answered when its keys are there, or its time is out.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from datetime import timedelta
from pathlib import Path


class NoteServer(socketserver.ThreadingUnixStreamServer):
    """Serves until it is shut down."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Request)
        self.notes: dict[str, str] = {}
        self.changed = threading.Condition()

    def wait(self, keys: list[str], timeout_s: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: all(key in self.notes for key in keys), timeout_s)


class _Request(socketserver.StreamRequestHandler):
    server: NoteServer

    def handle(self) -> None:
        request = json.loads(self.rfile.readline())
        answer: object
        if request["do"] == "set":
            with self.server.changed:
                self.server.notes[request["key"]] = request["value"]
                self.server.changed.notify_all()
            answer = True
        elif request["do"] == "get":
            answer = self.server.notes[request["key"]]
        else:
            answer = self.server.wait(request["keys"], request["timeout_s"])
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class Notes:
    """Implements `autotune.runtime.board.KeyValueStore`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def set(self, key: str, value: str, /) -> None:
        self._ask({"do": "set", "key": key, "value": value}, 10.0)

    def get(self, key: str, /) -> bytes:
        return str(self._ask({"do": "get", "key": key}, 10.0)).encode()

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        seconds = timeout.total_seconds()
        if not self._ask({"do": "wait", "keys": keys, "timeout_s": seconds}, seconds + 10.0):
            raise TimeoutError(f"no {keys} in {seconds:g} s")

    def _ask(self, request: dict[str, object], timeout_s: float) -> object:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(timeout_s)
            link.connect(self._path)
            with link.makefile("rwb") as stream:
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                return json.loads(stream.readline())
