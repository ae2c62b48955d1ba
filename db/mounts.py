"""File systems on which a SQLite file would be lost: those that several hosts share. Private to db.

In:  a path, and the kernel's list of mounts. Out: nothing, or StoreError. Nothing is opened.

SQLite's write-ahead log keeps its index in memory that all processes map, which processes of two hosts cannot; and the
locks of network file systems are known to fail (https://www.sqlite.org/wal.html, section 1;
https://www.sqlite.org/howtocorrupt.html, section 2.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import StoreError

MOUNTS = Path("/proc/self/mountinfo")

# Types as the kernel lists them; a file system in user space stands as fuse.NAME.
_NETWORK = frozenset(
    {"9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "kafs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)
_NETWORK_IN_USER_SPACE = frozenset(
    {"ceph-fuse", "davfs", "gcsfuse", "glusterfs", "goofys", "juicefs", "mfs", "nfs", "rclone", "s3fs", "seaweedfs"}
    | {"sshfs", "weed"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of mountinfo: where, and which type (proc(5))."""

    point: Path
    kind: str

    @property
    def is_network(self) -> bool:
        name, _, in_user_space = self.kind.partition(".")
        return name in _NETWORK or (name == "fuse" and in_user_space in _NETWORK_IN_USER_SPACE)


def refuse_network_mounts(path: Path) -> None:
    """Do nothing for a file on a disk of this host.

    Raises:
        StoreError: the file is, or would be, on a network file system.
    """
    try:
        text = MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return  # without /proc nothing is known, and most disks are local
    mount = mount_of(path, text)
    if mount is not None and mount.is_network:
        raise StoreError(
            f"{path} is on a network file system ({mount.kind} at {mount.point}), where SQLite's write-ahead log would "
            "lose data",
            remedy="set AUTOTUNE_DB to a file on a disk of this host, or to postgresql+psycopg://USER@HOST/NAME",
        )


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """The mount that an absolute path without symbolic links is on; None where the list has none."""
    found: Mount | None = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(_unescaped(fields[4]))
        # The last of equals counts: it was mounted over the others.
        if path.is_relative_to(point) and (found is None or len(point.parts) >= len(found.point.parts)):
            found = Mount(point=point, kind=after.split(" ")[0])
    return found


def _unescaped(text: str) -> str:
    r"""Blanks, tabs, newlines and backslashes in a mount's path stand as ``\040`` and so on."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
