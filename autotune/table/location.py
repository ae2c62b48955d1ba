"""Where tables live: ``DATA/tables/<fingerprint>/v000001.json`` and so on, the highest version being the newest.

Only names and listings; the files themselves are the business of load.py and save.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import TableFormatError
from .tuning_table import is_fingerprint

_NAME = re.compile(r"v([0-9]{6,})\.json\Z")


def table_path(data_dir: Path, fingerprint: str, version: int) -> Path:
    """The file of a version from 1.

    Raises:
        ValueError: not a fingerprint (which would lead out of the folder), or a version below 1.
    """
    if version < 1:
        raise ValueError(f"table version {version} is below 1")
    return _folder(data_dir, fingerprint) / f"v{version:06d}.json"


def newest_table_path(data_dir: Path, fingerprint: str) -> Path | None:
    """The file of the highest version, or None where there is none.

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
    versions = {int(match[1]): name for name in names if (match := _NAME.match(name)) is not None}
    return folder / versions[max(versions)] if versions else None


def _folder(data_dir: Path, fingerprint: str) -> Path:
    if not is_fingerprint(fingerprint):
        raise ValueError(f"fingerprint {fingerprint!r} is not 16 hexadecimal digits")
    return data_dir / "tables" / fingerprint
