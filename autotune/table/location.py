"""Where tables live: ``DATA/tables/<fingerprint>/v000001.json`` and so on, the highest version being the newest.

That is the native backend's; another one's are beside it, named ``torch-v000001.json``.

Only names and listings; the files themselves are the business of load.py and save.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import TableFormatError
from .tuning_table import is_fingerprint

_NAME = re.compile(r"(?:([a-z]+)-)?v([0-9]{6,})\.json\Z")
_BACKEND = "native"


def table_path(data_dir: Path, fingerprint: str, version: int, backend: str = _BACKEND) -> Path:
    """The file of a version from 1.

    Raises:
        ValueError: not a fingerprint or backend (which would lead out of the folder), or a version below 1.
    """
    if version < 1:
        raise ValueError(f"table version {version} is below 1")
    name = f"v{version:06d}.json" if backend == _BACKEND else f"{backend}-v{version:06d}.json"
    if _NAME.match(name) is None:
        raise ValueError(f"backend {backend!r} is not a word of small letters")
    return _folder(data_dir, fingerprint) / name


def newest_table_path(data_dir: Path, fingerprint: str, backend: str = _BACKEND) -> Path | None:
    """The file of a backend's highest version, or None where there is none.

    Raises:
        TableFormatError: the folder cannot be listed.
    """
    folder = _folder(data_dir, fingerprint)
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return None
    except OSError as err:
        raise TableFormatError(
            f"the tables of this host cannot be listed: {err}", remedy=f"make {folder} a folder that you may read"
        ) from err
    found = [match for name in names if (match := _NAME.match(name)) is not None]
    versions = {int(match[2]): match[0] for match in found if (match[1] or _BACKEND) == backend}
    return folder / versions[max(versions)] if versions else None


def next_table_path(data_dir: Path, fingerprint: str, backend: str = _BACKEND) -> Path:
    """The file after a backend's highest version.

    Raises:
        TableFormatError: the folder cannot be listed.
    """
    newest = newest_table_path(data_dir, fingerprint, backend)
    match = None if newest is None else _NAME.match(newest.name)
    return table_path(data_dir, fingerprint, 1 if match is None else int(match[2]) + 1, backend)


def _folder(data_dir: Path, fingerprint: str) -> Path:
    if not is_fingerprint(fingerprint):
        raise ValueError(f"fingerprint {fingerprint!r} is not 16 hexadecimal digits")
    return data_dir / "tables" / fingerprint
