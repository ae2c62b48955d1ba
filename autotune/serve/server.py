"""From an address to a running server (uvicorn).

In:  an address, a token, a store. Out: nothing until it is stopped. Refuses to be reached from elsewhere without a
token, and listens before it says that it does.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

from ..db import TrialStore
from ..errors import BackendUnavailable, UsageError

_BACKLOG = 1024  # a job's hosts all ask at once
_INSTALL = "pip install 'mc2-autotune[serve]'"


def serve(store: TrialStore, *, host: str, port: int, token: str | None, said: Callable[[str], None]) -> None:
    """Answer until SIGINT or SIGTERM; requests that are being answered are finished first.

    Args:
        host: a name or an address of this host.
        port: 0 for any that is free.
        token: that is asked for; without one the address must be a loopback one.
        said: told once the server listens, with its URL.

    Raises:
        UsageError: an address that is not this host's, is taken, or is open to others without a token.
        BackendUnavailable: Starlette or uvicorn is not installed.
    """
    try:
        import uvicorn

        from .app import make_app
    except ModuleNotFoundError as err:
        if (err.name or "").startswith("autotune"):
            raise
        raise BackendUnavailable(f"the server needs {err.name}, which is not installed", remedy=_INSTALL) from err
    with listening(host, port, has_token=token is not None) as listener:
        name, number = listener.getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        called = [host.lower(), shown]
        config = uvicorn.Config(
            make_app(store, token=token, called=called),
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=10,
        )
        whom = "" if token is None else ", for those with the token"

        class Server(uvicorn.Server):
            """Says that it serves once it does, signals included: an earlier Ctrl-C would find it half started."""

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                said(f"serving {store.shown} at http://{shown}:{number}/{whom}")

        Server(config).run(sockets=[listener])


def listening(host: str, port: int, *, has_token: bool) -> socket.socket:
    """A socket that listens at an address.

    Raises:
        UsageError: an address that is not this host's, is taken, or is open to others without a token.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as err:
        raise UsageError(
            f"the address {host!r} cannot be found: {getattr(err, 'strerror', None) or err}",
            remedy="give --host 127.0.0.1, or an address of this host",
        ) from err
    # Of what the name came to, and this is what is bound: a name may come to something else a moment later.
    if not has_token and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise UsageError(
            f"{host} ({address[0]}) can be reached from elsewhere, and there is no token",
            remedy="export AUTOTUNE_TOKEN=$(openssl rand -hex 32), or give --token-file",
        )
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A server that is started again finds its port, although connections of the former one still end.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as err:
        listener.close()
        raise UsageError(
            f"{host} port {port} cannot be used: {err.strerror}",
            remedy="give another --port, or 0 for any that is free",
        ) from err
    return listener
