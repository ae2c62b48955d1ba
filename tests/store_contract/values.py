"""What the contract's tests put in: a few problems and configs, and the shortest ways to a session or a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from autotune.db import (
    CellState,
    NewSession,
    RoundResult,
    Session,
    TrialStore,
)
from autotune.table import Rule, TuningTable, dump_table, shipped_table
from autotune.types import (
    Collective,
    Config,
    DType,
    Evidence,
    OpClass,
    Phase,
    Problem,
    RuleKey,
    Sample,
    SampleKind,
    TrialState,
)

KEY = RuleKey(
    backend="native",
    collective=Collective.ALL_REDUCE,
    dtype=DType.FLOAT32,
    op_class=OpClass.SUM,
    n_ranks=4,
    placement=(2, 2),
)
SMALL = Problem(key=KEY, message_bytes=1024)
LARGE = Problem(key=KEY, message_bytes=1 << 20)
RING = Config(algorithm="ring", segment_bytes=65536)
TREE = Config(algorithm="tree")
DIRECT = Config(algorithm="direct", knobs=(("outbox_store", "dual"), ("slices", 2)))
NEW = NewSession(
    plan_digest="p1",
    plan_text="sizes: 8-64MiB\n",
    fingerprint="f1",
    environment={"kernel": "6.1", "python": "3.11"},
    backend="native",
    command="autotune run --quick",
)


def opened(store: TrialStore, new: NewSession = NEW) -> Session:
    store.add_topology(new.fingerprint, "{}")
    return store.open_session(new)


def stored(store: TrialStore, session_id: int, results: Sequence[RoundResult]) -> None:
    """A round, stored also where rounds are held."""
    store.add_round(session_id, results)
    store.flush()


def marked(store: TrialStore, session_id: int, problem: Problem, state: CellState) -> None:
    """A mark, stored also where marks are held."""
    store.mark_cell(session_id, problem, state)
    store.flush()


def timed(problem: Problem, config: Config, round_: int, time_us: float = 12.5) -> RoundResult:
    sample = Sample(kind=SampleKind.FRESH, phase=Phase.RACE, round=round_, position=0, batch_calls=16, time_us=time_us)
    return RoundResult(problem=problem, config=config, sample=sample)


def failed(problem: Problem, config: Config, state: TrialState, message: str) -> RoundResult:
    return RoundResult(problem=problem, config=config, state=state, message=message)


def is_recent(time: str) -> bool:
    return timedelta(0) <= datetime.now(UTC) - datetime.fromisoformat(time) < timedelta(minutes=5)


def table_naming(*trial_ids: int, backend: str = "native") -> str:
    """A table's text with one rule, which these trials prove."""
    rule = Rule(
        from_bytes=1024,
        to_bytes=1025,
        config=RING,
        evidence=Evidence.MEASURED,
        is_default=True,
        n_rounds=9,
        median_us=2.0,
        low_us=1.0,
        high_us=3.0,
        trial_ids=trial_ids,
    )
    table = TuningTable(
        fingerprint="0123456789abcdef",
        environment=NEW.environment,
        created_at="2026-01-31T12:00:00Z",
        test="none",
        rules={replace(KEY, backend=backend): (rule,)},
        defaults=shipped_table(backend).defaults,
    )
    return dump_table(table)
