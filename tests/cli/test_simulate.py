"""``autotune simulate``: whole texts for known machines, tables that only those get who ask, and what it refuses.

UPDATE_GOLDEN=1 rewrites the texts in tests/golden/simulate.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.session import Here

from autotune.runtime import Selector
from autotune.table import load_table, native_defaults
from autotune.topology.document import to_json
from autotune.topology.machines import machine
from autotune.types import Evidence

GOLDEN = Path(__file__).parents[1] / "golden" / "simulate"
A2 = ("--topology", "atlas-800t-a2", "--collective", "all_reduce")
COMMANDS = {
    "a2-four-hosts": (*A2, "--hosts", "4", "--sizes", "1K-256MiB"),
    "a2-scaling": (*A2, "--ranks", "32", "--sizes", "64K,16M", "--scaling"),
    "a3-all-to-all": ("--topology", "atlas-800t-a3", "--collective", "all_to_all", "--sizes", "4K,4M"),
    "host-broadcast": (
        "--topology",
        "two-socket-host",
        "--collective",
        "broadcast",
        "--sizes",
        "1K,1M",
        "--ranks",
        "8",
    ),
    "large-cluster": (*A2, "--hosts", "256", "--sizes", "1M"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_whole_texts(name: str, here: Here) -> None:
    done = here("simulate", *COMMANDS[name])
    assert (done.code, done.err) == (0, "")
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(done.out, "utf-8")
    assert done.out == path.read_text("utf-8"), "UPDATE_GOLDEN=1 pytest tests/cli/test_simulate.py writes it again"


def test_a_file_prices_as_the_machine_that_it_came_from(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    path.write_text(to_json(machine("dgx-h100", n_hosts=1)), "utf-8")
    words = ("--collective", "all_gather", "--sizes", "1M", "--json")
    named, filed = (here("simulate", "--topology", where, *words) for where in ("dgx-h100", str(path)))
    assert filed.document["topology"] == "here.json"
    assert filed.document["predictions"] == named.document["predictions"]


@pytest.mark.parametrize("source", ["probe --json", "a recording"])
def test_what_probe_wrote_is_a_topology(source: str, here: Here, tmp_path: Path) -> None:
    recording = GOLDEN.parent / "machines" / "a100-8x-nvswitch" / "recording.json"
    path = recording
    if source == "probe --json":
        path = tmp_path / "here.json"
        path.write_text(here("probe", "--from", str(recording), "--json").out, "utf-8")
    done = here("simulate", "--topology", str(path), "--collective", "all_reduce", "--sizes", "1M", "--json")
    assert (done.code, [one["n_ranks"] for one in done.document["predictions"]]) == (0, [8])


def test_a_host_of_cpus_may_have_more_ranks_than_cores(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_text(to_json(machine("two-socket-host", n_hosts=1)), "utf-8")
    done = here(
        "simulate", "--topology", str(path), "--collective", "all_reduce", "--ranks", "20", "--sizes", "8", "--json"
    )
    (prediction,) = done.document["predictions"]
    assert (prediction["n_ranks"], prediction["utilisation"]) == (20, None)
    assert prediction["time_us"] > 1


def test_the_table_serves_those_who_ask_for_simulated_evidence(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "simulated.json"
    done = here("simulate", *A2, "--hosts", "2", "--sizes", "1K-64M", "--output", str(path))
    assert done.code == 0
    assert "simulated rules" in done.err
    table = load_table(path)
    (rules,) = table.rules.values()
    assert {rule.evidence for rule in rules} == {Evidence.SIMULATED}
    assert rules[-1].config.algorithm == "hierarchical"
    selector = Selector(table)
    call = {"message_bytes": 64 << 20, "n_ranks": 16, "placement": (8, 8)}
    unasked = selector.select("all_reduce", **call)  # type: ignore[arg-type]  # one dict for three types
    assert not unasked.tuned
    assert unasked.config == native_defaults().lookup(next(iter(table.rules)), 64 << 20)
    asked = selector.select("all_reduce", evidence=("simulated",), **call)  # type: ignore[arg-type]  # as above
    assert (asked.tuned, asked.evidence, asked.config) == (True, Evidence.SIMULATED, rules[-1].config)


def test_a_scaling_table_has_a_key_for_each_rank_count(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "simulated.json"
    done = here("simulate", *A2, "--ranks", "32", "--sizes", "1M", "--scaling", "--output", str(path), "--json")
    assert [one["n_ranks"] for one in done.document["predictions"]] == [2, 4, 8, 16, 32]
    assert sorted(key.n_ranks for key in load_table(path).rules) == [2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--topology", "atlas-800t-a9", "--collective", "all_reduce"), "atlas-800t-a2", 2),
        ((*A2, "--ranks", "12", "--hosts", "2"), "12 ranks do not fill hosts of 8", 2),
        ((*A2, "--hosts", "0"), "--hosts", 2),
        ((*A2, "--sizes", "1KB"), "ambiguous", 2),
        (("--topology", "atlas-300i-duo", "--collective", "all_reduce", "--hosts", "2"), "2 hosts", 2),
        (("--topology", "atlas-800t-a2", "--collective", "allreduce"), "all_reduce", 2),
    ],
)
def test_what_cannot_be_meant(words: tuple[str, ...], said: str, code: int, here: Here) -> None:
    here("simulate", *words).assert_refused(said, code=code)


def test_a_model_fitted_to_the_machine_s_own_trials(tuned_here: Here, tmp_path: Path) -> None:
    """A broadcast was measured; what that says of messages and copies changes the price of an all_reduce."""
    path = tmp_path / "host.json"
    path.write_text(tuned_here("probe", "--no-measure", "--json").out, "utf-8")
    words = ("simulate", "--topology", str(path), "--collective", "all_reduce", "--sizes", "1K", "--ranks", "2")
    usual, fitted = (tuned_here(*words, "--json", *more).document["predictions"] for more in ((), ("--fit",)))
    assert [one["n_ranks"] for one in fitted] == [one["n_ranks"] for one in usual]
    assert fitted[0]["time_us"] != usual[0]["time_us"]


def test_what_nothing_was_measured_of_is_not_fitted(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_text(to_json(machine("two-socket-host", n_hosts=1)), "utf-8")
    words = ("--collective", "all_reduce", "--sizes", "1K", "--fit")
    here("simulate", "--topology", str(path), *words).assert_refused("no trials of it", "autotune run", code=2)
    here("simulate", *A2[:2], *words).assert_refused("--fit is for a topology from a file", code=2)


def test_a_file_that_is_no_topology_is_refused(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "no.json"
    path.write_text("{}", "utf-8")
    here("simulate", "--topology", str(path), "--collective", "all_reduce").assert_refused(code=1)
    path.write_text(to_json(machine("dgx-h100", n_hosts=1)), "utf-8")
    words = ("--topology", str(path), "--collective", "all_reduce", "--hosts", "2")
    here("simulate", *words).assert_refused("--hosts 2", code=2)
