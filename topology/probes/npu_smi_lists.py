"""The shorter answers of ``npu-smi info``: ``-l``, ``-m``, ``-t spod-info``, ``-t hccs`` and ``-t usages``. Pure.

In: lines. Out: one value for each answer. The columns of ``-m`` are found by its titles, since versions differ:
``Chip Logic ID`` is not there on the 950, ``Chip Phy-ID`` not before the A3. Rows of the board's own controller (Mcu)
are no chips.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .pasted import Line, Word, fact_of, facts_of, unreadable, whole

LIST = "npu-smi info -l"
MAP = "npu-smi info -m"

_TITLE = re.compile(r"NPU ID|Slot ID|Chip ID|Chip Logic ID|Chip Phy-ID|Chip Name")
_NAME = re.compile(r"[A-Za-z]+(?: [0-9A-Za-z-]+)?|[0-9A-Za-z-]*[A-Za-z][0-9A-Za-z-]*")
_NO_POD = ("NA", "N/A", "-")
_LARGEST_ID = (1 << 32) - 2  # above it: the driver's way to say that there is none
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNpu:
    """A block of ``-l``."""

    npu_id: int
    product: str | None
    n_chips: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedChip:
    """A row of ``-m``."""

    npu_id: int
    chip_id: int
    logic_id: int | None
    phy_id: int | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """Where a chip stands in a super pod; None where the driver says that it is in none."""

    pod: str | None
    super_device_id: str | None


def read_list(lines: Sequence[Line]) -> tuple[int | None, list[ListedNpu]]:
    """(what ``-l`` gives as the number of NPUs, those that it lists).

    Raises:
        ProbeError: a number that cannot be read, or an NPU that stands twice.
    """
    total: int | None = None
    listed: dict[int, ListedNpu] = {}
    current: ListedNpu | None = None
    for key, word in facts_of(lines):
        if key == "Total Count":
            if total is not None:
                raise unreadable(LIST, word, "one Total Count, and this is a second one")
            total = whole(LIST, word, "the number of NPUs")
        elif key == "NPU ID":
            npu_id = whole(LIST, word, "an NPU's number")
            if npu_id in listed:
                raise unreadable(LIST, word, f"each NPU once, and {npu_id} stands here again")
            current = ListedNpu(npu_id=npu_id, product=None, n_chips=None)
        elif key == "Product Name" and current is not None:
            current = ListedNpu(npu_id=current.npu_id, product=word.text or None, n_chips=current.n_chips)
        elif key == "Chip Count" and current is not None:
            n_chips = whole(LIST, word, "the number of chips")
            current = ListedNpu(npu_id=current.npu_id, product=current.product, n_chips=n_chips)
        if current is not None:
            listed[current.npu_id] = current
    return total, list(listed.values())


def read_map(lines: Sequence[Line]) -> list[MappedChip]:
    """The chips of ``-m``; empty where there is no table.

    Raises:
        ProbeError: a row without its titles, with too few cells, or that stands twice.
    """
    titles: list[str] = []
    chips: dict[tuple[int, int], MappedChip] = {}
    for line in lines:
        if "Chip ID" in line.text and "Chip Name" in line.text:
            titles = _TITLE.findall(line.text)
            if " ".join(titles) != " ".join(line.text.split()) or len(set(titles)) != len(titles):
                raise unreadable(MAP, line.words[0], f"titles of the form {_TITLE.pattern}, each once")
        elif line.words[0].text.isdecimal():
            chip = _mapped(line, titles)
            if chip is not None and (chip.npu_id, chip.chip_id) in chips:
                raise unreadable(MAP, line.words[0], f"NPU {chip.npu_id} chip {chip.chip_id} once, not again")
            if chip is not None:
                chips[chip.npu_id, chip.chip_id] = chip
        elif "Ascend" in line.text or "Mcu" in line.text:
            raise unreadable(MAP, line.words[0], "an NPU's number at the start of a row")
    return list(chips.values())


def _mapped(line: Line, titles: Sequence[str]) -> MappedChip | None:
    """A row; None for the board's controller."""
    words = line.words
    if "NPU ID" not in titles:
        raise unreadable(MAP, words[0], "the titles 'NPU ID', 'Chip ID' and 'Chip Name' above the first row")
    n_numbers = len(titles) - 1  # the name stands last and may have several words
    name = " ".join(word.text for word in words[n_numbers:])
    if not _NAME.fullmatch(name) or titles[-1] != "Chip Name":
        raise unreadable(MAP, words[-1], f"{n_numbers} numbers and a name in the row, as in the titles")
    by_title = dict(zip(titles, words, strict=False))
    if name.casefold() == "mcu":
        return None
    return MappedChip(
        npu_id=whole(MAP, by_title["NPU ID"], "an NPU's number"),
        chip_id=whole(MAP, by_title["Chip ID"], "a chip's number"),
        logic_id=_optional(by_title.get("Chip Logic ID")),
        phy_id=_optional(by_title.get("Chip Phy-ID")),
        name=name.removeprefix("Ascend "),
    )


def _optional(word: Word | None) -> int | None:
    return None if word is None or word.text == "-" else whole(MAP, word, "a number, or -")


def read_pod(command: str, lines: Sequence[Line]) -> PodPlace | None:
    """The answer of ``-t spod-info``; None where the text has no such facts.

    Raises:
        ProbeError: an id that is no number.
    """
    pod, place = (fact_of(command, lines, key) for key in ("Super Pod ID", "SDID"))
    if pod is None and place is None:
        return None
    return PodPlace(pod=_id_in_pod(command, pod), super_device_id=_id_in_pod(command, place))


def _id_in_pod(command: str, word: Word | None) -> str | None:
    if word is None or word.text in _NO_POD:
        return None
    match = re.fullmatch(r"(-[0-9]{1,10})|(0x[0-9A-Fa-f]{1,16})|([0-9]{1,20})", word.text)
    if match is None:
        raise unreadable(command, word, "an id in a super pod, a whole number")
    number = -1 if match[1] else int(word.text, 16 if match[2] else 10)
    return str(number) if 0 <= number <= _LARGEST_ID else None


def read_hccs_health(lines: Sequence[Line]) -> str | None:
    """The answer of ``-t hccs``, such as ``"OK"``; None where the text has no such fact."""
    return next((word.text for key, word in facts_of(lines) if key.casefold() == "hccs health status"), None)


def read_memory(command: str, lines: Sequence[Line]) -> dict[int, int]:
    """The memory in bytes of each chip of ``-t usages``, HBM or else DDR; the chip's number ends its block.

    Raises:
        ProbeError: a number that cannot be read.
    """
    found: dict[int, int] = {}
    capacity: dict[str, int] = {}
    for key, word in facts_of(lines):
        if key in ("HBM Capacity(MB)", "DDR Capacity(MB)"):
            capacity[key] = whole(command, word, "a capacity in MB")
        elif key == "Chip ID":
            total = capacity.get("HBM Capacity(MB)") or capacity.get("DDR Capacity(MB)")
            if total:
                found[whole(command, word, "a chip's number")] = total * _MIB
            capacity = {}
    return found
