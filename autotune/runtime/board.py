"""Signed notes on a key-value store: how ranks of several hosts read what the others say. Standard library only.

In:  a store that all ranks reach (torch's TCPStore), the run's secret. Out: notes of ranks that know the secret.
May not touch: what notes mean. A note is signed with HMAC-SHA256 (RFC 2104) over its key and its text, so it cannot be
moved to another key. Nothing is encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from ..errors import CommunicatorError

_LEAST_S = 1e-3
_SECRET_BYTES = 32
_GIVEN = "given"  # in place of the secret, where every rank's environment has it


class KeyValueStore(Protocol):
    """What is asked of a store; torch.distributed.TCPStore has it."""

    def set(self, key: str, value: str, /) -> None:
        """Store a value; it may replace one."""

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Return when all keys are there; raise after `timeout`."""


class ForgedNote(CommunicatorError):
    """A note whose writer does not know the run's secret."""


class Board:
    """The notes of one group.

    Args:
        prefix: of all its keys; no other group of the store has it.
        deadline_s: of time.monotonic(), for all waits that bring no other.
    """

    def __init__(self, store: KeyValueStore, prefix: str, *, deadline_s: float) -> None:
        self._store = store
        self._prefix = prefix
        self._secret = b""
        self.deadline_s = deadline_s

    def agree_on_secret(self, given: str | None, *, first: bool) -> None:
        """Use the environment's secret, or one that the first rank makes and tells on the store.

        Raises:
            CommunicatorError: the first rank tells of none in time, or tells that all ranks should have been given one.
        """
        if first:
            made = given or secrets.token_hex(_SECRET_BYTES)
            self._set("secret", _GIVEN if given else made)
            self._secret = made.encode()
            return
        told = self._get("secret", self.deadline_s)
        if told is None:
            raise CommunicatorError(
                "rank 0 did not come to the store in time", remedy="start rank 0 too, under the same group name"
            )
        if told == _GIVEN and given is None:
            raise CommunicatorError(
                "AUTOTUNE_SECRET is set on rank 0, and not on this rank", remedy="set it on all ranks, or on none"
            )
        self._secret = (given or told).encode()

    def sign(self, words: str) -> bytes:
        """32 bytes that only who knows the secret can make of these words."""
        return hmac.digest(self._secret, words.encode(), hashlib.sha256)

    def put(self, key: str, fields: Mapping[str, object]) -> None:
        """Write a note."""
        text = json.dumps(fields)
        self._set(key, json.dumps({"text": text, "mac": self.sign(f"{self._prefix}/{key}\n{text}").hex()}))

    def take(self, key: str, deadline_s: float | None = None) -> dict[str, object] | None:
        """The note of that key; None if it is not there in time.

        Raises:
            ForgedNote: it does not bear the secret.
            CommunicatorError: the store is gone.
        """
        note = self._get(key, self.deadline_s if deadline_s is None else deadline_s)
        if note is None:
            return None
        try:
            outer = json.loads(note)
            text, mac = str(outer["text"]), str(outer["mac"])
            if not hmac.compare_digest(self.sign(f"{self._prefix}/{key}\n{text}").hex().encode(), mac.encode()):
                raise ValueError("another secret")
            fields = json.loads(text)
            if not isinstance(fields, dict):
                raise ValueError("no object")
        except (ValueError, KeyError, TypeError):
            raise ForgedNote(
                f"the note {key!r} does not bear the run's secret",
                remedy="give all ranks the same AUTOTUNE_SECRET, or none",
            ) from None
        return fields

    def _set(self, key: str, value: str) -> None:
        try:
            self._store.set(f"{self._prefix}/{key}", value)
        except (RuntimeError, OSError) as err:
            raise self._gone(err) from err

    def _get(self, key: str, deadline_s: float) -> str | None:
        full = f"{self._prefix}/{key}"
        left_s = max(_LEAST_S, deadline_s - time.monotonic())
        try:
            self._store.wait([full], timedelta(seconds=left_s))
            return self._store.get(full).decode()
        except (RuntimeError, OSError) as err:  # torch's time-out is one of its RuntimeErrors
            if time.monotonic() >= deadline_s - _LEAST_S:
                return None
            raise self._gone(err) from err

    @staticmethod
    def _gone(err: Exception) -> CommunicatorError:
        said = (str(err).splitlines() or [type(err).__name__])[0]
        return CommunicatorError(f"the store of rank 0 is gone: {said}", remedy="see why rank 0 ended")
