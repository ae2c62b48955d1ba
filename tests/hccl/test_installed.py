"""torch_npu without its CANN: found without importing either, and told with what helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.hccl.installed import cann_home, torch_npu_fault


def here(*names: str) -> Callable[[str], bool]:
    return lambda name: name in names


def test_without_cann_the_fault_and_both_remedies_are_told(tmp_path: Path) -> None:
    fault = torch_npu_fault({}, str(tmp_path), here("torch_npu"))
    assert fault is not None
    why, remedy = fault
    assert "libhccl.so of CANN is not on the library path: `import torch` fails" in why
    assert remedy == "export TORCH_DEVICE_BACKEND_AUTOLOAD=0, or install CANN and source its set_env.sh"
    script = tmp_path / "usr/local/Ascend/cann/set_env.sh"
    script.parent.mkdir(parents=True)
    script.touch()
    fault = torch_npu_fault({}, str(tmp_path), here("torch_npu"))
    assert fault is not None
    assert fault[1] == f"source {script}, or without NPUs: export TORCH_DEVICE_BACKEND_AUTOLOAD=0"


@pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH"])
def test_nothing_is_wrong_where_import_torch_is_not_touched(variable: str, tmp_path: Path) -> None:
    libraries = tmp_path / "lib64"
    libraries.mkdir()
    environ = {variable: f"/elsewhere:{libraries}" if variable == "LD_LIBRARY_PATH" else str(tmp_path)}
    npu = here("torch_npu")
    assert torch_npu_fault(environ, str(tmp_path), npu) is not None
    (libraries / "libhccl.so").touch()
    assert cann_home(environ) == libraries
    assert torch_npu_fault(environ, str(tmp_path), npu) is None
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert torch_npu_fault(off, str(tmp_path), npu) is None
    assert torch_npu_fault({}, str(tmp_path), here("torch")) is None
