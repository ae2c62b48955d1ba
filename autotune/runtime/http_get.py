"""One GET over HTTP within limits of time and size. Standard library only; nothing but ``remote`` imports it.

In:  a URL, headers, a secret for its server. Out: status, body and ETag, or `NoAnswer`.
May not touch: files, settings, proxies. The secret goes to the server of the URL and to nobody else, so proxies of the
environment are passed by, and a redirect to another origin loses it.
"""

from __future__ import annotations

import http.client
import queue
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    UnknownHandler,
)

from ..errors import TableUnavailable

_PORTION_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said, whatever the status.

    Args:
        body: whole; at most the limit and one byte more, which says that there is more.
    """

    status: int
    body: bytes
    etag: str | None


class NoAnswer(Exception):
    """There is no whole answer. Never leaves the room.

    Args:
        why: in words.
        is_down: the server could not be reached or went away, so that a later try may find it.
    """

    def __init__(self, why: str, *, is_down: bool) -> None:
        super().__init__(why)
        self.why = why
        self.is_down = is_down


def get(url: str, headers: Mapping[str, str], *, token: str | None, limit_bytes: int, within_s: float) -> Answer:
    """Ask once, and be back in time.

    A thread does the asking: a look-up of a name or a server that drips its headers would else hold the caller beyond
    any time-out of a socket. One that comes too late is left to end by itself.

    Args:
        url: http or https.
        token: sent as ``Authorization: Bearer``; None for none.

    Raises:
        NoAnswer: not reached, not in time, cut off, or not HTTP.
        TableUnavailable: the server's certificate is not to be trusted.
    """
    request = Request(url, headers=dict(headers))
    if token is not None:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    deadline = time.monotonic() + within_s
    came: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            came.put(_asked(request, limit_bytes, deadline))
        except BaseException as err:
            came.put(err)

    threading.Thread(target=ask, name="autotune-table", daemon=True).start()
    try:
        found = came.get(timeout=within_s)
    except queue.Empty:
        raise NoAnswer(f"no whole answer within {within_s:.3g} s", is_down=True) from None
    if isinstance(found, BaseException):
        raise found
    return found


def _asked(request: Request, limit_bytes: int, deadline: float) -> Answer:
    try:
        try:
            response = _opener().open(request, timeout=_left(deadline))
        except HTTPError as err:
            response = err
        with response:
            body = _body(response, limit_bytes, deadline)
            return Answer(status=response.status, body=body, etag=response.headers.get("ETag"))
    except http.client.IncompleteRead as err:
        raise NoAnswer(f"the answer was cut off after {len(err.partial)} bytes", is_down=False) from err
    except URLError as err:
        if isinstance(err.reason, ssl.SSLError):  # a wrong certificate will not be right in a moment
            raise TableUnavailable(
                f"AUTOTUNE_TABLE: {request.full_url}: no safe connection: {err.reason}",
                remedy="set SSL_CERT_FILE to the certificates of the authority that the server's is signed by",
            ) from err
        if not isinstance(err.reason, OSError):
            raise NoAnswer(str(err.reason), is_down=False) from err
        raise NoAnswer(_words(err.reason), is_down=True) from err
    except OSError as err:  # RemoteDisconnected is one, too: closed before the first line
        raise NoAnswer(_words(err), is_down=True) from err
    except (http.client.HTTPException, ValueError) as err:
        raise NoAnswer(f"the answer is not HTTP: {type(err).__name__}: {str(err)[:80]}", is_down=False) from err


def _body(response: http.client.HTTPResponse, limit_bytes: int, deadline: float) -> bytes:
    """The body, up to one byte above the limit.

    Raises:
        IncompleteRead: fewer bytes came than were announced; http.client itself says so only of chunks.
    """
    parts = bytearray()
    while len(parts) <= limit_bytes:
        _left(deadline)
        # read1: one portion as it comes. read() would wait for all of it, and each drip would begin its wait anew.
        part = response.read1(min(_PORTION_BYTES, limit_bytes + 1 - len(parts)))
        if not part:
            announced = response.headers.get("Content-Length", "")
            if announced.isdecimal() and len(parts) < int(announced):
                raise http.client.IncompleteRead(bytes(parts), int(announced) - len(parts))
            break
        parts += part
    return bytes(parts)


def _left(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0.0:
        raise TimeoutError("timed out")
    return left_s


def _words(err: OSError) -> str:
    return (err.strerror or str(err) or type(err).__name__).lower()


def _opener() -> OpenerDirector:
    """HTTP and HTTPS only: the usual opener would also follow a redirect to ftp, and ask proxies."""
    opener = OpenerDirector()
    for handler in (
        HTTPHandler(),
        HTTPSHandler(),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
        UnknownHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


class _Redirects(HTTPRedirectHandler):
    max_redirections = 3

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        secret = req.unredirected_hdrs.get("Authorization")
        if new is not None and secret is not None and _origin(newurl) == _origin(req.full_url):
            new.add_unredirected_header("Authorization", secret)
        return new


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
