"""Recordings on disk: written by ``autotune probe --save``, and gathered from folders and files by ``--from``.

In: paths. Out: ``Found``: of each host what was recorded, and what is about several. A folder is one host, named after
it; folders in it are hosts of their own; a file that holds a whole host is a host wherever it lies. The order of paths
and files does not matter.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ProbeError, UsageError
from .graph import Topology
from .probes.recording import Recording
from .rank_table import RankTable, TopologyFile, read_rank_table, read_topology_file
from .recognition import Recognised, recognise
from .recording_file import RANK_TABLE, to_json

FILE_NAME = "recording.json"
TOPOLOGY_FILES = "/usr/local/Ascend/driver/topo"
MAX_FILE_BYTES = 64 << 20
_MOST_FILES = 10_000
_NO_NAMES = ("recording", "topology", "probe", "lstopo", "hwloc")  # files that are called so name no host


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHost:
    """One host.

    Args:
        name: of its folder, or of its file; None where neither has one.
    """

    name: str | None
    recording: Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything that some paths hold.

    Args:
        topologies: whole ones, as ``probe --json`` prints, by name.
        rank_tables: by where they stand.
    """

    hosts: tuple[RecordedHost, ...] = ()
    topologies: tuple[tuple[str | None, Topology], ...] = ()
    rank_tables: tuple[tuple[str, RankTable], ...] = ()
    topology_files: tuple[TopologyFile, ...] = ()


def save(recording: Recording, folder: Path) -> Path:
    """Write ``recording.json`` into a folder, which is made where there is none; replace an older one as a whole.

    Raises:
        ProbeError: it cannot be written.
    """
    target = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{FILE_NAME}.{os.getpid()}.part"
        try:
            partial.write_text(to_json(recording), encoding="utf-8")
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as err:
        raise ProbeError(
            f"{target} cannot be written: {err.strerror}", remedy="name a folder that you may write: --save DIR"
        ) from err
    return target


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        ProbeError: it cannot be read, or is too long.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as err:
        raise ProbeError(
            f"{path} cannot be read: {err.strerror}", remedy="name one that is there and that you may read"
        ) from err
    if len(data) > MAX_FILE_BYTES:
        raise ProbeError(f"{path} is longer than {MAX_FILE_BYTES} bytes", remedy="give the output alone")
    return data.decode("utf-8", "replace")


def load(paths: Iterable[Path]) -> Found:
    """Everything that folders and files hold.

    Raises:
        ProbeError: a path that cannot be read, a file of no known kind, or two files that tell the same of one host.
        UsageError: no file at all.
    """
    groups: dict[tuple[Path, str | None], dict[Path, None]] = {}
    for path in sorted(paths):
        for folder, name, file in _files(path):
            groups.setdefault((folder, name), {})[file] = None
    if not any(groups.values()):
        raise UsageError("there is no file to read", remedy="name recordings or outputs: autotune probe --from DIR")
    found = Found()
    for (_, name), files in sorted(groups.items(), key=lambda item: str(item[0][0])):
        found = _joined(found, _group(name, [(file, recognise(read_text(file), str(file))) for file in sorted(files)]))
    return found


def _files(path: Path) -> list[tuple[Path, str | None, Path]]:
    """(folder, its name, file) of a file, or of the files in a folder and in the folders in it."""
    if not path.is_dir():
        return [(path.parent.resolve(), path.parent.name or None, path)]
    listed: list[tuple[Path, str | None, Path]] = []
    try:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        for entry in entries:
            inside = sorted(entry.iterdir()) if entry.is_dir() else [entry]
            folder = entry if entry.is_dir() else path
            listed += [
                (folder.resolve(), folder.name or None, file)
                for file in inside
                if not file.name.startswith(".") and not file.is_dir()
            ]
    except OSError as err:
        raise ProbeError(f"{path} cannot be read: {err.strerror}", remedy="name a folder that you may read") from err
    if len(listed) > _MOST_FILES:
        raise ProbeError(f"{path} holds {len(listed)} files", remedy="name the folders of the hosts alone")
    return listed


def _group(name: str | None, files: Sequence[tuple[Path, Recognised]]) -> Found:
    """What the files of one folder hold."""
    whole = [(file, kind) for file, kind in files if kind.whole]
    loose = [(file, kind) for file, kind in files if kind.entries and not kind.whole]
    if len(whole) > 1 and loose:
        raise ProbeError(
            f"{loose[0][0]} is about one host, and its folder holds {len(whole)}: {whole[0][0]}, {whole[1][0]}",
            remedy="put the files of each host into a folder of their own",
        )
    if len(whole) > 1:
        hosts = [RecordedHost(name=_own_name(file, name), recording=kind.entries) for file, kind in whole]
    elif whole or loose:
        called = _own_name(whole[0][0], name) if whole and len(files) == 1 else name
        hosts = [RecordedHost(name=called, recording=_laid_together([*whole, *loose]))]
    else:
        hosts = []
    tables = [(str(file), kind.rank_table) for file, kind in files if kind.rank_table is not None]
    found = Found(
        topologies=tuple((_own_name(file, name), kind.topology) for file, kind in files if kind.topology is not None),
        rank_tables=tuple(tables),
        topology_files=tuple(kind.topology_file for _, kind in files if kind.topology_file is not None),
    )
    for host in hosts:
        found = _joined(found, taken_apart(host))
    return found


def _own_name(file: Path, folder: str | None) -> str | None:
    return folder if file.stem in _NO_NAMES else file.stem


def _laid_together(files: Sequence[tuple[Path, Recognised]]) -> dict[str, str]:
    entries: dict[str, str] = {}
    origin: dict[str, Path] = {}
    for file, kind in files:
        for place, text in kind.entries.items():
            if place in entries and entries[place] != text:
                raise ProbeError(
                    f"{origin[place]} and {file} both tell {place} of one host, and differ",
                    remedy="take one away, or put the files of each host into a folder of their own",
                )
            entries[place] = text
            origin[place] = file
    return entries


def taken_apart(host: RecordedHost) -> Found:
    """A host, with the rank table and the topology files in its recording apart.

    Raises:
        ProbeError: one of them is damaged.
    """
    where = "recording" if host.name is None else f"recording of {host.name}"
    own = {place: text for place, text in host.recording.items() if place != RANK_TABLE}
    told = host.recording.get(RANK_TABLE)
    files = [place for place in own if place.startswith(f"{TOPOLOGY_FILES}/") and not own[place].startswith("!")]
    return Found(
        hosts=(RecordedHost(name=host.name, recording=own),),
        rank_tables=() if told is None else ((f"{RANK_TABLE} of {where}", read_rank_table(told, where)),),
        topology_files=tuple(read_topology_file(own[place], f"{place} of {where}") for place in files),
    )


def _joined(a: Found, b: Found) -> Found:
    return Found(
        hosts=(*a.hosts, *b.hosts),
        topologies=(*a.topologies, *b.topologies),
        rank_tables=(*a.rank_tables, *b.rank_tables),
        topology_files=(*a.topology_files, *b.topology_files),
    )
