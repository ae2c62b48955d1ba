"""CPU lists: read as the kernel writes them, written as taskset reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.topology.cpulist import format_cpu_list, parse_cpu_list


def test_reads_ranges_and_numbers() -> None:
    assert parse_cpu_list("0-3,8\n") == {0, 1, 2, 3, 8}
    assert parse_cpu_list("") == frozenset()


@pytest.mark.parametrize("text", ["a", "1,,2", "3-1", "1-", "-1", "0-3:2", "0-999999999", "٣"])
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a CPU number|runs backwards"):
        parse_cpu_list(text)


@given(cpus=st.frozensets(st.integers(0, 300)))
def test_writes_what_it_reads(cpus: frozenset[int]) -> None:
    text = format_cpu_list(cpus)
    if ":" in text:
        low, high, step = map(int, text.replace(":", "-").split("-"))
        assert frozenset(range(low, high + 1, step)) == cpus
    else:
        assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    ("cpus", "text"), [({0, 2, 4, 6}, "0-6:2"), ({0, 2}, "0,2"), ({0, 1, 2, 4}, "0-2,4"), (set(), ""), ({7}, "7")]
)
def test_writes(cpus: frozenset[int], text: str) -> None:
    assert format_cpu_list(cpus) == text
