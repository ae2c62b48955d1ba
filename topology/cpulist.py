"""Lists of CPU numbers as the kernel writes them: ``0-3,8`` for {0, 1, 2, 3, 8}. Pure functions on text."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def parse_cpu_list(text: str) -> frozenset[int]:
    """``"0-3,8"`` -> {0, 1, 2, 3, 8}; an empty text is an empty set.

    Raises:
        ValueError: not ascending ranges of numbers below 100,000.
    """
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a CPU number or a range such as 0-3")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(f"the range {part!r} runs backwards")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """{0, 1, 2, 3, 8} -> ``"0-3,8"``, the form that ``taskset -c`` takes; numbers two or more apart in even
    steps are written its way as ``"0-30:2"``.
    """
    numbers = sorted(set(cpus))
    if len(numbers) > 2:
        step = numbers[1] - numbers[0]
        if step > 1 and numbers == list(range(numbers[0], numbers[-1] + 1, step)):
            return f"{numbers[0]}-{numbers[-1]}:{step}"
    parts: list[str] = []
    start = 0
    for index, number in enumerate(numbers):
        if index + 1 == len(numbers) or numbers[index + 1] != number + 1:
            parts.append(str(number) if index == start else f"{numbers[start]}-{number}")
            start = index + 1
    return ",".join(parts)
