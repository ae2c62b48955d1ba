"""Addresses to answers: tables, machines and runs as JSON, reports as pages. Reads the store, writes nothing.

In:  a store, a token. Out: an ASGI application. docs/serve.md describes every address.

Verbs of the store run in threads, so that a slow database holds up nobody but who asked it. Pages are drawn one at a
time, and one that was just drawn is shown again: ten people who look at a report cost one drawing.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from .. import __version__
from ..db import TrialStore
from ..errors import AutotuneError, BackendUnavailable
from ..report.page.render import MachineRow, machines_page, problem_page, report_page
from ..table import parse_table
from .access import HEALTH, Access
from .answers import HEADERS, document, of_error, problem
from .machines import Machine, machine_document, machines, report_contents, run_document, served

_REMEDY = "docs/serve.md lists the addresses; /v1/machines the machines"
_FRESH_S = 10.0
_PAGES_KEPT = 32
_RUNS = (100, 1000)  # sent unless asked otherwise, and at most
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_BACKEND = re.compile(r"[A-Za-z0-9_.+-]{1,40}")
_ETAG = re.compile(r'(?:W/)?"([^"]*)"')
# The pages bring their own policy; that they are in nobody's frame can be said in a header only.
_PAGE_HEADERS = {**HEADERS, "Content-Security-Policy": "frame-ancestors 'none'"}


def make_app(
    store: TrialStore,
    *,
    token: str | None,
    called: Collection[str] = (),
    clock: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """The application.

    Args:
        token: that all addresses but the health ask for; None for none.
        called: further names under which a server without a token may be called.
    """
    service = _Service(store, clock)
    routes = [
        Route(HEALTH, service.health),
        Route("/v1/tables/{fingerprint}", service.table),
        Route("/v1/machines", service.machines),
        Route("/v1/runs", service.runs),
        Route("/", service.index),
        Route("/machines/{fingerprint}", service.report),
    ]
    handlers = {AutotuneError: _failed, HTTPException: _unknown, Exception: _bug}
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type] # a handler of its own error
    return Access(app, token=token, called=called)


class _Service:
    """The answers; those that are not coroutines run in threads."""

    def __init__(self, store: TrialStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._drawing = asyncio.Lock()
        self._pages: dict[tuple[str, str], tuple[float, str]] = {}

    def health(self, request: Request) -> Response:
        self._store.topology("0" * 16)  # answers, or raises
        return document({"status": "ok"})

    def table(self, request: Request) -> Response:
        fingerprint, backend = _fingerprint(request), _backend(request) or "native"
        stored = served(self._store, fingerprint, backend)
        if stored is None:
            return problem(
                404,
                "no table",
                f"there is no table of {backend!r} for the machine {fingerprint}",
                "autotune run on that machine, with --db and this server's database",
            )
        # Weak: the digest is that of the decisions, and two tables that decide alike may differ in their figures.
        headers = {**HEADERS, "ETag": f'W/"{stored.digest}"', "Autotune-Table-Version": str(stored.version)}
        known = request.headers.get("if-none-match", "")
        if known.strip() == "*" or stored.digest in _ETAG.findall(known):
            return Response(status_code=304, headers=headers)
        return Response(stored.table_json, media_type="application/json", headers=headers)

    def machines(self, request: Request) -> Response:
        return document({"machines": [machine_document(machine) for machine in machines(self._store)]})

    def runs(self, request: Request) -> Response:
        wanted, most = request.query_params.get("fingerprint"), _limit(request)
        if wanted is not None and _FINGERPRINT.fullmatch(wanted) is None:
            raise HTTPException(400, f"{wanted[:40]!r} is no fingerprint, which has 16 hexadecimal digits")
        found = self._store.sessions(fingerprint=wanted, newest=most)
        n_runs = self._store.n_sessions(fingerprint=wanted)
        return document({"runs": [run_document(run) for run in reversed(found)], "n_runs": n_runs})

    async def index(self, request: Request) -> Response:
        def page() -> str:
            rows = [_row(machine) for machine in machines(self._store)]
            return machines_page(rows, store=self._store.shown, version=__version__)

        return await _as_page(self._fresh(("", ""), page))

    async def report(self, request: Request) -> Response:
        fingerprint, backend = _fingerprint(request), _backend(request)

        def page() -> str:
            stored = self._store.newest_table(fingerprint, backend)
            if stored is None:
                raise HTTPException(404, f"there is no table of the machine {fingerprint}")
            table = parse_table(stored.table_json, f"version {stored.version}")
            origin = f"version {stored.version} in {self._store.shown}"
            return report_page(report_contents(table, origin, self._store, stored.fingerprint))

        return await _as_page(self._fresh((fingerprint, backend or ""), page))

    async def _fresh(self, key: tuple[str, str], page: Callable[[], str]) -> str:
        async with self._drawing:
            until, text = self._pages.get(key, (-1.0, ""))
            if self._clock() >= until:
                text = await run_in_threadpool(page)
                if len(self._pages) >= _PAGES_KEPT:
                    self._pages.clear()
                self._pages[key] = (self._clock() + _FRESH_S, text)
        return text


def _row(machine: Machine) -> MachineRow:
    known = machine.known
    return MachineRow(
        fingerprint=known.fingerprint,
        href=f"machines/{known.fingerprint}" if known.tables else "",
        words=machine.words,
        tables=tuple(f"{t.backend or 'unreadable'}: version {t.version}, {t.created_at}" for t in known.tables),
        n_runs=known.n_sessions,
        last_run=known.last_session_at or "",
    )


def _fingerprint(request: Request) -> str:
    text = str(request.path_params["fingerprint"])
    if _FINGERPRINT.fullmatch(text) is None:
        raise HTTPException(404, f"{text[:40]!r} is no fingerprint, which has 16 hexadecimal digits")
    return text


def _backend(request: Request) -> str | None:
    """The query's; None where it does not say."""
    text = request.query_params.get("backend") or None
    if text is not None and _BACKEND.fullmatch(text) is None:
        raise HTTPException(400, f"{text[:40]!r} cannot be the name of a backend")
    return text


def _limit(request: Request) -> int:
    usual, most = _RUNS
    text = request.query_params.get("limit", str(usual))
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= most):
        raise HTTPException(400, f"limit {text[:40]!r} is not a whole number from 1 to {most}")
    return int(text)


async def _as_page(page: Awaitable[str]) -> Response:
    """A page, or what went wrong as one."""
    try:
        return HTMLResponse(await page, headers=_PAGE_HEADERS)
    except BackendUnavailable as err:  # then no page can be made, not even one that says so
        return of_error(err)
    except AutotuneError as err:
        status, message, remedy = of_error(err).status_code, err.message, err.remedy
    except HTTPException as err:
        status, message, remedy = err.status_code, err.detail, _REMEDY
    return HTMLResponse(problem_page(message, remedy), status, headers=_PAGE_HEADERS)


async def _failed(request: Request, err: AutotuneError) -> Response:
    return of_error(err)


async def _bug(request: Request, err: Exception) -> Response:
    """Starlette raises the error again once this is sent, so that the log has its traceback."""
    return problem(500, "bug", "the server made a mistake", "report the traceback in its log")


async def _unknown(request: Request, err: HTTPException) -> Response:
    code = {400: "bad request", 404: "not found", 405: "not allowed"}.get(err.status_code, "failed")
    found = f"{request.method} {request.url.path[:80]!r}: {err.detail}"
    return problem(err.status_code, code, found, _REMEDY)
