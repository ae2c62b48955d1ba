"""The server over the wire: every address, who may ask, and what is refused."""

from __future__ import annotations

import base64
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from page.scene import Scene, make_scene
from serve.running import WAIT_S, ask, need_extras, serving

from autotune.cli.main import main
from autotune.db import open_store
from autotune.errors import UsageError
from autotune.serve.secret import read_token
from autotune.serve.server import listening
from autotune.table import dump_table, parse_table, shipped_table

TOKEN = "a-token-of-more-than-16-characters"


@pytest.fixture(scope="module")
def url(scene: Scene) -> Iterator[str]:
    with serving(scene.path) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(scene: Scene) -> Iterator[str]:
    with serving(scene.path, token=TOKEN) as found:
        yield found


def test_a_table_is_handed_out_as_it_is_stored(url: str, scene: Scene) -> None:
    reply = ask(url, f"/v1/tables/{scene.fingerprint}")
    assert reply.status == 200
    assert reply.body.decode() == dump_table(scene.table)
    assert reply.headers["etag"] == f'W/"{scene.table.digest}"'
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["autotune-table-version"] == "1"
    assert parse_table(reply.body.decode(), "reply") == scene.table


@pytest.mark.parametrize("form", ['"{}"', 'W/"{}"', '"other", W/"{}"', "*"])
def test_a_table_that_is_known_is_not_sent_again(url: str, scene: Scene, form: str) -> None:
    path = f"/v1/tables/{scene.fingerprint}"
    reply = ask(url, path, If_None_Match=form.format(scene.table.digest))
    assert (reply.status, reply.body) == (304, b"")
    assert reply.headers["etag"] == f'W/"{scene.table.digest}"'
    assert ask(url, path, If_None_Match='"other"').status == 200


def test_machines_and_runs(url: str, scene: Scene) -> None:
    (machine,) = ask(url, "/v1/machines").document["machines"]
    assert machine["fingerprint"] == scene.fingerprint
    assert machine["n_runs"] == 1
    assert "hosta" in machine["words"]
    assert [(t["backend"], t["digest"]) for t in machine["tables"]] == [("native", scene.table.digest)]
    found = ask(url, "/v1/runs").document
    assert found["n_runs"] == 1
    (run,) = found["runs"]
    assert (run["run"], run["state"], run["command"]) == (1, "finished", "autotune run --quick")
    assert ask(url, f"/v1/runs?fingerprint={'0' * 16}").document == {"runs": [], "n_runs": 0}


def test_pages_are_live(url: str, scene: Scene) -> None:
    index = ask(url, "/")
    assert (index.status, index.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f'href="machines/{scene.fingerprint}"'.encode() in index.body
    report = ask(url, f"/machines/{scene.fingerprint}")
    assert report.status == 200
    assert b"Winners by size and ranks" in report.body
    assert report.headers["content-security-policy"] == "frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("path", "status", "code", "says"),
    [
        ("/v1/tables/0000000000000000", 404, "no table", "no table of 'native' for the machine 0000000000000000"),
        ("/v1/tables/{fingerprint}?backend=torch", 404, "no table", "no table of 'torch'"),
        ("/v1/tables/short", 404, "not found", "'short' is no fingerprint"),
        ("/v1/tables/..%2f..%2fetc%2fpasswd", 404, "not found", ""),
        ("/v1/runs?limit=0", 400, "bad request", "'0' is not a whole number from 1 to 1000"),
        ("/v1/runs?limit=%D9%A3", 400, "bad request", "is not a whole number"),
        ("/v1/runs?fingerprint=%00", 400, "bad request", "is no fingerprint"),
        ("/v1/tables/{fingerprint}?backend=%00", 400, "bad request", "cannot be the name of a backend"),
        ("/nothing", 404, "not found", "GET '/nothing'"),
    ],
)
def test_what_is_not_there_is_said_with_a_remedy(
    url: str, scene: Scene, path: str, status: int, code: str, says: str
) -> None:
    reply = ask(url, path.format(fingerprint=scene.fingerprint))
    assert (reply.status, reply.document["code"]) == (status, code)
    assert says in reply.document["message"]
    assert reply.document["remedy"]
    assert set(reply.document) == {"code", "message", "remedy"}


def test_a_machine_without_a_table_has_a_page_that_says_so(url: str) -> None:
    reply = ask(url, f"/machines/{'0' * 16}")
    assert reply.status == 404
    assert b"there is no table of the machine 0000000000000000" in reply.body


def test_nothing_can_be_written(url: str, scene: Scene) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        reply = ask(url, f"/v1/tables/{scene.fingerprint}", method=method)
        assert (reply.status, reply.document["code"]) == (405, "not allowed")
    assert ask(url, f"/v1/tables/{scene.fingerprint}", method="HEAD").body == b""


def test_a_server_without_a_token_answers_to_local_names_only(url: str) -> None:
    """Else any page in a browser of this host could read it, once its name is made to be 127.0.0.1."""
    assert ask(url, "/v1/machines", Host="localhost:1").status == 200
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        reply = ask(url, "/v1/machines", Host=host)
        assert (reply.status, reply.document["code"]) == (421, "wrong host")


def basic(word: str) -> str:
    return "Basic " + base64.b64encode(word.encode()).decode()


@pytest.mark.parametrize(
    "header", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(f"anybody:{TOKEN}"), basic(f":{TOKEN}")]
)
def test_the_token_opens(guarded: str, header: str) -> None:
    assert ask(guarded, "/v1/machines", Authorization=header).status == 200
    assert ask(guarded, "/", Authorization=header, Host="evil.example").status == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        TOKEN,
        basic(TOKEN),
        "Basic !",
        "Bearer \xff",
    ],
)
def test_all_else_stays_out(guarded: str, scene: Scene, header: str) -> None:
    for path in ("/", "/v1/machines", "/v1/runs", f"/v1/tables/{scene.fingerprint}", "/nothing"):
        reply = ask(guarded, path, Authorization=header)
        assert (reply.status, reply.document["code"]) == (401, "no token")
        assert reply.headers["www-authenticate"].startswith("Basic ")
    assert TOKEN.encode() not in reply.body


def test_health_needs_no_token_and_tells_nothing(guarded: str) -> None:
    reply = ask(guarded, "/v1/health", Host="load-balancer")
    assert (reply.status, reply.document) == (200, {"status": "ok"})


def test_each_backend_has_its_own_newest_table_and_clusters_serve_their_hosts(tmp_path: Path) -> None:
    scene = make_scene(tmp_path / "trials.sqlite")
    host, cluster = scene.fingerprint, "c" * 16
    document = json.loads(dump_table(shipped_table("torch")))
    torch = json.dumps({**document, "fingerprint": host})
    wide = json.dumps({**document, "fingerprint": cluster, "host_fingerprints": ["d" * 16]})
    with scene.store() as store:
        store.add_table(None, torch, host, document["digest"], backend="torch")
        store.add_table(None, wide, cluster, document["digest"], backend="torch", host_fingerprints=["d" * 16, cluster])
    with serving(scene.path) as url:
        native = ask(url, f"/v1/tables/{host}?backend=native").document
        assert native["defaults"]["backend"] == "native"
        assert ask(url, f"/v1/tables/{host}?backend=torch").document["defaults"]["backend"] == "torch"
        assert ask(url, f"/v1/tables/{'d' * 16}?backend=torch").document["fingerprint"] == cluster
        assert ask(url, f"/v1/tables/{'d' * 16}").status == 404
        machines = ask(url, "/v1/machines").document["machines"]
        assert {m["fingerprint"]: [t["backend"] for t in m["tables"]] for m in machines} == {
            host: ["native", "torch"],
            cluster: ["torch"],
        }


def test_a_new_table_is_served_at_once(tmp_path: Path) -> None:
    scene = make_scene(tmp_path / "trials.sqlite")
    with serving(scene.path) as url:
        assert ask(url, f"/v1/tables/{scene.fingerprint}").headers["autotune-table-version"] == "1"
        with scene.store() as store:
            store.add_table(None, dump_table(scene.table), scene.fingerprint, scene.table.digest, backend="native")
        assert ask(url, f"/v1/tables/{scene.fingerprint}").headers["autotune-table-version"] == "2"


def test_an_empty_store_is_served_too(tmp_path: Path) -> None:
    open_store(str(tmp_path / "empty.sqlite")).close()
    with serving(tmp_path / "empty.sqlite") as url:
        assert ask(url, "/v1/machines").document == {"machines": []}
        assert b"nothing in the store yet" in ask(url, "/").body


def test_ctrl_c_ends_the_server_in_order(scene: Scene) -> None:
    need_extras()
    command = [sys.executable, "-P", "-m", "autotune", "serve", "--db", str(scene.path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("serving ")
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert (process.returncode, rest) == (130, "")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    need_extras()
    with pytest.raises(SystemExit) as end:
        main(["serve", *words])
    captured = capsys.readouterr()
    assert end.value.code in (1, 2)
    assert captured.out == ""
    error, remedy = captured.err.splitlines()
    assert error.startswith("error: ")
    assert remedy.startswith("try: ")
    return captured.err


def test_a_server_that_others_can_reach_needs_a_token(capsys: pytest.CaptureFixture[str], scene: Scene) -> None:
    for host in ("0.0.0.0", "::"):
        said = refused(capsys, "--db", str(scene.path), "--host", host, "--port", "0")
        assert "can be reached from elsewhere, and there is no token" in said
    with listening("0.0.0.0", 0, has_token=True) as listener:
        assert listener.getsockname()[1] > 0


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str], scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        said = refused(capsys, "--db", str(scene.path), "--port", str(other.getsockname()[1]))
        assert "cannot be used" in said
        assert "--port" in said


def test_a_database_that_is_not_there_is_not_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "there is no database" in refused(capsys, "--db", str(tmp_path / "none.sqlite"))
    assert not (tmp_path / "none.sqlite").exists()


def test_a_name_that_is_nobodys_is_said(capsys: pytest.CaptureFixture[str], scene: Scene) -> None:
    assert "cannot be found" in refused(capsys, "--db", str(scene.path), "--host", "no..host")


def test_a_token_file_is_private_or_none(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(path)
    path.write_text(TOKEN + "\n")
    path.chmod(0o640)
    with pytest.raises(UsageError, match="may be read by others") as caught:
        read_token(path)
    assert caught.value.remedy == f"chmod 600 {path}"
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    for bad in ("", "short", "with a blank in its middle", "x" * 513, "\u00e9" * 20):
        path.write_text(bad)
        with pytest.raises(UsageError, match="16 to 512 visible ASCII"):
            read_token(path)
    with pytest.raises(UsageError):
        read_token(tmp_path)


def test_a_token_in_the_environment_is_checked_and_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> None:
    monkeypatch.setenv("AUTOTUNE_TOKEN", "short\nword")
    said = refused(capsys, "--db", str(scene.path))
    assert "AUTOTUNE_TOKEN holds 10 characters" in said
    assert "word" not in said
    monkeypatch.setenv("AUTOTUNE_TOKEN", TOKEN)
    with pytest.raises(SystemExit):
        main(["settings"])
    out = capsys.readouterr().out
    assert "AUTOTUNE_TOKEN" in out
    assert TOKEN not in out
