"""Who may ask the server: those who know its token; without one, programs of this host only.

In:  requests. Out: the same requests, or an answer that says why not. Pure.

A browser on this host may show a page from anywhere, and that page may have its own name resolved to 127.0.0.1 (DNS
rebinding). So a server without a token also asks under which name it was called.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .answers import problem

HEALTH = "/v1/health"
"""May be asked by everybody, and tells nothing else."""
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Access:
    """Lets requests through to an application, or answers them.

    Args:
        token: None where none is asked for.
        called: further names under which a server without a token may be called.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, called: Collection[str] = ()) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._names = {*_LOCAL_NAMES, *called}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == HEALTH:
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        if self._token is None:
            name = _without_port(headers.get("host", ""))
            if name in self._names:
                return await self._app(scope, receive, send)
            answer = problem(
                421,
                "wrong host",
                f"this server is not called {name!r}",
                "call it localhost or 127.0.0.1, or start it with a token",
            )
        elif _knows(headers.get("authorization", ""), self._token):
            return await self._app(scope, receive, send)
        else:
            answer = problem(
                401,
                "no token",
                "the token is missing or wrong",
                "set AUTOTUNE_TOKEN; in a browser, give it as the password, with any name",
            )
            # Programs send their token unasked; a browser asks its user.
            answer.headers["WWW-Authenticate"] = 'Basic realm="autotune", charset="UTF-8"'
        await answer(scope, receive, send)


def _knows(header: str, token: bytes) -> bool:
    """Whether an Authorization header holds the token: as a bearer's, or as a password."""
    scheme, _, value = header.partition(" ")
    given = value.strip().encode("utf-8", "replace")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given, token)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
