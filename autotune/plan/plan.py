"""The plan as a value: which cells to measure, and with how much effort. No files.

In:  lists of collectives, sizes, rank counts, types.
Out: `Problem` values in the order in which they are measured, and a digest by which a run finds its session again.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..errors import UsageError
from ..measure import EFFORTS, MIN_ROUNDS, NORMAL, QUICK, Effort
from ..types import Collective, DType, Memory, Problem, ReduceOp, RuleKey, round_up_message
from ..units import parse_sizes

MAX_CELLS = 100_000
MAX_ROUNDS = 1000
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.BROADCAST)
DTYPES = (DType.FLOAT32, DType.BFLOAT16)
QUICK_BUDGET_S = 45.0

Word = TypeVar("Word")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure.

    Args:
        sizes: message_bytes, ascending.
        ranks: rank counts, ascending.
        dtypes: for collectives that compute; the others move bytes.
        memories: where the buffers lie.
        budget_s: seconds for the whole run; None: as long as it takes.
        effort: rounds and limits of a cell.
        max_error: the error budget of collectives that compute, relative to the norm; None for lossless.
        data: what they are measured on then (`backends.data.data_word`); None without a budget.

    Raises:
        ValueError: a list that is empty, unsorted or holds a value twice.
        UsageError: more cells than anybody can measure.
    """

    collectives: tuple[Collective, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]
    dtypes: tuple[DType, ...] = DTYPES
    op: ReduceOp = ReduceOp.SUM
    memories: tuple[Memory, ...] = (Memory.PRIVATE,)
    budget_s: float | None = None
    effort: Effort = NORMAL
    max_error: float | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        for values in (self.collectives, self.sizes, self.ranks, self.dtypes, self.memories):
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{values} is empty or holds a value twice")
        if list(self.sizes) != sorted(self.sizes) or list(self.ranks) != sorted(self.ranks) or self.ranks[0] < 1:
            raise ValueError(f"sizes {self.sizes} or ranks {self.ranks} are not ascending")
        if (self.max_error is None) != (self.data is None):
            raise ValueError(f"max_error {self.max_error} and data {self.data}: one without the other")
        if self.max_error is not None:
            self._check_budget()
        cells = len(self.ranks) * len(self.sizes) * sum(len(self._dtypes(c)) for c in self.collectives)
        cells *= len(self.memories)
        if cells > MAX_CELLS:
            raise UsageError(
                f"the plan has {cells} cells (rank counts x collectives x types x sizes), above {MAX_CELLS}",
                remedy="give fewer sizes or rank counts; a range such as 8-64MiB steps in powers of four",
            )

    def _check_budget(self) -> None:
        if self.op is ReduceOp.PROD:
            raise UsageError("lossy codecs have no bound on the error of a product", remedy="use op: sum")
        if not any(collective.computes for collective in self.collectives):
            raise UsageError(
                "an error budget counts where elements are combined, and none of the plan's collectives does that",
                remedy="add --collective all_reduce, or leave --max-error out",
            )

    @property
    def canonical(self) -> str:
        """JSON of all that decides which samples are taken. The budget is left out: with more time, a run goes on."""
        words = {
            "collectives": [c.value for c in self.collectives],
            "sizes": self.sizes,
            "ranks": self.ranks,
            "dtypes": [d.value for d in self.dtypes],
            "op": self.op.value,
            **({"memories": [m.value for m in self.memories]} if self.memories != (Memory.PRIVATE,) else {}),
            **({"max_error": self.max_error, "data": self.data} if self.max_error is not None else {}),
            "effort": {name: getattr(self.effort, name) for name in Effort.__slots__},
        }
        return json.dumps(words, sort_keys=True)

    @property
    def digest(self) -> str:
        """sha256 of the canonical form, 64 hex digits."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    def override(
        self,
        *,
        collectives: Sequence[Collective] | None = None,
        sizes: Sequence[int] | None = None,
        ranks: Sequence[int] | None = None,
        memories: Sequence[Memory] | None = None,
        budget_s: float | None = None,
        max_error: float | None = None,
        data: str | None = None,
    ) -> Plan:
        """The plan with what the command line says instead; None leaves a list as it is."""
        return replace(
            self,
            collectives=tuple(dict.fromkeys(collectives)) if collectives else self.collectives,
            sizes=tuple(sorted(set(sizes))) if sizes else self.sizes,
            ranks=tuple(sorted(set(ranks))) if ranks else self.ranks,
            memories=tuple(dict.fromkeys(memories)) if memories else self.memories,
            budget_s=self.budget_s if budget_s is None else budget_s,
            max_error=self.max_error if max_error is None else max_error,
            data=self.data if data is None else data,
        )

    def problems(self, backend: str = "native") -> tuple[Problem, ...]:
        """The cells, on one host: rank counts outermost, so that a pool of ranks serves many cells, sizes ascending.

        Sizes are rounded up to whole elements on every rank; those that become equal are one cell.
        """
        cells: dict[Problem, None] = {}
        for n_ranks, collective, memory in itertools.product(self.ranks, self.collectives, self.memories):
            for dtype in self._dtypes(collective):
                key = RuleKey(
                    backend=backend,
                    collective=collective,
                    dtype=dtype,
                    op_class=self.op.op_class if collective.computes else None,
                    n_ranks=n_ranks,
                    placement=(n_ranks,),
                    memory=memory,
                    max_error=self.max_error if collective.computes else None,
                )
                itemsize = dtype.itemsize if dtype else 1
                for size in self.sizes:
                    rounded = round_up_message(collective, size, n_ranks, itemsize)
                    cells[Problem(key=key, message_bytes=rounded)] = None
        return tuple(cells)

    def _dtypes(self, collective: Collective) -> tuple[DType | None, ...]:
        return self.dtypes if collective.computes else (None,)


def default_plan(n_cores: int) -> Plan:
    """Four collectives from 8 B to 64 MiB with 2 ranks, one a core, and two a core."""
    ranks = tuple(sorted({2, n_cores, 2 * n_cores} - {1}))
    return Plan(collectives=COLLECTIVES, sizes=parse_sizes("8-64MiB"), ranks=ranks)


def quick_plan(n_cores: int) -> Plan:
    """The same collectives in less than a minute: float32, eight sizes, two rank counts."""
    return Plan(
        collectives=COLLECTIVES,
        sizes=parse_sizes("8,1K,4K,16K,64K,256K,1M,4M"),
        ranks=(2, max(4, n_cores)),
        dtypes=(DType.FLOAT32,),
        budget_s=QUICK_BUDGET_S,
        effort=QUICK,
    )


def parse_collective(text: str) -> Collective:
    """``"all_reduce"`` -> Collective.ALL_REDUCE.

    Raises:
        UsageError: an unknown word; names the nearest right one.
    """
    return named("collective", text, {c.value: c for c in Collective})


def parse_dtype(text: str) -> DType:
    """``"float32"`` -> DType.FLOAT32; raises like `parse_collective`."""
    return named("dtype", text, {d.value: d for d in DType})


def parse_op(text: str) -> ReduceOp:
    """``"sum"`` -> ReduceOp.SUM; raises like `parse_collective`."""
    return named("op", text, {op.value: op for op in ReduceOp})


def parse_memory(text: str) -> Memory:
    """``"symmetric"`` -> Memory.SYMMETRIC; raises like `parse_collective`."""
    return named("memory", text, {memory.value: memory for memory in Memory})


def parse_effort(text: str) -> Effort:
    """``"normal"`` -> NORMAL; raises like `parse_collective`."""
    return named("effort", text, EFFORTS)


def parse_rounds(text: str) -> int:
    """``"15"`` -> 15 paired rounds.

    Raises:
        UsageError: not a whole number from 9 to 1000.
    """
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0
    if not MIN_ROUNDS <= value <= MAX_ROUNDS:
        raise UsageError(
            f"rounds {text!r} is not a whole number from {MIN_ROUNDS} to {MAX_ROUNDS}",
            remedy=f"write rounds: {MIN_ROUNDS} or more; fewer cannot tell a winner from noise",
        )
    return value


def named(kind: str, word: str, allowed: Mapping[str, Word]) -> Word:
    """The value called `word`.

    Raises:
        UsageError: there is none; lists the words, and the remedy names the nearest.
    """
    if word in allowed:
        return allowed[word]
    nearest = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.5)
    words = ", ".join(allowed)
    remedy = f"write {nearest[0]}" if nearest else f"write one of {words}"
    raise UsageError(f"unknown {kind} {word!r}; the words are {words}", remedy=remedy)
