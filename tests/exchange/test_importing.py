"""From logs to a table: what is stored, what wins where, what contradicts the topology, and what stays apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from exchange import logs, readers

from autotune import select
from autotune.db import TrialStore, open_store
from autotune.distil import distil
from autotune.errors import UsageError
from autotune.exchange import EXPORTERS, Request
from autotune.exchange.importing import IMPORTERS, Hints
from autotune.importing import Imported, Setting, import_logs, library_defaults
from autotune.settings import Settings, read
from autotune.table import TuningTable, dump_table, parse_table
from autotune.topology.document import from_json
from autotune.topology.graph import Topology
from autotune.topology.machines import machine
from autotune.types import Collective, Config, Evidence, SampleKind

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(read({"HOME": str(tmp_path)}), db=str(tmp_path / "trials.sqlite"))


@pytest.fixture
def store(settings: Settings) -> Iterator[TrialStore]:
    with closing(open_store(settings.db)) as opened:
        yield opened


@pytest.fixture
def eight() -> Topology:
    return from_json((EXAMPLES / "eight_npus.json").read_text())


def imported(text: str | dict[str, str], topology: Topology, settings: Settings, **said: object) -> Imported:
    texts = {"log.txt": text} if isinstance(text, str) else text
    hints = {name: said.pop(name) for name in ("collective", "n_ranks", "dtype", "op") if name in said}
    setting = Setting(hints=Hints(seats=8, **hints), **said)  # type: ignore[arg-type] # the fields of both
    return import_logs(texts, topology, setting, settings, command="autotune import log.txt")


def chosen(table: TuningTable, size: int, collective: str = "all_reduce") -> str:
    found = select(collective, message_bytes=size, n_ranks=8, backend="hccl", evidence=("imported",), table=table)
    assert found.evidence is Evidence.IMPORTED
    return str(found.config)


def test_the_articles_give_tree_for_small_messages_and_ring_for_large_ones(eight: Topology, settings: Settings) -> None:
    result = imported((EXAMPLES / "eight_npus.csv").read_text(), eight, settings, backend="hccl")
    assert [chosen(result.table, size) for size in (1_000_000, 16_000_000, 256_000_000)] == ["tree", "ring", "ring"]
    assert chosen(result.table, 16_000_000, "all_gather") == "ring"
    assert any(
        "256000000 bytes in 320 us means 1,400 GB/s of bus bandwidth, above the 392 GB/s that the topology has" in text
        for text in result.warnings
    )
    not_asked = select("all_reduce", message_bytes=1_000_000, n_ranks=8, backend="hccl", table=result.table)
    assert (not_asked.tuned, not_asked.config.algorithm) == (False, "auto")
    assert parse_table(dump_table(result.table), "back") == result.table


def test_two_logs_under_two_settings_say_which_wins_where(eight: Topology, settings: Settings) -> None:
    own = dict(collective=Collective.ALL_REDUCE)
    imported(logs.HCCL_TEST, eight, settings, **own)
    other = logs.HCCL_TEST.replace(" 20.00", " 10.00").replace(" 100.00", " 300.00")
    nhr = Config(algorithm="NHR", knobs=(("HCCL_BUFFSIZE", 400),))
    table = imported(other, eight, settings, config=nhr, **own).table
    assert [chosen(table, size) for size in (1024, 65536, 1 << 20)] == ["auto", "NHR/HCCL_BUFFSIZE=400", "auto"]
    [rules] = table.rules.values()
    assert [rule.is_default for rule in rules] == [True, False, True]
    assert (rules[1].gain, rules[1].n_rounds) == (2.0, 1)
    assert rules[1].low_us == rules[1].median_us == rules[1].high_us == 10.0


def test_repetitions_have_an_interval_and_overlapping_ones_change_nothing(eight: Topology, settings: Settings) -> None:
    def times(*values: float) -> dict[str, str]:
        return {
            f"{i}.csv": f"collective,n_ranks,message_bytes,time_us\nall_reduce,8,1024,{v}\n"
            for i, v in enumerate(values)
        }

    before = imported(times(9, 10, 10, 10, 11, 14, 10), eight, settings, backend="hccl").table
    [[rule]] = before.rules.values()
    assert (rule.n_rounds, rule.median_us, rule.low_us, rule.high_us) == (7, 10.0, 9.0, 14.0)
    noisy = Config(algorithm="ring")
    [[rule]] = imported(
        times(8, 9, 9, 9, 9.5, 10, 9), eight, settings, backend="hccl", config=noisy
    ).table.rules.values()
    assert rule.config.algorithm == "auto"
    clear = Config(algorithm="NHR")
    [[rule]] = imported(times(4, 5, 5, 5, 5, 6, 5), eight, settings, backend="hccl", config=clear).table.rules.values()
    assert rule.config == clear
    assert rule.gain == 2.0
    assert (rule.gain_low, rule.gain_high) == (9.0 / 6.0, 14.0 / 4.0)


def test_a_newer_log_of_a_setting_takes_the_place_of_an_older(eight: Topology, settings: Settings) -> None:
    own = dict(collective=Collective.ALL_REDUCE)
    imported(logs.HCCL_TEST, eight, settings, **own)
    table = imported(logs.HCCL_TEST.replace(" 10.00", " 7.00"), eight, settings, **own).table
    [rules] = table.rules.values()
    assert (rules[0].median_us, rules[0].n_rounds) == (7.0, 1)


def test_the_same_logs_are_stored_once(eight: Topology, settings: Settings, store: TrialStore) -> None:
    own = dict(collective=Collective.ALL_REDUCE)
    first = imported(logs.HCCL_TEST, eight, settings, **own)
    again = imported(logs.HCCL_TEST, eight, settings, **own)
    assert (first.repeated, again.repeated) == (False, True)
    assert first.session.session_id == again.session.session_id
    assert len(store.trials()) == 3
    other = imported(logs.HCCL_TEST, eight, settings, config=Config(algorithm="ring"), **own)
    assert not other.repeated


def test_an_import_that_was_killed_halfway_is_finished_by_the_next(
    eight: Topology, settings: Settings, store: TrialStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune.db.sql_store import SqlStore

    def killed(self: SqlStore, session_id: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SqlStore, "finish_session", killed)
        with pytest.raises(KeyboardInterrupt):
            imported(logs.HCCL_TEST, eight, settings, collective=Collective.ALL_REDUCE)
    result = imported(logs.HCCL_TEST, eight, settings, collective=Collective.ALL_REDUCE)
    assert not result.repeated
    assert len(store.trials()) == 3
    assert [session.state.value for session in store.sessions()] == ["finished"]


def test_what_was_imported_is_never_taken_for_a_measurement(
    eight: Topology, settings: Settings, store: TrialStore
) -> None:
    result = imported(logs.PLAIN, eight, settings, backend="native")
    assert result.session.backend == "imported:native"
    assert dict(result.session.environment)["source"] == "imported"
    assert {s.kind for trial in store.trials() for s in trial.samples} == {SampleKind.STEADY}
    measured = distil(
        store.trials(),
        defaults=library_defaults("native"),
        reference=lambda problem: None,
        fingerprint="0123456789abcdef",
        environment={},
        created_at="2026-01-31T12:00:00Z",
    )
    assert measured.rules == {}


def test_failed_rows_are_kept_as_failures_and_choose_nothing(
    eight: Topology, settings: Settings, store: TrialStore
) -> None:
    table = imported(logs.HCCL_TEST_RANKS, eight, settings, collective=Collective.ALL_REDUCE).table
    [rules] = table.rules.values()
    assert [(rule.from_bytes, rule.to_bytes) for rule in rules] == [(1024, 1025)]
    assert [trial.state.value for trial in store.trials()] == ["ok", "wrong_result"]


def test_a_log_of_more_ranks_than_the_topology_has_is_refused(
    eight: Topology, settings: Settings, store: TrialStore
) -> None:
    with pytest.raises(UsageError, match="16 ranks, but the topology has room for 8"):
        imported(logs.HCCL_TEST, eight, settings, collective=Collective.ALL_REDUCE, n_ranks=16)
    assert store.sessions() == []


def test_ranks_are_placed_on_the_hosts_of_the_topology(settings: Settings) -> None:
    two = machine("atlas-800t-a2", n_hosts=2)
    table = imported(logs.HCCL_PROFILE, two, settings).table
    assert {key.placement for key in table.rules} == {(8, 8)}
    table = imported(logs.HCCL_TEST, two, settings, collective=Collective.ALL_REDUCE, n_ranks=16).table
    assert {key.placement for key in table.rules} == {(8, 8)}


@pytest.mark.parametrize(
    ("text", "said", "says"),
    [
        (logs.OSU, {}, "does not say whose collectives ran"),
        (logs.PLAIN, {"backend": "HCCL!"}, "is not a name"),
        (
            logs.PLAIN,
            {"backend": "hccl", "config": Config(algorithm="flat")},
            "--algorithm says flat, but the row names ring",
        ),
        ({"a": logs.NCCL, "b": logs.HCCL_TEST}, {"collective": Collective.ALL_REDUCE}, "backends hccl, nccl"),
    ],
)
def test_what_logs_leave_out_or_contradict_is_refused(
    eight: Topology, settings: Settings, text: str | dict[str, str], said: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        imported(text, eight, settings, **said)


def test_bandwidths_that_the_log_itself_contradicts_are_warned_of(eight: Topology, settings: Settings) -> None:
    result = imported(logs.PLAIN.replace("145.8", "83.33"), eight, settings, backend="hccl")
    assert any(
        "prints 83.33 GB/s of bus bandwidth, but size and time of 8 ranks give 145.8" in w for w in result.warnings
    )
    assert len(result.warnings) == 1


def test_the_vendor_s_sweep_becomes_the_vendor_s_rules(settings: Settings) -> None:
    table = imported(logs.HCCL_PROFILE, machine("atlas-950", n_hosts=2), settings).table
    asked = Request(evidence=frozenset({Evidence.IMPORTED}))
    decide = readers.hccl_json(EXPORTERS["hccl-tuner"].render(table, asked).text)
    assert decide("allreduce", 16, 8192) == "meshoneshot"
    assert decide("allgather", 16, 8192 // 16) == "mesh"
    assert decide("allreduce", 16, 8193) is None


@pytest.mark.parametrize("name", IMPORTERS)
def test_every_format_ends_in_a_table(name: str, eight: Topology, settings: Settings) -> None:
    topology = machine("atlas-800t-a2", n_hosts=2) if name == "hccl-profile" else eight
    said: dict[str, object] = {"backend": "openmpi"} if IMPORTERS[name].backend is None else {}
    if name in ("hccl_test", "msmodeling"):
        said["collective"] = Collective.ALL_REDUCE
    if name == "osu":
        said["n_ranks"] = 4
    result = imported(logs.LOGS[name], topology, settings, **said)
    assert result.table.rules
    assert all(rule.evidence is Evidence.IMPORTED for rules in result.table.rules.values() for rule in rules)
    assert json.loads(dump_table(result.table))["rules"]
