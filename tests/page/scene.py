"""A machine that was tuned, made by hand in a real store: known winners, a kept default, a failed trial, rude names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from report.made import DIRECT, RING, TREE, a_key

from autotune.backends.choice import REFERENCES
from autotune.db import NewSession, RoundResult, TrialStore, open_store
from autotune.distil import distil
from autotune.table import TuningTable, dump_table, native_defaults, shipped_table
from autotune.topology.devices import Host
from autotune.topology.document import to_json
from autotune.topology.fingerprint import fingerprint
from autotune.topology.graph import Topology
from autotune.topology.machines import machine
from autotune.types import Collective, Config, Phase, Problem, RuleKey, Sample, SampleKind, TrialState

RUDE = "</script><script>alert(1)</script><img src=http://192.0.2.1/x>\"'&amp; $x$ \x1b[31m"
"""What a page must show as it is, wherever it stands."""
SIZES = (1024, 65536, 1 << 20)
RACE, CONFIRM = 9, 15
CONFIGS = (RING, DIRECT, TREE, Config(algorithm="bruck", segment_bytes=65536))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The machine as its store has it."""

    path: Path
    fingerprint: str
    table: TuningTable
    topology: Topology

    @contextmanager
    def store(self) -> Iterator[TrialStore]:
        with closing(open_store(str(self.path))) as store:
            yield store


def topology(name: str = "hosta") -> Topology:
    """Two sockets, under a name."""
    plain = machine("two-socket-host")
    devices = tuple(replace(d, name=name) if isinstance(d, Host) else d for d in plain.devices)
    return replace(plain, devices=devices)


def keys() -> tuple[RuleKey, ...]:
    return (a_key(2), a_key(4), a_key(2, Collective.BROADCAST))


def factor(config: Config, key: RuleKey, size: int, default: Config) -> float:
    """Time over the default's. On two ranks and from 64 KiB on, DIRECT takes half as long; all else is slower."""
    if config == default:
        return 1.0
    if config == DIRECT and key == a_key(2) and size >= 65536:
        return 0.5
    return 1.5 + 0.1 * CONFIGS.index(config)


def make_scene(path: Path, *, name: str = "hosta", command: str = "autotune run --quick") -> Scene:
    """Write the store, with the table that comes of it."""
    found = topology(name)
    mark = fingerprint(found)
    with closing(open_store(str(path))) as store:
        store.add_topology(mark, to_json(found))
        new = NewSession(
            plan_digest="0" * 16,
            plan_text="collectives: [all_reduce]",
            fingerprint=mark,
            environment={"python": "3.11.7", "cpu_model": "a CPU <b>"},
            backend="native",
            command=command,
        )
        session = store.open_session(new).session_id
        for key in keys():
            for size in SIZES:
                measure(store, session, Problem(key=key, message_bytes=size))
        wrong = "rank 1 has <b>3</b> at element 7, expected 4"
        bad = Config(algorithm="double_tree", segment_bytes=65536)
        failed = Problem(key=keys()[0], message_bytes=SIZES[0])
        store.add_round(
            session, [RoundResult(problem=failed, config=bad, state=TrialState.WRONG_RESULT, message=wrong)]
        )
        store.finish_session(session)
        table = table_of(store, session, mark)
        store.add_table(session, dump_table(table), mark, table.digest, backend="native")
    return Scene(path=path, fingerprint=mark, table=table, topology=found)


def table_of(store: TrialStore, session: int, mark: str) -> TuningTable:
    return distil(
        store.trials(session_id=session),
        defaults=shipped_table().defaults,
        reference=lambda _: REFERENCES["native"],
        fingerprint=mark,
        host_fingerprints=(mark,),
        environment={"python": "3.11.7", "cpu_model": "a CPU <b>"},
        created_at="2026-01-31T12:00:00Z",
    )


def measure(store: TrialStore, session: int, problem: Problem) -> None:
    """Nine rounds of a race, of which slow ones see four, and the rounds that confirm its winner."""
    key, size = problem.key, problem.message_bytes
    default = native_defaults().lookup(key, size)
    configs = list(dict.fromkeys((default, *CONFIGS)))
    times = {config: 10.0 * (1 + size / 65536) * factor(config, key, size, default) for config in configs}
    stay = [c for c in configs if c in (default, DIRECT, RING)]
    luck = random.Random(size)
    for number in range(RACE):
        taken(store, session, problem, configs if number < 4 else stay, times, Phase.RACE, number, luck)
    for number in range(CONFIRM):
        taken(store, session, problem, stay, times, Phase.CONFIRM, number, luck)


def taken(
    store: TrialStore,
    session: int,
    problem: Problem,
    configs: list[Config],
    times: dict[Config, float],
    phase: Phase,
    number: int,
    luck: random.Random,
) -> None:
    """A round; times scatter by a percent."""
    samples = [
        Sample(
            kind=SampleKind.FRESH,
            phase=phase,
            round=number,
            position=position,
            batch_calls=20,
            time_us=times[config] * luck.uniform(1.0, 1.01),
        )
        for position, config in enumerate(configs)
    ]
    store.add_round(
        session,
        [RoundResult(problem=problem, config=c, sample=s) for c, s in zip(configs, samples, strict=True)],
    )
