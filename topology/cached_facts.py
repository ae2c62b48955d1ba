"""Small facts of a host that a probe leaves for later processes: a private JSON file each, replaced as a whole.

In:  a folder of the user's cache, a file's name, a document. Out: the file; the document again. May not touch: what the
document says. Standard library only, and little of it, since ``import autotune`` pays for this file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ProbeError

_MAX_BYTES = 4096


def keep(cache_dir: Path, name: str, document: Mapping[str, object], *, what: str) -> None:
    """Write a file (0600, in a folder made 0700), or replace it.

    Args:
        what: the document is, for people.

    Raises:
        ProbeError: the folder cannot be written.
    """
    temporary = cache_dir / f".{name}-{os.urandom(8).hex()}"
    try:
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump(document, file)
            temporary.replace(cache_dir / name)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as err:
        raise ProbeError(
            f"{what} cannot be kept in {cache_dir}: {err.strerror}",
            remedy="set AUTOTUNE_CACHE_DIR to a folder that you may write to",
        ) from err


def kept(cache_dir: Path, name: str) -> dict[str, Any]:
    """The document of a file; empty where there is none, or one that is damaged."""
    try:
        with (cache_dir / name).open("rb") as file:
            document = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
