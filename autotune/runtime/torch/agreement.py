"""What the ranks of a new group agree on, over torch's own store, before any of them can wait for another elsewhere.

In:  a store that the members share, what this rank has. Out: rank 0's table and a name for the group, on every rank; or
the same error on every rank, naming ranks, hosts and fields.
May not touch: collectives. Every wait has an end.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ... import __version__
from ...errors import AutotuneError, CommunicatorError
from ...settings import Settings, read
from ...table import SCHEMA_VERSION, TuningTable, dump_table, parse_table, shipped_table
from ...topology.second_level import second_level_bytes
from ..source import find_table
from ..whereabouts import whereabouts

Store = Any  # torch's stores are not type-checked
_UNKNOWN_S = 30.0  # to tell the others that this rank's settings cannot be read
_MEMBERS = "members"
_ORDER = "make groups in the same order on every rank of the job"
_REMEDY = "start all ranks with the same autotune, and with the same AUTOTUNE_ variables"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What every rank leaves with.

    Args:
        name: of the group; no other group on any of its hosts has it.
        check: AUTOTUNE_CHECK.
        hosts: by rank; ranks of one host have the same.
    """

    name: str
    table: TuningTable
    check: bool
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Hello:
    """What a rank says of itself.

    Args:
        name: of its host, for people.
        host: where memory and sockets are shared.
        fields: what has to be equal on all ranks.
        problem: why this rank cannot take part, with the remedy; None if it can.
    """

    name: str
    host: str
    fields: dict[str, str]
    problem: tuple[str, str] | None


def agree(
    store: Store, rank: int, n_ranks: int, *, backend: str, timeout: timedelta | None, members: Sequence[int] = ()
) -> Agreed:
    """Meet the group's other ranks; every rank calls it, with a store that nobody else uses.

    Args:
        backend: whose table is wanted.
        timeout: for the slowest rank to come; None for AUTOTUNE_TIMEOUT.
        members: ranks of the group in the job; none for all. torch numbers groups as they are made, so ranks that make
            them in different orders meet here, in a group that is none.

    Raises:
        CommunicatorError: a rank did not come, or differs from rank 0.
        AutotuneError: a rank's settings, or rank 0's table, cannot be used.
    """
    settings, fields, problem = _mine()
    fields[_MEMBERS] = ", ".join(map(str, members)) or "all"
    if timeout is None:
        timeout = timedelta(seconds=_UNKNOWN_S if settings is None else settings.timeout_s)
    host = "" if settings is None else whereabouts(settings.runtime_dir).host
    told = None if problem is None else (problem.message, problem.remedy)
    hello = _Hello(socket.gethostname(), host, fields, told)
    if rank:
        store.set(f"hello/{rank}", json.dumps([hello.name, host, fields, told]))
        answer = _answer(store, rank, timeout)
    else:
        answer = _judge(store, hello, settings, n_ranks, backend, timeout)
        store.set("answer", json.dumps(answer))
    if "error" in answer:
        if problem is not None:
            raise problem
        raise CommunicatorError(answer["error"], remedy=answer["remedy"])
    if answer["members"] != fields[_MEMBERS]:
        raise CommunicatorError(
            f"ranks of one group differ: {_MEMBERS}: rank 0 has {answer['members']}, rank {rank} on {hello.name} has "
            f"{fields[_MEMBERS]}",
            remedy=_ORDER,
        )
    table = parse_table(answer["table"], "the table of rank 0")
    return Agreed(answer["name"], table, settings is not None and settings.check, tuple(json.loads(answer["hosts"])))


def _mine() -> tuple[Settings | None, dict[str, str], AutotuneError | None]:
    fields = {"autotune version": __version__, "table schema": str(SCHEMA_VERSION)}
    try:
        settings = read()
    except AutotuneError as err:
        return None, fields, err
    return (
        settings,
        fields
        | {
            "AUTOTUNE_STAGING": str(settings.staging_bytes),
            "AUTOTUNE_SYMMETRIC": str(settings.symmetric_bytes),
            "AUTOTUNE_CHECK": str(int(settings.check)),
        },
        None,
    )


def _judge(
    store: Store,
    mine: _Hello,
    settings: Settings | None,
    n_ranks: int,
    backend: str,
    timeout: timedelta,
) -> dict[str, str]:
    """Rank 0: hear all, and say what holds for all."""
    deadline = time.monotonic() + timeout.total_seconds()
    hellos, missing = [mine], []
    for rank in range(1, n_ranks):
        try:
            store.wait([f"hello/{rank}"], timedelta(seconds=max(0.001, deadline - time.monotonic())))
        except RuntimeError:  # what torch's stores raise where the time is over
            missing.append(str(rank))
            continue
        name, host, fields, problem = json.loads(store.get(f"hello/{rank}"))
        hellos.append(_Hello(name, host, fields, problem and (problem[0], problem[1])))
    if missing:
        return {
            "error": f"rank(s) {', '.join(missing)} did not join the group of {n_ranks} within "
            f"{timeout.total_seconds():g} s",
            "remedy": "look at the output of these ranks; every member of a group has to create it",
        }
    for rank, hello in enumerate(hellos):
        if hello.problem is not None:
            message, remedy = hello.problem
            return {"error": f"rank {rank} on {hello.name}: {message}", "remedy": remedy}
    differences = _differences(hellos)
    if differences:
        order = any(hello.fields.get(_MEMBERS) != mine.fields[_MEMBERS] for hello in hellos)
        return {
            "error": f"ranks of one group differ: {'; '.join(differences)}",
            "remedy": _ORDER if order else _REMEDY,
        }
    assert settings is not None, "rank 0 has no problem"
    try:
        table = find_table(settings, backend).table
        if table.defaults.backend != backend:  # AUTOTUNE_TABLE is one of another backend
            table = shipped_table(backend, l2_bytes=second_level_bytes())
    except AutotuneError as err:
        return {"error": f"rank 0 on {mine.name}: {err.message}", "remedy": err.remedy}
    return {
        "name": f"torch-{os.getpid()}-{secrets.token_hex(8)}",
        "table": dump_table(table),
        "members": mine.fields[_MEMBERS],
        "hosts": json.dumps([hello.host for hello in hellos]),
    }


def _differences(hellos: list[_Hello]) -> list[str]:
    """Each field that differs, with the ranks and the first host that have each value."""
    found = []
    for field in sorted({field for hello in hellos for field in hello.fields}):
        by_value: dict[str, list[int]] = {}
        for rank, hello in enumerate(hellos):
            by_value.setdefault(hello.fields.get(field, "unknown"), []).append(rank)
        if len(by_value) > 1:
            said = [f"{_ranks(ranks)} on {hellos[ranks[0]].name} has {value}" for value, ranks in by_value.items()]
            found.append(f"{field}: {', '.join(said)}")
    return found


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"rank {ranks[0]} and {len(ranks) - 1} more"


def _answer(store: Store, rank: int, timeout: timedelta) -> dict[str, str]:
    # Rank 0's time may start later than this rank's, and it waits for the slowest.
    try:
        store.wait(["answer"], 2 * timeout)
    except RuntimeError:
        return {
            "error": f"rank {rank} heard nothing of rank 0 within {2 * timeout.total_seconds():g} s",
            "remedy": "look at the output of rank 0; every member of a group has to create it",
        }
    answer: dict[str, str] = json.loads(store.get("answer"))
    return answer
