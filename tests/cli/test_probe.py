"""probe: saved and built again, from folders of others, as a tree, a matrix, JSON and a picture; refusals."""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cli.session import Here, Shell

from autotune.topology.document import from_json
from autotune.topology.fingerprint import cached_fingerprint, fingerprint
from autotune.topology.links import Provenance
from autotune.topology.recording_file import from_json as recording_from_json

ROOT = Path(__file__).parents[2]
MACHINES = ROOT / "tests" / "golden" / "machines"
LLDP = MACHINES / "cluster-a2-lldp" / "recording"
PAGE = (ROOT / "docs" / "topology.md").read_text("utf-8")
TABLE = MACHINES / "cluster-a2-rank-table" / "recording" / "hccl.json"


def test_what_is_saved_builds_the_same_host(here: Here, tmp_path: Path) -> None:
    saved = here("probe", "--no-measure", "--save", str(tmp_path / "rec"))
    assert saved.code == 0
    assert saved.err.splitlines() == ["reading the host", f"recorded in {tmp_path}/rec/recording.json"]
    again = here("probe", "--from", str(tmp_path / "rec"))
    assert (again.code, again.err) == (0, "")
    assert again.out == saved.out.replace("host: ", "host rec: ", 1)
    assert again.out.splitlines()[-1] == f"fingerprint {cached_fingerprint(tmp_path / 'cache')}"


def test_a_saved_recording_holds_nothing_of_the_user(shell: Shell, tmp_path: Path) -> None:
    """What docs/topology.md says is recorded, and no more: no name of the host, no address, no file of the home."""
    marked = replace(shell, variables={"HOME": "/home/somebody", "SECRET_TOKEN": "s3cret"})
    assert marked("probe", "--no-measure", "--save", str(tmp_path / "rec")).code == 0
    text = (tmp_path / "rec" / "recording.json").read_text("utf-8")
    assert "somebody" not in text
    assert "s3cret" not in text
    places = recording_from_json(text, "x")
    known = ("/dev/shm", "/proc/", "/sys/", "/etc/hccn.conf", "npu-smi ", "hccn_tool ", "nvidia-smi ", "rocm-smi ")
    assert [place for place in places if not place.startswith(known)] == []
    assert not any(place.endswith(("/address", "hostname", "/proc/self/environ")) for place in places)


def test_no_measure_leaves_no_measured_link(here: Here) -> None:
    topology = from_json(json.dumps(here("probe", "--no-measure", "--json").document["topology"]))
    assert [link for link in topology.links.values() if link.source is Provenance.PROBE] == []


def test_from_builds_a_cluster_whatever_the_order(here: Here) -> None:
    folders = [str(LLDP / name) for name in ("hostb", "hosta")]
    one, other = here("probe", "--from", *folders), here("probe", "--from", folders[1], "--from", folders[0])
    assert one.code == 0
    assert one.out == other.out == here("probe", "--from", str(LLDP)).out
    assert "switch 00:00:5e:00:53:01: joins 4 network interfaces" in one.out


def test_from_fills_in_what_the_datasheet_says_of_a_known_machine(here: Here) -> None:
    topology = from_json(json.dumps(here("probe", "--from", str(LLDP), "--json").document["topology"]))
    assert {link.source for link in topology.links.values()} == {Provenance.DATASHEET}


def test_from_does_not_touch_this_host_s_fingerprint(here: Here, tmp_path: Path) -> None:
    here("probe", "--from", str(LLDP))
    assert cached_fingerprint(tmp_path / "cache") is None


def test_json_is_a_topology_that_from_reads(here: Here, tmp_path: Path) -> None:
    printed = here("probe", "--from", str(LLDP), "--json")
    (tmp_path / "cluster.json").write_text(printed.out, "utf-8")
    again = here("probe", "--from", str(tmp_path / "cluster.json"), "--json")
    assert again.document == printed.document
    assert fingerprint(from_json(json.dumps(again.document["topology"]))) == again.document["fingerprint"]


def test_matrix(here: Here) -> None:
    lines = here("probe", "--from", str(LLDP), "--matrix").out.splitlines()
    assert any(line.split()[:5] == ["NPU1", "HCCS", "X", "HCCS", "HCCS"] for line in lines)


def test_svg(here: Here, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot: matplotlib not importable")
    found = here("probe", "--from", str(LLDP), "--svg", str(tmp_path / "x.svg"))
    assert (found.code, found.err) == (0, f"drawn in {tmp_path}/x.svg\n")
    assert "<svg" in (tmp_path / "x.svg").read_text("utf-8")


def test_the_rank_table_of_the_job_puts_this_host_among_the_others(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone = here("probe", "--no-measure").out.splitlines()[-1]
    monkeypatch.setenv("RANK_TABLE_FILE", str(TABLE))
    found = here("probe", "--no-measure", "--save", str(tmp_path / "rec"))
    assert "203.0.113.6" in found.out
    assert f"fingerprint {cached_fingerprint(tmp_path / 'cache')}" == alone
    assert "RANK_TABLE_FILE" in json.loads((tmp_path / "rec" / "recording.json").read_text("utf-8"))


def test_a_damaged_rank_table_says_all_faults_in_one_line(here: Here, tmp_path: Path) -> None:
    table = json.loads(TABLE.read_text("utf-8"))
    table["server_list"][1]["device"][0]["rank_id"] = "0"
    table["server_count"] = "9"
    (tmp_path / "hccl.json").write_text(json.dumps(table), "utf-8")
    here("probe", "--from", str(tmp_path / "hccl.json")).assert_refused(
        "$.server_count", "$.server_list[1].device[0].rank_id", "no device has rank 8"
    )


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["--from", "nothing-there"], ["nothing-there cannot be read"], 1),
        (["hosta"], ["'PATH' comes after --from"], 2),
        (["--from", str(LLDP), "--save", "x"], ["'--save' is about this host"], 2),
        (["--from", str(Path(__file__))], ["which is none of the kinds known", "npu-smi info"], 1),
        (["--backend", "smoke"], ["--backend 'smoke' is none of native, torch"], 2),
        (["--from", str(LLDP), "--svg", "/nowhere/x.svg"], ["cannot be written"], 1),
    ],
)
def test_refuses(here: Here, words: list[str], said: list[str], code: int) -> None:
    if "--svg" in words:
        pytest.importorskip("matplotlib", reason="needs the extra plot: matplotlib not importable")
    here("probe", *words).assert_refused(*said, code=code)


def test_the_torch_backend_measures_pairs_of_this_host(shell: Shell) -> None:
    pytest.importorskip("torch", reason="needs torch: not importable")
    found = shell("probe", "--backend", "torch", "--json")
    assert found.code == 0, found.err
    topology = from_json(json.dumps(found.document["topology"]))
    measured = [link for link in topology.links.values() if link.source is Provenance.PROBE]
    assert len(measured) == 2 * found.err.count("measuring ")
    assert all(link.latency_us and link.bandwidth_gb_per_s for link in measured)


def test_a_job_of_torchrun_measures_between_its_ranks(shell: Shell) -> None:
    pytest.importorskip("torch", reason="needs torch: not importable")
    import subprocess

    words = ["--standalone", "--nproc-per-node", "2", "-m", "autotune", "probe", "--backend", "torch", "--json"]
    environment = {**shell.environment, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words],
        env=environment,
        cwd=shell.home,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)  # one rank prints
    topology = from_json(json.dumps(document["topology"]))
    assert [host.name for host in topology.hosts] == ["rank 0"]
    assert len([link for link in topology.links.values() if link.source is Provenance.PROBE]) == 2
    assert "ranks 0 and 1" in done.stderr


def test_torch_without_torch_is_a_clear_error(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    here("probe", "--backend", "torch").assert_refused("the backend torch needs PyTorch", "pip install torch")


def test_torch_in_a_job_without_a_local_rank_is_a_clear_error(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch: not importable")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    here("probe", "--backend", "torch").assert_refused("LOCAL_RANK is not set", "torchrun", code=2)


def test_every_command_of_the_documentation_runs(here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the order of the page, in a folder that has the recordings; the other two backends have tests of their own."""
    commands = [shlex.split(line) for line in re.findall(r"^    autotune (probe.*)$", PAGE, re.MULTILINE)]
    assert len(commands) >= 10
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    for words in commands:
        if "--svg" in words:
            pytest.importorskip("matplotlib", reason="needs the extra plot: matplotlib not importable")
        if "torch" not in words:
            found = here(*words)
            assert found.code == 0, (words, found.err)
            assert found.out or "no matrix: " in found.err


@pytest.mark.parametrize("name", ["cluster-a2-rank-table", "cluster-a3-super-pod", "cluster-950-rank-table-2"])
def test_every_kind_of_source_builds_from_the_command_line(here: Here, name: str) -> None:
    found = here("probe", "--from", str(MACHINES / name / "recording"), "--json")
    assert (found.code, found.err) == (0, "")
    assert from_json(json.dumps(found.document["topology"])).hosts
