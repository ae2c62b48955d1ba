"""What this host runs, read in a millisecond: kernel, CPU model, C library, drivers, installed distributions.

In:  a few files below a root, the module search path. Out: words by name; what the host does not tell is left out. No
program is started. ``environment`` has the same words and more beside trials; this is the part that a job can afford to
read when it loads a table. Standard library only, and little of it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

# Kernel modules that carry collectives, where they have a version of their own: those that are built out of the tree.
_MODULES = ("nvidia", "amdgpu", "mlx5_core", "irdma", "bnxt_re", "efa", "hns_roce_hw_v2")
_ASCEND_DRIVER = "usr/local/Ascend/driver/version.info"
_MODEL = re.compile(rb"^model name\s*:\s*(\S.*)$", re.MULTILINE)
_HEAD_BYTES = 4096
_DISTRIBUTIONS = {"autotune": "mc2-autotune", "torch": "torch", "torch_npu": "torch-npu"}


def identity(names: Iterable[str], root: str = "/") -> dict[str, str]:
    """The values of some of ``environment``'s names on this host, as far as they can be told quickly.

    Args:
        names: such as ``kernel`` or ``driver_nvidia``; those that are not known here are left out.
    """
    wanted = set(names)
    found = drivers(root) if any(name.startswith("driver_") for name in wanted) else {}
    readers = {"kernel": _kernel, "cpu_model": _cpu_model, "libc": _libc}
    for name in wanted & readers.keys():
        found[name] = readers[name](root)
    for name in wanted & _DISTRIBUTIONS.keys():
        found[name] = _installed(_DISTRIBUTIONS[name])
    return {name: value for name, value in found.items() if name in wanted and value}


def drivers(root: str = "/") -> dict[str, str]:
    """Versions of the drivers that collectives depend on: ``driver_nvidia``, ``driver_ascend`` and so on."""
    found = {f"driver_{module}": _head(root, f"sys/module/{module}/version") for module in _MODULES}
    ascend = re.search(rb"^Version=(\S+)", _head(root, _ASCEND_DRIVER), re.MULTILINE)
    found["driver_ascend"] = ascend[1] if ascend else b""
    return {name: _words(version) for name, version in found.items() if version.strip()}


def _kernel(root: str) -> str:
    return _words(_head(root, "proc/sys/kernel/osrelease"))


def _cpu_model(root: str) -> str:
    """The first CPU's; empty where /proc/cpuinfo has numbers for names, as on aarch64."""
    found = _MODEL.search(_head(root, "proc/cpuinfo"))
    return _words(found[1]) if found else ""


def _libc(_root: str) -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # another C library than glibc
        return ""


def _installed(distribution: str) -> str:
    """The version in the name of an installed distribution's folder, without importlib.metadata, which takes 30 ms.

    The names are normalised as the specification "Recording installed projects" of the Python Packaging Authority says.
    """
    prefix = f"{distribution.replace('-', '_')}-"
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith(prefix) and name.endswith(".dist-info"):
                return name.removeprefix(prefix).removesuffix(".dist-info")
    return ""


def _head(root: str, path: str) -> bytes:
    try:
        with Path(root, path).open("rb", buffering=0) as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _words(text: bytes) -> str:
    return " ".join(text.decode("utf-8", "replace").split())
