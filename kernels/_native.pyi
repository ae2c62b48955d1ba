"""Native executor of autotune; used by autotune.kernels, not by people."""

from collections.abc import Sequence

import numpy
import numpy.typing


class Network:
    """One rank's connections to ranks of other hosts."""

    @staticmethod
    def ucx(libraries: Sequence[str], devices: str, rank: int, n_ranks: int) -> Network: ...

    @staticmethod
    def sockets(devices: str, rank: int, n_ranks: int) -> Network: ...

    @property
    def address(self) -> bytes: ...

    @property
    def name(self) -> str:
        """ucx or sockets."""

    @property
    def library(self) -> str:
        """UCX's path, or empty."""

    @property
    def version(self) -> str:
        """UCX's, or empty."""

    @property
    def rank(self) -> int: ...

    @property
    def refused(self) -> int: ...

    def connect(self, host_of: Sequence[int], host_names: Sequence[str], addresses: Sequence[bytes], greetings_out: Sequence[bytes], greetings_in: Sequence[bytes]) -> None:
        """
        By rank: its host, its address, 32 bytes of proof and 8 of token to send and to expect.
        """

    def meet(self, at_most_s: float) -> bool:
        """Goes on connecting; whether all are connected."""

    def missing(self) -> str:
        """What keeps it from being connected, for people; empty if nothing does."""

    @property
    def last_refused(self) -> str:
        """
        Where the last stranger came from whose connection was closed, or empty.
        """

    def transports(self, rank: int) -> list[str]:
        """Such as tcp/eth0, to a rank of another host."""

def create_segment(n_ranks: int, staging_bytes: int, symmetric_bytes: int) -> int:
    """
    A new sealed memory segment for a group; returns a descriptor that the caller owns.
    """

class Program:
    """
    A compiled schedule of one rank: Program.flatten() of kernels/compiler.py.
    """

    def __init__(self, words: Sequence[int]) -> None: ...

    def slices(self, count: int, dtype: int, segment_bytes: int, staging_bytes: int, in_flight: int) -> int:
        """Into how many slices a call would be cut."""

class Call:
    """A call without its buffers; equal on all ranks."""

    @property
    def slices(self) -> int: ...

    @property
    def zero_copy(self) -> bool: ...

    @property
    def single_copy(self) -> bool: ...

    @property
    def input_elements(self) -> int: ...

    @property
    def output_elements(self) -> int: ...

class Group:
    """One rank's end of a group that shares a segment."""

    def __init__(self, fd: int, rank: int, spins: int, yields: int, timeout_s: float, check: bool, network: Network | None = None) -> None: ...

    @property
    def rank(self) -> int: ...

    @property
    def n_ranks(self) -> int: ...

    def prepare(self, program: Program, collective: int, dtype: int, op: int, root: int, algorithm: str, count: int, segment_bytes: int, in_flight: int, stream: bool, outbox: int, codec: tuple[int, float] | None = None) -> Call:
        """
        codec: its number and parameter (codec.h), for a program that was made for one.
        """

    def run(self, call: Call, input: object, output: object) -> None: ...

    def check(self, call: Call, input: object, output: object) -> None:
        """Raises what run() would say of the buffers."""

    def run_collecting(self, call: Call, input: object, output: object, residual: object) -> None:
        """
        As run(); what encoding drops is added to the residual, which has an element for each of the input.
        """

    def run_split(self, call: Call, input: object, output: object, input_counts: Sequence[int], output_counts: Sequence[int]) -> None: ...

    def time(self, call: Call, barrier: Call, inputs: Sequence[object], outputs: Sequence[object], calls: int) -> float: ...

    def send(self, to: int, data: object, dtype: int) -> None: ...

    def recv(self, source: int, data: object, dtype: int) -> None: ...

    def symmetric(self, offset: int, bytes: int) -> numpy.typing.NDArray[numpy.uint8]:
        """
        A part of this rank's symmetric memory, which lives as long as the array.
        """

    def forget(self, offset: int, bytes: int) -> None:
        """
        Gives the pages of a part of this rank's symmetric memory back to the system.
        """

    def place(self, buffer: object | None) -> int | None:
        """Where a buffer lies in this rank's symmetric memory, or None."""

    @property
    def only_cores(self) -> list[int]:
        """
        By rank, the core to which it was bound when it joined; -1 where it may run on several.
        """

    @property
    def single_copy_fault(self) -> str:
        """
        Why calls cannot read the others' private buffers, the same on every rank; empty where they can.
        """

    @property
    def symmetric_bytes(self) -> int: ...

    def leave(self) -> None: ...

def fill(data: object, dtype: int, modulus: int, batch: int, rank: int, first: int) -> None:
    """Writes elements first, first + 1 ... of a rank's input."""

def poison(data: object) -> None:
    """Overwrites a buffer with bytes that are no right answer."""

def first_wrong(data: object, dtype: int, modulus: int, batch: int, ranks: Sequence[int], first: int) -> int:
    """
    Index of the first element that is not the sum of these ranks' inputs, or -1.
    """

def got_and_expected(data: object, dtype: int, modulus: int, batch: int, ranks: Sequence[int], first: int, index: int) -> tuple[float, float]:
    """An element and what it should be (16-bit floats: the element's bits)."""

def combine(variant: str, dtype: int, op: int, sources: Sequence[object], output: object, divisor: int) -> None:
    """Combines buffers by one variant of the arithmetic."""

def pingpong(group: Group, data: object, turns: int) -> float:
    """Seconds of one message between ranks 0 and 1: half a round trip."""

def own_memory_fault() -> str:
    """
    Why this process may not read even its own memory through the kernel; empty where it may.
    """

def die_with_parent() -> None:
    """This process is killed when the thread that started it ends."""

def arithmetic() -> str:
    """The variant that this CPU runs."""

CODEC_BLOCK: int = 256

class Codec:
    """A lossy codec for one type; see kernels/codecs.py."""

    def __init__(self, kind: int, parameter: float, dtype: int, variant: str | None = None) -> None: ...

    def limit(self, elements: int) -> int:
        """Bytes that `wire` needs to encode so many elements."""

    def encode(self, data: object, wire: object) -> int:
        """Returns the bytes of the encoding."""

    def decode(self, wire: object, data: object, tile: int = 4096) -> int:
        """
        Fills `data`, `tile` elements at a time; returns the bytes that the encoding had.
        """

    def requantise(self, data: object, out: object) -> None:
        """out = decode(encode(data))."""

    def collect(self, before: object, after: object, weight: float, residual: object) -> None:
        """residual += weight * (before - after), where that is finite."""

    def correct(self, data: object, residual: object, out: object) -> None:
        """
        out = data + residual, rounded; the residual becomes what the rounding left.
        """
