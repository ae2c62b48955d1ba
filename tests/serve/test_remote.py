"""A table from a URL: what is taken, what is refused, what is kept, and to whom the token goes."""

from __future__ import annotations

import json
import shutil
import ssl
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from page.scene import Scene
from serve.running import serving
from serve.scripted import Scripted, answer, scripted
from table_strategies import sample_table

from autotune.errors import TableFormatError, TableUnavailable, UsageError
from autotune.runtime import http_get, remote
from autotune.runtime.remote import Fetched, fetch_table
from autotune.table import dump_table

TABLE = replace(sample_table(), fingerprint="a" * 16, host_fingerprints=("a" * 16,))
OTHER = replace(TABLE, fingerprint="b" * 16, host_fingerprints=())
TEXT = dump_table(TABLE)
OWN = f"/v1/tables/{'a' * 16}"
TOKEN = "a-token-of-more-than-16-characters"
LONG_S, BRIEF_S = 5.0, 0.3


def fetch(
    url: str,
    cache: Path,
    *,
    fingerprint: str | None = "a" * 16,
    backend: str = "native",
    token: str | None = None,
    patience_s: float = LONG_S,
) -> Fetched:
    return fetch_table(url, fingerprint, backend, token=token, cache_dir=cache, patience_s=patience_s)


def only_path(server: Scripted) -> str:
    return server.requests[-1].split(" ")[1]


@pytest.mark.parametrize(
    ("suffix", "backend", "path"),
    [
        ("", "native", OWN),
        ("/", "native", OWN),
        ("/autotune/", "native", f"/autotune{OWN}"),
        ("/", "torch", f"{OWN}?backend=torch"),
        (OWN, "native", OWN),
        (OWN, "torch", f"{OWN}?backend=torch"),
        (f"{OWN}?backend=native", "torch", f"{OWN}?backend=native"),
        ("/tables/mine.json", "torch", "/tables/mine.json"),
    ],
)
def test_what_is_asked_for(tmp_path: Path, suffix: str, backend: str, path: str) -> None:
    with scripted([answer(TEXT)]) as server:
        found = fetch(server.url + suffix, tmp_path, backend=backend)
        assert found.table == TABLE
        assert found.remark is None
        assert only_path(server) == path
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hosta/table.json",
        "file:///etc/passwd",
        "http://",
        "http:///table",
        "http://hosta:port/",
        "http://hosta:99999/",
        "http://hosta:0/",
        "http://[::1/",
        "http://hosta/a b",
        "http://hosta/a\nb",
        "http://hosta/#part",
        "http://h\u00f6sta/",
        "://x",
    ],
)
def test_what_is_no_url_of_a_table_is_refused_before_anything_is_asked(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="is no URL of a table") as caught:
        fetch(url, tmp_path)
    assert "http://HOST:PORT" in caught.value.remedy


def test_a_password_in_the_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        fetch("http://me:secret-word@hosta/", tmp_path)
    assert "secret-word" not in str(caught.value)
    assert "AUTOTUNE_TOKEN" in caught.value.remedy


def cut(text: str) -> str:
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (answer(cut(TEXT), length=len(TEXT.encode())), "cut off after"),
        (answer(cut(TEXT)), "it was cut off"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + cut(TEXT).encode(), "it was cut off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{", "cut off after"),
        (answer(TEXT.replace('"flat"', '"ring"', 1)), "they were changed after the table was written"),
        (answer(TEXT, f'ETag: "{"0" * 64}"'), f"the ETag says {'0' * 64}, but the table's digest is"),
        (
            answer(dump_table(replace(TABLE, fingerprint="b" * 16, host_fingerprints=()))),
            "the table of another machine",
        ),
        (answer("<html>log in</html>", "Content-Type: text/html"), "line 1, column 1"),
        (answer(""), "line 1, column 1"),
        (answer(b"\xff\xfe"), "not UTF-8"),
        (answer("[" * 100_000), "nested too deep"),
        (answer('{"schema_version": 99}'), "schema version 99"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", "not HTTP"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_a_wrong_or_truncated_answer_is_an_error_even_with_a_copy(tmp_path: Path, reply: bytes, says: str) -> None:
    with scripted([answer(TEXT), reply]) as server:
        assert fetch(server.url, tmp_path).table == TABLE
        with pytest.raises(TableFormatError) as caught:
            fetch(server.url, tmp_path)
        assert says in caught.value.message
        assert caught.value.message.startswith("AUTOTUNE_TABLE: ")
        assert server.url in caught.value.message
        assert caught.value.remedy == f"see what the server answers: curl '{server.url}{OWN}'"


def test_an_answer_above_the_limit_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_FILE_BYTES", 1 << 20)
    with scripted([answer(b" " * (3 << 20))]) as server, pytest.raises(TableFormatError, match="more than 1 MiB"):
        fetch(server.url, tmp_path)


def test_a_server_that_was_cut_off_once_is_asked_again(tmp_path: Path) -> None:
    """As when it restarts in the middle of an answer."""
    halves = [b"", answer(cut(TEXT), length=len(TEXT.encode())), answer("{}", status="503 Service Unavailable")]
    with scripted([*halves, answer(TEXT)]) as server:
        found = fetch_table(server.url, "a" * 16, "native", token=None, cache_dir=tmp_path, patience_s=30.0)
        assert found.table == TABLE
        assert len(server.requests) == 4


def test_a_cut_off_answer_is_an_error_even_if_the_server_then_falls_silent(tmp_path: Path) -> None:
    with scripted([answer(TEXT), answer(cut(TEXT), length=len(TEXT.encode())), b""]) as server:
        assert fetch(server.url, tmp_path).table == TABLE
        with pytest.raises(TableFormatError, match="cut off after"):
            fetch(server.url, tmp_path)
        assert len(server.requests) > 2


def test_the_last_good_copy_serves_while_the_server_is_down_and_says_so(tmp_path: Path) -> None:
    with scripted([answer(TEXT, f'ETag: W/"{TABLE.digest}"')]) as server:
        assert fetch(server.url, tmp_path).remark is None
    found = fetch(server.url, tmp_path)
    assert found.table == TABLE
    assert found.remark is not None
    assert found.remark.startswith(
        f"{server.url}{OWN} cannot be reached (connection refused), so this is the copy of 2"
    )


def test_without_a_copy_a_server_that_is_down_is_an_error(tmp_path: Path) -> None:
    with scripted([b""]) as server:
        pass
    with pytest.raises(TableUnavailable, match=r"cannot be reached \(connection refused\), and no copy") as caught:
        fetch(server.url, tmp_path, patience_s=BRIEF_S)
    assert "autotune serve" in caught.value.remedy


def test_a_server_error_counts_as_down(tmp_path: Path) -> None:
    with scripted([answer(TEXT), answer("", status="502 Bad Gateway")]) as server:
        fetch(server.url, tmp_path)
        found = fetch(server.url, tmp_path)
        assert found.remark is not None
        assert "it answers with status 502" in found.remark


def test_a_known_table_is_asked_for_by_its_tag_and_not_sent_again(tmp_path: Path) -> None:
    with scripted([answer(TEXT, f'ETag: W/"{TABLE.digest}"'), answer("", status="304 Not Modified")]) as server:
        first, second = fetch(server.url, tmp_path), fetch(server.url, tmp_path)
        assert first.table == second.table == TABLE
        assert "if-none-match" not in server.requests[0].lower()
        assert f'if-none-match: w/"{TABLE.digest}"' in server.requests[1].lower()


def test_the_copy_is_private_and_one_that_is_damaged_counts_as_none(tmp_path: Path) -> None:
    with scripted([answer(TEXT, 'ETag: "x"')]) as server:
        fetch(server.url, tmp_path)
        (copy,) = (tmp_path / "tables").iterdir()
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "tables").stat().st_mode) == 0o700
        whole = copy.read_text()
        other = json.dumps({**json.loads(whole), "address": "http://hosta/"})
        for damaged in ("", cut(whole), "{}", "[]", whole.replace("flat", "ring", 1), other):
            copy.write_text(damaged)
            assert fetch(server.url, tmp_path).table == TABLE
            assert "if-none-match" not in server.requests[-1].lower()
            assert json.loads(copy.read_text()) | {"kept_at": ""} == json.loads(whole) | {"kept_at": ""}
    copy.write_text(cut(whole))
    with pytest.raises(TableUnavailable):
        fetch(server.url, tmp_path, patience_s=BRIEF_S)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("a file in the way")
    with scripted([answer(TEXT)]) as server:
        found = fetch(server.url, tmp_path)
    assert found.table == TABLE
    assert found.remark is not None
    assert "no copy of" in found.remark


def test_the_token_goes_to_the_server_of_the_url(tmp_path: Path) -> None:
    with scripted([answer(TEXT)]) as server:
        fetch(server.url, tmp_path, token=TOKEN)
        assert f"Authorization: Bearer {TOKEN}" in server.requests[0]


def test_the_token_does_not_follow_a_redirect_to_another_origin(tmp_path: Path) -> None:
    with scripted([answer(TEXT)]) as other:
        moved = answer("", f"Location: {other.url}{OWN}", status="302 Found")
        with scripted([moved]) as server:
            assert fetch(server.url, tmp_path, token=TOKEN).table == TABLE
            assert TOKEN in server.requests[0]
            assert "authorization" not in other.requests[0].lower()


def test_the_token_follows_a_redirect_within_the_origin(tmp_path: Path) -> None:
    moved = answer("", f"Location: {OWN}?moved", status="307 Temporary Redirect")
    with scripted([moved, answer(TEXT)]) as server:
        assert fetch(server.url, tmp_path, token=TOKEN).table == TABLE
        assert [TOKEN in request for request in server.requests] == [True, True]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("ftp://192.0.2.1/x", "unknown url type: ftp"),
        ("file:///etc/passwd", "status 302"),
        ("/again", "status 302"),
    ],
)
def test_redirects_to_elsewhere_than_http_or_without_end_are_errors(tmp_path: Path, target: str, says: str) -> None:
    away = answer("", f"Location: {target}", status="302 Found")
    errors = (TableFormatError, TableUnavailable)
    with scripted([away]) as server, pytest.raises(errors, match=says):
        fetch(server.url, tmp_path, patience_s=BRIEF_S)


def test_proxies_of_the_environment_are_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would see the token; and a server of a cluster is not reached through one."""
    with scripted([answer("a proxy's page")]) as proxy, scripted([answer(TEXT)]) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert fetch(server.url, tmp_path, token=TOKEN).table == TABLE
        assert proxy.requests == []


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_a_refusal_is_an_error_even_with_a_copy(tmp_path: Path, status: str) -> None:
    with scripted([answer(TEXT), answer("", status=status)]) as server:
        fetch(server.url, tmp_path)
        with pytest.raises(TableUnavailable, match="refuses to answer without a token") as caught:
            fetch(server.url, tmp_path)
        assert "AUTOTUNE_TOKEN" in caught.value.remedy
        with pytest.raises(TableUnavailable, match="refuses the token") as caught:
            fetch(server.url, tmp_path, token=TOKEN)
        assert TOKEN not in str(caught.value)


NO_TABLE = json.dumps({"code": "no table", "message": "none \x1b[31m here", "remedy": "autotune run"})


def test_a_server_that_has_no_table_of_this_host_leaves_the_default(tmp_path: Path) -> None:
    with scripted([answer(NO_TABLE, status="404 Not Found")]) as server:
        assert fetch(server.url, tmp_path).table is None
        with pytest.raises(TableUnavailable, match=r"status 404: none \[31m here") as caught:
            fetch(server.url + OWN, tmp_path)
        assert caught.value.remedy == "autotune run"


def test_another_server_that_knows_no_such_path_is_an_error(tmp_path: Path) -> None:
    reply = answer("<h1>Not Found</h1>", status="404 Not Found")
    with scripted([reply]) as server, pytest.raises(TableUnavailable, match="status 404"):
        fetch(server.url, tmp_path)


def test_a_host_that_was_not_probed_asks_nothing_of_a_server_but_finds_a_tables_url(tmp_path: Path) -> None:
    with scripted([answer(TEXT)]) as server:
        assert fetch(server.url, tmp_path, fingerprint=None).table is None
        assert server.requests == []
        assert fetch(server.url + OWN, tmp_path, fingerprint=None).table == TABLE


@pytest.mark.parametrize(
    "reply",
    [b"", b"HTTP/1.1 200 OK\r\nX: y", answer(cut(TEXT), length=len(TEXT.encode()))],
    ids=["silence", "half a head", "half a body"],
)
def test_a_server_that_falls_silent_holds_nobody_beyond_the_patience(tmp_path: Path, reply: bytes) -> None:
    """The time is not judged here: without a limit there would be no answer until the test is stopped."""
    late = r"no whole answer within|timed out"
    with scripted([reply], hold=True) as server, pytest.raises(TableUnavailable, match=late):
        fetch(server.url, tmp_path, patience_s=BRIEF_S)


def test_a_real_server_with_a_token(tmp_path: Path, scene: Scene) -> None:
    with serving(scene.path, token=TOKEN) as url:
        mark = scene.fingerprint
        assert fetch(url, tmp_path, fingerprint=mark, token=TOKEN).table == scene.table
        assert fetch(url, tmp_path, fingerprint=mark, token=TOKEN).table == scene.table, "by its tag"
        assert fetch(url, tmp_path, fingerprint="0" * 16, token=TOKEN).table is None
        with pytest.raises(TableUnavailable, match="refuses the token"):
            fetch(url, tmp_path, fingerprint=mark, token=TOKEN + "x")
    assert fetch(url, tmp_path, fingerprint=mark, token=TOKEN).remark is not None


def test_a_certificate_that_nobody_vouches_for_is_an_error_even_with_a_copy(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, to make a certificate")
    subject = ["-subj", "/CN=hosta", "-days", "1", "-keyout", "key.pem", "-out", "cert.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with scripted([answer(TEXT)], context=context) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(TableUnavailable, match=r"no safe connection: .*certificate verify failed") as caught:
            fetch(url, tmp_path, token=TOKEN)
        assert "SSL_CERT_FILE" in caught.value.remedy
        assert server.requests == []


def test_what_is_no_answer_at_all_is_not_taken_for_one() -> None:
    """A bug in the asking thread reaches the caller as it is."""
    with pytest.raises(TypeError):
        http_get.get("http://127.0.0.1:1/", {"X": None}, token=None, limit_bytes=1, within_s=30)  # type: ignore[dict-item] # the planted bug
