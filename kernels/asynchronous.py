"""Operations that run while the caller computes: in order of issue, on a thread of the communicator's own.

In:  functions that each carry out one operation. Out: a `Handle` for each, which waits for it and gives its result.
May not touch: what the functions do, apart from looking at the bytes of an input that must not change.

One thread carries operations out, one after the other (native calls let go of Python's lock meanwhile). A caller that
waits leaves the work to it: carrying out in the caller what the thread has not begun took 27 us for 8 B where leaving
it took 23 (2 ranks, as benchmarks/overlap.py measures), since the thread is awake by then. Handing a call over costs
about 20 us. A synchronous call takes its turn after all that was issued before, and is carried out by its caller.

Inputs. Whether the input has to stay as it is until the operation is over says the handle: `staged` ones may be changed
at once. Private inputs of up to `STAGED_BYTES` are copied when they are issued, unless the result goes in their place:
up to that size the copy costs less than the hand-over (12 us for 256 KiB, same benchmark). In symmetric memory nothing
is copied, since peers read the input itself.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
import zlib
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..errors import CommunicatorError, UsageError

T = TypeVar("T")

STAGED_BYTES = 256 << 10
"""Inputs up to this size are copied when they are issued."""


class Handle(Generic[T]):
    """One operation under way.

    Attributes:
        staged: the input may be changed at once; otherwise not before the operation is done.
    """

    __slots__ = ("_callbacks", "_error", "_finished", "_line", "_over", "_result", "_run", "staged")

    def __init__(self, run: Callable[[], T], line: _Line, *, staged: bool = False) -> None:
        self.staged = staged
        self._line = line
        self._run: Callable[[], T] | None = run
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._finished = False
        self._over = threading.Lock()  # held until then
        self._over.acquire()

    def done(self) -> bool:
        """Whether the operation is over, well or not."""
        return self._finished

    def wait(self, timeout: float | None = None) -> T:
        """The operation's result, when it is over.

        Args:
            timeout: seconds; None waits as long as the communicator does for its ranks.

        Raises:
            CommunicatorError: as the synchronous call.
            TimeoutError: it is not over yet; it goes on, and can be waited for again.
        """
        if not self._finished:
            if self._line.runs_here():  # a callback waits for a later operation, which nobody else can carry out
                self._line.advance(self)
            elif self._over.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
                self._over.release()
            else:
                raise TimeoutError(f"the operation is not over after {timeout:g} s")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # a T from here on; None is one of them

    def error(self) -> BaseException | None:
        """What `wait` would raise; None while the operation is not over, or where it went well."""
        return self._error if self.done() else None

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call this once the operation is over, on the thread that carried it out; at once if it is over already.

        It must not raise.
        """
        self._callbacks.append(callback)
        if self.done():
            self._call_back()

    def carry_out(self) -> None:
        """For the line: do it."""
        run, self._run = self._run, None  # what it holds goes with it
        assert run is not None, "an operation runs once"
        try:
            self._result = run()
        except BaseException as err:  # Ctrl-C too: whoever waits gets it
            self._error = err
        del run
        self._end()

    def give_up(self, error: BaseException) -> None:
        """For the line: it will not be done."""
        self._run, self._error = None, error
        self._end()

    def _end(self) -> None:
        self._finished = True
        self._over.release()
        self._call_back()

    def _call_back(self) -> None:
        while True:
            try:
                callback = self._callbacks.pop(0)  # atomic: each is called by one thread
            except IndexError:
                return
            callback()


class _Line:
    """Operations that have not begun, and whose turn it is.

    The thread holds this, and nothing that holds the thread.
    """

    def __init__(self) -> None:
        self._waiting: deque[Handle[Any]] = deque()
        self._turn = threading.Lock()
        self._runner: int | None = None

    def runs_here(self) -> bool:
        """Whether the calling thread is the one that carries out operations now."""
        return self._runner == threading.get_ident()

    def append(self, handle: Handle[Any]) -> None:
        self._waiting.append(handle)

    def advance(self, until: Handle[Any] | None = None) -> None:
        """Carry out, in order, what has not begun; up to one operation, or all."""
        if self.runs_here():  # called by an operation's callback
            self._carry_out(until)
            return
        with self._turn:
            self._runner = threading.get_ident()
            try:
                self._carry_out(until)
            finally:
                self._runner = None

    def _carry_out(self, until: Handle[Any] | None) -> None:
        while until is None or not until.done():
            try:
                handle = self._waiting.popleft()
            except IndexError:
                return
            handle.carry_out()

    def give_up(self, error: BaseException) -> None:
        """What has not begun never will."""
        while self._waiting:
            self._waiting.popleft().give_up(error)

    def take(self) -> bool:
        """Take the turn after all that was issued; False if the caller's thread has it already."""
        if self.runs_here():
            return False
        self._turn.acquire()
        self._runner = threading.get_ident()
        try:
            self._carry_out(None)
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        self._runner = None
        self._turn.release()


class Progress:
    """A communicator's operations and the thread that carries them out; as a context: after all of them, alone."""

    def __init__(self, name: str) -> None:
        self._line = _Line()
        self._bell: SimpleQueue[bool] = SimpleQueue()
        self._closed = False
        self._taken: list[bool] = []
        self._thread = threading.Thread(target=_serve, args=(self._line, self._bell), name=name, daemon=True)
        self._thread.start()
        # Also when nobody closes the communicator: a thread inside a native call must not meet a dying interpreter.
        self._end = weakref.finalize(self, _end, self._bell, self._thread)

    def issue(self, run: Callable[[], T], *, staged: bool = False) -> Handle[T]:
        """Line up an operation.

        Raises:
            UsageError: the communicator is closed.
        """
        if self._closed:
            raise UsageError("the communicator is closed", remedy="make a new one")
        handle = Handle(run, self._line, staged=staged)
        self._line.append(handle)
        self._bell.put(True)
        return handle

    def __enter__(self) -> None:
        self._taken.append(self._line.take())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._taken.pop():
            self._line.release()

    def close(self, *, finish: bool) -> None:
        """End the thread.

        Args:
            finish: do what was issued first; otherwise only what has begun, and the rest fails.
        """
        self._closed = True
        if finish:
            self._line.advance()
        self._line.give_up(
            CommunicatorError(
                "the communicator was closed before the operation began", remedy="wait for it before closing"
            )
        )
        self._end()


def _serve(line: _Line, bell: SimpleQueue[bool]) -> None:
    while bell.get():
        line.advance()


def _end(bell: SimpleQueue[bool], thread: threading.Thread) -> None:
    bell.put(False)
    if thread is not threading.current_thread():
        with contextlib.suppress(RuntimeError):  # a forked child has no such thread
            thread.join()


def guarded(
    run: Callable[[], T], view: memoryview, *, in_place: bool, rank: int, what: str, leave: Callable[[], None]
) -> Callable[[], T]:
    """`run`, with a look at its input's bytes before and, where the result goes elsewhere, after (AUTOTUNE_CHECK=1).

    Args:
        view: the input, which must stay as it is now.
        leave: ends the group, so that the other ranks do not go on with what they read.
    """
    before = zlib.crc32(view)

    def checked() -> T:
        _compare(before, view, rank, what, leave)
        result = run()
        if not in_place:
            _compare(before, view, rank, what, leave)
        return result

    return checked


def _compare(before: int, view: memoryview, rank: int, what: str, leave: Callable[[], None]) -> None:
    if zlib.crc32(view) == before:
        return
    leave()
    raise CommunicatorError(
        f"rank {rank} changed the input of {what} while the operation was under way",
        remedy="leave the input as it is until wait() has returned, or give the call a copy",
    )
