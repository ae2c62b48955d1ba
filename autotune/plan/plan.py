"""The plan as a value: which cells to measure, and with how much effort. No files.

In:  lists of collectives, sizes, rank counts, types.
Out: `Problem` values in the order in which they are measured, and a digest by which a run finds its session again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import UsageError
from ..measure import NORMAL, QUICK, Effort
from ..types import Collective, DType, Memory, Problem, ReduceOp, RuleKey, round_up_message
from ..units import parse_sizes
from .words import named as named  # the commands take the words from here
from .words import parse_collective as parse_collective
from .words import parse_dtype as parse_dtype
from .words import parse_effort as parse_effort
from .words import parse_memory as parse_memory
from .words import parse_op as parse_op
from .words import parse_rounds as parse_rounds
from .workload import Workload

MAX_CELLS = 100_000
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.BROADCAST)
DTYPES = (DType.FLOAT32, DType.BFLOAT16)
QUICK_BUDGET_S = 45.0


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
        refine: whether sizes between these are measured too, where the best config changes.
        placements: ranks on each host, ascending, of every group that is measured; those of one host alone where empty.
        workload: what a job calls; its calls are the cells then, in place of collectives x sizes x ranks x types.
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
    refine: bool = False
    workload: Workload | None = None
    placements: tuple[tuple[int, ...], ...] = ()
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
            "refine": self.refine,
            **({"placements": self.placements} if self.placements else {}),
            **({"workload": sorted({call.canonical for call in self.workload.calls})} if self.workload else {}),
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
        refine: bool = False,
        ranks: Sequence[int] | None = None,
        memories: Sequence[Memory] | None = None,
        budget_s: float | None = None,
        max_error: float | None = None,
        data: str | None = None,
        effort: Effort | None = None,
        workload: Workload | None = None,
    ) -> Plan:
        """The plan with what the command line says instead; None leaves a list as it is.

        Args:
            refine: of the sizes that are given.
        """
        return replace(
            self,
            collectives=tuple(dict.fromkeys(collectives)) if collectives else self.collectives,
            sizes=tuple(sorted(set(sizes))) if sizes else self.sizes,
            refine=refine if sizes else self.refine and workload is None,
            ranks=tuple(sorted(set(ranks))) if ranks else self.ranks,
            memories=tuple(dict.fromkeys(memories)) if memories else self.memories,
            budget_s=self.budget_s if budget_s is None else budget_s,
            max_error=self.max_error if max_error is None else max_error,
            data=self.data if data is None else data,
            effort=effort or self.effort,
            workload=workload or self.workload,
        )

    def problems(self, backend: str = "native") -> tuple[Problem, ...]:
        """The cells, on one host: rank counts outermost, so that a pool of ranks serves many cells, sizes ascending.

        Sizes are rounded up to whole elements on every rank; those that become equal are one cell.
        """
        return tuple(self._calls(backend))

    def weights(self, backend: str = "native") -> Mapping[Problem, float] | None:
        """How often a step of the job makes the call of each cell; None where nothing is known of the job."""
        return None if self.workload is None else self._calls(backend)

    def _calls(self, backend: str) -> dict[Problem, float]:
        cells: dict[Problem, float] = {}
        for collective, memory, dtype, size, n_ranks, calls in self._cells():
            for placement in [own for own in self.placements if sum(own) == n_ranks] or [(n_ranks,)]:
                key = RuleKey(
                    backend=backend,
                    collective=collective,
                    dtype=dtype,
                    op_class=self.op.op_class if collective.computes else None,
                    n_ranks=n_ranks,
                    placement=placement,
                    memory=memory,
                    max_error=self.max_error if collective.computes else None,
                )
                rounded = round_up_message(collective, size, n_ranks, dtype.itemsize if dtype else 1)
                problem = Problem(key=key, message_bytes=rounded)
                cells[problem] = cells.get(problem, 0.0) + calls
        if not self.placements:
            return cells
        # One placement after another, since each starts ranks of its own.
        return dict(sorted(cells.items(), key=lambda cell: (cell[0].key.n_ranks, len(cell[0].key.placement))))

    def _cells(self) -> Iterator[tuple[Collective, Memory, DType | None, int, int, float]]:
        if self.workload is not None:
            for call, memory in itertools.product(self.workload.by_ranks(), self.memories):
                yield call.collective, memory, call.key_dtype, call.message_bytes, call.n_ranks, call.calls_per_step
            return
        for n_ranks, collective, memory in itertools.product(self.ranks, self.collectives, self.memories):
            for dtype, size in itertools.product(self._dtypes(collective), self.sizes):
                yield collective, memory, dtype, size, n_ranks, 1.0

    def _dtypes(self, collective: Collective) -> tuple[DType | None, ...]:
        return self.dtypes if collective.computes else (None,)


def default_plan(n_cores: int) -> Plan:
    """Four collectives from 8 B to 64 MiB, and sizes between where needed, with 2 ranks, one a core, and two a core."""
    ranks = tuple(sorted({2, n_cores, 2 * n_cores} - {1}))
    return Plan(collectives=COLLECTIVES, sizes=parse_sizes("8-64MiB"), ranks=ranks, refine=True)


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
