"""The two rounds in which ranks of several hosts agree on a signed board: every rank's note, and rank 0's one answer.

In:  a board, this rank's note or its excuse. Out: what all ranks know then; or one error, the same on all ranks.
May not touch: networks, segments. Standard library only.
"""

from __future__ import annotations

import base64
import secrets
import time
from dataclasses import dataclass

from ..errors import AutotuneError, CommunicatorError
from .board import Board, ForgedNote
from .whereabouts import Whereabouts

_GRACE_S = 5.0  # that an answer may come after the time in which all have to be there


@dataclass(frozen=True, slots=True)
class Met:
    """What all ranks know after the first answer."""

    run: str  # a name that no other group has
    table_text: str
    places: list[Whereabouts]
    addresses: list[bytes]
    rates_gb_per_s: list[float | None]  # of the links of the ranks' hosts


def note_of(
    rank: int, n_ranks: int, place: Whereabouts, agree: dict[str, str], address: bytes, gb_per_s: float | None
) -> dict[str, object]:
    """What a rank says of itself; `address` is its network's, `gb_per_s` of its host's link."""
    return {
        "rank": rank,
        "n_ranks": n_ranks,
        "agree": agree,
        "machine": place.machine,
        "host": place.host,
        "name": place.name,
        "cores": list(place.cores),
        "address": base64.b64encode(address).decode(),
        "gb_per_s": gb_per_s,
    }


def excuse(err: AutotuneError, place: Whereabouts) -> dict[str, object]:
    """Why a rank cannot take part, in place of its note."""
    return {"error": err.message, "remedy": err.remedy, "name": place.name}


def meet_on_board(
    board: Board,
    rank: int,
    n_ranks: int,
    note: dict[str, object],
    agree: dict[str, str],
    table_text: str,
    timeout_s: float,
) -> Met:
    """The first round: who is there, and the table that rank 0 hands out.

    Raises:
        CommunicatorError: a rank is missing, differs, has an excuse, or does not know the secret.
    """
    board.put(f"rank/{rank}", note)
    if rank == 0:
        notes, problem = _collect(board, "rank", note, n_ranks, timeout_s)
        for number, other in enumerate(notes):
            problem = problem or _difference(number, other, n_ranks, agree)
        answer: dict[str, object] = {"notes": notes, "table": table_text, "run": secrets.token_hex(8)}
        _answer(board, "met", answer, problem)
    else:
        answer = _answered(board, "met", timeout_s)
    found = answer["notes"]
    assert isinstance(found, list)
    places = [Whereabouts(machine=n["machine"], host=n["host"], name=n["name"], cores=tuple(n["cores"])) for n in found]
    addresses = [base64.b64decode(n["address"]) for n in found]
    return Met(str(answer["run"]), str(answer["table"]), places, addresses, [n["gb_per_s"] for n in found])


def ready_together(board: Board, rank: int, n_ranks: int, note: dict[str, object], timeout_s: float) -> None:
    """The second round: every rank says that it has connected.

    Raises:
        CommunicatorError: one has not.
    """
    board.deadline_s = time.monotonic() + timeout_s
    board.put(f"ready/{rank}", note)
    if rank == 0:
        _answer(board, "go", {}, _collect(board, "ready", note, n_ranks, timeout_s)[1])
    else:
        _answered(board, "go", timeout_s)


def _collect(
    board: Board, key: str, mine: dict[str, object], n_ranks: int, timeout_s: float
) -> tuple[list[dict[str, object]], CommunicatorError | None]:
    """All ranks' notes, and the first reason why there can be no group."""
    notes, missing = [mine], []
    problem = _failure(0, mine)
    for rank in range(1, n_ranks):
        try:
            note = board.take(f"{key}/{rank}")
        except ForgedNote as err:
            problem = problem or CommunicatorError(f"rank {rank}: {err.message}", remedy=err.remedy)
            continue
        if note is None:
            missing.append(str(rank))
            continue
        notes.append(note)
        problem = problem or _failure(rank, note)
    if missing and problem is None:
        problem = CommunicatorError(
            f"rank(s) {', '.join(missing)} did not join the group within {timeout_s:g} s",
            remedy="start all ranks with the same group name, and slow ones with a longer AUTOTUNE_TIMEOUT",
        )
    return notes, problem


def _failure(rank: int, note: dict[str, object]) -> CommunicatorError | None:
    if "error" not in note:
        return None
    return CommunicatorError(f"rank {rank} on {note.get('name')}: {note['error']}", remedy=str(note.get("remedy")))


def _difference(rank: int, note: dict[str, object], n_ranks: int, mine: dict[str, str]) -> CommunicatorError | None:
    """What makes a rank none of this group, or None."""
    remedy = "start all ranks with the same version, number of ranks and settings"
    if note["n_ranks"] != n_ranks:
        return CommunicatorError(
            f"rank 0 says the group has {n_ranks} ranks, rank {rank} on {note['name']} says {note['n_ranks']}",
            remedy=remedy,
        )
    theirs = note["agree"]
    assert isinstance(theirs, dict)
    for field in sorted(mine.keys() | theirs.keys()):
        if mine.get(field) != theirs.get(field):
            return CommunicatorError(
                f"ranks 0 and {rank} (on {note['name']}) differ in {field}: {mine.get(field)} and {theirs.get(field)}",
                remedy=remedy,
            )
    return None


def _answer(board: Board, key: str, fields: dict[str, object], problem: CommunicatorError | None) -> None:
    if problem is None:
        board.put(key, fields)
        return
    board.put(key, {"error": problem.message, "remedy": problem.remedy})
    raise problem


def _answered(board: Board, key: str, timeout_s: float) -> dict[str, object]:
    # Rank 0 waits for the slowest rank first, and its own time may start later than ours.
    answer = board.take(key, board.deadline_s + timeout_s + _GRACE_S)
    if answer is None:
        raise CommunicatorError(
            "rank 0 did not answer in time, though it came to the store", remedy="see what rank 0 wrote"
        )
    if "error" in answer:
        raise CommunicatorError(str(answer["error"]), remedy=str(answer["remedy"]))
    return answer
