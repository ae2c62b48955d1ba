"""Whether torch_npu is here without the CANN that it needs, so that ``import torch`` itself fails. Imports neither.

In:  what is installed, the environment, the file system below a root. Out: what is wrong and what helps, or None.

torch_npu registers itself with torch's entry point ``torch.backends``, so that a plain ``import torch`` (2.5 and newer)
imports it, and fails where libhccl.so is missing (Ascend/pytorch, torch_npu/_init/core/module_loader.py).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

_LIBRARY = "libhccl.so"
_SETTING = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_INSTALLED = ("usr/local/Ascend/ascend-toolkit/latest", "usr/local/Ascend/cann")


def torch_npu_fault(
    environ: Mapping[str, str],
    root: str = "/",
    installed: Callable[[str], bool] = lambda name: importlib.util.find_spec(name) is not None,
) -> tuple[str, str] | None:
    """(what is wrong, what helps); None where ``import torch`` is not touched.

    Args:
        root: below which CANN is looked for where the environment does not name it.
    """
    if not installed("torch_npu") or environ.get(_SETTING) == "0":
        return None
    if cann_home(environ) is not None:
        return None
    scripts = [Path(root, place, "set_env.sh") for place in _INSTALLED]
    script = next((path for path in scripts if path.is_file()), None)
    why = f"torch_npu is installed, but {_LIBRARY} of CANN is not on the library path: `import torch` fails"
    if script is not None:
        return why, f"source {script}, or without NPUs: export {_SETTING}=0"
    return why, f"export {_SETTING}=0, or install CANN and source its set_env.sh"


def cann_home(environ: Mapping[str, str]) -> Path | None:
    """A folder with HCCL's library that the environment names; None where there is none."""
    named = [Path(environ[name], "lib64") for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME") if environ.get(name)]
    named += [Path(part) for part in environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    return next((folder for folder in named if (folder / _LIBRARY).exists()), None)
