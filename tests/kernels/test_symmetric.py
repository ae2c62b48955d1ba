"""Symmetric memory on ranks that are processes: what allocate and free refuse, calls that do not fit, what is left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ranks.pool import Answer, Ranks, Step

from autotune.kernels.symmetric import ALIGNMENT

TIMEOUT_S = 1.0
MIB = 1 << 20


@pytest.fixture
def two() -> Iterator[Ranks]:
    with Ranks(2) as ranks:
        ranks.join(timeout_s=TIMEOUT_S)
        yield ranks


def allocate(name: str, shape: int | Sequence[int], dtype: str = "float32", *, look: bool = True) -> Step:
    return {"do": "allocate", "group": "g", "name": name, "shape": shape, "dtype": dtype, "look": look}


def free(name: str, *part: int) -> Step:
    return {"do": "free", "group": "g", "name": name, "part": part}


def on_arrays(method: str, buffers: dict[str, list[Any]], **arguments: object) -> Step:
    return {"do": "on_arrays", "group": "g", "method": method, "buffers": buffers, "arguments": arguments}


def write(name: str, *part: int, values: float) -> Step:
    return {"do": "write", "to": [name, *part], "values": values}


ZERO_COPY = ["direct", 4096, "zero_copy"]


def both(ranks: Ranks, *steps: Step) -> list[Answer]:
    return ranks.ask({0: steps, 1: steps})


def assert_all_say(answers: Sequence[Answer], *parts: str) -> None:
    for answer in answers:
        assert len(answer.errors) == 1, answer
        for part in parts:
            assert part in answer.errors[0], answer.errors


def test_arrays_are_zeros_at_equal_places_whoever_used_the_memory_before(two: Ranks) -> None:
    steps = [
        allocate("a", [3, 5], "float64"),
        allocate("b", 7, "bfloat16"),
        allocate("empty", 0),
        write("a", values=9.0),
        free("a"),
        allocate("again", 120, "uint8"),
        allocate("late", [2, 1, 2], "int64"),
    ]
    first, second = both(two, *steps)
    assert first.results == second.results
    a, b, empty, _, _, again, late = first.results
    assert (a["shape"], a["dtype"], b["shape"], b["dtype"]) == ([3, 5], "float64", [7], "uint16")
    assert (empty["shape"], late["shape"]) == ([0], [2, 1, 2])
    assert all(made["zeros"] for made in (a, b, empty, again, late))
    assert again["place"] == a["place"], "the first gap that is large enough"
    places = [made["place"] for made in (b, empty, again, late)]
    assert len(set(places)) == 4
    assert all(place % ALIGNMENT == 0 for place in places)


def test_the_selector_is_asked_for_symmetric_memory_where_both_buffers_are_in_it(two: Ranks) -> None:
    """The selector of these ranks answers zero copy there, and in place it has to say so too."""
    steps = [allocate("a", 100), allocate("b", 100), write("a", values=2.0)]
    steps += [on_arrays("all_reduce", {"array": ["a", 0, 50], "out": ["b", 30, 80]})]
    steps += [
        on_arrays("all_reduce", {"array": ["a"]}),
        on_arrays("all_reduce", {"array": ["private"], "out": ["b", 0, 4]}),
    ]
    for answer in both(two, *steps):
        assert answer.errors == []
        moved, in_place, mixed = (result["returned"] for result in answer.results[3:])
        assert (moved, in_place, mixed) == ([4.0] * 50, [4.0] * 100, [0.0] * 4)


def test_ranks_that_allocate_different_sizes_are_told_both_and_nothing_is_allocated(two: Ranks) -> None:
    answers = two.ask({0: [allocate("a", 100)], 1: [allocate("a", 200)]})
    assert_all_say(answers, "ranks 0 and 1 differ in bytes asked for: 400 and 800")
    assert all("same arrays in the same order" in answer.results[0]["remedy"] for answer in answers)
    places = [answer.results[0]["place"] for answer in both(two, allocate("b", 100))]
    assert places == [0, 0]


def test_equal_bytes_of_another_shape_are_equal_memory(two: Ranks) -> None:
    answers = two.ask({0: [allocate("a", [2, 8], "float32")], 1: [allocate("a", 16, "int32")]})
    assert [answer.errors for answer in answers] == [[], []]


@pytest.mark.parametrize("shape", [-1, [3, -2], 1 << 40, [1 << 40, 1 << 40]])
def test_what_no_memory_holds_is_refused_in_words(two: Ranks, shape: int | list[int]) -> None:
    assert_all_say(both(two, allocate("a", shape)), "allocate: ")
    assert both(two, allocate("b", 100))[1].errors == []


def resident_bytes(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512


def join(fd: int, ranks: Ranks, **settings: object) -> None:
    step = {"do": "join", "group": "g", "n": 2, "timeout_s": TIMEOUT_S, **settings}
    assert [answer.errors for answer in ranks.ask({0: [step], 1: [step]}, fd=fd)] == [[], []]


def allocate_after_exchanges(ranks: Ranks, name: str) -> None:
    """An array, when exchanges have written to every bank of message lines, so that their pages are there."""
    both(ranks, *[step for _ in range(32) for step in (allocate("before", 1), free("before"))], allocate(name, 1))


def test_too_much_for_the_host_is_refused_before_a_page_is_touched() -> None:
    """The rank that has least room decides, for all of them."""
    with Ranks(2) as ranks, ranks.segment(2) as fd:
        join(fd, ranks, room_bytes=[64 * MIB, 20 * MIB])
        allocate_after_exchanges(ranks, "first")
        before = resident_bytes(fd)
        answers = both(ranks, allocate("a", 11 * MIB, "uint8"))
        assert_all_say(answers, "2 ranks ask for 22MiB together", "20MiB of memory are left")
        assert resident_bytes(fd) == before
        assert [answer.errors for answer in both(ranks, allocate("a", 10 * MIB, "uint8", look=False))] == [[], []]
        assert resident_bytes(fd) == before + 20 * MIB, "the pages are there, and nobody pays for them later"


def test_a_full_heap_says_how_full_and_takes_arrays_again_when_one_is_freed() -> None:
    with Ranks(2) as ranks, ranks.segment(2, 4 * MIB) as fd:
        join(fd, ranks)
        both(ranks, allocate("a", 3 * MIB, "uint8"))
        answers = both(ranks, allocate("b", 2 * MIB, "uint8"))
        assert_all_say(answers, "2097152 bytes do not fit into symmetric memory, of which 3MiB of 4MiB are in use")
        assert "AUTOTUNE_SYMMETRIC" in answers[0].results[0]["remedy"]
        answers = both(ranks, free("a"), allocate("b", 4 * MIB, "uint8"))
        assert [answer.errors for answer in answers] == [[], []]


def test_a_group_without_symmetric_memory_says_what_to_set() -> None:
    with Ranks(2) as ranks, ranks.segment(2, 0) as fd:
        join(fd, ranks)
        answers = both(ranks, allocate("a", 1))
        assert_all_say(answers, "allocate: ")
        assert "AUTOTUNE_SYMMETRIC" in answers[0].results[0]["remedy"]


def test_free_gives_the_pages_back() -> None:
    with Ranks(2) as ranks, ranks.segment(2) as fd:
        join(fd, ranks)
        allocate_after_exchanges(ranks, "kept")
        before = resident_bytes(fd)
        both(ranks, allocate("a", 3 * MIB, "uint8"))
        assert resident_bytes(fd) == before + 6 * MIB
        both(ranks, free("a"))
        assert resident_bytes(fd) == before


def test_only_what_allocate_returned_is_freed_and_only_once(two: Ranks) -> None:
    both(two, allocate("a", 4096), allocate("b", 10), write("b", values=1.0))
    for steps in ([free("private")], [free("a", 1, 4096)]):
        answers = both(two, *steps)
        assert_all_say(answers, "free: places in symmetric memory by rank: [-1, -1]")
        assert "what allocate returned" in answers[0].results[0]["remedy"]
    answers = both(two, free("a"), free("a"))
    assert_all_say(answers, "[-1, -1]")
    sums = [answer.results[0]["returned"][0] for answer in both(two, on_arrays("all_reduce", {"array": ["b"]}))]
    assert sums == [2.0, 2.0], "other arrays are as they were"


def test_different_arrays_are_not_freed_and_both_heaps_stay_equal(two: Ranks) -> None:
    both(two, allocate("a", 10), allocate("b", 10))
    answers = two.ask({0: [free("a")], 1: [free("b")]})
    assert_all_say(answers, f"by rank: [0, {ALIGNMENT}]")
    answers = two.ask({0: [free("a")], 1: [free("private")]})
    assert_all_say(answers, "by rank: [0, -1]")
    first, second = both(two, free("a"), allocate("c", 10))
    assert first.errors == second.errors == []
    assert first.results[1]["place"] == second.results[1]["place"] == 0


# ---- calls that do not fit together


def test_views_at_different_places(two: Ranks) -> None:
    both(two, allocate("a", 200))
    answers = two.ask(
        {rank: [on_arrays("all_reduce", {"array": ["a", 4 * rank, 4 * rank + 100]})] for rank in range(2)}
    )
    assert_all_say(answers, "ranks 0 and 1 disagree at call", "in: place in symmetric memory")


def test_an_output_at_another_place_is_a_difference_too(two: Ranks) -> None:
    both(two, allocate("a", 100), allocate("b", 200))
    buffers: list[dict[str, list[Any]]] = [{"array": ["a"], "out": ["b", rank, rank + 100]} for rank in range(2)]
    answers = two.ask({rank: [on_arrays("all_reduce", buffers[rank], config=ZERO_COPY)] for rank in range(2)})
    assert_all_say(answers, "in: place in symmetric memory")


def test_in_place_on_one_rank_only(two: Ranks) -> None:
    both(two, allocate("a", 100), allocate("b", 100))
    buffers = [{"array": ["a"]}, {"array": ["a"], "out": ["b"]}]
    answers = two.ask({rank: [on_arrays("all_reduce", buffers[rank])] for rank in range(2)})
    assert_all_say(answers, "ranks 0 and 1 disagree at call", "in: in place or not")


def test_one_rank_in_private_memory(two: Ranks) -> None:
    """Its selector answers for private memory."""
    both(two, allocate("a", 4))
    buffers = [{"array": ["a"]}, {"array": ["private"]}]
    answers = two.ask({rank: [on_arrays("all_reduce", buffers[rank])] for rank in range(2)})
    assert_all_say(answers, "ranks 0 and 1 disagree at call", "exchange")


@pytest.mark.parametrize("out", [{}, {"out": ["private"]}], ids=["in place", "out of place"])
def test_zero_copy_of_private_buffers_is_refused_and_harms_nothing(two: Ranks, out: dict[str, Any]) -> None:
    both(two, allocate("a", 4), write("a", values=1.0))
    for answer in both(two, on_arrays("all_reduce", {"array": ["private"], **out}, config=ZERO_COPY)):
        assert answer.results[0]["error"] == "UsageError"
        assert answer.errors[0].endswith("the buffers are not in symmetric memory")
        assert "Communicator.allocate" in answer.results[0]["remedy"]
    sums = [answer.results[0]["returned"][0] for answer in both(two, on_arrays("all_reduce", {"array": ["a"]}))]
    assert sums == [2.0, 2.0]


def test_one_rank_that_cannot_make_a_zero_copy_call_is_missed_by_the_others(two: Ranks) -> None:
    both(two, allocate("a", 4))
    steps = [on_arrays("all_reduce", {"array": [name]}, config=ZERO_COPY) for name in ("a", "private")]
    waiting, refused = two.ask({rank: [step] for rank, step in enumerate(steps)})
    assert "the buffers are not in symmetric memory" in refused.errors[0]
    assert "no sign of rank 1" in waiting.errors[0]


@pytest.mark.parametrize(
    ("method", "algorithm", "arguments", "words"),
    [
        ("all_reduce", "flat", {}, "flat cannot do all_reduce over 2 ranks by zero copy, in place: rank 0 overwrites"),
        ("gather", "flat", {"out": ["b"]}, "flat cannot do gather over 2 ranks by zero copy: gather has a buffer"),
    ],
)
def test_algorithms_that_cannot_are_named_with_those_that_can(
    two: Ranks, method: str, algorithm: str, arguments: dict[str, Any], words: str
) -> None:
    both(two, allocate("a", 8), allocate("b", 16))
    step = on_arrays(method, {"array": ["a"], **arguments}, config=[algorithm, 4096, "zero_copy"])
    for answer in both(two, step):
        assert words in answer.errors[0]
        assert "exchange=staged" in answer.results[0]["remedy"]
    if method == "all_reduce":
        assert "ring" in answer.results[0]["remedy"]


def test_a_word_that_is_no_exchange(two: Ranks) -> None:
    step = on_arrays("all_reduce", {"array": ["private"]}, config=["ring", 4096, "magic"])
    for answer in both(two, step):
        assert "exchange is 'magic'" in answer.errors[0]
        assert "zero_copy" in answer.results[0]["remedy"]


# ---- the end


INSPECT: Step = {"do": "inspect"}
CLOSE: Step = {"do": "close", "group": "g"}


def test_arrays_outlive_their_communicator_and_nothing_outlives_them() -> None:
    with Ranks(2) as ranks:
        (before,) = ranks.ask({0: [INSPECT]})
        ranks.join(timeout_s=TIMEOUT_S)
        both(ranks, allocate("a", 1000), allocate("b", 10))
        answers = both(ranks, CLOSE, write("a", values=2.0), INSPECT)
        assert [answer.results[1]["sum"] for answer in answers] == [2000.0, 2000.0]
        assert answers[0].results[2]["mapped"] == 2, "the group's memory and the arrays'"
        (answer,) = ranks.ask({0: [{"do": "forget", "names": ["a", "b"]}, INSPECT]})
        assert answer.results[1] == before.results[0]
        assert answer.results[1]["mapped"] == 0


def test_a_closed_communicator_neither_allocates_nor_frees_nor_holds_memory() -> None:
    with Ranks(1) as ranks:
        (before,) = ranks.ask({0: [INSPECT]})
        ranks.join(1)
        (answer,) = ranks.ask({0: [allocate("a", 10), {"do": "closed_memory", "group": "g", "name": "a"}]})
        assert [said.partition(":")[0] for said in answer.results[1]["said"]] == ["the communicator is closed"] * 2
        (answer,) = ranks.ask({0: [{"do": "forget", "names": ["a"]}, INSPECT]})
        assert answer.results[1] == before.results[0], "though somebody still holds the communicator"
