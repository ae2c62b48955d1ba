"""Which paths are on network file systems: planted lists of mounts, in the form that proc(5) gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.db import open_store
from autotune.db.mounts import MOUNTS, mount_of
from autotune.errors import StoreError

LINES = {
    "/": "21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw",
    "/home": "48 21 0:42 / /home rw,relatime shared:24 - nfs4 filer.example:/home rw,vers=4.2,addr=192.0.2.9",
    "/home/scratch": "49 48 0:43 / /home/scratch rw - tmpfs tmpfs rw",
    "/mnt/my share": r"50 21 0:44 / /mnt/my\040share rw master:3 - cifs //192.0.2.9/share rw",
    "/mnt/ssh": "51 21 0:45 / /mnt/ssh rw - fuse.sshfs hostb:/ rw",
    "/mnt/local": "52 21 0:46 / /mnt/local rw - fuse.bindfs /srv rw",
    "/proj": "53 21 0:47 / /proj rw - lustre 192.0.2.9@o2ib:/proj rw",
}


def listed(*points: str) -> str:
    return "\n".join(LINES[point] for point in points) + "\n"


@pytest.mark.parametrize(
    ("path", "kind", "is_network"),
    [
        ("/var/trials.sqlite", "ext4", False),
        ("/home/me/trials.sqlite", "nfs4", True),
        ("/homestead/trials.sqlite", "ext4", False),
        ("/home/scratch/trials.sqlite", "tmpfs", False),
        ("/mnt/my share/trials.sqlite", "cifs", True),
        ("/mnt/ssh/trials.sqlite", "fuse.sshfs", True),
        ("/mnt/local/trials.sqlite", "fuse.bindfs", False),
        ("/proj/trials.sqlite", "lustre", True),
    ],
)
def test_a_path_is_on_its_innermost_mount(path: str, kind: str, is_network: bool) -> None:
    found = mount_of(Path(path), listed(*LINES))
    assert found is not None
    assert (found.kind, found.is_network) == (kind, is_network)


def test_of_two_mounts_at_one_place_the_later_counts() -> None:
    over = "60 48 254:2 / /home rw - xfs /dev/vdb rw\n"
    found = mount_of(Path("/home/me"), listed("/", "/home") + over)
    assert found is not None
    assert found.kind == "xfs"


@pytest.mark.parametrize("text", ["", "nonsense\n", "1 2 3 - ext4\n"])
def test_a_list_that_says_nothing_tells_nothing(text: str) -> None:
    assert mount_of(Path("/home/me"), text) is None


def test_this_machines_list_is_understood(tmp_path: Path) -> None:
    found = mount_of(tmp_path, MOUNTS.read_text("utf-8"))
    assert found is not None
    assert tmp_path.is_relative_to(found.point)


def test_a_store_on_a_network_file_system_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "mountinfo"
    planted.write_text(f"{LINES['/']}\n60 21 0:42 / {tmp_path}/share rw - nfs4 filer.example:/share rw\n")
    monkeypatch.setattr("autotune.db.mounts.MOUNTS", planted)
    (tmp_path / "share").mkdir()
    with pytest.raises(StoreError, match=r"is on a network file system \(nfs4 at .*/share\)") as caught:
        open_store(str(tmp_path / "share" / "trials.sqlite"))
    assert "postgresql+psycopg://" in caught.value.remedy
    assert list((tmp_path / "share").iterdir()) == []
    open_store(str(tmp_path / "trials.sqlite")).close()
