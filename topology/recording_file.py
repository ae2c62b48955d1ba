"""A recording as a file: one JSON object from path or command to text, a line each, so that two compare well.

The file says its version under ``autotune recording``; files without it are of version 1. Strict: what is no recording
is refused as a whole.
"""

from __future__ import annotations

import json
import re

from ..errors import ProbeError
from .probes.recording import Recording

VERSION_KEY = "autotune recording"
VERSION = "1"
_PROGRAM = re.compile(r"(?:npu-smi|hccn_tool|nvidia-smi|rocm-smi|lstopo) [ -~]{1,200}")
_REMEDY = "write it again with: autotune probe --save DIR"


def to_json(recording: Recording) -> str:
    """The text of the file."""
    lines = [json.dumps(VERSION_KEY) + ": " + json.dumps(VERSION)]
    lines += [f"{json.dumps(path)}: {json.dumps(recording[path], ensure_ascii=False)}" for path in sorted(recording)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def from_json(text: str, file: str) -> dict[str, str]:
    """Read what ``to_json`` wrote.

    Args:
        file: for errors.

    Raises:
        ProbeError: it is no recording, or of a version that is newer than this code.
    """
    try:
        value = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_without_doubles)
    except json.JSONDecodeError as err:
        raise ProbeError(f"{file}, line {err.lineno}, column {err.colno}: {err.msg}", remedy=_REMEDY) from err
    except (RecursionError, ValueError) as err:
        raise ProbeError(f"{file}: no recording ({err})", remedy=_REMEDY) from err
    if not isinstance(value, dict) or not value:
        raise ProbeError(f"{file}: no recording, but {type(value).__name__}", remedy=_REMEDY)
    version = value.pop(VERSION_KEY, VERSION)
    if version != VERSION:
        raise ProbeError(
            f"{file}: a recording of version {version!r}; this autotune reads {VERSION!r}",
            remedy="install the autotune that wrote it, or record again with: autotune probe --save DIR",
        )
    for path, entry in value.items():
        if not _is_place(path):
            raise ProbeError(f"{file}: {path!r} is neither an absolute path nor a known command", remedy=_REMEDY)
        if not isinstance(entry, str):
            raise ProbeError(f"{file}: {path} is {type(entry).__name__}, not a text", remedy=_REMEDY)
    return value


def is_recording(value: object) -> bool:
    """Whether a JSON value means to be a recording."""
    return (
        isinstance(value, dict)
        and bool(value)
        and (VERSION_KEY in value or sum(map(_is_place, value)) * 2 > len(value))
    )


def _is_place(path: object) -> bool:
    return isinstance(path, str) and (path.startswith("/") or _PROGRAM.fullmatch(path) is not None or path in _OTHER)


RANK_TABLE = "RANK_TABLE_FILE"
_OTHER = (RANK_TABLE,)


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"{double!r} stands twice")
    return found
