"""A store's trials as an Optuna storage, for people who like Optuna's dashboard. The only optuna in db.

In:  an open TrialStore, the path of a new SQLite file. Out: the file, with one study for each scenario: a machine and a
problem, its size included, since times of different sizes have no common best.

A study holds the configs of the newest session that is through with the problem. An optuna trial's value is the median
time of its fresh samples, in us. Configs that the race dropped before nine rounds are PRUNED, failures are FAIL, so
that optuna's best trial is `TrialStore.best`. Nothing is ever read back.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from sqlalchemy import event

from ..errors import BackendUnavailable, StoreError
from ..measure import MIN_ROUNDS
from ..types import Config, KnobValue, Problem, SampleKind, Trial, TrialState
from ..units import format_bytes
from .records import CellState
from .store import TrialStore

if TYPE_CHECKING:
    import optuna

Params = dict[str, KnobValue]


def export_to_optuna(
    store: TrialStore, target: Path, *, fingerprint: str | None = None, said: Callable[[str], None] = lambda _: None
) -> dict[str, int]:
    """Write the file, and return the number of trials of each study by its name.

    Args:
        target: a path where nothing is yet; written as a whole or not at all.
        fingerprint: of the only machine to export; None for all.
        said: told in words what is written next.

    Raises:
        StoreError: something is there already, it cannot be written, or there is nothing to export.
        BackendUnavailable: optuna is not installed.
    """
    if target.exists():
        raise StoreError(f"{target} is there already", remedy="name a new file, or remove that one")
    studies: dict[str, int] = {}
    with _new_storage(target) as storage:
        for problem, trials, machine in _scenarios(store, fingerprint):
            name = f"{problem.key}, {format_bytes(problem.message_bytes)}, on {machine}"
            said(name)
            studies[name] = _add_study(storage, name, trials)
        if not studies:
            raise StoreError(
                f"{store.shown} has no trials" + (f" of the machine {fingerprint}" if fingerprint else ""),
                remedy="autotune db status says what is there; autotune run measures",
            )
    return studies


def _scenarios(store: TrialStore, fingerprint: str | None) -> Iterator[tuple[Problem, list[Trial], str]]:
    """Problem, trials of its newest session, machine; in the order of people: by key, then by size."""
    machines: defaultdict[str, list[int]] = defaultdict(list)
    for session in store.sessions():
        if fingerprint is None or session.fingerprint == fingerprint:
            machines[session.fingerprint].append(session.session_id)
    for machine, session_ids in machines.items():
        done = {session_id: store.done_cells(session_id) for session_id in session_ids}
        found: dict[Problem, list[Trial]] = {}
        for problem, newest_first in store.trials_by_problem(session_ids):
            newest = next(newest_first)
            lists = itertools.chain((newest,), newest_first)
            through = (trials for trials in lists if done[trials[0].session_id].get(problem) is CellState.DONE)
            found[problem] = next(through, newest)
        for problem in sorted(found, key=lambda problem: (str(problem.key), problem.message_bytes)):
            yield problem, found[problem], machine


@contextmanager
def _new_storage(target: Path) -> Iterator[optuna.storages.RDBStorage]:
    try:
        import optuna
    except ImportError as err:
        raise BackendUnavailable(
            "the export needs optuna, which is not installed", remedy="pip install optuna"
        ) from err
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    spoken = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        os.mknod(partial, 0o600)
        storage = optuna.storages.RDBStorage(f"sqlite:///{partial.absolute()}")
        try:
            # Optuna commits each attribute of each trial; a file that appears only when it is whole need not sync them.
            storage.engine.dispose()
            event.listen(storage.engine, "connect", _without_syncs)
            yield storage
        finally:
            storage.remove_session()
            storage.engine.dispose()
        partial.replace(target)
    except OSError as err:
        raise StoreError(
            f"{target} cannot be written: {err.strerror}", remedy="name a file in a folder that you may write"
        ) from err
    finally:
        optuna.logging.set_verbosity(spoken)
        partial.unlink(missing_ok=True)


def _without_syncs(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")


def _add_study(storage: optuna.storages.RDBStorage, name: str, trials: Sequence[Trial]) -> int:
    import optuna

    study = optuna.create_study(storage=storage, study_name=name, direction="minimize")
    study.set_user_attr("value", "median time of a call, us")
    every = [_params(trial.config) for trial in trials]
    space = _space(every)
    enough = any(_fresh_count(trial) >= MIN_ROUNDS for trial in trials if trial.state is TrialState.OK)
    study.add_trials([_frozen(t, params, space, enough) for t, params in zip(trials, every, strict=True)])
    return len(trials)


def _params(config: Config) -> Params:
    """What differs between configs, by name; a part that a config has not is left out, as optuna's spaces do."""
    params: Params = {"algorithm": config.algorithm, "codec": config.codec}
    if config.segment_bytes is not None:
        params["segment_bytes"] = config.segment_bytes
    return params | dict(config.knobs)


def _space(every: Sequence[Params]) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

    values: defaultdict[str, set[KnobValue]] = defaultdict(set)
    for params in every:
        for name, value in params.items():
            values[name].add(value)
    space: dict[str, BaseDistribution] = {}
    for name, found in values.items():
        numbers = [value for value in found if isinstance(value, int)]
        if name == "segment_bytes":
            space[name] = IntDistribution(min(numbers), max(numbers), log=True)
        else:
            space[name] = CategoricalDistribution(sorted(found, key=lambda value: (isinstance(value, str), str(value))))
    return space


def _frozen(
    trial: Trial, params: Params, space: dict[str, optuna.distributions.BaseDistribution], enough: bool
) -> optuna.trial.FrozenTrial:
    import optuna
    from optuna.trial import TrialState as State

    times = [sample.time_us for sample in trial.samples if sample.kind is SampleKind.FRESH]
    if trial.state is not TrialState.OK or not times:
        state, said = State.FAIL, f"{trial.state.value}: {trial.message or 'no fresh sample'}"
    elif enough and len(times) < MIN_ROUNDS:
        state, said = State.PRUNED, "dropped by the race"
    else:
        state, said = State.COMPLETE, "raced to the end"
    return optuna.trial.create_trial(
        state=state,
        value=median(times) if state is State.COMPLETE else None,
        params=params,
        distributions={name: space[name] for name in params},
        user_attrs={"trial_id": trial.trial_id, "session_id": trial.session_id, "rounds": len(times), "ended": said},
        intermediate_values={len(times): median(times)} if state is State.PRUNED else None,
    )


def _fresh_count(trial: Trial) -> int:
    return sum(sample.kind is SampleKind.FRESH for sample in trial.samples)
