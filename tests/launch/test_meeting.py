"""How agents find each other, on one host and, over torch's store, on several; and who is not let in."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from autotune.errors import BackendUnavailable, CommunicatorError
from autotune.launch.environment import Launched, Launcher, Master
from autotune.launch.hello import Hello
from autotune.launch.links import Link, Message
from autotune.launch.meeting import Met, follow, lead
from autotune.launch.store import open_store

SECRET = b"sixteen and more bytes"
WITHIN_S = 20.0


class Store:
    """A store of one process, with the methods that are asked of torch's."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str, /) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, /) -> bytes:
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, WITHIN_S):
                raise RuntimeError(f"no {key}")
            return self._values[key].encode()

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        for key in keys:
            self.get(key)


def launch(rank: int, n_ranks: int, *, several: bool) -> Launched:
    return Launched(
        launcher=Launcher.VARIABLES,
        rank=rank,
        n_ranks=n_ranks,
        local_rank=0 if several else rank,
        local_size=1 if several else n_ranks,
        job=f"test{os.getpid()}",
        master=Master(address="127.0.0.1", port=29500) if several else None,
    )


def hello(rank: int, n_ranks: int) -> Hello:
    return Hello(
        rank=rank, n_ranks=n_ranks, host="hosta", host_key="a", local_size=1, version="1", cores=(0,), address=None
    )


class Meeting:
    """Followers in threads; rank 0 in this one."""

    def __init__(self, n_ranks: int, *, several: bool) -> None:
        self.n_ranks = n_ranks
        self.several = several
        self.store = Store() if several else None
        self.said: list[str] = []
        self.links: dict[int, Link] = {}
        self._opened: list[Link] = []
        self.errors: dict[int, CommunicatorError] = {}
        self._threads: list[threading.Thread] = []

    def follower(self, mine: Hello, secret: bytes | None = None, within_s: float = WITHIN_S) -> None:
        def run() -> None:
            own = launch(mine.rank, self.n_ranks, several=self.several)
            try:
                link = follow(own, mine, secret, self.store, within_s)
                self._opened.append(link)
                self.links.setdefault(mine.rank, link)
            except CommunicatorError as err:
                self.errors[mine.rank] = err

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)

    def lead(self, secret: bytes | None = None, within_s: float = WITHIN_S) -> Met:
        own = launch(0, self.n_ranks, several=self.several)
        return lead(own, hello(0, self.n_ranks), secret, self.store, within_s, self.said.append)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WITHIN_S)

    def close(self) -> None:
        for link in self._opened:
            link.close()


@pytest.fixture(params=[False, True], ids=["one host", "several hosts"])
def meeting(request: pytest.FixtureRequest) -> Iterator[Meeting]:
    made = Meeting(3, several=request.param)
    yield made
    made.join()
    made.close()


def first_of(link: Link) -> Message:
    found: list[Message] = []
    while not found:
        found = link.receive()
    return found[0]


def test_all_ranks_meet(meeting: Meeting) -> None:
    meeting.follower(hello(2, 3))
    meeting.follower(hello(1, 3))
    met = meeting.lead()
    meeting.join()
    assert sorted(met.agents) == [1, 2]
    for rank, (theirs, link) in met.agents.items():
        assert theirs.rank == rank
        link.send({"do": str(rank)})
        assert first_of(meeting.links[rank]) == {"do": str(rank)}
        link.close()
    assert meeting.said == []


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (replace(hello(2, 3), version="2"), "rank 2 on hosta has autotune 2, and rank 0 has 1"),
        (replace(hello(2, 3), n_ranks=4), "rank 2 on hosta was started as one of 4 ranks, and rank 0 as one of 3"),
        (hello(1, 3), "a second process came as rank 1 on hosta"),
        (hello(0, 3), "a second process came as rank 0 on hosta"),
    ],
)
def test_a_rank_that_differs_is_an_error_on_all_ranks(meeting: Meeting, second: Hello, words: str) -> None:
    meeting.follower(hello(1, 3))
    meeting.follower(second)
    with pytest.raises(CommunicatorError, match=words):
        meeting.lead()
    meeting.join()
    assert words in str(first_of(meeting.links[1]).get("message", words))


def test_a_rank_that_does_not_come_is_named(meeting: Meeting) -> None:
    meeting.follower(hello(1, 3))
    with pytest.raises(CommunicatorError, match=r"rank\(s\) 2 did not come within 0\.5 s"):
        meeting.lead(within_s=0.5)
    meeting.join()
    assert "rank(s) 2 did not come" in str(first_of(meeting.links[1])["message"])


def test_without_rank_0_the_others_give_up() -> None:
    alone = Meeting(2, several=False)
    alone.follower(hello(1, 2), within_s=0.2)
    alone.join()
    assert "rank 1 found no rank 0 within 0.2 s" in alone.errors[1].message


def test_a_given_secret_is_not_told_and_another_one_is_turned_away() -> None:
    meeting = Meeting(2, several=True)
    meeting.follower(hello(1, 2), b"another secret of that length", within_s=1.0)
    with pytest.raises(CommunicatorError, match=r"rank\(s\) 1 did not come within 1 s; 127\.0\.0\.1 did not know"):
        meeting.lead(SECRET, within_s=1.0)
    meeting.join()
    assert "did not know its secret" in meeting.errors[1].message
    assert meeting.said == ["closed a connection from 127.0.0.1: it did not know the run's secret"]
    assert meeting.store is not None
    told = json.loads(meeting.store.get("autotune/lead"))
    assert told["secret"] is None


@pytest.mark.parametrize(("ours", "theirs"), [(SECRET, None), (None, SECRET)])
def test_a_secret_on_some_ranks_only_is_named(ours: bytes | None, theirs: bytes | None) -> None:
    meeting = Meeting(2, several=True)
    meeting.follower(hello(1, 2), theirs)
    with pytest.raises(CommunicatorError, match="did not come"):
        meeting.lead(ours, within_s=0.5)
    meeting.join()
    assert "AUTOTUNE_SECRET is set on some ranks and not on others" in meeting.errors[1].message


def test_strangers_are_closed_and_hold_up_nobody() -> None:
    meeting = Meeting(2, several=True)
    assert meeting.store is not None
    silent: list[socket.socket] = []
    store = meeting.store

    def strangers() -> None:
        port = json.loads(store.get("autotune/lead"))["port"]
        for words in (b"", b"GET / HTTP/1.1\r\n\r\n" * 20):
            knocking = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
            knocking.sendall(words)
            silent.append(knocking)
        meeting.follower(hello(1, 2))

    first = threading.Thread(target=strangers)
    first.start()
    start_s = time.monotonic()
    met = meeting.lead()
    assert time.monotonic() - start_s < WITHIN_S
    first.join()
    meeting.join()
    met.agents[1][1].send({"do": "on"})
    assert first_of(meeting.links[1]) == {"do": "on"}
    meeting.close()
    met.agents[1][1].close()
    for knocking in silent:
        knocking.close()


def test_the_store_is_torchs() -> None:
    pytest.importorskip("torch", reason="needs torch: not importable")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = open_store(Master(address="127.0.0.1", port=port), serves=True, within_s=WITHIN_S)
    other = open_store(Master(address="127.0.0.1", port=port), serves=False, within_s=WITHIN_S)
    store.set("a", "b")
    assert other.get("a") == b"b"
    with pytest.raises(BackendUnavailable, match=rf"no TCPStore at MASTER_ADDR 127\.0\.0\.1, MASTER_PORT {port}"):
        open_store(Master(address="127.0.0.1", port=port), serves=True, within_s=WITHIN_S)
