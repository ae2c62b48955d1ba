"""The agent: a process that the launcher started, which never takes part in a collective; its child does.

In:  requests of rank 0, over a link. Out: what its child answered, or how it ended. May not touch: the store, tables.

A launcher ends the whole job when one of its own processes dies. So a rank that hangs or crashes is this process's
child, and is replaced. An agent has one child at a time; those of earlier groups are ended first. Rank 0's own agent is
a thread of its process.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

from ..backends.rank_process import STOP_S, Ended, Json, RankProcess
from ..errors import AutotuneError
from .links import Link, Message

Handlers = Mapping[str, Callable[[Message], Json]]
"""What an agent answers itself, by the request's word."""


class Agent:
    """Serves rank 0 until it ends the run.

    Args:
        handlers: for requests that are not for the child.
    """

    def __init__(self, link: Link, handlers: Handlers) -> None:
        self._link = link
        self._handlers = handlers
        self._child: RankProcess | None = None
        self._group = 0  # of ranks, that the child belongs to; numbers are rank 0's
        self._partial = b""

    def serve(self) -> Message:
        """Answer until rank 0 ends the run; its last message.

        Raises:
            LinkLost: rank 0 has gone.
            KeyboardInterrupt: rank 0, which may be out of this terminal's reach, was told.
        """
        try:
            return self._serve()
        except KeyboardInterrupt:
            self._link.send({"interrupted": True})
            raise
        finally:
            self._end_child(0.0)
            self._link.close()

    def _serve(self) -> Message:
        while True:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._link, selectors.EVENT_READ)
                if self._child is not None:
                    waiting.register(self._child.link, selectors.EVENT_READ)
                ready = [key.fileobj for key, _ in waiting.select()]
            if self._child is not None and self._child.link in ready:
                self._hear_child()
            if self._link in ready:
                for message in self._link.receive():
                    if message["do"] == "end":
                        return message
                    self._do(message)

    def _do(self, message: Message) -> None:
        match message["do"]:
            case "start":
                self._start(message)
            case "ask":
                self._ask(message)
            case "stop":
                self._say_ended(message["group"], self._end_child(STOP_S))
            case word:
                self._handle(str(word), message)

    def _start(self, message: Message) -> None:
        self._end_child(STOP_S)
        segment = self._link.descriptor() if message["segment"] else None
        setup = message["setup"]
        assert isinstance(setup, dict)
        self._group = int(str(message["group"]))
        self._partial = b""
        try:
            self._child = RankProcess(str(message["module"]), segment, setup)
        except OSError as err:
            self._say_ended(self._group, Ended(1, f"cannot be started: {err}", False))
        finally:
            if segment is not None:
                os.close(segment)

    def _ask(self, message: Message) -> None:
        if self._child is None or message["group"] != self._group:
            return  # it has ended, and rank 0 was told
        try:
            self._child.link.sendall(json.dumps(message["request"]).encode() + b"\n")
        except OSError:  # it has ended
            self._say_ended(self._group, self._end_child(STOP_S))

    def _hear_child(self) -> None:
        assert self._child is not None
        try:
            part = self._child.link.recv(1 << 16)
        except OSError:
            part = b""
        if not part:
            self._say_ended(self._group, self._end_child(STOP_S))
            return
        self._partial += part
        if self._partial.endswith(b"\n"):
            answer, self._partial = json.loads(self._partial), b""
            self._link.send({"group": self._group, "answer": answer})

    def _handle(self, word: str, message: Message) -> None:
        try:
            self._link.send({"handled": self._handlers[word](message)})
        except AutotuneError as err:
            self._link.send({"refused": err.message, "remedy": err.remedy})

    def _end_child(self, within_s: float) -> Ended | None:
        child, self._child = self._child, None
        return None if child is None else child.end(time.monotonic() + within_s)

    def _say_ended(self, group: Json, ended: Ended | None) -> None:
        self._link.send({"group": group, "ended": None if ended is None else asdict(ended)})
