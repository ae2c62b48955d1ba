"""What carries the messages of a job's pairs, in words."""

from __future__ import annotations

from autotune.cli.diagnosing import transport_words


def test_pairs_are_said_by_their_hosts_once_for_each_kind() -> None:
    eth0, both = ("sockets/eth0",), ("rc_mlx5/mlx5_0:1", "tcp/eth0")
    found = {(0, 1): ("shared memory",), (0, 2): eth0, (1, 2): eth0, (0, 3): both, (1, 3): both, (2, 3): eth0}
    words = transport_words(found, [(0, 1), (2,), (3,)], ["a", "b", "c"])
    assert words == "inside a host: shared memory; a-b, b-c: sockets/eth0; a-c: rc_mlx5/mlx5_0:1 and tcp/eth0"


def test_hosts_are_told_apart_whatever_the_order_of_their_ranks() -> None:
    found = {(0, 1): ("sockets/eth0",), (1, 2): ("sockets/eth0",), (0, 2): ("shared memory",)}
    assert transport_words(found, [(0, 2), (1,)], ["a", "b"]) == "a-b: sockets/eth0; inside a host: shared memory"
