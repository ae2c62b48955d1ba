"""The token from a file. Standard library only.

In:  a path. Out: a secret. What others could read is none, and is refused.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import UsageError
from ..settings import check_token

_MAX_FILE_BYTES = 1024


def read_token(path: Path) -> str:
    """The token in a file that only its owner can read.

    Raises:
        UsageError: no such file, readable by others, or no token in it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            text = os.read(handle, _MAX_FILE_BYTES) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(handle)
    except (OSError, ValueError) as err:
        raise UsageError(
            f"the token file {str(path)!r} cannot be read: {getattr(err, 'strerror', None) or err}",
            remedy=f"make it with: (umask 077; openssl rand -hex 32 > {path})",
        ) from err
    if status.st_mode & 0o077 or status.st_uid not in (os.getuid(), 0):
        raise UsageError(f"the token file {path} may be read by others", remedy=f"chmod 600 {path}")
    return check_token(text.decode("ascii", "replace").strip(), f"the token file {path}")
