"""`autotune import`: logs of others into the trial database, and what they suggest as a table.

In:  the texts of logs, what the user says about them, a topology, settings. Out: an `Imported`.
May not touch: the terminal, ranks, files other than the database.

A log becomes a session of its own, whose backend is ``imported:<backend>``: no tuning run on the same machine takes its
trials for measurements of ours. Samples are of the kind STEADY, since no tool rewrites its inputs before each call.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from .db import NewSession, RoundResult, Session, SessionState, TrialStore, environment_digest, open_store
from .distil import distil_imported
from .errors import UsageError
from .exchange.importing import IMPORTERS, Figure, Hints, Log, beyond_topology, disagreeing, importer_for
from .exchange.words import LIBRARY_CHOICE
from .settings import Settings
from .table import DefaultRow, DefaultRules, TuningTable, native_defaults
from .topology.document import to_json
from .topology.fingerprint import fingerprint
from .topology.graph import Topology
from .types import Collective, Config, DType, Phase, Problem, ReduceOp, RuleKey, Sample, SampleKind, TrialState

SESSION_PREFIX = "imported:"
_BACKEND = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the user says about the logs of one import.

    Args:
        format_name: of the logs; None recognises it.
        backend: whose collectives ran; None is the format's.
        config: what ran, where the logs do not say it; None is the library's own choice.
        hints: what else the logs do not say.
    """

    format_name: str | None = None
    backend: str | None = None
    config: Config | None = None
    hints: Hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of an import.

    Args:
        session: that holds the figures.
        repeated: the same logs under the same setting were there already; nothing was stored again.
        table: what all imports of this machine and backend suggest together.
        notes: what was passed over or assumed.
        warnings: figures that contradict their own log, or the topology.
    """

    session: Session
    repeated: bool
    n_figures: int
    table: TuningTable
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    database: str


def import_logs(
    logs: Mapping[str, str], topology: Topology, setting: Setting, settings: Settings, *, command: str
) -> Imported:
    """Read all logs, then store them as one session, then distil every import of this machine and backend.

    Args:
        logs: texts by name. Several are repetitions under one setting.
        command: as the user typed it, kept with the session.

    Raises:
        AutotuneError: a log that cannot be read, or that is not of this topology; nothing was stored then.
    """
    read, backend = _read(logs, setting)
    results, assumed = _results(read, topology, backend, setting)
    notes = [f"{name}: {note}" for name, log in read.items() for note in log.notes] + assumed
    figures = [(name, figure) for name, log in read.items() for figure in log.figures]
    warnings = [f"{name}, {text}" for name, log in read.items() for text in _summed(disagreeing(log.figures))]
    checked, unchecked = beyond_topology(figures, topology, staging_bytes=settings.staging_bytes)
    with closing(open_store(settings.db)) as store:
        session, repeated = _stored(store, logs, topology, backend, setting, results, command)
        table = _table(store, topology, backend)
        database = store.shown
    return Imported(
        session=session,
        repeated=repeated,
        n_figures=len(figures),
        table=table,
        notes=(*notes, *unchecked),
        warnings=(*warnings, *checked),
        database=database,
    )


def library_defaults(backend: str) -> DefaultRules:
    """What runs where no rule decides: our shipped rules for the native backend, else the library's own choice."""
    if backend == "native":
        return native_defaults()
    choice = Config(algorithm=LIBRARY_CHOICE)
    rows = [
        DefaultRow(collective=collective, ranks_from=1, ranks_to=None, from_bytes=0, config=choice)
        for collective in Collective
    ]
    return DefaultRules(backend=backend, rows=tuple(rows))


def _read(logs: Mapping[str, str], setting: Setting) -> tuple[dict[str, Log], str]:
    read: dict[str, Log] = {}
    backends: set[str] = set()
    for name, text in logs.items():
        importer = IMPORTERS[setting.format_name] if setting.format_name else importer_for(text, name)
        backend = setting.backend or importer.backend
        if backend is None:
            raise UsageError(
                f"{name}: a log of {importer.name} does not say whose collectives ran",
                remedy="add --backend NAME, such as hccl, nccl, openmpi, mpich or native",
            )
        if not _BACKEND.match(backend):
            raise UsageError(f"backend {backend[:40]!r} is not a name in small letters", remedy="--backend hccl")
        backends.add(backend)
        read[name] = importer.parse(text, name, setting.hints)
    if len(backends) != 1:
        raise UsageError(f"the logs are of the backends {', '.join(sorted(backends))}", remedy="import them one by one")
    return read, backends.pop()


def _results(
    read: Mapping[str, Log], topology: Topology, backend: str, setting: Setting
) -> tuple[list[RoundResult], list[str]]:
    """A round result for each figure: rows that repeat are rounds."""
    rounds: Counter[tuple[Problem, Config]] = Counter()
    results, notes = [], list[str]()
    for name, log in read.items():
        for figure in log.figures:
            where = f"{name}, line {figure.line}"
            if figure.config is not None and setting.config is not None and setting.config != figure.config:
                raise UsageError(
                    f"{where}: --algorithm says {setting.config}, but the row names {figure.config}",
                    remedy="leave --algorithm and --set out",
                )
            config = figure.config or setting.config or Config(algorithm=LIBRARY_CHOICE)
            problem = _problem(figure, topology, backend, setting.hints, where)
            if figure.collective.computes and None in (
                figure.dtype or setting.hints.dtype,
                figure.op or setting.hints.op,
            ):
                notes.append(f"{name}: taken for float32 and sum, where the log does not say otherwise")
            number = rounds[problem, config]
            rounds[problem, config] += 1
            results.append(_result(figure, problem, config, number))
    return results, list(dict.fromkeys(notes))


def _problem(figure: Figure, topology: Topology, backend: str, hints: Hints, where: str) -> Problem:
    computes = figure.collective.computes
    dtype = figure.dtype or hints.dtype or DType.FLOAT32
    op = figure.op or hints.op or ReduceOp.SUM
    key = RuleKey(
        backend=backend,
        collective=figure.collective,
        dtype=dtype if computes else None,
        op_class=op.op_class if computes else None,
        n_ranks=figure.n_ranks,
        placement=tuple(sorted(figure.placement or _placement(topology, figure.n_ranks, where))),
    )
    return Problem(key=key, message_bytes=figure.message_bytes)


def _placement(topology: Topology, n_ranks: int, where: str) -> tuple[int, ...]:
    """Ranks on each host, the topology's devices being taken in their order."""
    devices = topology.rank_devices()
    if len(topology.hosts) == 1 and not topology.accelerators():
        return (n_ranks,)
    if n_ranks > len(devices):
        raise UsageError(
            f"{where}: {n_ranks} ranks, but the topology has room for {len(devices)}",
            remedy="give the topology that the log was measured on, or --hosts N of it",
        )
    hosts = [topology.host_of(device.id).id for device in devices[:n_ranks]]
    return tuple(Counter(hosts).values())


def _result(figure: Figure, problem: Problem, config: Config, number: int) -> RoundResult:
    if figure.time_us is None:
        return RoundResult(problem=problem, config=config, state=figure.state, message=figure.message)
    sample = Sample(
        kind=SampleKind.STEADY,
        phase=Phase.CONFIRM,
        round=number,
        position=0,
        batch_calls=figure.batch_calls,
        time_us=figure.time_us,
    )
    return RoundResult(problem=problem, config=config, sample=sample, state=TrialState.OK)


def _summed(found: Sequence[tuple[Figure, str]]) -> list[str]:
    """The first of several complaints of one kind, and how many there are."""
    if not found:
        return []
    more = f"; and {len(found) - 1} more figures like it" if len(found) > 1 else ""
    return [found[0][1] + more]


def _stored(
    store: TrialStore,
    logs: Mapping[str, str],
    topology: Topology,
    backend: str,
    setting: Setting,
    results: Sequence[RoundResult],
    command: str,
) -> tuple[Session, bool]:
    """The session of these logs under this setting: stored now, or before."""
    machine = fingerprint(topology)
    around = {"source": "imported", "logs": ", ".join(logs)}
    hints = {name: getattr(value, "value", value) for name, value in asdict(setting.hints).items()}
    said = {"backend": backend, "config": str(setting.config), "hints": hints, "fingerprint": machine}
    said["logs"] = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in logs.values()]
    plan_text = json.dumps(said, sort_keys=True)
    digest = hashlib.sha256(plan_text.encode()).hexdigest()[:32]
    for session in store.sessions():
        if session.plan_digest == digest and session.state is SessionState.FINISHED:
            return session, True
    store.add_topology(machine, to_json(topology))
    begun = store.resumable(digest, machine, environment_digest(around))
    new = NewSession(
        plan_digest=digest,
        plan_text=plan_text,
        fingerprint=machine,
        environment=around,
        backend=SESSION_PREFIX + backend,
        command=command,
    )
    session = begun or store.open_session(new)
    if begun is None or not store.trials(session_id=begun.session_id):
        store.add_round(session.session_id, results)
    store.finish_session(session.session_id)
    return session, False


def _table(store: TrialStore, topology: Topology, backend: str) -> TuningTable:
    machine = fingerprint(topology)
    own = [s for s in store.sessions() if (s.backend, s.fingerprint) == (SESSION_PREFIX + backend, machine)]
    trials = [trial for session in own for trial in store.trials(session_id=session.session_id)]
    return distil_imported(
        trials,
        defaults=library_defaults(backend),
        fingerprint=machine,
        environment={"imported": f"{len(own)} logs, sessions {', '.join(str(s.session_id) for s in own)}"},
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
