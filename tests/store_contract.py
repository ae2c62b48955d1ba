"""What every TrialStore must do, whatever database is under it: one suite for all engines.

A test module subclasses StoreContract and gives a fixture ``store`` that yields an empty TrialStore.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
import pytest
import strategies
from hypothesis import HealthCheck, given, settings

from autotune.db import (
    CellState,
    NewSession,
    RoundResult,
    Session,
    SessionState,
    TrialStore,
    environment_digest,
)
from autotune.errors import StoreError
from autotune.table import Rule, TuningTable, dump_table, shipped_table
from autotune.types import (
    Collective,
    Config,
    DType,
    Evidence,
    Fidelity,
    OpClass,
    Phase,
    Problem,
    RuleKey,
    Sample,
    SampleKind,
    Trial,
    TrialState,
    WrongElement,
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

# The store only grows, so examples may share it; each one opens a session of its own.
on_one_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def opened(store: TrialStore, new: NewSession = NEW) -> Session:
    store.add_topology(new.fingerprint, "{}")
    return store.open_session(new)


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


class StoreContract:
    def test_the_last_description_of_a_topology_counts(self, store: TrialStore) -> None:
        store.add_topology("f1", '{"host": "a"}')
        store.add_topology("f1", '{"host": "b"}')
        assert store.topology("f1") == '{"host": "b"}'
        assert store.topology("f2") is None

    def test_a_session_comes_out_as_it_went_in(self, store: TrialStore) -> None:
        session = opened(store)
        assert store.sessions() == [session]
        assert session.state is SessionState.RUNNING
        assert session.finished_at is None
        assert is_recent(session.created_at)
        assert (
            NewSession(
                plan_digest=session.plan_digest,
                plan_text=session.plan_text,
                fingerprint=session.fingerprint,
                environment=session.environment,
                backend=session.backend,
                command=session.command,
            )
            == NEW
        )

    def test_a_session_needs_its_topology(self, store: TrialStore) -> None:
        with pytest.raises(StoreError, match="f1"):
            store.open_session(NEW)
        assert store.sessions() == []

    def test_a_finished_session_takes_nothing_more(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0)])
        store.finish_session(session_id)
        store.interrupt_session(session_id)
        (session,) = store.sessions()
        assert session.state is SessionState.FINISHED
        assert session.finished_at is not None
        assert is_recent(session.finished_at)
        with pytest.raises(StoreError, match="finished"):
            store.add_round(session_id, [timed(SMALL, RING, 1)])
        with pytest.raises(StoreError, match="finished"):
            store.mark_cell(session_id, SMALL, CellState.DONE)
        assert len(store.trials()[0].samples) == 1

    def test_the_newest_unfinished_session_of_the_same_plan_and_machine_is_resumed(self, store: TrialStore) -> None:
        wanted = (NEW.plan_digest, NEW.fingerprint, environment_digest(NEW.environment))
        assert store.resumable(*wanted) is None
        first, second, third = opened(store), opened(store), opened(store)
        store.finish_session(third.session_id)
        assert store.resumable(*wanted) == second
        store.finish_session(second.session_id)
        assert store.resumable(*wanted) == first
        store.finish_session(first.session_id)
        assert store.resumable(*wanted) is None

    @pytest.mark.parametrize(
        "other",
        [
            replace(NEW, plan_digest="p2"),
            replace(NEW, fingerprint="f2"),
            replace(NEW, environment={**NEW.environment, "kernel": "6.2"}),
        ],
        ids=["plan", "machine", "environment"],
    )
    def test_a_session_of_another_kind_is_not_resumed(self, store: TrialStore, other: NewSession) -> None:
        opened(store, other)
        assert store.resumable(NEW.plan_digest, NEW.fingerprint, environment_digest(NEW.environment)) is None

    def test_an_interrupted_session_is_resumable_and_runs_again_with_its_next_round(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.interrupt_session(session_id)
        found = store.resumable(NEW.plan_digest, NEW.fingerprint, environment_digest(NEW.environment))
        assert found is not None
        assert (found.session_id, found.state) == (session_id, SessionState.INTERRUPTED)
        store.add_round(session_id, [timed(SMALL, RING, 0)])
        assert store.sessions()[0].state is SessionState.RUNNING

    def test_a_config_is_one_trial_that_collects_the_samples_of_its_rounds(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0, 11.0), timed(SMALL, TREE, 0, 21.0)])
        store.add_round(session_id, [timed(SMALL, TREE, 1, 22.0), timed(SMALL, RING, 1, 12.0)])
        store.add_round(session_id, [timed(LARGE, RING, 0, 90.0)])
        times = {
            (trial.problem.message_bytes, trial.config.algorithm): [sample.time_us for sample in trial.samples]
            for trial in store.trials()
        }
        assert times == {(1024, "ring"): [11.0, 12.0], (1024, "tree"): [21.0, 22.0], (1 << 20, "ring"): [90.0]}

    def test_configs_that_differ_in_one_knob_are_different_trials(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        other = replace(DIRECT, knobs=(("outbox_store", "tile"), ("slices", 2)))
        store.add_round(session_id, [timed(SMALL, DIRECT, 0), timed(SMALL, other, 0)])
        assert [trial.config for trial in store.trials()] == [DIRECT, other]

    def test_problems_that_differ_in_the_error_budget_are_different(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        lossy = replace(SMALL, key=replace(KEY, max_error=0.01))
        store.add_round(session_id, [timed(SMALL, RING, 0), timed(lossy, RING, 0)])
        assert [trial.problem for trial in store.trials(problem=lossy)] == [lossy]

    def test_trials_are_chosen_by_session_and_problem(self, store: TrialStore) -> None:
        first, second = opened(store).session_id, opened(store).session_id
        for session_id in (first, second):
            store.add_round(session_id, [timed(SMALL, RING, 0), timed(LARGE, RING, 0)])
        everything = store.trials()
        assert len(everything) == 4
        assert store.trials(session_id=second) == [trial for trial in everything if trial.session_id == second]
        assert store.trials(problem=LARGE) == [trial for trial in everything if trial.problem == LARGE]
        assert [trial.session_id for trial in store.trials(session_id=first, problem=LARGE)] == [first]

    def test_trials_come_problem_by_problem_and_the_newest_session_first(self, store: TrialStore) -> None:
        first, second, other = (opened(store).session_id for _ in range(3))
        for session_id in (first, second, other):
            store.add_round(session_id, [timed(SMALL, RING, 0), timed(SMALL, TREE, 0)])
        store.add_round(first, [timed(LARGE, RING, 0)])
        found = {
            problem: [[(trial.session_id, trial.config) for trial in trials] for trials in lists]
            for problem, lists in store.trials_by_problem([first, second, 99])
        }
        assert found == {
            SMALL: [[(second, RING), (second, TREE)], [(first, RING), (first, TREE)]],
            LARGE: [[(first, RING)]],
        }
        assert list(store.trials_by_problem([])) == []

    def test_the_store_may_be_used_while_trials_are_read_problem_by_problem(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0), timed(LARGE, RING, 0)])
        for problem, lists in store.trials_by_problem([session_id]):
            store.add_round(session_id, [timed(problem, TREE, 1)])
            assert [[trial.config for trial in trials] for trials in lists] == [[RING]]
        assert len(store.trials()) == 4

    def test_the_best_of_a_scenario_is_the_newest_finished_cells_of_each_size(self, store: TrialStore) -> None:
        early, late, unfinished = (opened(store).session_id for _ in range(3))
        for session_id, times in ((early, (1.0, 2.0)), (late, (9.0, 5.0)), (unfinished, (0.1, 0.2))):
            rounds = ([timed(SMALL, RING, n, times[0]), timed(SMALL, TREE, n, times[1])] for n in range(9))
            for results in rounds:
                store.add_round(session_id, results)
        store.add_round(early, [timed(LARGE, RING, 0, 70.0)])
        store.add_round(late, [timed(SMALL, DIRECT, 0, 0.01)])  # one round of luck is no record
        store.add_round(late, [failed(SMALL, RING, TrialState.CRASHED, "rank 1 died")])
        for session_id, problem in ((early, SMALL), (late, SMALL), (early, LARGE)):
            store.mark_cell(session_id, problem, CellState.DONE)
        store.mark_cell(unfinished, SMALL, CellState.FAILED)
        small, large = store.best(KEY)
        assert (small.problem, small.config, small.session_id) == (SMALL, TREE, late)
        assert (small.median_us, small.n_samples) == (5.0, 9)
        assert store.trial(small.trial_id).config == TREE
        assert (large.problem, large.config, large.median_us, large.n_samples) == (LARGE, RING, 70.0, 1)
        assert store.best(KEY, fingerprint="f1") == [small, large]
        assert store.best(KEY, fingerprint="f2") == []
        assert store.best(replace(KEY, max_error=0.01)) == []
        assert store.best(replace(KEY, n_ranks=8, placement=(8,))) == []

    def test_a_failure_is_recorded_once_and_samples_stay(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        wrong = WrongElement(rank=3, index=1 << 40, got="nan", expected="6.0")
        store.add_round(session_id, [timed(SMALL, RING, 0), failed(SMALL, TREE, TrialState.TIMEOUT, "no answer")])
        store.add_round(
            session_id,
            [
                RoundResult(
                    problem=SMALL, config=RING, state=TrialState.WRONG_RESULT, message="1 element is wrong", wrong=wrong
                ),
                failed(SMALL, TREE, TrialState.CRASHED, "rank 2 died"),
            ],
        )
        store.add_round(session_id, [timed(SMALL, RING, 2)])
        ring, tree = store.trials()
        assert (ring.state, ring.message, ring.wrong) == (TrialState.WRONG_RESULT, "1 element is wrong", wrong)
        assert [sample.round for sample in ring.samples] == [0, 2]
        assert (tree.state, tree.message, tree.samples) == (TrialState.TIMEOUT, "no answer", ())

    def test_a_round_is_stored_whole_or_not_at_all(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0)])
        before = store.trials()
        with pytest.raises(StoreError, match="another run") as caught:
            store.add_round(session_id, [timed(SMALL, TREE, 0), timed(SMALL, RING, 0, 99.0)])
        assert caught.value.remedy
        assert store.trials() == before
        store.add_round(session_id, [timed(SMALL, TREE, 1), timed(SMALL, RING, 1)])
        assert len(store.trials()) == 2

    def test_what_a_lossy_config_was_off_by_is_kept_from_its_first_round(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        coded = replace(RING, codec="int8")
        fidelity = Fidelity(error=0.007, density=0.99)
        store.add_round(session_id, [timed(SMALL, RING, 0), replace(timed(SMALL, coded, 0), fidelity=fidelity)])
        store.add_round(session_id, [replace(timed(SMALL, coded, 1), fidelity=fidelity)])
        assert [trial.fidelity for trial in store.trials()] == [None, fidelity]

    def test_an_empty_round_changes_nothing(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [])
        assert store.trials() == []

    @given(trial=strategies.trials())
    @on_one_store
    def test_a_trial_comes_out_as_it_went_in(self, store: TrialStore, trial: Trial) -> None:
        session_id = opened(store).session_id
        for sample in reversed(trial.samples):
            store.add_round(session_id, [RoundResult(problem=trial.problem, config=trial.config, sample=sample)])
        if trial.state is not TrialState.OK or not trial.samples:
            state = TrialState.INVALID if trial.state is TrialState.OK else trial.state
            trial = replace(trial, state=state, message=trial.message or "not run")
            store.add_round(
                session_id,
                [
                    RoundResult(
                        problem=trial.problem,
                        config=trial.config,
                        state=trial.state,
                        message=trial.message,
                        wrong=trial.wrong,
                    )
                ],
            )
        (stored,) = store.trials(session_id=session_id)
        assert stored == replace(trial, trial_id=stored.trial_id, session_id=session_id)
        assert stored.trial_id is not None
        assert store.trial(stored.trial_id) == stored

    @given(plan_text=strategies.texts, environment=st.dictionaries(strategies.names, strategies.texts, max_size=4))
    @on_one_store
    def test_a_session_keeps_any_text(self, store: TrialStore, plan_text: str, environment: dict[str, str]) -> None:
        session = opened(store, replace(NEW, plan_text=plan_text, environment=environment))
        assert (session.plan_text, session.environment) == (plan_text, environment)
        assert store.sessions()[-1] == session
        assert store.resumable(NEW.plan_digest, NEW.fingerprint, environment_digest(environment)) == session

    @given(problem=strategies.problems(), state=st.sampled_from(CellState))
    @on_one_store
    def test_a_cell_comes_out_as_it_went_in(self, store: TrialStore, problem: Problem, state: CellState) -> None:
        session_id = opened(store).session_id
        store.mark_cell(session_id, problem, state)
        assert store.done_cells(session_id) == {problem: state}

    @given(description=strategies.texts, table=strategies.texts, fingerprint=strategies.names)
    @on_one_store
    def test_descriptions_and_tables_keep_their_text(
        self, store: TrialStore, description: str, table: str, fingerprint: str
    ) -> None:
        if store.topology(fingerprint) is None:
            store.add_topology(fingerprint, description)
            assert store.topology(fingerprint) == description
        version = store.add_table(None, table, fingerprint, "d")
        newest = store.newest_table(fingerprint)
        assert newest is not None
        assert (newest.version, newest.table_json) == (version, table)

    def test_undecodable_bytes_in_messages_are_replaced(self, store: TrialStore) -> None:
        session_id = opened(store, replace(NEW, command="run \udcff.yaml")).session_id
        store.add_round(session_id, [failed(SMALL, RING, TrialState.CRASHED, "rank 1: \0\udcff \U0001f642")])
        assert store.trials()[0].message == "rank 1: \ufffd\ufffd \U0001f642"
        assert store.sessions()[0].command == "run \ufffd.yaml"

    def test_the_last_word_on_a_cell_counts(self, store: TrialStore) -> None:
        first, second = opened(store).session_id, opened(store).session_id
        store.mark_cell(first, SMALL, CellState.FAILED)
        store.mark_cell(first, SMALL, CellState.DONE)
        store.mark_cell(first, LARGE, CellState.FAILED)
        assert store.done_cells(first) == {SMALL: CellState.DONE, LARGE: CellState.FAILED}
        assert store.done_cells(second) == {}

    def test_tables_are_versions_of_which_the_newest_counts(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        versions = [
            store.add_table(session_id, '{"a": 1}\n', "f1", "d1"),
            store.add_table(None, '{"b": 1}\n', "f2", "d2"),
            store.add_table(session_id, '{"a": 2}\n', "f1", "d1"),
        ]
        assert versions == sorted(set(versions))
        tables = store.tables()
        assert [table.version for table in tables] == versions
        assert [table.session_id for table in tables] == [session_id, None, session_id]
        assert [table.table_json for table in tables] == ['{"a": 1}\n', '{"b": 1}\n', '{"a": 2}\n']
        assert all(is_recent(table.created_at) for table in tables)
        assert store.newest_table("f1") == tables[2]
        assert store.newest_table("f2") == tables[1]
        assert store.newest_table("f3") is None

    @pytest.mark.parametrize(
        "verb",
        [
            lambda store: store.add_round(99, [timed(SMALL, RING, 0)]),
            lambda store: store.mark_cell(99, SMALL, CellState.DONE),
            lambda store: store.done_cells(99),
            lambda store: store.finish_session(99),
            lambda store: store.interrupt_session(99),
            lambda store: store.trials(session_id=99),
            lambda store: store.trial(99),
            lambda store: store.add_table(99, "{}", "f1", "d1"),
        ],
        ids=["add_round", "mark_cell", "done_cells", "finish", "interrupt", "trials", "trial", "add_table"],
    )
    def test_an_unknown_id_is_named(self, store: TrialStore, verb: Callable[[TrialStore], object]) -> None:
        with pytest.raises(StoreError, match="99") as caught:
            verb(store)
        assert caught.value.remedy
        assert store.trials() == []
        assert store.tables() == []

    def test_threads_share_a_store(self, store: TrialStore) -> None:
        n_threads, n_rounds = 4, 10
        sessions = [opened(store).session_id for _ in range(n_threads)]
        start = threading.Barrier(n_threads)
        errors: list[BaseException] = []

        def write(session_id: int) -> None:
            try:
                start.wait(timeout=30)
                for round_ in range(n_rounds):
                    store.add_round(session_id, [timed(SMALL, RING, round_), timed(SMALL, TREE, round_)])
                    assert len(store.trials(session_id=session_id)[0].samples) == round_ + 1
            except BaseException as err:
                errors.append(err)

        threads = [threading.Thread(target=write, args=(session_id,)) for session_id in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert not errors
        assert [len(trial.samples) for trial in store.trials()] == [n_rounds] * 2 * n_threads
