"""Where torch is not installed, or does not load: everything but the names that need it works, and these say so."""

from __future__ import annotations

import subprocess
import sys

import pytest

ABSENT = "import sys; sys.modules['torch'] = None\n"  # as the import system sees a module that is not there
BROKEN = """
import sys
from importlib.abc import MetaPathFinder
class Broken(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            raise OSError("libhccl.so: cannot open shared object file")
sys.meta_path.insert(0, Broken())
"""
USED = """
import autotune, autotune.kernels, autotune.cli.main
from autotune.errors import BackendUnavailable
print(autotune.select("all_reduce", message_bytes=8, n_ranks=2).config.algorithm)
for name in ("mc2_all_reduce", "MC2DistributedDataParallel", "matmul_all_reduce", "chunked_all_gather"):
    try:
        getattr(autotune, name)
    except BackendUnavailable as err:
        print(err.message, "|", err.remedy)
"""


@pytest.mark.parametrize(("how", "words"), [(ABSENT, "torch"), (BROKEN, "libhccl.so")])
def test_only_what_needs_torch_is_missing_and_says_so(how: str, words: str) -> None:
    program = [sys.executable, "-P", "-c", how + USED]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    first, *said = ended.stdout.splitlines()
    assert first == "flat"
    assert len(said) == 4
    for line in said:
        assert line.startswith("PyTorch cannot be imported: ")
        assert words in line
        assert "autotune doctor" in line
