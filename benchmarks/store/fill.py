"""A store of a million trials, filled in bulk: as many sessions of one machine as that takes.

In:  an empty store's URL. Out: the store, with sessions, trials, samples, cells and a table that look like those of
real runs: every cell races all configs for a round, an eighth of the field for five, the best two for nine; winner,
default and reference then confirm for nine. May not touch: the verbs that are measured; rows go in past them.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice, product

import psycopg
import sqlalchemy

from autotune.db import open_store
from autotune.db.models import SCHEMA_VERSION
from autotune.db.rows import config_digest, problem_digest
from autotune.table import shipped_table
from autotune.types import Collective, Config, DType, OpClass, Phase, Problem, RuleKey, SampleKind

FINGERPRINT = "0123456789abcdef"
SIZES = tuple(1 << power for power in range(3, 27, 2))
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.BROADCAST)
RANKS = (2, 4, 8, 16, 32, 64)
ALGORITHMS = ("ring", "tree", "direct", "recursive_doubling", "nhr", "flat", "chain", "double_tree")
SEGMENTS = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
CONFIGS = tuple(Config(algorithm=name, segment_bytes=size) for name, size in product(ALGORITHMS, SEGMENTS))
REFERENCE = Config(algorithm="ring", segment_bytes=64 << 10)
RACE_FOR_ALL, RACE_FOR_HALF, RACE_TO_THE_END, CONFIRM = 1, 5, 9, 9
_ROWS_AT_ONCE = 200_000
_AT = "2026-01-01T00:00:00+00:00"


def default_of(problem: Problem) -> Config:
    return shipped_table("native").defaults.lookup(problem.key, problem.message_bytes)


def key_of(collective: Collective, n_ranks: int) -> RuleKey:
    computes = collective.computes
    return RuleKey(
        backend="native",
        collective=collective,
        dtype=DType.FLOAT32 if computes else None,
        op_class=OpClass.SUM if computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )


KEYS = tuple(key_of(collective, n_ranks) for collective, n_ranks in product(COLLECTIVES, RANKS))
PROBLEMS = tuple(Problem(key=key, message_bytes=size) for key, size in product(KEYS, SIZES))


def sessions_for(n_trials: int) -> int:
    """How many whole sessions have at least so many trials."""
    return -(-n_trials // (len(PROBLEMS) * len(CONFIGS)))


def fill(url: str, n_trials: int, table_json: str) -> None:
    """Make the store, and put in whole sessions until it has at least ``n_trials`` trials."""
    with closing(open_store(url)) as store:
        store.add_topology(FINGERPRINT, "{}")
    n_sessions = sessions_for(n_trials)
    writer = _postgres if url.startswith("postgresql") else _sqlite
    writer(
        url,
        {
            "sessions": iter(_sessions(n_sessions)),
            "trials": _trials(n_sessions),
            "samples": _samples(n_sessions),
            "cells": _cells(n_sessions),
            "tables": iter([(1, FINGERPRINT, n_sessions, "native", "d", _AT, table_json)]),
        },
    )


_COLUMNS = {
    "sessions": "session_id state plan_digest plan_text fingerprint environment environment_digest backend command "
    "schema_version created_at finished_at",
    "trials": "trial_id session_id problem_digest backend collective dtype op_class message_bytes n_ranks placement "
    "memory config_digest algorithm segment_bytes codec knobs state message",
    "samples": "trial_id phase kind round position batch_calls time_us",
    "cells": "session_id problem_digest backend collective dtype op_class message_bytes n_ranks placement memory state",
    "tables": "version fingerprint session_id backend digest created_at table_json",
}


def _sessions(n_sessions: int) -> Iterator[tuple[object, ...]]:
    for session_id in range(1, n_sessions + 1):
        yield session_id, "finished", "p", "", FINGERPRINT, "{}", "e", "native", "fill", SCHEMA_VERSION, _AT, _AT


def _problem(problem: Problem) -> tuple[object, ...]:
    key = problem.key
    return (
        problem_digest(problem),
        key.backend,
        key.collective.value,
        key.dtype and key.dtype.value,
        key.op_class and key.op_class.value,
        problem.message_bytes,
        key.n_ranks,
        json.dumps(key.placement),
        key.memory.value,
    )


def _trials(n_sessions: int) -> Iterator[tuple[object, ...]]:
    problems = [_problem(problem) for problem in PROBLEMS]
    configs = [(config_digest(c), c.algorithm, c.segment_bytes, c.codec, "{}", "ok", "") for c in CONFIGS]
    cells = product(range(1, n_sessions + 1), problems)
    rows = ((session_id, *problem, *config) for session_id, problem in cells for config in configs)
    for trial_id, row in enumerate(rows, start=1):
        yield trial_id, *row


def _cells(n_sessions: int) -> Iterator[tuple[object, ...]]:
    for session_id, problem in product(range(1, n_sessions + 1), PROBLEMS):
        yield session_id, *_problem(problem), "done"


def _samples(n_sessions: int) -> Iterator[tuple[object, ...]]:
    draw = random.Random(1)
    race, confirm, fresh = Phase.RACE.value, Phase.CONFIRM.value, SampleKind.FRESH.value
    beside = [{CONFIGS.index(default_of(problem)), CONFIGS.index(REFERENCE)} for problem in PROBLEMS]
    for cell in range(n_sessions * len(PROBLEMS)):
        first = cell * len(CONFIGS) + 1
        speeds = [draw.uniform(1.0, 3.0) for _ in CONFIGS]
        ranked = sorted(range(len(CONFIGS)), key=speeds.__getitem__)
        rounds = dict.fromkeys(ranked, RACE_FOR_ALL)
        rounds |= dict.fromkeys(ranked[: len(ranked) // 8], RACE_FOR_HALF) | dict.fromkeys(ranked[:2], RACE_TO_THE_END)
        base_us = 10.0 + PROBLEMS[cell % len(PROBLEMS)].message_bytes / 5000
        for config in range(len(CONFIGS)):
            for number in range(rounds[config]):
                yield first + config, race, fresh, number, config, 16, base_us * speeds[config] * draw.gauss(1, 0.01)
        for config in {ranked[0]} | beside[cell % len(PROBLEMS)]:
            for number in range(CONFIRM):
                time_us = base_us * speeds[config] * draw.gauss(1, 0.01)
                yield first + config, confirm, fresh, number, config, 16, time_us


def _sqlite(url: str, rows: dict[str, Iterator[tuple[object, ...]]]) -> None:
    with closing(sqlite3.connect(url)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table, content in rows.items():
            names = _COLUMNS[table].split()
            places = ", ".join("?" * len(names))
            connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", content)


def _postgres(url: str, rows: dict[str, Iterator[tuple[object, ...]]]) -> None:
    plain = sqlalchemy.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        for table, content in rows.items():
            names = ", ".join(_COLUMNS[table].split())
            while chunk := list(islice(content, _ROWS_AT_ONCE)):
                with connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                    for row in chunk:
                        copy.write_row(row)
        for table, column in (("sessions", "session_id"), ("trials", "trial_id"), ("tables", "version")):
            connection.execute(f"SELECT setval('{table}_{column}_seq', (SELECT max({column}) FROM {table}))")
    # What a server does by itself within minutes of so many new rows.
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
