"""The door of the room: the contract that every store keeps, and the function that opens one.

In go values of ``types`` and ``records``, out come the same. No row, session or engine leaves the room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

from ..types import Problem, RuleKey, Trial
from .opening import opened
from .recorder import Recorder
from .records import Best, CellState, KnownMachine, NewSession, RoundResult, Session, StoredTable
from .sql_store import SqlStore


class TrialStore(Protocol):
    """What was measured, in which run, and which tables came of it.

    Append-only: no verb deletes, and none changes a sample, a problem, a config or a table. Only states change. A trial
    goes from OK to a failure once, and keeps its samples and the first failure's message; a session goes to and from
    INTERRUPTED, and ends in FINISHED, after which nothing is added to it; a cell has the state of its last mark.

    Transactions: each verb is one. It is done as a whole or, when it raises, not at all. A reading verb sees one state
    of the store, without the half of a round that another process is writing.

    Durable: what a verb has written when it returns survives the death of the process (kill -9) at any later moment.
    PostgreSQL also keeps it through a power cut; a SQLite file may then lose the last rounds, but stays whole.

    Held rounds: the one exception, where ``open_store`` was given a ``hold_s``. Then add_round and mark_cell may return
    before the round or the mark is stored. It is stored, and so acknowledged, by the next verb of any other kind, flush
    and close included, or by the first of these two that comes ``hold_s`` seconds or more after the last storing; a
    round with a failure is stored at once. A process that dies loses at most what was handed over within ``hold_s``
    after the last storing, besides the round in flight; each round is there as a whole or not at all, and no mark
    without the rounds before it. What is wrong with what is held is raised by the verb that stores it, and all that is
    held with it is then dropped; where the database cannot be used, it stays held for the next verb.

    Threads and processes: threads may share a store, whose verbs then run one after another. Processes open their
    own; a store is not carried over a fork. Writers wait for each other, at most ``wait_s`` of ``open_store``.

    A server that restarts: a verb tries again for ``wait_s``. What the lost connection had stored already is not stored
    twice, but a session or a table may then be there twice, the first of them unused.

    Text: any Unicode. In commands, messages and wrong elements, which may quote undecodable bytes, U+FFFD stands for
    NUL and lone surrogates.

    Attributes:
        shown: where the store is, for people; never holds a password.

    Raises, any verb: StoreError, with a remedy, when the database is damaged, read-only, full, locked or out of reach,
    and when an id is not in the store.
    """

    @property
    def shown(self) -> str: ...

    def add_topology(self, fingerprint: str, description: str) -> None:
        """Keep a machine's description (JSON text). A later one replaces it: links are measured anew."""

    def topology(self, fingerprint: str) -> str | None:
        """The description given to add_topology."""

    def open_session(self, new: NewSession) -> Session:
        """Begin a run, in state RUNNING, on a topology that was added."""

    def resumable(self, plan_digest: str, fingerprint: str, environment_digest: str) -> Session | None:
        """The newest session with these that is not FINISHED. add_round goes on with it."""

    def interrupt_session(self, session_id: int) -> None:
        """Say that the run was stopped in order; no effect on a FINISHED one."""

    def finish_session(self, session_id: int) -> None:
        """Say that the run is complete; no effect on a FINISHED one."""

    def sessions(self, *, fingerprint: str | None = None, newest: int | None = None) -> list[Session]:
        """Runs, oldest first: all, or a machine's; of these the newest so many."""

    def n_sessions(self, *, fingerprint: str | None = None) -> int:
        """How many runs there are, or of a machine."""

    def machines(self) -> list[KnownMachine]:
        """Every machine with a run or a table of its own, by fingerprint."""

    def add_round(self, session_id: int, results: Sequence[RoundResult]) -> None:
        """Store what was measured together. The session is RUNNING afterwards.

        A config that is new to (session, problem) becomes a trial. A trial takes one sample for each phase, kind and
        round: a second one means that two runs write to one session, and raises.
        """

    def flush(self) -> None:
        """Store what is held. Afterwards all that was handed over is acknowledged."""

    def mark_cell(self, session_id: int, problem: Problem, state: CellState) -> None:
        """Say that the session is through with a problem, and how."""

    def done_cells(self, session_id: int) -> dict[Problem, CellState]:
        """The problems that the session is through with, with their last mark."""

    def trials(self, *, session_id: int | None = None, problem: Problem | None = None) -> list[Trial]:
        """The trials of a session, of a problem, of both, or all, by id; samples by phase, round and kind."""

    def trials_by_problem(self, session_ids: Collection[int]) -> Iterator[tuple[Problem, Iterator[list[Trial]]]]:
        """What these sessions tried: each problem, with its trials session by session, the newest session first.

        For stores that are larger than memory: nothing is read before it is asked for, and who has his answer from a
        problem's newest session asks for no more. Each list is a transaction of its own; sessions that are not in the
        store have nothing.
        """

    def best(self, key: RuleKey, *, fingerprint: str | None = None) -> list[Best]:
        """The fastest config of each size, by size, as the newest session that is through with the size found it.

        Of the configs that gave right answers and have nine fresh samples, or of all where none has so many.

        Args:
            fingerprint: of the machine; None for sessions on any.
        """

    def trial(self, trial_id: int) -> Trial:
        """One trial."""

    def add_table(
        self,
        session_id: int | None,
        table_json: str,
        fingerprint: str,
        digest: str,
        *,
        backend: str,
        host_fingerprints: Collection[str] = (),
    ) -> int:
        """Keep a table, and return its version: higher than that of every table before it.

        Args:
            backend: whose decisions it holds.
            host_fingerprints: of the cluster's hosts, which find it where they have none of their own.
        """

    def newest_table(self, fingerprint: str, backend: str | None = None) -> StoredTable | None:
        """The machine's own table with the highest version, else that of a cluster of which it is a host.

        Args:
            backend: whose; None for any.
        """

    def tables(self) -> list[StoredTable]:
        """All versions, oldest first."""

    def close(self) -> None:
        """Store what is held, and let go of files and connections. The store is not used afterwards."""


def open_store(
    url_or_path: str, *, wait_s: float = 30.0, hold_s: float = 0.0, clock: Callable[[], float] = time.monotonic
) -> TrialStore:
    """Open a store; a SQLite file, and its schema, are made if missing, and old schemas upgraded.

    A new file is private to the user, and so is its directory if it has to be made.

    Args:
        url_or_path: a file path, ``sqlite:///PATH``, ``sqlite://`` (memory, for tests), or ``postgresql+psycopg://...``.
        wait_s: the longest wait for another process's transaction, and for a server that is away.
        hold_s: how long rounds and marks may wait to be stored together (see TrialStore); with 0 each is stored by its
            own verb.
        clock: seconds that only go forwards; of ``hold_s``.

    Raises:
        StoreError: an unreadable URL; a file that is no database, damaged, unwritable, or another program's; a schema
            that is newer than this code.
        BackendUnavailable: PostgreSQL without psycopg.
    """
    transactions, _ = opened(url_or_path, wait_s=wait_s)
    return SqlStore(Recorder(transactions, hold_s=hold_s, clock=clock))
