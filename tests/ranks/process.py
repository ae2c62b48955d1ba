"""One rank as a process that carries out plain steps (``-m ranks.process SOCKET SETUP``). Started by pool.py only.

In:  a line of JSON with steps, and the descriptor of a segment when a group is to be joined. Out: one result for each
step, on one line, then the bytes that the line counts. Errors are results: the next step is tried all the same, so
that a test sees what the communicator says afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from ranks.buffers import POISON, Buffer, buffers_of, call_method
from ranks.cases import Call
from spec import STORAGE, Array, widened

from autotune.errors import AutotuneError
from autotune.kernels import Communicator, ErrorFeedback, Shape, _native
from autotune.kernels.compiler import compile_program
from autotune.kernels.program import TO_OUTBOX
from autotune.kernels.programs import DTYPE_NUMBER
from autotune.kernels.schedules.registry import build, names
from autotune.kernels.symmetric import Placing
from autotune.types import Collective, Config, DType, Memory, ReduceOp

_ARENA_BYTES = 1 << 20


class _Rank:
    """Groups by name, and what to do with them."""

    def __init__(self, rank: int, n_cores: int) -> None:
        self.rank = rank
        self.n_cores = n_cores
        self.fd = -1  # a segment that came with the steps
        self.groups: dict[str, Communicator] = {}
        self.arrays: dict[str, Array] = {}  # of allocate, by the names that steps give
        self.blobs: list[bytes] = []  # outputs that go back after the results

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(self, f"do_{step['do']}")(step) or {}
        except (AutotuneError, KeyboardInterrupt) as err:
            remedy = getattr(err, "remedy", "")
            return {"error": type(err).__name__, "message": str(err), "remedy": remedy}

    def group(self, step: dict[str, Any]) -> Communicator:
        return self.groups[step["group"]]

    def do_join(self, step: dict[str, Any]) -> None:
        rooms = step.get("room_bytes")  # by rank

        def select(collective: Collective, size: int, dtype: DType, op: ReduceOp, memory: Memory) -> Config:
            shared = (("exchange", "zero_copy"),) if memory is Memory.SYMMETRIC else ()
            name = "direct" if shared else names(collective, step["n"])[0]
            return Config(algorithm=name, segment_bytes=4096, knobs=shared)

        try:
            self.groups[step["group"]] = Communicator(
                self.fd,
                step.get("rank", self.rank),
                step["n"],
                selector=select,
                cores=self.n_cores,
                timeout_s=step["timeout_s"],
                check=step.get("check", False),
                room_bytes=lambda: rooms and rooms[self.rank],
            )
        finally:
            os.close(self.fd)

    def do_call(self, step: dict[str, Any]) -> dict[str, Any]:
        """Run one call; its output goes back, and what should have stayed as it was is looked at."""
        call, comm = Call.from_json(step["call"]), self.group(step)
        mine = call.inputs(comm.n_ranks)[comm.rank]
        source, target = buffers_of(call, mine, comm.n_ranks, comm.rank, self._arena(step) if call.symmetric else None)
        if call.symmetric:
            call_method(comm, call, source, target)
        else:
            native = comm.prepare(Shape(call.collective, call.dtype, call.op, call.root, call.count), call.config)
            comm.group.run(native, source and source.array, target and target.array)
        whole = all(buffer.guards_whole() for buffer in (source, target) if buffer)
        shared = source and target and np.shares_memory(source.array, target.array)
        kept = shared or source is None or source.array.tobytes() == mine.tobytes()
        has_output = target is not None and (call.collective is not Collective.REDUCE or comm.rank == call.root)
        if target and has_output:
            self.blobs.append(target.array.tobytes())
        return {"guards_whole": whole, "input_kept": bool(kept), "output": has_output}

    def _arena(self, step: dict[str, Any]) -> Array:
        """The array that a group's calls in symmetric memory share, so that each overwrites the one before."""
        if step["group"] not in self.arrays:
            self.arrays[step["group"]] = self.group(step).allocate(_ARENA_BYTES, "uint8")
        return self.arrays[step["group"]]

    def do_method(self, step: dict[str, Any]) -> dict[str, Any]:
        """Call a method of the Communicator on small arrays given as lists; the arrays come back as they are then."""
        arrays = {name: np.array(*array) for name, array in step.get("arrays", {}).items()}
        arguments = dict(step.get("arguments", {}))
        if "config" in arguments:
            name, segment_bytes, knobs = arguments["config"]
            arguments["config"] = Config(algorithm=name, segment_bytes=segment_bytes, knobs=tuple(map(tuple, knobs)))
        result = getattr(self.group(step), step["method"])(**arrays, **arguments)
        returned = None if result is None else result.tolist()
        return {"arrays": {name: array.tolist() for name, array in arrays.items()}, "returned": returned}

    def do_overlapping(self, step: dict[str, Any]) -> None:
        """Call a method with two parts of one array."""
        memory = np.zeros(step["size"], np.float32)
        source, target = slice(*step["source"]), slice(*step["target"])
        getattr(self.group(step), step["method"])(memory[source], out=memory[target])

    def do_two_threads(self, step: dict[str, Any]) -> dict[str, Any]:
        """Two threads call barrier() of one communicator; what each of them gets."""
        said: list[str] = []
        call = {**step, "do": "method", "method": "barrier"}
        threads = [threading.Thread(target=lambda: said.append(str(self.step(call)))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"said": said}

    def do_send(self, step: dict[str, Any]) -> None:
        dtype = DType(step.get("dtype", "uint8"))
        self.group(step).send(_message(step, dtype), step["peer"], dtype=dtype)

    def do_recv(self, step: dict[str, Any]) -> dict[str, Any]:
        dtype = DType(step.get("dtype", "uint8"))
        buffer = Buffer(step["count"], dtype, 0)
        self.group(step).recv(buffer.array, step["peer"], dtype=dtype)
        right = buffer.array.tobytes() == _message(step, dtype).tobytes()
        return {"right": right, "guards_whole": buffer.guards_whole()}

    def do_all_to_all_v(self, step: dict[str, Any]) -> dict[str, Any]:
        """counts[s][r]: elements from rank s to rank r, as every rank is told; two lists may override a rank's own."""
        comm = self.group(step)
        counts, rank, dtype = step["counts"], comm.rank, DType(step.get("dtype", "int32"))
        sent = step.get("send_counts", {}).get(str(rank), counts[rank])
        received = step.get("recv_counts", {}).get(str(rank), [row[rank] for row in counts])
        source, target = Buffer(max(0, sum(sent)), dtype, 0), Buffer(max(0, sum(received)), dtype, 0)
        parts = [_part(step, rank, to, length, dtype) for to, length in enumerate(sent)]
        source.bytes[:] = np.concatenate(parts).view(np.uint8)[: source.bytes.size]
        before = source.array.tobytes()
        target.bytes[:] = POISON
        config = Config(
            algorithm=step["algorithm"], segment_bytes=step["segment_bytes"], codec=step.get("codec", "none")
        )
        comm.all_to_all_v(source.array, target.array, sent, received, dtype=dtype, config=config)
        parts = [_part(step, sender, rank, length, dtype) for sender, length in enumerate(received)]
        return {
            "right": target.array.tobytes() == np.concatenate(parts).tobytes(),
            "guards_whole": source.guards_whole() and target.guards_whole(),
            "input_kept": source.array.tobytes() == before,
        }

    def do_feedback(self, step: dict[str, Any]) -> dict[str, Any]:
        """The same call again and again, each time by the next config; the sum of all results goes back as float64, and
        what error feedback has left over as float64 too."""
        comm, call = self.group(step), Call.from_json(step["call"])
        mine = call.inputs(comm.n_ranks)[comm.rank]
        scatters = call.collective is Collective.REDUCE_SCATTER
        target = np.empty(call.count if scatters else mine.size, mine.dtype)
        total = np.zeros(target.size)
        feedback = ErrorFeedback() if step["feedback"] else None
        named: dict[str, Any] = {"feedback": feedback, "name": "g"} if feedback is not None else {}
        method = comm.reduce_scatter if scatters else comm.all_reduce
        for number in range(step["calls"]):
            turns = step["algorithms"]
            config = replace(call.config, algorithm=turns[number % len(turns)])
            method(mine, out=target, op=call.op, dtype=call.dtype, config=config, **named)
            total += widened(target, call.dtype)
        self.blobs.append(total.tobytes())
        if feedback is not None:
            residual = feedback.residual("g", mine.size, call.dtype)
            self.blobs.append(residual.astype(np.float64).tobytes())
        return {"kept": mine.tobytes() == call.inputs(comm.n_ranks)[comm.rank].tobytes()}

    def do_unwritten(self, step: dict[str, Any]) -> None:
        """A lossy call that announces its messages without having written them."""
        comm, call = self.group(step), Call.from_json(step["call"])
        schedule = build(call.collective, call.algorithm, comm.n_ranks)
        program = compile_program(call.collective, schedule, comm.rank, tuple(range(comm.n_ranks)), lossy=True)
        silent = [
            tuple(replace(op, destinations=op.destinations & ~TO_OUTBOX, charged=None) for op in level)
            for level in program.levels
        ]
        words = replace(program, levels=tuple(silent)).flatten()
        with mock.patch("autotune.kernels.calls.load_program", return_value=_native.Program(words)):
            self.do_call(step)

    def do_large(self, step: dict[str, Any]) -> dict[str, Any]:
        """A call too large to send about, on the inputs of trials, which are checked where they are."""
        comm, call = self.group(step), Call.from_json(step["call"])
        placing = Placing.SYMMETRIC if call.symmetric else Placing.PRIVATE
        native = comm.prepare(Shape(call.collective, call.dtype, call.op, call.root, call.count), call.config, placing)

        def made(elements: int) -> Array:
            return comm.allocate(elements, call.dtype) if call.symmetric else np.empty(elements, STORAGE[call.dtype])

        source, target = made(native.input_elements), made(native.output_elements)
        dtype = DTYPE_NUMBER[call.dtype]
        _native.fill(source, dtype, 61, 0, comm.rank, 0)
        _native.poison(target)
        comm.group.run(native, source, target)
        parts = _large_parts(call, target, comm.rank, comm.n_ranks)
        wrong = [_native.first_wrong(part, dtype, 61, 0, ranks, first) for ranks, first, part in parts]
        return {"wrong": wrong, "bytes": max(source.nbytes, target.nbytes)}

    def do_allocate(self, step: dict[str, Any]) -> dict[str, Any]:
        """An array of symmetric memory, under a name; its place, and whether it holds zeros, if that is looked at."""
        comm = self.group(step)
        array = comm.allocate(step["shape"], step.get("dtype", "float32"))
        self.arrays[step["name"]] = array
        zeros = not array.any() if step["look"] else None
        return {"zeros": zeros, "shape": list(array.shape), "dtype": str(array.dtype), "place": comm.group.place(array)}

    def do_free(self, step: dict[str, Any]) -> None:
        """Free an array, or a part of it."""
        self.group(step).free(self._view([step["name"], *step.get("part", [])]))

    def do_closed_memory(self, step: dict[str, Any]) -> dict[str, Any]:
        """What a closed communicator says when it is asked to allocate and to free."""
        comm = self.group(step)
        comm.close()
        said = []
        for ask in (lambda: comm.allocate(4), lambda: comm.free(self.arrays[step["name"]])):
            try:
                ask()
            except AutotuneError as err:
                said.append(str(err))
        return {"said": said}

    def do_forget(self, step: dict[str, Any]) -> None:
        """Let go of arrays without freeing them."""
        for name in step["names"]:
            del self.arrays[name]

    def do_write(self, step: dict[str, Any]) -> dict[str, Any]:
        view = self._view(step["to"])
        view[...] = step["values"]
        return {"sum": float(view.sum())}

    def do_on_arrays(self, step: dict[str, Any]) -> dict[str, Any]:
        """Call a method on parts of named arrays; a name that is not known stands for private zeros of 4 floats."""
        buffers = {argument: self._view(view) for argument, view in step["buffers"].items()}
        arguments = dict(step.get("arguments", {}))
        if "config" in arguments:
            name, segment_bytes, exchange = arguments["config"]
            arguments["config"] = Config(algorithm=name, segment_bytes=segment_bytes, knobs=(("exchange", exchange),))
        result = getattr(self.group(step), step["method"])(**buffers, **arguments)
        return {"returned": None if result is None else result.tolist()}

    def _view(self, view: Sequence[Any]) -> Array:
        """[name, start, stop] of a flat array."""
        name, *part = view
        array: Array = self.arrays[name] if name in self.arrays else np.zeros(4, np.float32)
        return array.reshape(-1)[slice(*part)] if part else array

    def do_close(self, step: dict[str, Any]) -> None:
        self.groups.pop(step["group"]).close()

    def do_work(self, step: dict[str, Any]) -> None:
        """Busy for a while, so that ranks arrive in another order."""
        for _ in range(step["turns"]):
            pass

    def do_fork(self, step: dict[str, Any]) -> dict[str, Any]:
        """A child that lets go of its copies of the groups and ends, as a forked data loader does."""
        child = os.fork()
        if child == 0:
            self.groups.clear()
            os._exit(0)
        return {"status": os.waitpid(child, 0)[1]}

    def do_clock(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"ns": time.monotonic_ns()}  # one clock for all processes of a host

    def do_signal(self, step: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.Signals[step["name"]])

    def do_until_error(self, step: dict[str, Any]) -> dict[str, Any]:
        """Repeat a call until it fails; the first output has to come again every time."""
        self.do_call(step)
        first = self.blobs.pop()
        while True:
            self.do_call(step)
            if self.blobs.pop() != first:
                return {"wrong": True}

    def do_signal_in_collective(self, step: dict[str, Any]) -> None:
        """Repeat a call until the kernel's alarm ends this process, wherever it is then."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, step["after_s"])
        self.do_until_error(step)

    def do_inspect(self, step: dict[str, Any]) -> dict[str, Any]:
        """What this process still holds of any group."""
        with open("/proc/self/maps", encoding="ascii") as maps:
            mapped = sum("memfd:autotune" in line for line in maps)
        links = []
        for entry in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{entry}"))
            except FileNotFoundError:
                continue  # the listing's own descriptor
        return {"mapped": mapped, "descriptors": len(links), "pids": sum("pidfd" in link for link in links)}


def _message(step: dict[str, Any], dtype: DType) -> Array:
    rng = np.random.default_rng([11, step["seed"]])
    size: int = step["count"] * dtype.itemsize
    return rng.integers(0, 256, size, np.uint8).view(STORAGE[dtype])


def _part(step: dict[str, Any], source: int, target: int, length: int, dtype: DType) -> Array:
    rng = np.random.default_rng([13, step["seed"], source, target])
    return rng.integers(0, 256, max(0, length) * dtype.itemsize, np.uint8).view(STORAGE[dtype])


def _large_parts(call: Call, target: Array, rank: int, n: int) -> list[tuple[list[int], int, Array]]:
    """(ranks whose inputs are summed, first element of theirs, where the result is)."""
    match call.collective:
        case Collective.ALL_GATHER:
            return [([source], 0, target[source * call.count : (source + 1) * call.count]) for source in range(n)]
        case Collective.BROADCAST:
            return [([call.root], 0, target)]
        case Collective.REDUCE_SCATTER:
            return [(list(range(n)), rank * call.count, target)]
        case _:
            return [(list(range(n)), 0, target)]


def _serve(link: socket.socket, rank: _Rank) -> None:
    while True:
        line, fds, _, _ = socket.recv_fds(link, 1 << 16, 1)
        if not line:
            return
        rank.fd = fds[0] if fds else -1
        while not line.endswith(b"\n"):
            line += link.recv(1 << 16)
        results = [rank.step(step) for step in json.loads(line)]
        head = {"results": results, "sizes": [len(blob) for blob in rank.blobs]}
        link.sendall(json.dumps(head).encode() + b"\n" + b"".join(rank.blobs))
        rank.blobs.clear()


def main(arguments: list[str]) -> None:
    _native.die_with_parent()
    setup = json.loads(arguments[1])
    os.sched_setaffinity(0, setup["cores"])
    with socket.socket(fileno=int(arguments[0])) as link:
        _serve(link, _Rank(setup["rank"], setup["n_cores"]))


if __name__ == "__main__":
    main(sys.argv[1:])
