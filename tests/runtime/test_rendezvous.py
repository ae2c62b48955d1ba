"""Ranks that meet: in any order, with equal words or with one error for all, and with nothing left behind.

Ranks are threads here where nothing dies, since meet() touches nothing but its socket; else processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import AutotuneError, CommunicatorError, UsageError
from autotune.runtime.rendezvous import Group, meet

AGREED = {"table digest": "abc", "version": "1"}
WITHIN_S = 30.0


def segment() -> int:
    """Stands for the shared segment: something whose identity shows."""
    return os.memfd_create("segment")


@pytest.fixture
def runtime_dir() -> Iterator[Path]:
    """Short, as runtime directories are: the name of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="meet-") as name:
        yield Path(name)
        assert [left for left in Path(name).rglob("*") if left.is_socket()] == [], "a socket file was left behind"


def start(rank: int, n_ranks: int, runtime_dir: Path, **changes: Any) -> Group:  # noqa: ANN401 - meet()'s own arguments
    arguments: dict[str, Any] = {
        "name": "g",
        "must_agree": AGREED,
        "cores": {rank % 2},
        "table_text": f"table of rank {rank}",
        "create": segment,
        "runtime_dir": runtime_dir,
        "timeout_s": 5.0,
    }
    return meet(rank=rank, n_ranks=n_ranks, **(arguments | changes))


def together(
    n_ranks: int, runtime_dir: Path, odd: Mapping[int, dict[str, Any]] | None = None, **changes: object
) -> list[Group | AutotuneError]:
    """What every rank's meet() returned or raised; changes are for all ranks, odd ones for some."""

    def one(rank: int) -> Group | AutotuneError:
        try:
            return start(rank, n_ranks, runtime_dir, **{**changes, **(odd or {}).get(rank, {})})
        except AutotuneError as err:
            return err

    with ThreadPoolExecutor(n_ranks) as threads:
        return [future.result(WITHIN_S) for future in [threads.submit(one, rank) for rank in range(n_ranks)]]


def messages(outcomes: list[Group | AutotuneError]) -> list[str]:
    """All have to be CommunicatorErrors with a remedy."""
    for outcome in outcomes:
        assert isinstance(outcome, CommunicatorError), outcomes
        assert outcome.remedy
    return [str(outcome) for outcome in outcomes]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_all_leave_with_one_segment_and_the_table_of_rank_0(n: int, runtime_dir: Path) -> None:
    outcomes = together(n, runtime_dir)
    groups = [outcome for outcome in outcomes if isinstance(outcome, Group)]
    assert len(groups) == n, outcomes
    assert len({os.fstat(group.fd).st_ino for group in groups}) == 1
    assert {group.table_text for group in groups} == {"table of rank 0"}
    assert {group.n_cores for group in groups} == {min(n, 2)}
    for group in groups:
        os.close(group.fd)


@pytest.mark.parametrize("last", [0, 1, 2])
def test_any_order_of_arrival(last: int, runtime_dir: Path) -> None:
    """The last rank comes when the others have long been there: rank 0 listens, or the others look for it."""
    with ThreadPoolExecutor(3) as threads:
        early = [threads.submit(start, rank, 3, runtime_dir) for rank in range(3) if rank != last]
        if last != 0:
            until((runtime_dir / f"autotune-{os.getuid()}" / "g.sock").exists)
        groups = [start(last, 3, runtime_dir), *(future.result(WITHIN_S) for future in early)]
    assert len({os.fstat(group.fd).st_ino for group in groups}) == 1
    for group in groups:
        os.close(group.fd)


def until(ready: Any) -> None:  # noqa: ANN401 - any callable
    deadline = time.monotonic() + WITHIN_S
    while not ready():
        assert time.monotonic() < deadline


def test_groups_of_different_names_do_not_meet(runtime_dir: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        other = threads.submit(together, 2, runtime_dir, name="other")
        groups = [*together(2, runtime_dir), *other.result(WITHIN_S)]
    inodes = [os.fstat(group.fd).st_ino for group in groups if isinstance(group, Group)]
    assert inodes[0] == inodes[1] != inodes[2] == inodes[3]
    for group in groups:
        assert isinstance(group, Group)
        os.close(group.fd)


def test_one_name_again_and_again(runtime_dir: Path) -> None:
    for _ in range(20):
        for group in together(2, runtime_dir):
            assert isinstance(group, Group)
            os.close(group.fd)


def test_received_descriptors_do_not_leak_into_children(runtime_dir: Path) -> None:
    for group in together(2, runtime_dir):
        assert isinstance(group, Group)
        assert not os.get_inheritable(group.fd)
        os.close(group.fd)


def test_a_large_table_is_handed_out_whole(runtime_dir: Path) -> None:
    text = "x" * (5 << 20)
    for group in together(3, runtime_dir, table_text=text):
        assert isinstance(group, Group)
        assert group.table_text == text
        os.close(group.fd)


@pytest.mark.parametrize("field", ["table digest", "version", "AUTOTUNE_STAGING"])
def test_words_that_differ_are_an_error_on_all_ranks(field: str, runtime_dir: Path) -> None:
    said = messages(together(3, runtime_dir, {2: {"must_agree": {**AGREED, field: "other"}}}))
    ours = AGREED.get(field)
    assert said == [f"ranks 0 and 2 differ in {field}: {ours} and other"] * 3


def test_numbers_of_ranks_that_differ_are_an_error_on_all_ranks(runtime_dir: Path) -> None:
    with ThreadPoolExecutor(3) as threads:
        listed = [threads.submit(start, rank, n, runtime_dir) for rank, n in ((0, 3), (1, 3), (2, 4))]
        for future in listed:
            with pytest.raises(CommunicatorError, match="rank 0 says the group has 3 ranks, rank 2 says 4"):
                future.result(WITHIN_S)


def test_a_rank_that_comes_after_the_difference_was_seen_is_told_too(runtime_dir: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        listed = [
            threads.submit(start, 0, 3, runtime_dir),
            threads.submit(start, 1, 3, runtime_dir, must_agree={"version": "2"}),
        ]
        socket_file = runtime_dir / f"autotune-{os.getuid()}" / "g.sock"
        until(lambda: socket_file.exists() or any(future.done() for future in listed))
        for future in listed[1:]:
            with contextlib.suppress(TimeoutError, CommunicatorError):
                future.result(0.3)  # long enough for rank 0 to see the difference, and to give up if it would
        with pytest.raises(CommunicatorError, match="ranks 0 and 1 differ in"):
            start(2, 3, runtime_dir)
        for future in listed:
            with pytest.raises(CommunicatorError, match="ranks 0 and 1 differ in"):
                future.result(WITHIN_S)


def test_a_missing_rank_is_named_on_all_that_came(runtime_dir: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        listed = [threads.submit(start, rank, 4, runtime_dir, timeout_s=0.5) for rank in (0, 2)]
        for future in listed:
            with pytest.raises(CommunicatorError, match=r"rank\(s\) 1, 3 did not join the group within 0.5 s"):
                future.result(WITHIN_S)


def test_a_missing_rank_0_is_named(runtime_dir: Path) -> None:
    with pytest.raises(CommunicatorError, match="rank 1 found no rank 0 of group 'g' within") as caught:
        start(1, 2, runtime_dir, timeout_s=0.3)
    assert "rank 0" in caught.value.remedy


def test_two_processes_of_one_rank(runtime_dir: Path) -> None:
    with ThreadPoolExecutor(3) as threads:
        listed = [threads.submit(start, rank, 3, runtime_dir) for rank in (0, 1, 1)]
        for future in listed:
            with pytest.raises(CommunicatorError, match="two processes came as rank 1"):
                future.result(WITHIN_S)


def test_two_groups_of_one_name_at_once(runtime_dir: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(start, 0, 2, runtime_dir)
        until((runtime_dir / f"autotune-{os.getuid()}" / "g.sock").exists)
        with pytest.raises(CommunicatorError, match="another group named 'g' is meeting now"):
            start(0, 2, runtime_dir)
        os.close(start(1, 2, runtime_dir).fd)  # the first group is not disturbed
        os.close(first.result(WITHIN_S).fd)


def test_of_groups_that_take_a_name_at_once_one_gets_it(runtime_dir: Path) -> None:
    for _ in range(10):
        with ThreadPoolExecutor(4) as threads:
            hosts = [threads.submit(start, 0, 2, runtime_dir) for _ in range(4)]
            for future in islice(as_completed(hosts, WITHIN_S), 3):
                with pytest.raises(CommunicatorError, match="another group named 'g' is meeting now"):
                    future.result()
            os.close(start(1, 2, runtime_dir).fd)
            (met,) = (future for future in hosts if future.exception(WITHIN_S) is None)
            os.close(met.result().fd)


def test_strangers_on_the_socket_are_not_counted(runtime_dir: Path) -> None:
    """Somebody connects and goes, or talks nonsense; the group meets all the same."""
    with ThreadPoolExecutor(1) as threads:
        host = threads.submit(start, 0, 2, runtime_dir)
        path = runtime_dir / f"autotune-{os.getuid()}" / "g.sock"
        until(path.exists)
        for words in (b"", b"\1", b"\5" + bytes(7) + b"-hello", b"\2" + bytes(7) + b"-{}", b"\xff" * 30):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
                stranger.connect(str(path))
                stranger.sendall(words)
        os.close(start(1, 2, runtime_dir).fd)
        os.close(host.result(WITHIN_S).fd)


HOST = """
import sys
from pathlib import Path
from autotune.runtime.rendezvous import meet
meet("g", 0, 3, must_agree={}, cores=[0], table_text="", create=lambda: 0, runtime_dir=Path(sys.argv[1]), timeout_s=30)
"""


def test_the_socket_file_of_a_killed_rank_0_is_in_nobodys_way(runtime_dir: Path) -> None:
    path = runtime_dir / f"autotune-{os.getuid()}" / "g.sock"
    with subprocess.Popen([sys.executable, "-c", HOST, str(runtime_dir)]) as killed:
        until(path.exists)
        killed.send_signal(signal.SIGKILL)
    assert path.exists(), "the test would not see a stale file"
    for group in together(3, runtime_dir):
        assert isinstance(group, Group)
        os.close(group.fd)


def test_a_rank_0_that_dies_meanwhile_is_an_error_in_time(runtime_dir: Path) -> None:
    path = runtime_dir / f"autotune-{os.getuid()}" / "g.sock"
    with subprocess.Popen([sys.executable, "-c", HOST, str(runtime_dir)]) as host, ThreadPoolExecutor(1) as threads:
        until(path.exists)
        joining = threads.submit(start, 1, 3, runtime_dir, must_agree={}, timeout_s=1.0)
        with contextlib.suppress(TimeoutError):
            joining.result(0.2)
        host.send_signal(signal.SIGKILL)
        with pytest.raises(CommunicatorError):
            joining.result(WITHIN_S)
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "ä", "x" * 65, "a\0b", "a\n"])
def test_names_that_are_no_names(name: str, runtime_dir: Path) -> None:
    with pytest.raises(UsageError, match="group name"):
        start(0, 1, runtime_dir, name=name)


@pytest.mark.parametrize(("rank", "n"), [(2, 2), (-1, 2), (0, 0)])
def test_ranks_that_are_none_of_the_group(rank: int, n: int, runtime_dir: Path) -> None:
    with pytest.raises(UsageError, match=f"rank {rank} is not in a group of {n}"):
        start(rank, n, runtime_dir)


def private(runtime_dir: Path) -> Path:
    return runtime_dir / f"autotune-{os.getuid()}"


def test_the_directory_is_for_this_user_alone(runtime_dir: Path) -> None:
    os.close(start(0, 1, runtime_dir).fd)
    assert private(runtime_dir).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_directory_that_others_may_enter_is_refused(mode: int, runtime_dir: Path) -> None:
    private(runtime_dir).mkdir()
    private(runtime_dir).chmod(mode)
    with pytest.raises(CommunicatorError, match="not a directory of this user alone") as caught:
        start(0, 1, runtime_dir)
    assert "AUTOTUNE_RUNTIME_DIR" in caught.value.remedy


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give a directory to somebody else")
def test_a_directory_of_somebody_else_is_refused(runtime_dir: Path) -> None:
    private(runtime_dir).mkdir(mode=0o700)
    os.chown(private(runtime_dir), 65534, 65534)
    with pytest.raises(CommunicatorError, match="not a directory of this user alone"):
        start(0, 1, runtime_dir)


def test_a_link_in_its_place_is_refused(runtime_dir: Path) -> None:
    elsewhere = runtime_dir / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    private(runtime_dir).symlink_to(elsewhere)
    with pytest.raises(CommunicatorError, match="not a directory of this user alone"):
        start(0, 1, runtime_dir)


def test_a_file_in_its_place_is_refused(runtime_dir: Path) -> None:
    private(runtime_dir).write_text("")
    with pytest.raises(CommunicatorError, match="not a directory of this user alone"):
        start(0, 1, runtime_dir)


def test_a_runtime_directory_that_does_not_exist(runtime_dir: Path) -> None:
    with pytest.raises(CommunicatorError, match="cannot make") as caught:
        start(0, 1, runtime_dir / "missing")
    assert "AUTOTUNE_RUNTIME_DIR" in caught.value.remedy


@pytest.mark.parametrize("rank", [0, 1])
def test_a_path_too_long_for_a_socket_is_an_error_on_every_rank_at_once(rank: int, runtime_dir: Path) -> None:
    long = runtime_dir / ("d" * 100)
    long.mkdir()
    started = time.monotonic()
    with pytest.raises(CommunicatorError, match="too long") as caught:
        start(rank, 2, long)
    assert "AUTOTUNE_RUNTIME_DIR" in caught.value.remedy
    assert time.monotonic() - started < 2.0


def test_a_segment_that_cannot_be_made_is_told_to_all(runtime_dir: Path) -> None:
    def fails() -> int:
        raise CommunicatorError("shared segment: memfd_create: out of memory", remedy="raise the limit")

    assert messages(together(3, runtime_dir, create=fails)) == ["shared segment: memfd_create: out of memory"] * 3
