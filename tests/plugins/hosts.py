"""HCCL's and NCCL's side of a tuner plugin, through ctypes: what a host process hands in, and what came back.

Each host is a fresh copy of the library, so that a test begins with a plugin that has read nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from autotune.errors import AutotuneError
from autotune.plugins import PLUGINS, shared_library
from autotune.types import Collective, DType

HCCL_CALLS = {Collective.ALL_REDUCE: 2, Collective.ALL_GATHER: 6, Collective.REDUCE_SCATTER: 7}
HCCL_TYPES = {
    DType.INT8: 0,
    DType.INT32: 2,
    DType.FLOAT16: 3,
    DType.FLOAT32: 4,
    DType.INT64: 5,
    DType.UINT8: 7,
    DType.FLOAT64: 10,
    DType.BFLOAT16: 11,
}
NCCL_FUNCTIONS = {
    Collective.BROADCAST: 0,
    Collective.REDUCE: 1,
    Collective.ALL_GATHER: 2,
    Collective.REDUCE_SCATTER: 3,
    Collective.ALL_REDUCE: 4,
}
NCCL_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
NCCL_PROTOCOLS = ("ll", "ll128", "simple")
IGNORED = -1.0
UNTOUCHED = 5.0

_Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
_NcclLog = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p
)


class CommInfo(ctypes.Structure):
    _fields_ = (
        ("nRanks", ctypes.c_uint32),
        ("nNpusPerServer", ctypes.c_uint32),
        ("nServers", ctypes.c_uint32),
        ("nPods", ctypes.c_uint32),
        ("nSuperPods", ctypes.c_uint32),
        ("commName", ctypes.c_char_p),
        ("bufferSize", ctypes.c_uint64),
        ("structSize", ctypes.c_uint32),
    )


class CollInfo(ctypes.Structure):
    _fields_ = (
        ("collType", ctypes.c_int32),
        ("nBytes", ctypes.c_size_t),
        ("dataType", ctypes.c_int32),
        ("structSize", ctypes.c_uint32),
    )


class Entry(ctypes.Structure):
    _fields_ = (
        ("algName", ctypes.c_char_p),
        ("engineName", ctypes.c_char_p),
        ("executorName", ctypes.c_char_p),
        ("templateName", ctypes.c_char_p),
        ("cost", ctypes.c_float),
        ("structSize", ctypes.c_uint32),
    )


class HostFunctions(ctypes.Structure):
    _fields_ = (
        ("ctxCreate", ctypes.c_void_p),
        ("ctxGet", ctypes.c_void_p),
        ("ctxDestroy", ctypes.c_void_p),
        ("logFunction", _Log),
        ("structSize", ctypes.c_uint32),
    )


_Init = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(CommInfo), ctypes.POINTER(HostFunctions))
_GetCollInfo = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.POINTER(CollInfo),
    ctypes.POINTER(Entry),
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_int),
)


class HcclFunctions(ctypes.Structure):
    _fields_ = (("init", _Init), ("getCollInfo", _GetCollInfo), ("structSize", ctypes.c_uint32))


@contextlib.contextmanager
def environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """These variables, None for those that are not set; as they were before, afterwards."""
    before = {name: os.environ.get(name) for name in values}
    try:
        for name, value in values.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def plugin_environment(table: Path | None, **more: str) -> dict[str, str | None]:
    """A plugin's whole environment."""
    return {
        "AUTOTUNE_TABLE": None if table is None else str(table),
        "AUTOTUNE_EVIDENCE": None,
        "AUTOTUNE_FINGERPRINT": "any",
        **more,
    }


class Hccl:
    """A process of HCCL that has loaded the plugin."""

    def __init__(self, folder: Path) -> None:
        self.said: list[tuple[int, str]] = []
        self._functions = HcclFunctions.in_dll(_loaded("hccl", folder), "hcclTunerPlugin_v1")
        self._log = _Log(lambda level, file, line, form, text: self.said.append((level, text.decode())))
        self._host = HostFunctions(logFunction=self._log, structSize=ctypes.sizeof(HostFunctions))

    def communicator(self, comm: int, *, n_ranks: int, n_servers: int = 1, npus_per_server: int = 8) -> None:
        info = CommInfo(
            nRanks=n_ranks,
            nNpusPerServer=npus_per_server,
            nServers=n_servers,
            commName=b"group",
            structSize=ctypes.sizeof(CommInfo),
        )
        assert self._functions.init(comm, info, self._host) == 0

    def decide(
        self, comm: int, collective: int, dtype: int, n_bytes: int, entries: Sequence[tuple[str, str, str, float]]
    ) -> list[float] | None:
        """The costs that the plugin leaves, None where it does not match; entries: engine, executor, template, cost."""
        listed = (Entry * len(entries))(
            *(
                Entry(b"Name", engine.encode(), executor.encode(), template.encode(), cost, ctypes.sizeof(Entry))
                for engine, executor, template, cost in entries
            )
        )
        call = CollInfo(collType=collective, nBytes=n_bytes, dataType=dtype, structSize=ctypes.sizeof(CollInfo))
        matched = ctypes.c_int(0)
        assert self._functions.getCollInfo(comm, call, listed, len(entries), matched) == 0
        costs = [entry.cost for entry in listed]
        if not matched.value:
            assert costs == [entry[3] for entry in entries]
            return None
        return costs


_SIZES = (ctypes.c_size_t, ctypes.c_size_t)
_INIT = ctypes.CFUNCTYPE(ctypes.c_int, *_SIZES, _NcclLog, ctypes.POINTER(ctypes.c_void_p))
_INIT_V5 = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_uint64,
    *_SIZES,
    _NcclLog,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
_INTP = ctypes.POINTER(ctypes.c_int)
_CALL = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
_ASK_V2 = ctypes.CFUNCTYPE(ctypes.c_int, *_CALL, ctypes.c_int, ctypes.c_int, ctypes.c_int, _INTP, _INTP, _INTP)
_TABLE = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
_ASK_V3 = ctypes.CFUNCTYPE(ctypes.c_int, *_CALL, *_TABLE, _INTP)
_ASK_V4 = ctypes.CFUNCTYPE(ctypes.c_int, *_CALL, *_TABLE, ctypes.c_int, _INTP)
_DESTROY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_VERSIONS = {2: (_INIT, _ASK_V2), 3: (_INIT, _ASK_V3), 4: (_INIT, _ASK_V4), 5: (_INIT_V5, _ASK_V4)}


class Nccl:
    """A communicator of NCCL with the plugin's table of functions of one version; a context manager."""

    def __init__(self, folder: Path, version: int, *, n_ranks: int, n_nodes: int = 1) -> None:
        self.version = version
        self.said: list[tuple[int, str]] = []
        init, ask = _VERSIONS[version]

        class Functions(ctypes.Structure):
            _fields_ = (("name", ctypes.c_char_p), ("init", init), ("ask", ask), ("destroy", _DESTROY))

        self._functions = Functions.in_dll(_loaded("nccl", folder), f"ncclTunerPlugin_v{version}")
        self._log = _NcclLog(lambda level, flags, file, line, form, text: self.said.append((level, text.decode())))
        self._context = ctypes.c_void_p()
        context = ctypes.byref(self._context)
        if version == 5:
            assert self._functions.init(context, 7, n_ranks, n_nodes, self._log, None, None) == 0
        else:
            assert self._functions.init(n_ranks, n_nodes, self._log, context) == 0
        assert self._functions.name == b"autotune"

    def __enter__(self) -> Nccl:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._functions.destroy(self._context) == 0

    def decide(self, function: int, n_bytes: int, costs: Sequence[float] | None = None) -> tuple[list[float], int]:
        """The costs by algorithm and protocol, and the channels (0: NCCL's own). Version 2: 0 where it chose."""
        table = [UNTOUCHED] * (len(NCCL_ALGORITHMS) * len(NCCL_PROTOCOLS)) if costs is None else list(costs)
        channels = ctypes.c_int(0)
        if self.version == 2:
            algorithm, protocol = ctypes.c_int(-1), ctypes.c_int(-1)
            assert self._functions.ask(self._context, function, n_bytes, 1, 1, 1, algorithm, protocol, channels) == 0
            if algorithm.value >= 0:
                table[algorithm.value * len(NCCL_PROTOCOLS) + protocol.value] = 0.0
            return table, channels.value
        floats = (ctypes.c_float * len(table))(*table)
        shape = (len(NCCL_ALGORITHMS), len(NCCL_PROTOCOLS))
        registered = () if self.version == 3 else (0,)
        answer = self._functions.ask(self._context, function, n_bytes, 1, floats, *shape, *registered, channels)
        assert answer == 0
        return list(floats), channels.value


_copies = itertools.count()


def _loaded(name: str, folder: Path) -> ctypes.CDLL:
    try:
        source = shared_library(PLUGINS[name])
    except AutotuneError as err:
        pytest.skip(f"needs a build of autotune with its plugins: {err.message}")
    copy = folder / f"{next(_copies)}-{source.name}"
    shutil.copyfile(source, copy)
    return ctypes.CDLL(str(copy), mode=ctypes.RTLD_LOCAL | os.RTLD_NOW)
