"""``select``: the config for a call, in a few hundred nanoseconds. Standard library only.

A choice is a function of the call's arguments and the table, never of a rank's own probe or clock. Every kind of call
(all arguments but the size) is worked out once and kept: the sizes at which the choice changes, and a ready answer
for each stretch between them; a call then costs one look-up and one bisection. Nothing is kept for each size, and at
most so many kinds of call, so that memory stays bounded whatever a job asks.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from ..settings import read
from ..table import TuningTable
from ..types import Collective, DType, Evidence, Memory, ReduceOp
from .arguments import admitted, error_budget, ranks_on_hosts, rule_key, several, whole
from .choices import Choices, choices
from .selection import Selection
from .source import Source, find_table, open_table

_KINDS_KEPT = 1024
_FILES_KEPT = 16
_MEASURED = ("measured",)


class Selector:
    """Answers from one table. Threads may share it.

    Args:
        table: a table, or one with its origin, which reasons then name.
        elsewhere: finds the table of a backend that this one is not of; None where there is no other table.
    """

    __slots__ = ("_elsewhere", "_others", "memo", "source")

    def __init__(self, table: TuningTable | Source, elsewhere: Callable[[str], Source] | None = None) -> None:
        self.source = table if isinstance(table, Source) else open_table(table)
        self.memo: dict[tuple[object, ...], Choices] = {}
        self._elsewhere = elsewhere
        self._others: dict[str, Source] = {}

    @property
    def table(self) -> TuningTable:
        return self.source.table

    def select(
        self,
        collective: Collective | str,
        *,
        message_bytes: int,
        n_ranks: int,
        dtype: DType | str = "float32",
        op: ReduceOp | str = "sum",
        placement: Sequence[int] | None = None,
        memory: Memory | str = "private",
        max_error: float | None = None,
        backend: str = "native",
        evidence: Iterable[Evidence | str] = _MEASURED,
    ) -> Selection:
        """As the function ``select``, from this table.

        Raises:
            UsageError: an argument that cannot be meant.
        """
        # type(), since True and 4.0 find the entry of 1 and 4 in a dict.
        if placement is None and max_error is None and type(n_ranks) is int and type(message_bytes) is int:
            try:
                edges, selections = self.memo[collective, n_ranks, dtype, op, memory, backend, evidence]
                if message_bytes >= 0:
                    return selections[bisect_right(edges, message_bytes)]
            except (KeyError, TypeError):
                pass  # the first call of its kind, or a list where a tuple is usual
        size, ranks = whole("message_bytes", message_bytes, 0), whole("n_ranks", n_ranks, 1)
        hosts = None if placement is None else ranks_on_hosts(placement)
        budget = None if max_error is None else error_budget(max_error)
        kinds = several("evidence", evidence)
        edges, selections = self._choices(collective, ranks, dtype, op, hosts, memory, budget, backend, kinds)
        return selections[bisect_right(edges, size)]

    def _choices(
        self,
        collective: Collective | str,
        n_ranks: int,
        dtype: DType | str,
        op: ReduceOp | str,
        placement: tuple[int, ...] | None,
        memory: Memory | str,
        max_error: float | None,
        backend: str,
        evidence: tuple[Evidence | str, ...],
    ) -> Choices:
        kind: tuple[object, ...] = (collective, n_ranks, dtype, op, memory, backend, evidence)
        if placement is not None or max_error is not None:
            kind += (placement, max_error)  # apart from the short ones, which select() looks for
        try:
            return self.memo[kind]
        except (KeyError, TypeError):
            pass  # TypeError: a word that is not even hashable; the checks below name it
        key = rule_key(collective, n_ranks, dtype, op, placement, memory, max_error, backend)
        found = choices(self._source_of(key.backend), key, admitted(evidence))
        if len(self.memo) >= _KINDS_KEPT:
            self.memo.clear()
        self.memo[kind] = found
        return found

    def _source_of(self, backend: str) -> Source:
        if self._elsewhere is None or backend == self.table.defaults.backend:
            return self.source
        if backend not in self._others:
            # setdefault, so that threads that come at once all answer from one table.
            self._others.setdefault(backend, self._elsewhere(backend))
        return self._others[backend]


# The selectors of files by the path that was given; None is the process's own table. A file is read once.
_selectors: dict[object, Selector] = {}


def select(
    collective: Collective | str,
    *,
    message_bytes: int,
    n_ranks: int,
    dtype: DType | str = "float32",
    op: ReduceOp | str = "sum",
    placement: Sequence[int] | None = None,
    memory: Memory | str = "private",
    max_error: float | None = None,
    backend: str = "native",
    evidence: Iterable[Evidence | str] = _MEASURED,
    table: TuningTable | str | os.PathLike[str] | None = None,
) -> Selection:
    """What to run for one collective call, and why.

    Args:
        collective: such as ``"all_reduce"``.
        message_bytes: the larger of a rank's input and output buffer, the "size" of nccl-tests.
        dtype: element type; decides nothing where elements are only moved.
        op: reduction; decides nothing where elements are only moved.
        placement: ranks on each host, in any order; None for one host.
        memory: ``"private"``, or ``"symmetric"`` for buffers in the segment that all ranks share.
        max_error: allowed error relative to the norm; None admits only lossless rules.
        evidence: the kinds of evidence that count, of ``"measured"``, ``"simulated"``, ``"imported"``.
        table: a table or its path; None for AUTOTUNE_TABLE, else the newest table for this host, else the
            shipped default. A file is read once in a process; ``autotune.runtime.reload()`` reads it again. For
            many calls with a table in hand, keep a ``Selector``.

    Returns:
        The rule's config, or the table's default with ``tuned=False`` and the reason.

    Raises:
        UsageError: an argument that cannot be meant.
        TableFormatError: the table's file is not sound.
        TopologyMismatch: the newest table in this host's folder was measured elsewhere.
    """
    # The same lines as in Selector.select: calling it would cost half as much again.
    if placement is None and max_error is None and type(n_ranks) is int and type(message_bytes) is int:
        try:
            edges, selections = _selectors[table].memo[collective, n_ranks, dtype, op, memory, backend, evidence]
            if message_bytes >= 0:
                return selections[bisect_right(edges, message_bytes)]
        except (KeyError, TypeError):
            pass
    return _selector(table).select(
        collective,
        message_bytes=message_bytes,
        n_ranks=n_ranks,
        dtype=dtype,
        op=op,
        placement=placement,
        memory=memory,
        max_error=max_error,
        backend=backend,
        evidence=evidence,
    )


def reload() -> None:
    """Look for this process's table again, and forget every file that was read; after a tuning run, for example.

    Raises:
        AutotuneError: as ``select``; the former table then stays in use.
    """
    fresh = _own()
    _selectors.clear()
    _selectors[None] = fresh


def _selector(table: TuningTable | str | os.PathLike[str] | None) -> Selector:
    if table is not None and not isinstance(table, (str, os.PathLike)):
        return Selector(table)
    found = _selectors.get(table)
    if found is None:
        fresh = _own() if table is None else Selector(open_table(table))
        if table is not None and len(_selectors) >= _FILES_KEPT:
            _forget_files()
        # setdefault, so that threads that come at once all answer from one table.
        found = _selectors.setdefault(table, fresh)
    return found


def _own() -> Selector:
    """The process's own selector: a table of each backend, as they are asked for."""
    settings = read()
    return Selector(find_table(settings), lambda backend: find_table(settings, backend))


def _forget_files() -> None:
    for path in list(_selectors):
        if path is not None:
            _selectors.pop(path, None)
