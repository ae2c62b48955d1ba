"""The executor's other handshakes through shared memory: sleep and wake, records of calls, queues of send and recv.

In:  the memory orders of the source, and faults to plant. Out: threads' operations for the machine.
May not touch: the machine's insides.

Sleeping has no limit here, where the executor's sleepers look around them every 50 ms: a wake-up that is lost shows as
threads that are stuck.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from litmus.operations import Add, Fence, Jump, Load, Operation, Read, Sleep, Store, Wake, Write
from litmus.protocol import FOREVER

Orders = Mapping[str, bool]


def pingpong(n: int, turns: int, orders: Orders, without: Collection[str] = ()) -> list[list[Operation]]:
    """n ranks in a ring; in each turn each publishes a clock and sleeps until its neighbour's is there."""
    threads = []
    for rank in range(n):
        code: list[Operation] = []
        for turn in range(1, turns + 1):
            _publish(code, rank, turn, orders, without)
            _until(code, rank, (rank + 1) % n, n, turn, without)
        threads.append(code)
    return threads


def broadcast(n: int, turns: int, orders: Orders, without: Collection[str] = ()) -> list[list[Operation]]:
    """Rank 0 publishes and goes on; all the others sleep for each of its turns."""
    source: list[Operation] = []
    for turn in range(1, turns + 1):
        _publish(source, 0, turn, orders, without)
    threads = [source]
    for rank in range(1, n):
        code: list[Operation] = []
        for turn in range(1, turns + 1):
            _until(code, rank, 0, n, turn, without)
        threads.append(code)
    return threads


def _publish(code: list[Operation], rank: int, turn: int, orders: Orders, without: Collection[str]) -> None:
    """A release store and `Waiting::ring`, with `Waiting::ring_slowly`."""
    ring: list[Operation] = [Add(("bell", rank), 1), Wake(("bell", rank))]
    if "new bell" in without:
        ring = [Wake(("bell", rank))]
    code.append(Store(("clock", rank), turn, orders["clock store"]))
    at = len(code)
    code += [Load(("sleepers", rank), 0, 0, orders["sleepers load"], otherwise=at + 2), Jump(at + 2 + len(ring)), *ring]


def _until(code: list[Operation], rank: int, source: int, n: int, turn: int, without: Collection[str]) -> None:
    """`Waiting::until` once it begins to sleep: `announce`, the last look, `sleep` or `retract`."""
    start = len(code)
    read_bell: list[Operation] = [Load(("bell", source), 0, FOREVER, keep=True)]
    count: list[Operation] = [Add(("sleepers", source), 1)]
    barrier: list[Operation] = [Fence(other) for other in range(n) if other != rank]
    announce = read_bell + count + barrier
    if "membarrier" in without:
        announce = read_bell + count
    elif "announcement before the barrier" in without:
        announce = read_bell + barrier + count
    late_bell: list[Operation] = []
    if "bell before the look" in without:
        announce, late_bell = count + barrier, read_bell
    look = start + 2 + len(announce)
    asleep = look + 3
    end = asleep + len(late_bell) + 3
    last_look = Load(("clock", source), turn, FOREVER, otherwise=asleep)
    if "last look" in without:
        last_look = Load(("clock", source), -1, -1, otherwise=asleep)
    code += [
        Load(("clock", source), turn, FOREVER, otherwise=start + 2),
        Jump(end),
        *announce,
        last_look,
        Add(("sleepers", source), -1),
        Jump(end),
        *late_bell,
        Sleep(("bell", source)),
        Add(("sleepers", source), -1),
        Jump(start),
    ]


def record(calls: int, orders: Orders, without: Collection[str] = ()) -> list[list[Operation]]:
    """`Group::begin` writes one record for one call after the other; `Group::differences` reads it, whole or not."""
    fields = ("count", "what")
    writer: list[Operation] = []
    for call in range(1, calls + 1):
        if "open" not in without:
            writer.append(Store("tag", 0, orders["record open"]))
        writer += [Store(field, call, orders["record field store"]) for field in fields]
        writer.append(Store("tag", call, orders["record close"]))
    reader: list[Operation] = []
    for call in range(1, calls + 1):
        start = len(reader)
        again, end = start + 2 + len(fields), start + 4 + len(fields)
        reader.append(Load("tag", call, call, orders["record tag load"], otherwise=end))
        reader += [Load(field, call, call, orders["record field load"], otherwise=again) for field in fields]
        reader.append(Jump(end))
        reader.append(Load("tag", call, call, orders["record tag again"], otherwise=end))
        reader.append(Read("a field of another call in a whole record", 1))  # which it never is
    return [writer, reader]


def channel(pieces: int, orders: Orders, without: Collection[str] = (), slots: int = 4) -> list[list[Operation]]:
    """`Group::send` and `Group::recv` of so many pieces."""
    sender: list[Operation] = []
    receiver: list[Operation] = []
    for piece in range(1, pieces + 1):
        slot = piece % slots
        if "received" not in without and piece > slots:
            sender.append(Load("received", piece - slots, FOREVER, orders["received load"]))
        sender += [Write(("piece", slot), piece), Store(("word", slot), piece, orders["piece store"])]
        receiver.append(Load(("word", slot), piece, piece, orders["piece load"]))
        receiver += [Read(("piece", slot), piece), Store("received", piece, orders["received store"])]
    return [sender, receiver]
