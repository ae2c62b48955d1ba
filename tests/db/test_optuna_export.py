"""The export for Optuna: optuna itself reads it, and its best trials are ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.util import setup_testing_defaults

import pytest
from store_contract import DIRECT, KEY, LARGE, NEW, RING, SMALL, TREE, failed, opened, timed

from autotune.db import CellState, TrialStore, open_store
from autotune.db.optuna_export import export_to_optuna
from autotune.errors import StoreError
from autotune.types import TrialState

if TYPE_CHECKING:
    import optuna

pytest.importorskip("optuna", reason="needs optuna")


@pytest.fixture
def store() -> Iterator[TrialStore]:
    """One engine: the export asks a TrialStore, and the contract holds for all of them."""
    with closing(open_store("sqlite://")) as opened:
        yield opened


@pytest.fixture
def filled(store: TrialStore) -> TrialStore:
    """Two sessions of one machine, the older one through with both sizes, the newer with the small one; another's."""
    old, new, unfinished = (opened(store).session_id for _ in range(3))
    for session_id, ring_us, tree_us in ((old, 1.0, 2.0), (new, 9.0, 5.0), (unfinished, 0.1, 0.2)):
        for round_ in range(9):
            store.add_round(session_id, [timed(SMALL, RING, round_, ring_us), timed(SMALL, TREE, round_, tree_us)])
    store.add_round(new, [timed(SMALL, DIRECT, 0, 0.5), timed(SMALL, replace(RING, segment_bytes=1024), 0, 7.0)])
    store.add_round(new, [failed(SMALL, replace(TREE, codec="int8"), TrialState.CRASHED, "rank 1 died")])
    store.add_round(old, [timed(LARGE, RING, 0, 70.0)])
    for session_id, problem in ((old, SMALL), (old, LARGE), (new, SMALL)):
        store.mark_cell(session_id, problem, CellState.DONE)
    elsewhere = opened(store, replace(NEW, fingerprint="f2"))
    store.add_round(elsewhere.session_id, [timed(SMALL, TREE, 0, 30.0)])
    return store


@pytest.fixture
def counts(filled: TrialStore, tmp_path: Path) -> dict[str, int]:
    """The trials of each study, which are in the file now."""
    said: list[str] = []
    counts = export_to_optuna(filled, tmp_path / "optuna.sqlite", said=said.append)
    assert list(counts) == said
    return dict(counts)


@pytest.fixture
def storage(counts: dict[str, int], tmp_path: Path) -> Iterator[optuna.storages.RDBStorage]:
    import optuna

    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'optuna.sqlite'}")
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@pytest.fixture
def studies(storage: optuna.storages.RDBStorage, counts: dict[str, int]) -> dict[str, optuna.Study]:
    import optuna

    found = {name: optuna.load_study(study_name=name, storage=storage) for name in counts}
    assert {name: len(study.trials) for name, study in found.items()} == counts
    assert set(optuna.get_all_study_names(storage)) == set(counts)
    return found


def test_the_dashboard_shows_every_study_and_trial(
    storage: optuna.storages.RDBStorage, studies: dict[str, optuna.Study]
) -> None:
    """The dashboard itself, without a socket: what its page asks for."""
    dashboard = pytest.importorskip("optuna_dashboard", reason="needs optuna-dashboard")
    app = dashboard.wsgi(storage)

    def asked(path: str) -> dict[str, Any]:  # Any: the tree of JSON
        environ: dict[str, Any] = {"PATH_INFO": path}
        setup_testing_defaults(environ)
        statuses: list[str] = []
        body = b"".join(app(environ, lambda status, headers, exc_info=None: statuses.append(status)))
        assert statuses == ["200 OK"]
        found: dict[str, Any] = json.loads(body)
        return found

    ids = {study["study_name"]: study["study_id"] for study in asked("/api/studies")["study_summaries"]}
    assert set(ids) == set(studies)
    for name, study in studies.items():
        shown = asked(f"/api/studies/{ids[name]}")
        assert [trial["state"] for trial in shown["trials"]] == [
            trial.state.name.capitalize() for trial in study.trials
        ]
        assert [trial["number"] for trial in shown["best_trials"]] == [study.best_trial.number]


def test_a_study_is_a_scenario_of_a_machine(studies: dict[str, optuna.Study]) -> None:
    assert list(studies) == [f"{KEY}, 1KiB, on f1", f"{KEY}, 1MiB, on f1", f"{KEY}, 1KiB, on f2"]


def test_the_best_trials_agree(filled: TrialStore, studies: dict[str, optuna.Study]) -> None:
    small, large = filled.best(KEY, fingerprint="f1")
    for best, study in zip((small, large), studies.values(), strict=False):
        assert study.best_trial.user_attrs["trial_id"] == best.trial_id
        assert study.best_value == best.median_us
        assert study.best_params["algorithm"] == best.config.algorithm
    assert small.config == TREE


def test_states_tell_how_configs_ended(studies: dict[str, optuna.Study]) -> None:
    from optuna.trial import TrialState as State

    study = next(iter(studies.values()))
    ended = {(t.params["algorithm"], t.params["codec"], t.params.get("segment_bytes")): t.state for t in study.trials}
    assert ended == {
        ("ring", "none", 65536): State.COMPLETE,
        ("tree", "none", None): State.COMPLETE,
        ("direct", "none", None): State.PRUNED,
        ("ring", "none", 1024): State.PRUNED,
        ("tree", "int8", None): State.FAIL,
    }
    (crashed,) = study.get_trials(states=[State.FAIL])
    assert crashed.user_attrs["ended"] == "crashed: rank 1 died"


def test_one_machine_alone(filled: TrialStore, tmp_path: Path) -> None:
    target = tmp_path / "f2.sqlite"
    assert export_to_optuna(filled, target, fingerprint="f2") == {f"{KEY}, 1KiB, on f2": 1}
    assert target.stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_over_and_nothing_is_left_of_a_failure(filled: TrialStore, tmp_path: Path) -> None:
    target = tmp_path / "here.sqlite"
    target.write_text("mine")
    with pytest.raises(StoreError, match="is there already"):
        export_to_optuna(filled, target)
    assert target.read_text() == "mine"
    with pytest.raises(StoreError, match="no trials of the machine f9"):
        export_to_optuna(filled, tmp_path / "none.sqlite", fingerprint="f9")
    with pytest.raises(StoreError, match="cannot be written"):
        export_to_optuna(filled, tmp_path / "missing" / "there.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["here.sqlite"]
