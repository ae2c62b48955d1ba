"""Machines and the tables that came of their runs. Part of the store's contract."""

from __future__ import annotations

from autotune.db import (
    TrialStore,
)

from .values import is_recent, opened


class Tables:
    def test_the_last_description_of_a_topology_counts(self, store: TrialStore) -> None:
        store.add_topology("f1", '{"host": "a"}')
        store.add_topology("f1", '{"host": "b"}')
        assert store.topology("f1") == '{"host": "b"}'
        assert store.topology("f2") is None

    def test_tables_are_versions_of_which_the_newest_counts(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        versions = [
            store.add_table(session_id, '{"a": 1}\n', "f1", "d1", backend="native"),
            store.add_table(None, '{"b": 1}\n', "f2", "d2", backend="native"),
            store.add_table(session_id, '{"a": 2}\n', "f1", "d1", backend="native"),
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

    def test_each_backend_has_tables_of_its_own(self, store: TrialStore) -> None:
        for number, backend in enumerate(("native", "torch", "native", "openmpi")):
            store.add_table(None, "{}", "f1", f"d{number}", backend=backend)
        found = {backend: store.newest_table("f1", backend) for backend in ("native", "torch", "openmpi", "hccl")}
        assert {backend: table and table.digest for backend, table in found.items()} == {
            "native": "d2",
            "torch": "d1",
            "openmpi": "d3",
            "hccl": None,
        }
        assert store.newest_table("f1") == found["openmpi"]

    def test_a_host_finds_its_clusters_table_unless_it_has_one_of_its_own(self, store: TrialStore) -> None:
        for digest in ("old", "new"):
            store.add_table(None, "{}", "c1", digest, backend="torch", host_fingerprints=("c1", "h1", "h2"))
        store.add_table(None, "{}", "h2", "own", backend="torch")
        store.add_table(None, "{}", "c1", "shrunk", backend="native", host_fingerprints=("h3",))

        def digest(fingerprint: str, backend: str | None = None) -> str | None:
            found = store.newest_table(fingerprint, backend)
            return None if found is None else found.digest

        assert [digest(host, "torch") for host in ("c1", "h1", "h2", "h3")] == ["new", "new", "own", None]
        assert [digest(host) for host in ("c1", "h1", "h2", "h3")] == ["shrunk", "new", "own", "shrunk"]

    def test_machines_are_those_with_runs_or_tables(self, store: TrialStore) -> None:
        store.add_topology("f0", '{"nobody": "ran"}')
        opened(store)
        last = opened(store).created_at
        for digest in ("d1", "d2"):
            store.add_table(None, "{}", "f1", digest, backend="native", host_fingerprints=("h1",))
        store.add_table(None, "{}", "f1", "d3", backend="hccl")
        store.add_table(None, "{}", "f2", "d4", backend="native")
        first, second = store.machines()
        assert (first.fingerprint, first.description, first.n_sessions, first.last_session_at) == ("f1", "{}", 2, last)
        assert [(info.backend, info.digest) for info in first.tables] == [("hccl", "d3"), ("native", "d2")]
        assert (second.fingerprint, second.description, second.n_sessions) == ("f2", None, 0)
        assert second.last_session_at is None
        assert [info.version for info in second.tables] == [store.tables()[-1].version]
