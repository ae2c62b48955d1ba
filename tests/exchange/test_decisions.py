"""What a library does with an exported file is what the table says, for every size, as the library counts it.

Each format is read by a reader of ours (readers.py) that follows the library's own parser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from exchange import readers
from exchange.library_tables import config, key, table_of
from exchange.selection_tree import BASE
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError
from autotune.exchange import EXPORTERS, Request, Wire
from autotune.exchange.sizes import Counted, inclusive, message_bytes_of
from autotune.exchange.words import Call, library
from autotune.types import Collective, Config, RuleKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a format is read back, and what it writes of one of the library's algorithms."""

    read: Callable[[str], readers.Decide]
    written: Callable[[Call, str], str | None]
    outside: Callable[[Call], str | None] = lambda call: None


def own_name(call: Call, word: str) -> str:
    return word


FORMATS = {
    "openmpi": Format(read=readers.openmpi, written=lambda call, word: str(call.algorithms[word]["number"])),
    "openmpi-json": Format(read=readers.openmpi_json, written=lambda call, word: str(call.algorithms[word]["number"])),
    "ucc": Format(read=readers.ucc, written=own_name),
    "nccl-tuner": Format(
        read=readers.nccl_csv, written=lambda call, word: f"{word}/simple/8", outside=lambda call: "ring/simple/8"
    ),
    "hccl-tuner": Format(read=readers.hccl_json, written=own_name),
    "mpich": Format(
        read=readers.mpich,
        written=lambda call, word: f"{word}",
        outside=lambda call: readers.mpich(BASE + " " * (4096 - len(BASE) % 4096 + 1))(call.name, 1, 0),
    ),
}
ASKED = Request(base=BASE, channels=8, protocol=Wire.SIMPLE)


@st.composite
def native_rules(draw: st.DrawFn) -> tuple[RuleKey, dict[int, Config]]:
    """One key with a few adjoining ranges, each of which holds a size that splits evenly over the ranks."""
    collective = draw(st.sampled_from(Collective))
    n_ranks = draw(st.integers(2, 9))
    names = (
        "ring",
        "tree",
        "double_tree",
        "recursive_doubling",
        "recursive_halving_doubling",
        "bruck",
        "flat",
        "direct",
    )
    unit = n_ranks if collective.splits_by_rank else 1
    parts = sorted(draw(st.sets(st.integers(1, 400 // unit), min_size=2, max_size=6)))
    edges = [part * unit - draw(st.integers(0, unit - 1)) for part in parts]  # every [low, high) holds low's multiple
    configs = [config(draw(st.sampled_from((*names, "pairwise", "nhr", "chain")))) for _ in edges]
    return key(collective, n_ranks), dict(zip(edges, configs, strict=True))


@pytest.mark.parametrize("name", FORMATS)
@given(rules=native_rules())
def test_every_size_gets_what_the_table_says(name: str, rules: tuple[RuleKey, dict[int, Config]]) -> None:
    found, by_size = rules
    form, words = FORMATS[name], library(EXPORTERS[name].library or "")
    calls = words.calls.get(found.collective, ())
    expressible = [c for c in list(by_size.values())[:-1] if any(c.algorithm in call.native for call in calls)]
    if not expressible:
        return
    try:
        text = EXPORTERS[name].render(table_of({found: by_size}), ASKED).text
    except AutotuneError:  # legality may leave nothing of what there are words for
        assert name == "mpich"
        return
    decide = form.read(text)
    for call in calls:
        for message in range(
            0, max(by_size) + 2 * found.n_ranks, found.n_ranks if found.collective.splits_by_rank else 1
        ):
            size = message // found.n_ranks if call.counted is Counted.PER_RANK else message
            assert decide(call.name, found.n_ranks, size) in allowed(form, call, by_size, message, found.n_ranks)


def allowed(form: Format, call: Call, by_size: dict[int, Config], message: int, n_ranks: int) -> set[str | None]:
    """What the rule of a size means to the library; its own choice where there is no word or it is not legal."""
    inside = next((c for (low, c), (high, _) in pairwise(sorted(by_size.items())) if low <= message < high), None)
    outside = form.outside(call)
    if inside is None or inside.algorithm not in call.native:
        return {outside}
    word = call.native[inside.algorithm]
    if call.algorithms[word].get("pow2_ranks") and n_ranks & (n_ranks - 1):
        return {outside}
    return {form.written(call, word)}


@pytest.mark.parametrize("name", FORMATS)
def test_other_rank_counts_are_left_to_the_library(name: str) -> None:
    rules = {key(Collective.ALL_REDUCE, n): {64: config("ring"), 4096: config("ring")} for n in (4, 5, 8)}
    native = {"hccl-tuner": "nhr"}.get(name, "ring")
    rules = {found: {size: config(native) for size in by_size} for found, by_size in rules.items()}
    form = FORMATS[name]
    decide = form.read(EXPORTERS[name].render(table_of(rules), ASKED).text)
    call = library(EXPORTERS[name].library or "").calls[Collective.ALL_REDUCE][0]
    said = {n: decide(call.name, n, 1024) for n in range(2, 12)}
    ours = form.written(call, call.native[native])
    assert {n for n, what in said.items() if what == ours} >= {4, 5, 8}
    if form.outside(call) != ours:
        assert {n for n, what in said.items() if what == ours} == {4, 5, 8}


@given(
    st.sampled_from(Counted), st.lists(st.integers(0, 10**6), min_size=2, max_size=8, unique=True), st.integers(1, 64)
)
def test_converted_ranges_are_disjoint_and_have_no_gap(counted: Counted, edges: list[int], n_ranks: int) -> None:
    spans = [inclusive(counted, low, high, n_ranks) for low, high in pairwise(sorted(edges))]
    found = [span for span in spans if span is not None]
    assert all(low <= high for low, high in found)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(found))
    for span, (low, high) in zip(spans, pairwise(sorted(edges)), strict=True):
        for size in range(*((0, 0) if span is None else (span[0], min(span[1], span[0] + 50) + 1))):
            assert low <= message_bytes_of(counted, size, n_ranks) < high


def test_hccl_counts_a_rank_s_input_of_an_all_gather() -> None:
    rules = {
        key(Collective.ALL_GATHER, 8): {8 * 1000: config("direct"), 8 * 3000: config("nhr"), 8 * 5000: config("nhr")}
    }
    decide = readers.hccl_json(EXPORTERS["hccl-tuner"].render(table_of(rules), ASKED).text)
    said = [decide("allgather", 8, size) for size in (999, 1000, 2999, 3000, 4999, 5000)]
    assert said == [None, "mesh", "mesh", "nhr", "nhr", None]


def test_ucc_counts_a_rank_s_output_of_a_reduce_scatter() -> None:
    rules = {key(Collective.REDUCE_SCATTER, 4): {4000: config("ring"), 40000: config("ring")}}
    text = EXPORTERS["ucc"].render(table_of(rules), ASKED).text
    assert "reduce_scatter:1000-9999:host:[4]:inf:@ring" in text


def test_mpich_counts_what_each_pair_exchanges_in_an_all_to_all() -> None:
    rules = {key(Collective.ALL_TO_ALL, 4): {4000: config("bruck"), 40000: config("bruck")}}
    decide = readers.mpich(EXPORTERS["mpich"].render(table_of(rules), ASKED).text)
    said = [decide("alltoall", 4, size) for size in (999, 1000, 9999, 10000)]
    assert said == [f"MPIR_Alltoall_intra_{word}" for word in ("pairwise", "brucks", "brucks", "pairwise")]


def test_mpich_is_given_no_size_that_its_atoi_would_garble() -> None:
    rules = {key(Collective.ALL_REDUCE, 4): {64: config("ring"), 1 << 33: config("ring")}}
    exported = EXPORTERS["mpich"].render(table_of(rules), ASKED)
    decide = readers.mpich(exported.text)
    assert decide("allreduce", 4, (1 << 31) - 1) == "MPIR_Allreduce_intra_ring"
    assert decide("allreduce", 4, 1 << 32) == "MPIR_Allreduce_intra_recursive_doubling"
    assert any("2147483647" in note for note in exported.notes)


@pytest.mark.parametrize("pad", range(0, 4096, 512))
def test_an_mpich_file_never_ends_with_a_page(pad: int) -> None:
    rules = {key(Collective.ALL_REDUCE, 4): {64: config("ring"), 4096: config("ring")}}
    longer = BASE[:-1] + f', "collective=other{"x" * pad}": {{"algorithm=MPIR_x": {{}}}}}}'
    text = EXPORTERS["mpich"].render(table_of(rules), Request(base=longer)).text
    size = len(text)
    exact = BASE[:-1] + f', "collective=other{"x" * (pad + 4096 - size % 4096)}": {{"algorithm=MPIR_x": {{}}}}}}'
    padded = EXPORTERS["mpich"].render(table_of(rules), Request(base=exact)).text
    assert len(padded) % 4096 == 1
    readers.mpich(padded)
