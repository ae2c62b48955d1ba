"""The application without a network: how long a page is shown again, and what a mistake of ours looks like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from page.scene import Scene
from serve.running import need_extras

from autotune.db import TrialStore, open_store
from autotune.table import dump_table

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Planted(Exception):
    """A mistake of ours."""


@pytest.fixture(autouse=True)
def _extras() -> None:
    need_extras()


def get(app: ASGIApp, path: str) -> tuple[int, bytes]:
    sent: list[MutableMapping[str, Any]] = []  # Any: what ASGI's messages hold

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
    }
    with suppress(Planted):
        asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def make(store: TrialStore, now: list[float]) -> ASGIApp:
    from autotune.serve.app import make_app

    return make_app(store, token=None, clock=lambda: now[0])


def test_a_page_is_drawn_anew_after_ten_seconds(scene: Scene) -> None:
    now = [100.0]
    with closing(open_store("sqlite://")) as store:
        app = make(store, now)
        assert b"nothing in the store yet" in get(app, "/")[1]
        store.add_table(None, dump_table(scene.table), scene.fingerprint, scene.table.digest, backend="native")
        now[0] = 109.9
        assert b"nothing in the store yet" in get(app, "/")[1]
        now[0] = 110.0
        assert scene.fingerprint.encode() in get(app, "/")[1]


def test_a_mistake_of_ours_is_said_as_json_and_stays_in_the_log() -> None:
    class Broken:
        """The planted fault."""

        shown = "nowhere"

        def sessions(self, **_: object) -> None:
            raise Planted

    status, body = get(make(Broken(), [0.0]), "/v1/runs")  # type: ignore[arg-type] # no store, on purpose
    assert status == 500
    assert json.loads(body)["code"] == "bug"


def test_a_damaged_table_is_an_error_and_not_handed_out(scene: Scene) -> None:
    with closing(open_store("sqlite://")) as store:
        text = dump_table(scene.table)
        store.add_table(None, text[: len(text) // 2], scene.fingerprint, scene.table.digest, backend="native")
        app = make(store, [0.0])
        status, body = get(app, f"/v1/tables/{scene.fingerprint}")
        assert status == 500
        assert "version 1 in the store" in json.loads(body)["message"]
        status, body = get(app, f"/machines/{scene.fingerprint}")
        assert status == 500
        assert b"version 1" in body
        # It hides nothing else: what there is can still be listed.
        assert json.loads(get(app, "/v1/machines")[1])["machines"][0]["tables"][0]["version"] == 1
