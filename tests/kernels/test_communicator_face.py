"""The methods of Communicator: which buffers they take and refuse, what they return, and life after close()."""

from __future__ import annotations

import array
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from ranks.pool import STAGING_BYTES, SYMMETRIC_BYTES, Ranks, Step

from autotune.errors import UsageError
from autotune.kernels import Communicator, Shape, create_segment, distinct_names, slices
from autotune.kernels.schedules.registry import names
from autotune.types import Collective, Config, DType, Memory, ReduceOp


def first_legal(collective: Collective, message_bytes: int, dtype: DType, op: ReduceOp, memory: Memory) -> Config:
    return Config(algorithm=names(collective, 1)[0], segment_bytes=4096)


@pytest.fixture
def alone() -> Iterator[Communicator]:
    """A group of one, in this process."""
    fd = create_segment(1, STAGING_BYTES, SYMMETRIC_BYTES)
    try:
        comm = Communicator(fd, 0, 1, selector=first_legal, cores=1, timeout_s=2.0)
    finally:
        os.close(fd)
    with comm:
        yield comm


@pytest.fixture(scope="module")
def three() -> Iterator[Ranks]:
    with Ranks(3) as ranks:
        ranks.join()
        yield ranks


def method(name: str, arrays: dict[str, Any], **arguments: object) -> Step:
    return {"do": "method", "group": "g", "method": name, "arrays": arrays, "arguments": arguments}


def ask(ranks: Ranks, *steps: Step) -> list[dict[str, Any]]:
    answers = ranks.ask({rank: [step] for rank, step in enumerate(steps)})
    assert [answer.errors for answer in answers] == [[]] * 3
    return [answer.results[0] for answer in answers]


def test_all_reduce_in_place_and_into_out(three: Ranks) -> None:
    for got in ask(three, *(method("all_reduce", {"array": [[r, 1.5], "float32"]}) for r in range(3))):
        assert got == {"arrays": {"array": [3.0, 4.5]}, "returned": [3.0, 4.5]}
    steps = [method("all_reduce", {"array": [[r + 1], "int64"], "out": [[0], "int64"]}, op="prod") for r in range(3)]
    for rank, got in enumerate(ask(three, *steps)):
        assert got == {"arrays": {"array": [rank + 1], "out": [6]}, "returned": [6]}


def test_all_gather_makes_an_array_of_ranks(three: Ranks) -> None:
    for got in ask(three, *(method("all_gather", {"array": [[[r, r]], "int8"]}) for r in range(3))):
        assert got["returned"] == [[[0, 0]], [[1, 1]], [[2, 2]]]


def test_reduce_scatter_gives_rank_r_the_rth_part(three: Ranks) -> None:
    inputs = [[0, 10, 20 + rank] for rank in range(3)]
    steps = [method("reduce_scatter", {"array": [x, "int32"], "out": [[0], "int32"]}, op="avg") for x in inputs]
    assert [got["returned"] for got in ask(three, *steps)] == [[0], [10], [21]]


def test_broadcast_overwrites_all_but_the_root(three: Ranks) -> None:
    got = ask(three, *(method("broadcast", {"array": [[rank], "uint8"]}, root=1) for rank in range(3)))
    assert [each["arrays"]["array"] for each in got] == [[1]] * 3


def test_reduce_overwrites_the_roots_array_only(three: Ranks) -> None:
    got = ask(three, *(method("reduce", {"array": [[rank], "float64"]}, root=1, op="max") for rank in range(3)))
    assert [each["arrays"]["array"] for each in got] == [[0.0], [2.0], [2.0]]


def test_only_the_root_gives_what_is_scattered(three: Ranks) -> None:
    out = {"out": [[0], "int64"]}
    root = method("scatter", {"array": [[7, 8, 9], "int64"], **out}, root=1)
    other = method("scatter", out, array=None, root=1)
    assert [got["returned"] for got in ask(three, other, root, other)] == [[7], [8], [9]]


def test_only_the_root_gets_what_is_gathered(three: Ranks) -> None:
    outs = [{}, {"out": [[0, 0, 0], "int64"]}, {}]
    steps = [method("gather", {"array": [[rank * rank], "int64"], **outs[rank]}, root=1) for rank in range(3)]
    assert [got["returned"] for got in ask(three, *steps)] == [None, [0, 1, 4], None]


def test_all_to_all_transposes(three: Ranks) -> None:
    """bfloat16 over 16-bit integers: what moves keeps its bits."""
    inputs = [[10 * rank, 10 * rank + 1, 10 * rank + 2] for rank in range(3)]
    arrays = [{"array": [x, "int16"], "out": [[0, 0, 0], "int16"]} for x in inputs]
    steps = [method("all_to_all", of_rank, dtype="bfloat16") for of_rank in arrays]
    assert [got["returned"] for got in ask(three, *steps)] == [[0, 10, 20], [1, 11, 21], [2, 12, 22]]


@pytest.mark.parametrize(
    "buffer",
    [
        bytearray(8),
        array.array("f", [1, 2]),
        memoryview(bytearray(8)).cast("i"),
        mmap.mmap(-1, 8),
        np.zeros((2, 1, 1), np.float32),
        np.zeros(2, np.float32)[:0],
        np.zeros(1, np.float64)[()].reshape(()),
    ],
    ids=lambda buffer: type(buffer).__name__,
)
def test_any_writable_contiguous_buffer_is_taken(alone: Communicator, buffer: object) -> None:
    assert alone.all_reduce(cast(Any, buffer)) is buffer


@pytest.mark.parametrize(
    ("buffer", "words"),
    [
        (np.zeros((4, 4), np.float32)[:, :2], "not a contiguous buffer in C order"),
        (np.zeros(8, np.float32)[::2], "not a contiguous buffer in C order"),
        (np.zeros((2, 3), np.float32, order="F"), "contiguous buffer in C order"),
        (np.frombuffer(bytes(8), np.float32), "not a writable"),
        (bytes(8), "not a writable"),
        (np.zeros(2, ">f4"), "'>f4'"),
        (np.zeros(2, ">i8"), "'>i8'"),
        (np.zeros(2, np.complex64), "elements of format 'F'"),
        (np.zeros(2, bool), "elements of format '?'"),
        (np.zeros(2, np.int16), "elements of format 'h'"),
        (np.array(["a"]), "elements of format"),
        ([1.0, 2.0], "an object of type list is not a buffer"),
        (None, "an object of type NoneType is not a buffer"),
    ],
)
def test_other_buffers_are_refused(alone: Communicator, buffer: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        alone.all_reduce(cast(Any, buffer))
    assert words in caught.value.message
    assert caught.value.remedy


def test_what_was_asked_before_does_not_open_the_door(alone: Communicator) -> None:
    """Calls of NumPy arrays are remembered by size and type; the byte order and the order of axes are not forgotten."""
    alone.all_reduce(np.zeros((2, 3), np.float32))
    for odd, words in ((np.zeros((2, 3), ">f4"), "'>f4'"), (np.zeros((2, 3), np.float32, order="F"), "C order")):
        with pytest.raises(UsageError, match=words):
            alone.all_reduce(odd)


def test_a_fortran_array_is_not_gathered_into_c_order(alone: Communicator) -> None:
    with pytest.raises(UsageError, match="C order"):
        alone.all_gather(np.zeros((2, 3), np.float32, order="F"))


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("all_reduce", {"out": np.zeros(3, np.float32)}, "output has 12 bytes, not 8 (2 elements)"),
        ("all_gather", {"out": np.zeros(3, np.float32)}, "output has 12 bytes, not 8"),
        ("reduce_scatter", {"out": np.zeros(1, np.float32)}, "input has 8 bytes, not 4"),
        ("all_to_all", {"out": np.zeros(1, np.float32)}, "output has 4 bytes, not 8"),
        ("scatter", {"out": np.zeros(3, np.float32)}, "input has 8 bytes, not 12"),
        ("gather", {"out": np.zeros(1, np.float32)}, "output has 4 bytes, not 8"),
        ("gather", {}, "output has 0 bytes, not 8"),
        ("all_reduce", {"dtype": "float64", "out": bytearray(16)}, "output has 16 bytes, not 8"),
        ("all_reduce", {"dtype": "int3"}, "'int3' is not one of"),
        ("all_reduce", {"op": "summ"}, "'summ' is not one of: sum, prod, max, min, avg"),
        ("broadcast", {"root": 1}, "root 1 is not a rank of a group of 1"),
        ("broadcast", {"root": -1}, "root -1 is not a rank"),
    ],
)
def test_sizes_and_words_that_do_not_fit(alone: Communicator, name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(alone, name)(np.zeros(2, np.float32), **arguments)
    assert words in caught.value.message
    alone.barrier()  # the group is as usable as before


def test_a_near_word_is_suggested(alone: Communicator) -> None:
    with pytest.raises(UsageError) as caught:
        alone.all_reduce(np.zeros(2, np.float32), "summ")
    assert "'sum'" in caught.value.remedy


def test_bytes_that_are_no_whole_elements(alone: Communicator) -> None:
    with pytest.raises(UsageError, match="7 bytes are not whole elements of float32"):
        alone.all_reduce(bytearray(7), dtype="float32")


def test_parts_that_overlap_wrongly() -> None:
    """A group of two whose second rank is not needed: overlap is found before anything is sent."""
    memory = np.zeros(8, np.float32)
    with Ranks(2) as ranks:
        ranks.join()
        for name, source, target, words in (
            ("all_reduce", slice(0, 4), slice(2, 6), "overlap"),
            ("all_gather", slice(2, 4), slice(0, 4), "overlap"),  # rank 0's part is the first
            ("all_to_all", slice(0, 4), slice(0, 4), "overlap"),
            ("reduce_scatter", slice(0, 4), slice(2, 4), "overlap"),
        ):
            step = {"do": "overlapping", "group": "g", "method": name, "size": memory.size}
            step |= {"source": [source.start, source.stop], "target": [target.start, target.stop]}
            (answer,) = ranks.ask({0: [step]})
            assert answer.results[0]["error"] == "UsageError", name
            assert words in answer.errors[0]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (Config(algorithm="rnig", segment_bytes=64), "'rnig' is not known"),
        (Config(algorithm="pairwise", segment_bytes=64), "cannot do all_reduce"),
        (Config(algorithm="ring"), "has no segment_bytes"),
        (Config(algorithm="ring", segment_bytes=64, codec="int9"), "codec 'int9' is not one of: none, threshold"),
        (Config(algorithm="ring", segment_bytes=64, knobs=(("depth", 2),)), "unknown knob 'depth'"),
        (
            Config(algorithm="ring", segment_bytes=64, knobs=(("slices_in_flight", 9),)),
            "slices_in_flight is 9, not 1 to 8",
        ),
        (Config(algorithm="ring", segment_bytes=64, knobs=(("slices_in_flight", "4"),)), "slices_in_flight is '4'"),
        (Config(algorithm="ring", segment_bytes=64, knobs=(("stores", "hot"),)), "stores is 'hot'"),
    ],
)
def test_configs_that_cannot_be_carried_out(alone: Communicator, config: Config, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        alone.all_reduce(np.zeros(2, np.float32), config=config)
    assert words in caught.value.message


def test_the_selector_is_asked_with_the_message_size_in_bytes() -> None:
    asked = []

    def select(*arguments: object) -> Config:
        asked.append(arguments)
        return Config(algorithm="ring", segment_bytes=64)

    fd = create_segment(1, STAGING_BYTES, SYMMETRIC_BYTES)
    with Communicator(fd, 0, 1, selector=select, cores=1, timeout_s=2.0) as comm:
        comm.all_reduce(np.zeros(6, np.float64), "max")
        comm.all_gather(np.zeros(3, np.int16), dtype="float16")
    os.close(fd)
    assert asked == [
        (Collective.ALL_REDUCE, 48, DType.FLOAT64, ReduceOp.MAX, Memory.PRIVATE),
        (Collective.ALL_GATHER, 6, DType.FLOAT16, ReduceOp.SUM, Memory.PRIVATE),
    ]
    shape = Shape(Collective.REDUCE_SCATTER, DType.FLOAT32, ReduceOp.SUM, 0, 10)
    assert shape.message_bytes(4) == 160


def test_a_closed_communicator_says_so() -> None:
    fd = create_segment(1, STAGING_BYTES, SYMMETRIC_BYTES)
    comm = Communicator(fd, 0, 1, selector=first_legal, cores=1, timeout_s=2.0)
    os.close(fd)
    comm.close()
    comm.close()  # allowed twice
    shape = Shape(Collective.ALL_REDUCE, DType.INT8, ReduceOp.SUM, 0, 1)
    for use in (lambda: comm.all_reduce(np.zeros(1)), comm.barrier, lambda: comm.prepare(shape), lambda: comm.group):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_a_segment_for_other_ranks_or_not_ours(tmp_path: Path) -> None:
    fd = create_segment(1, STAGING_BYTES, SYMMETRIC_BYTES)
    with pytest.raises(UsageError, match="the segment is for 1 ranks, not 2"):
        Communicator(fd, 0, 2, selector=first_legal, cores=1, timeout_s=2.0)
    os.close(fd)
    for content in (b"", b"short", bytes(1 << 20)):
        file = tmp_path / "file"
        file.write_bytes(content)
        with file.open("r+b") as other, pytest.raises(Exception, match="shared segment") as caught:
            Communicator(other.fileno(), 0, 1, selector=first_legal, cores=1, timeout_s=2.0)
        assert type(caught.value).__name__ == "CommunicatorError"


@pytest.mark.parametrize("n", [0, -1, 1025])
def test_a_segment_for_no_possible_group(n: int) -> None:
    with pytest.raises(UsageError, match=f"n_ranks is {n}"):
        create_segment(n, STAGING_BYTES, 0)


def test_more_symmetric_memory_than_a_process_can_address() -> None:
    with pytest.raises(UsageError, match="for each of 64 ranks cannot be addressed") as caught:
        create_segment(64, STAGING_BYTES, 1 << 41)
    assert "AUTOTUNE_SYMMETRIC" in caught.value.remedy


def test_nobody_can_shrink_a_segment_under_its_ranks() -> None:
    fd = create_segment(2, STAGING_BYTES, SYMMETRIC_BYTES)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 4096)
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_threads_do_not_share_a_communicator() -> None:
    """Of two threads that call barrier() at once, one waits for rank 1 in vain, and the other is told off."""
    with Ranks(2) as ranks:
        ranks.join(timeout_s=1.0)
        (answer,) = ranks.ask({0: [{"do": "two_threads", "group": "g"}]})
        told_off, waited = sorted(answer.results[0]["said"], key=lambda said: "UsageError" not in said)
        assert "two threads use one communicator at once" in told_off
        assert "no sign of rank 1" in waited


def test_a_shape_is_a_number_or_several_of_any_kind_of_whole_number(alone: Communicator) -> None:
    shapes: list[tuple[Any, tuple[int, ...]]] = [(3, (3,)), (np.int64(3), (3,)), ([np.int32(2), 2], (2, 2)), ((), ())]
    for shape, sides in shapes:
        assert alone.allocate(shape).shape == sides
    with pytest.raises(UsageError, match="do not fit into symmetric memory"):
        alone.allocate([np.int32(1 << 30)] * 3)
    with pytest.raises(UsageError, match="'int3' is not one of"):
        alone.allocate(3, "int3")


def test_slices_counts_the_cuts() -> None:
    def cut(segment_bytes: int, message_bytes: int = 1 << 20) -> int:
        return slices(Collective.ALL_REDUCE, "ring", 4, message_bytes, DType.FLOAT32, segment_bytes, STAGING_BYTES)

    assert cut(1 << 20, 0) == 1
    assert cut(1 << 12) > cut(1 << 14) > 1
    assert cut(1 << 30) == cut(1 << 28), "a segment that the outbox cannot hold is lowered by rule"


def test_names_that_do_the_same_are_one() -> None:
    assert "ring" in distinct_names(Collective.ALL_REDUCE, 2)
    assert "direct" not in distinct_names(Collective.ALL_REDUCE, 2)
    assert "direct" in distinct_names(Collective.ALL_REDUCE, 2, keep=["direct"])
    assert {"ring", "direct"} <= set(distinct_names(Collective.ALL_REDUCE, 5))
