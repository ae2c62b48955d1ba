"""A table from a URL: fetched, checked, and kept for the day when the server is down. Standard library only.

In:  the URL of AUTOTUNE_TABLE, this host's fingerprint, a secret. Out: a table, or that the server has none.
May not touch: the store, other processes. ``source`` imports this file only where there is a URL, since urllib costs
30 ms.

What does not arrive whole or is no sound table is an error. Only a server that cannot be reached is excused, by the
last good copy, and the reason of every answer then says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..errors import TableFormatError, TableUnavailable, UsageError
from ..table import TuningTable, parse_table
from ..table.load import MAX_FILE_BYTES
from .http_get import Answer, NoAnswer, get

_DIGEST = re.compile(r'(?:W/)?"([0-9a-f]{64})"')
_OF_MACHINE = re.compile(r"/v1/tables/([0-9a-f]{16})\Z")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_ALLOWED = "set AUTOTUNE_TABLE to a file, to http://HOST:PORT, or to http://HOST:PORT/v1/tables/FINGERPRINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a server gave.

    Args:
        table: None where it says that there is none for this host.
        address: what was asked for.
        remark: that this is the kept copy, or that none can be kept; None where there is nothing to say.
    """

    table: TuningTable | None
    address: str
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    text: str
    etag: str | None
    kept_at: str


def fetch_table(
    url: str,
    fingerprint: str | None,
    backend: str,
    *,
    token: str | None,
    cache_dir: Path,
    patience_s: float,
) -> Fetched:
    """The table behind a URL.

    Args:
        url: of a table, or of a server (its path ends with ``/`` or is empty), which is asked for this host's.
        fingerprint: of this host; None where it is not known, which only a server's URL needs.
        backend: whose table a server of ours is asked for.
        token: for the server of the URL; goes nowhere else.
        cache_dir: keeps the last good answer, private to the user.
        patience_s: how long a server that is down is asked again; a fifth of it where there is a copy.

    Raises:
        UsageError: not such a URL.
        TableUnavailable: the server is down and there is no copy, or it refuses.
        TableFormatError: the answer is cut off, or no sound table, or another machine's.
    """
    parts = _split(url)
    is_server = parts.path.endswith("/") or not parts.path
    if is_server and fingerprint is None:
        return Fetched(table=None, address=url)
    address = _address(parts, fingerprint, backend)
    kept = cache_dir / "tables" / f"{hashlib.sha256(address.encode()).hexdigest()[:32]}.json"
    copy, table = _read_copy(kept, address)
    headers = {"Accept": "application/json", "User-Agent": "autotune"}
    if copy is not None and copy.etag is not None:
        headers["If-None-Match"] = copy.etag
    try:
        answer = _patiently(address, headers, token, patience_s if copy is None else patience_s / 5)
    except NoAnswer as err:
        if not err.is_down:
            raise TableFormatError(f"AUTOTUNE_TABLE: {address}: {err.why}", remedy=_look(address)) from err
        if copy is None or table is None:
            raise TableUnavailable(
                f"AUTOTUNE_TABLE: {address} cannot be reached ({err.why}), and no copy was kept",
                remedy="start the server: autotune serve; or unset AUTOTUNE_TABLE to run with this host's own table",
            ) from err
        remark = f"{address} cannot be reached ({err.why}), so this is the copy of {copy.kept_at}"
        return Fetched(table=table, address=address, remark=remark)
    if answer.status == 304 and table is not None:
        return Fetched(table=table, address=address)
    if answer.status == 404 and is_server and _is_ours(answer):
        return Fetched(table=None, address=address)
    if answer.status != 200:
        raise _refused(address, answer, has_token=token is not None)
    table = _checked(address, answer)
    return Fetched(table=table, address=address, remark=_keep(kept, address, answer))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:  # a port or an IPv6 address that is none
        sound = False
    if not sound or " " in url or not url.isascii() or parts.fragment:
        raise UsageError(f"AUTOTUNE_TABLE: {_without_secret(url)!r} is no URL of a table", remedy=_ALLOWED)
    if "@" in parts.netloc:
        raise UsageError(
            f"AUTOTUNE_TABLE: {_without_secret(url)!r} holds a password, which messages would show",
            remedy="leave it out, and set AUTOTUNE_TOKEN",
        )
    return parts


def _without_secret(url: str) -> str:
    return re.sub(r"//[^/]*@", "//***@", url)


def _address(parts: SplitResult, fingerprint: str | None, backend: str) -> str:
    path, query = parts.path, parts.query
    if fingerprint is not None and (path.endswith("/") or not path):
        path = f"{path.rstrip('/')}/v1/tables/{fingerprint}"
    if _OF_MACHINE.search(path) and not query and backend != "native":
        query = f"backend={backend}"
    return urlunsplit(parts._replace(path=path, query=query))


def _patiently(address: str, headers: dict[str, str], token: str | None, patience_s: float) -> Answer:
    """Ask until there is an answer or the time is out: a server that restarts is away for a moment.

    Raises:
        NoAnswer: why the last try failed; but a wrong or cut off answer before it counts, as nothing made up for it.
    """
    deadline = time.monotonic() + patience_s
    pause_s = _FIRST_PAUSE_S
    trouble: NoAnswer | None = None
    while True:
        left_s = deadline - time.monotonic()
        try:
            answer = get(
                address, headers, token=token, limit_bytes=MAX_FILE_BYTES, within_s=max(left_s, _FIRST_PAUSE_S)
            )
            if answer.status < 500 and answer.status != 429:
                return answer
            found = NoAnswer(f"it answers with status {answer.status}", is_down=True)
        except NoAnswer as err:
            found = err
        if trouble is None or trouble.is_down:
            trouble = found
        # At random, so that a job's hosts, which all began at once, do not come again at once.
        wait_s = pause_s * random.uniform(0.5, 1.5)
        if time.monotonic() + wait_s >= deadline:
            raise trouble
        time.sleep(wait_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _checked(address: str, answer: Answer) -> TuningTable:
    """The table of an answer.

    Raises:
        TableFormatError: too long, not a table, of another digest than the header says, or of another machine.
    """
    if len(answer.body) > MAX_FILE_BYTES:
        raise TableFormatError(
            f"AUTOTUNE_TABLE: {address} answers with more than {MAX_FILE_BYTES >> 20} MiB, and no table is that large",
            remedy=_look(address),
        )
    try:
        table = parse_table(answer.body.decode("utf-8"), address)
    except UnicodeDecodeError as err:
        raise TableFormatError(
            f"AUTOTUNE_TABLE: {address}: not UTF-8 text: byte {err.start}", remedy=_look(address)
        ) from err
    except TableFormatError as err:
        raise TableFormatError(f"AUTOTUNE_TABLE: {err.message}", remedy=_look(address)) from err
    said = _DIGEST.fullmatch(answer.etag or "")
    if said is not None and said[1] != table.digest:
        raise TableFormatError(
            f"AUTOTUNE_TABLE: {address}: the ETag says {said[1]}, but the table's digest is {table.digest}",
            remedy=_look(address),
        )
    asked = _OF_MACHINE.search(urlsplit(address).path)
    if asked is not None and not table.serves(asked[1]):
        raise TableFormatError(
            f"AUTOTUNE_TABLE: {address} answers with the table of another machine, {table.fingerprint}",
            remedy=_look(address),
        )
    return table


def _look(address: str) -> str:
    return f"see what the server answers: curl '{address}'"


def _is_ours(answer: Answer) -> bool:
    """Whether it is our server that says so, and not one that knows no such path."""
    return _complaint(answer)[0] == "no table"


def _refused(address: str, answer: Answer, *, has_token: bool) -> TableUnavailable:
    if answer.status in (401, 403):
        return TableUnavailable(
            f"AUTOTUNE_TABLE: {address} refuses {'the token' if has_token else 'to answer without a token'}",
            remedy="set AUTOTUNE_TOKEN to the server's token",
        )
    _, message, remedy = _complaint(answer)
    return TableUnavailable(
        f"AUTOTUNE_TABLE: {address} answers with status {answer.status}{f': {message}' if message else ''}",
        remedy=remedy or _look(address),
    )


def _complaint(answer: Answer) -> tuple[str, str, str]:
    """(code, message, remedy) of an error of `autotune serve`; empty words for anything else."""
    try:
        found = json.loads(answer.body[:4096])
        code, message, remedy = found["code"], found["message"], found["remedy"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return "", "", ""
    return _shown(code), _shown(message), _shown(remedy)


def _shown(word: object) -> str:
    return "".join(c for c in str(word) if c.isprintable())[:300]


def _read_copy(path: Path, address: str) -> tuple[_Copy | None, TuningTable | None]:
    """What was kept of an address; one that is damaged counts as none, and the next answer replaces it."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(2 * MAX_FILE_BYTES))
        if found["address"] != address:
            return None, None
        copy = _Copy(text=found["table"], etag=found["etag"], kept_at=str(found["kept_at"]))
        return copy, parse_table(copy.text, str(path))
    except (OSError, ValueError, RecursionError, KeyError, TypeError, TableFormatError):
        return None, None


def _keep(path: Path, address: str, answer: Answer) -> str | None:
    """Keep an answer; what hinders that is no error now, but is said, since it will be missed later."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {"address": address, "etag": answer.etag, "kept_at": now, "table": answer.body.decode("utf-8")}
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(json.dumps(document).encode("utf-8"))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as err:
        return f"no copy of {address} can be kept in {path.parent}: {err.strerror}"
    return None
