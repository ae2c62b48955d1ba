"""The programs of docs/pytorch.md, as torchrun starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_PROGRAMS = {
    "torch_process_group.py": r"rank 1 of 2: sum \[1\.0, 1\.0, 1\.0, 1\.0\]",
    "torch_ddp.py": r"step 15: loss \d",
    "torch_compressed.py": r"left over by bucket: \{'bucket 0': '\d\.\de-\d\d'",
    "torch_calls.py": r"sum \[1\.0, 1\.0, 1\.0, 1\.0\], gathered \[0\.0, 1\.0\], part \(4, 65536\), mean 1",
}


def test_the_page_lists_all_programs() -> None:
    page = (_DOCS / "pytorch.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(examples/(torch_\w+\.py)\)", page)) == set(_PROGRAMS)
    assert {path.name for path in (_DOCS / "examples").glob("torch_*.py")} == set(_PROGRAMS)


@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_program_runs_as_it_stands(program: str, tmp_path: Path) -> None:
    path = _DOCS / "examples" / program
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(path)]
    own = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "AUTOTUNE_RUNTIME_DIR": str(tmp_path)}
    ended = subprocess.run(
        command, env=os.environ | own, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(_PROGRAMS[program], ended.stdout), ended.stdout
    assert "leaked" not in ended.stderr
