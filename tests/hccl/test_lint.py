"""``autotune doctor --env``: every kind of fault planted once and found at its place; good scripts stay quiet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.session import Here

from autotune.hccl import Soc
from autotune.hccl.facts import Weight
from autotune.hccl.installed import torch_npu_fault
from autotune.hccl.lint import EnvFinding, lint, lint_moe
from autotune.hccl.moe import MoeShape
from autotune.hccl.script import environment_script, read_script

GOOD = """#!/bin/bash
# export HCCL_ALGO=nonsense
source /usr/local/Ascend/ascend-toolkit/set_env.sh
export HCCL_ALGO="level0:NA;level1:NHR"  # between servers
export HCCL_BUFFSIZE=${HCCL_BUFFSIZE:-400}
export HCCL_CONNECT_TIMEOUT=$(cat /etc/timeout)
HCCL_RDMA_TC=132 python train.py
"""


def found(text: str, soc: Soc | None = Soc.A2) -> list[EnvFinding]:
    return lint(read_script(text, "start.sh"), "start.sh", soc)


def where(finding: EnvFinding) -> tuple[int, int] | None:
    return None if finding.place is None else (finding.place.line, finding.place.column)


@pytest.mark.parametrize("soc", [Soc.A2, Soc.A3, Soc.A910])
def test_a_good_script_is_left_in_peace(soc: Soc) -> None:
    assert found(GOOD, soc) == []


@pytest.mark.parametrize(
    ("text", "place", "weight", "what"),
    [
        ("export HCCL_ALGO=level0:NA;level1:ring", (1, 8), Weight.ERROR, "ends at an unquoted ';'"),
        ("HCCL_ALGO=level0:NA;level1:ring prog", (1, 1), Weight.ERROR, "ends at an unquoted ';'"),
        ("export HCCL_ALGO='level0:NA;levrl1:ring'", (1, 29), Weight.ERROR, "level 'levrl1' is unknown"),
        ("export HCCL_BUFSIZE=400", (1, 8), Weight.ERROR, "HCCL_BUFSIZE is no variable of HCCL"),
        ("export HCLL_BUFFSIZE=400", (1, 8), Weight.ERROR, "HCLL_BUFFSIZE is no variable of HCCL"),
        ("export HCCL_MAGIC_MODE=1", (1, 8), Weight.WARNING, "is not known to autotune"),
        ("HCCL_BUFFSIZE=400\nprog", (1, 1), Weight.WARNING, "is set, but not exported"),
        ("\n  export HCCL_BUFFSIZE=x", (2, 10), Weight.ERROR, "HCCL_BUFFSIZE=x"),
        ("export HCCL_TUNER_PLUGIN=/x.so", (1, 8), Weight.WARNING, "does nothing here"),
        ("export HCCL_OP_EXPANSION_MODE=AIV", (1, 8), Weight.WARNING, "AIV for every communicator"),
        ("export HCCL_MULTI_QP_THRESHOLD=64", (1, 8), Weight.WARNING, "without several queue pairs"),
        ("export HCCL_DETERMINISTIC=true HCCL_ALGO='level1:pipeline'", (1, 8), Weight.WARNING, "pipeline under"),
        ("export RANK_TABLE_FILE=/x HCCL_CONNECT_TIMEOUT=120", (1, 8), Weight.WARNING, "a rank table with a short"),
        ("HCCL_INTRA_PCIE_ENABLE=1 HCCL_INTRA_ROCE_ENABLE=1 prog", (1, 1), Weight.ERROR, "PCIe and RoCE"),
    ],
)
def test_a_planted_fault_is_found_at_its_place(text: str, place: tuple[int, int], weight: Weight, what: str) -> None:
    findings = found(text)
    assert [(where(one), one.weight, what in one.what) for one in findings] == [(place, weight, True)], findings
    assert all(one.why and one.source and one.remedy for one in findings)


def test_aiv_beside_mc2_operators_hangs() -> None:
    findings = found("export HCCL_OP_EXPANSION_MODE=AIV VLLM_ASCEND_ENABLE_FUSED_MC2=1")
    assert findings[0].what == "AIV beside MC2 operators (VLLM_ASCEND_ENABLE_FUSED_MC2)"
    assert findings[0].weight is Weight.ERROR
    assert found("export HCCL_OP_EXPANSION_MODE=AI_CPU VLLM_ASCEND_ENABLE_FUSED_MC2=1") == []


def test_settings_of_two_commands_are_not_mixed() -> None:
    assert found("HCCL_INTRA_PCIE_ENABLE=1 a\nHCCL_INTRA_ROCE_ENABLE=1 HCCL_INTRA_PCIE_ENABLE=0 b") == []


def test_what_the_script_replaces_later_does_not_conflict() -> None:
    text = (
        "export HCCL_OP_EXPANSION_MODE=AIV\nexport HCCL_OP_EXPANSION_MODE=HOST\nexport VLLM_ASCEND_ENABLE_FUSED_MC2=1"
    )
    assert found(text) == []


def test_a_setting_copied_from_another_chip_does_nothing_here() -> None:
    text = "export HCCL_ALGO='level0:NA;level1:NHR'"
    assert found(text, Soc.A2) == []
    (finding,) = found(text, Soc.A310P)
    assert (finding.weight, finding.why) == (Weight.WARNING, "HCCL_ALGO is not supported on 310P")


def test_without_a_chip_only_what_is_wrong_everywhere_is_said() -> None:
    assert found("export HCCL_OP_EXPANSION_MODE=HOST HCCL_BUFFSIZE=400", None) == []
    assert [one.what for one in found("export HCCL_BUFFSIZE=0", None)] == ["HCCL_BUFFSIZE=0"]


def test_the_environment_has_no_lines() -> None:
    (finding,) = lint(environment_script({"HCCL_BUFFSIZE": "0", "HOME": "/"}), "environment", Soc.A2)
    assert finding.where == "environment"


def test_a_buffer_below_the_minimum_of_moe_is_an_error() -> None:
    shape = MoeShape(n_ranks=16, tokens=128, hidden=7168, experts=256, top_k=8)
    (finding,) = lint_moe(read_script("export HCCL_BUFFSIZE=400", "s"), "s", Soc.A2, shape, "fullmesh", 0)
    assert (where(finding), finding.remedy.startswith("export HCCL_BUFFSIZE=452")) == ((1, 8), True)
    assert lint_moe(read_script("export HCCL_BUFFSIZE=452", "s"), "s", Soc.A2, shape, "fullmesh", 0) == []
    (default,) = lint_moe(read_script("", "s"), "s", Soc.A2, shape, "fullmesh", 0)
    assert default.place is None


def test_torch_npu_without_cann(tmp_path: Path) -> None:
    def all_installed(name: str) -> bool:
        return True

    fault = torch_npu_fault({}, str(tmp_path), all_installed)
    assert fault is not None
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in fault[1]
    assert torch_npu_fault({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, str(tmp_path), all_installed) is None
    assert torch_npu_fault({}, str(tmp_path), lambda name: False) is None
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libhccl.so").touch()
    assert torch_npu_fault({"ASCEND_HOME_PATH": str(tmp_path)}, str(tmp_path), all_installed) is None


def test_doctor_says_why_torch_does_not_load(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name on the path is all that torch looks at, too."""
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text("raise ImportError('libhccl.so: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("TORCH_DEVICE_BACKEND_AUTOLOAD", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    for words in (("doctor",), ("doctor", "--env")):
        done = here(*words)
        assert done.code == 1
        assert "`import torch` fails" in done.out
        assert "export TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.out
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    assert here("doctor", "--env").code == 0


def test_the_command_reads_a_file_and_exits_with_1_on_errors(here: Here, tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text("export HCCL_ALGO=level0:NA;level1:ring\n")
    done = here("doctor", "--env", str(script), "--soc", "A2", "--json")
    assert done.code == 1
    (finding,) = json.loads(done.out)["findings"]
    assert (finding["line"], finding["column"], finding["severity"]) == (1, 8, "error")
    script.write_text(GOOD)
    assert here("doctor", "--env", str(script), "--soc", "A2").code == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("doctor", "start.sh"), "comes with --env"),
        (("doctor", "--env", "--ranks", "2"), "'--ranks' is about this host"),
        (("doctor", "--env", "/nowhere.sh"), "cannot be read"),
        (("doctor", "--env", "--soc", "A4"), "unknown SoC 'A4'"),
        (("doctor", "--env", "--soc", "A2", "--moe", "ranks=two"), "--moe: ranks=two"),
        (("doctor", "--env", "--soc", "A2", "--moe", "ranks=2"), "is not a whole MoE layer"),
        (("doctor", "--env", "--soc", "910A", "--moe", "ranks=2,tokens=1,hidden=1,experts=1,top_k=1"), "no minimum"),
    ],
)
def test_what_cannot_be_meant(words: tuple[str, ...], complaint: str, here: Here) -> None:
    done = here(*words)
    assert done.code == 2
    assert complaint in done.err
