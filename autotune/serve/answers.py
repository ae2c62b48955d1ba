"""Answers that every address gives alike: JSON documents, errors with a remedy. Pure."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from ..errors import AutotuneError, BackendUnavailable, StoreError, UsageError

# A browser is not to guess a type, and asks again each time whether a document is still the newest.
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}
_STATUS: tuple[tuple[type[AutotuneError], int], ...] = ((UsageError, 400), (BackendUnavailable, 501), (StoreError, 503))


# Any: the tree of JSON.
def document(content: dict[str, Any]) -> Response:
    """What was asked for."""
    return JSONResponse(content, headers=HEADERS)


def problem(status: int, code: str, message: str, remedy: str) -> Response:
    """What went wrong: ``code`` for programs, ``message`` and ``remedy`` for people."""
    return JSONResponse({"code": code, "message": message, "remedy": remedy}, status, headers=HEADERS)


def of_error(err: AutotuneError) -> Response:
    """An error that was raised on purpose."""
    status = next((status for kind, status in _STATUS if isinstance(err, kind)), 500)
    return problem(status, "bad request" if status == 400 else "failed", err.message, err.remedy)
