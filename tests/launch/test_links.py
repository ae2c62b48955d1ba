"""Messages between agents: who does not know the secret is not heard, and nothing can be changed on the way."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from autotune.launch.links import Link, LinkLost, Message, admit, introduce, linked_pair

SECRET = b"sixteen and more bytes"
HELLO: Message = {"rank": 1}


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def met(ours: socket.socket, theirs: socket.socket, secret: bytes) -> tuple[tuple[Message, Link] | None, Link | None]:
    """Both sides of a meeting; the agent's secret is given."""
    found: list[Link | None] = []

    def agent() -> None:
        try:
            found.append(introduce(theirs, secret, HELLO, time.monotonic() + 5))
        except OSError:  # turned away
            found.append(None)

    other = threading.Thread(target=agent)
    other.start()
    lead = admit(ours, SECRET, time.monotonic() + 5)
    if lead is None:
        ours.close()
    other.join()
    return lead, found[0]


def test_who_knows_the_secret_is_heard(ends: tuple[socket.socket, socket.socket]) -> None:
    lead, agent = met(*ends, SECRET)
    assert lead is not None
    assert agent is not None
    assert lead[0] == HELLO
    lead[1].send({"do": "a", "text": "x" * 5000})
    lead[1].send({"do": "b"})
    heard: list[Message] = []
    while len(heard) < 2:
        heard += agent.receive()
    assert [message["do"] for message in heard] == ["a", "b"]
    agent.send({"said": 1})
    assert lead[1].receive() == [{"said": 1}]


def test_who_does_not_is_not(ends: tuple[socket.socket, socket.socket]) -> None:
    assert met(*ends, b"another secret of that length") == (None, None)


@pytest.mark.parametrize(
    "rubbish", [b"", b"GET / HTTP/1.1\r\nHost: hosta\r\n\r\n" * 8, bytes(64) + struct.pack("<I", 1 << 30) + bytes(100)]
)
def test_rubbish_is_turned_away(ends: tuple[socket.socket, socket.socket], rubbish: bytes) -> None:
    ours, theirs = ends
    theirs.sendall(rubbish)
    theirs.shutdown(socket.SHUT_WR)
    assert admit(ours, SECRET, time.monotonic() + 5) is None


def test_who_says_nothing_does_not_hold_up_for_ever(ends: tuple[socket.socket, socket.socket]) -> None:
    assert admit(ends[0], SECRET, time.monotonic() + 0.01) is None


def test_an_agent_leaves_a_lead_that_does_not_know_the_secret(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    ours.sendall(bytes(32) + bytes(32))
    assert introduce(theirs, SECRET, HELLO, time.monotonic() + 5) is None


def pair() -> tuple[Link, socket.socket, socket.socket, Link]:
    """A lead's link and an agent's, and between them a wire that a test has in its hands."""
    ours, lead_side = socket.socketpair()
    theirs, agent_side = socket.socketpair()
    key = bytes(32)
    return Link(ours, key, leads=True), lead_side, agent_side, Link(theirs, key, leads=False)


@pytest.mark.parametrize("what", ["changed", "repeated", "dropped", "turned round", "too long"])
def test_what_was_tampered_with_closes_the_link(what: str) -> None:
    lead, lead_side, agent_side, agent = pair()
    with lead_side, agent_side:
        lead.send({"n": 1})
        lead.send({"n": 2})
        frames = lead_side.recv(1 << 16)
        first, second = frames[: len(frames) // 2], frames[len(frames) // 2 :]
        match what:
            case "changed":
                sent = first.replace(b"1", b"3")
            case "repeated":
                sent = first + first
            case "dropped":
                sent = second
            case "turned round":
                sent = b""
                lead_side.sendall(first)
            case _:
                sent = struct.pack("<I", 1 << 30) + bytes(64)
        agent_side.sendall(sent)
        with pytest.raises(LinkLost):
            lead.receive() if what == "turned round" else agent.receive()
    lead.close()
    agent.close()


def test_descriptors_go_with_messages_and_are_closed_with_the_link() -> None:
    lead, agent = linked_pair()
    read_end, write_end = os.pipe()
    lead.send({"do": "start"}, [write_end])
    lead.send({"do": "start"}, [write_end])
    os.close(write_end)
    heard: list[Message] = []
    while len(heard) < 2:
        heard += agent.receive()
    first = agent.descriptor()
    assert first is not None
    assert not os.get_inheritable(first)
    os.write(first, b"x")
    os.close(first)
    agent.close()
    assert os.read(read_end, 10) == b"x"
    assert os.read(read_end, 10) == b""  # nobody has the write end any more
    os.close(read_end)
    with pytest.raises(LinkLost, match="has gone"):
        lead.receive()
    lead.close()
