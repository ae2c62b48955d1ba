"""Workload files: what they mean, and that every fault is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.plan import Workload, WorkloadCall, default_plan, load_workload, parse_workload
from autotune.types import Collective, DType, Memory

YAML = """\
- {collective: all_reduce, bytes: 1MiB, ranks: 4, dtype: bfloat16, calls: 160}
- {calls: 0.5, collective: all_gather, ranks: 2, bytes: 64K}
"""
CSV = """\
collective,bytes,ranks,dtype,calls
all_reduce, 1MiB, 4, bfloat16, 160

all_gather,64K,2,,0.5
"""
CALLS = (
    WorkloadCall(
        collective=Collective.ALL_REDUCE, message_bytes=1 << 20, n_ranks=4, dtype=DType.BFLOAT16, calls_per_step=160.0
    ),
    WorkloadCall(collective=Collective.ALL_GATHER, message_bytes=64 << 10, n_ranks=2, dtype=None, calls_per_step=0.5),
)


@pytest.mark.parametrize(("name", "text"), [("w.yaml", YAML), ("w.yml", YAML), ("w.csv", CSV), ("W.CSV", CSV)])
def test_both_kinds_of_file_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    assert load_workload(path).calls == CALLS


def test_the_calls_are_the_cells_and_their_weights() -> None:
    twice = Workload(calls=(*CALLS, CALLS[0]))
    plan = default_plan(2).override(workload=twice)
    weights = plan.weights()
    assert weights is not None
    assert [(p.key.n_ranks, p.message_bytes, calls) for p, calls in weights.items()] == [
        (2, 64 << 10, 0.5),
        (4, 1 << 20, 320.0),
    ]
    assert plan.problems() == tuple(weights)
    assert not plan.refine
    assert default_plan(2).weights() is None
    both = plan.override(memories=list(Memory)).problems()
    assert {problem.key.memory for problem in both} == set(Memory)


def test_the_digest_follows_the_cells_but_not_the_weights() -> None:
    plan, more = (default_plan(2).override(workload=Workload(calls=calls)) for calls in (CALLS, (*CALLS, CALLS[0])))
    fewer = default_plan(2).override(workload=Workload(calls=CALLS[:1]))
    assert plan.digest == more.digest
    assert len({plan.digest, fewer.digest, default_plan(2).digest}) == 3


CELL = "collective: all_reduce, bytes: 1K, ranks: 2, dtype: float32, calls: 1"


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "w.yaml", "empty"),
        ("collective: all_reduce", "w.yaml:1:1", "list of calls"),
        ("- all_reduce", "w.yaml:1:3", "'key: value'"),
        (f"- {{{CELL}, colour: red}}", "w.yaml:1:75", "unknown key 'colour'"),
        (f"- {{{CELL}, calls: 2}}", "w.yaml:1:75", "calls is given twice"),
        ("- {collective: all_reduce, bytes: 1K, ranks: 2, dtype: float32}", "w.yaml:1:3", "calls is missing"),
        (f"- {{{CELL.replace('all_reduce', 'allreduce')}}}", "w.yaml:1:16", "unknown collective 'allreduce'"),
        (f"- {{{CELL.replace('1K', '1KB')}}}", "w.yaml:1:35", "ambiguous"),
        (f"- {{{CELL.replace('1K', '0')}}}", "w.yaml:1:35", "0 bytes"),
        (f"- {{{CELL.replace('ranks: 2', 'ranks: two')}}}", "w.yaml:1:46", "rank count"),
        (f"- {{{CELL.replace('ranks: 2', 'ranks: [2]')}}}", "w.yaml:1:47", "nested"),
        (f"- {{{CELL.replace('dtype: float32, ', '')}}}", "w.yaml:1:3", "their type is missing"),
        (f"- {{{CELL.replace('float32', 'fp32')}}}", "w.yaml:1:56", "unknown dtype 'fp32'"),
        (f"- {{{CELL.replace('calls: 1', 'calls: 0')}}}", "w.yaml:1:72", "above 0"),
        (f"- {{{CELL.replace('calls: 1', 'calls: nan')}}}", "w.yaml:1:72", "above 0"),
        (f"- {{{CELL.replace('calls: 1', 'calls: .')}}}", "w.yaml:1:72", "above 0"),
        (f"- &a {{{CELL}}}", "w.yaml:1:3", "anchors"),
        (f"- {{{CELL}", "w.yaml:", "expected"),
        ("- \0", "w.yaml", "NUL"),
    ],
)
def test_a_fault_in_yaml_is_named_with_its_place(text: str, place: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_workload(text.encode(), name="w.yaml", csv=False)
    assert caught.value.message.startswith(place), caught.value.message
    assert says in caught.value.message
    assert caught.value.remedy


HEAD = "collective,bytes,ranks,dtype,calls\n"


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "w.csv", "empty"),
        ("\n\n", "w.csv", "empty"),
        (HEAD, "w.csv", "no calls"),
        ("collective,bytes,ranks,dtype\nall_reduce,1K,2,float32\n", "w.csv:1:1", "calls is missing"),
        ("collective,bytes,ranks,dtype,count\n", "w.csv:1:30", "unknown column 'count'"),
        ("collective,bytes,bytes,ranks,calls\n", "w.csv:1:18", "bytes stands twice"),
        (HEAD + "all_reduce,1K,2,float32\n", "w.csv:2:1", "4 fields below a heading of 5"),
        (HEAD + "all_reduce,1K,2,float32,1,\n", "w.csv:2:1", "6 fields"),
        (HEAD + "all_reduce,1KB,2,float32,1\n", "w.csv:2:12", "ambiguous"),
        (HEAD + "all_reduce,  1KB,2,float32,1\n", "w.csv:2:14", "ambiguous"),
        (HEAD + "all_reduce,1K,2;3,float32,1\n", "w.csv:2:15", "rank count"),
        (HEAD + "all_reduce,1K,,float32,1\n", "w.csv:2:1", "ranks is missing"),
        (HEAD + "all_reduce,1K,2,,1\n", "w.csv:2:1", "their type is missing"),
        (HEAD + "all_gather,1K,2,,1e3\n", "w.csv:2:18", "above 0"),
        (HEAD + '"all_reduce",1K,2,float32,1\n', "w.csv:2:1", "quotes"),
        ("\ufeff" + HEAD, "w.csv", "byte order mark"),
    ],
)
def test_a_fault_in_csv_is_named_with_its_place(text: str, place: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_workload(text.encode(), name="w.csv", csv=True)
    assert caught.value.message.startswith(place), caught.value.message
    assert says in caught.value.message
    assert caught.value.remedy


def test_files_that_cannot_be_a_workload(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither in \.yaml nor in \.csv"):
        load_workload(tmp_path / "w.txt")
    with pytest.raises(UsageError, match="cannot be read"):
        load_workload(tmp_path / "missing.csv")
    large = tmp_path / "large.csv"
    large.write_text(HEAD + "all_gather,1K,2,,1\n" * 300_000, "utf-8")
    with pytest.raises(UsageError, match="more than"):
        load_workload(large)
    many = HEAD + "all_gather,1K,2,,1\n" * 20_001
    with pytest.raises(UsageError, match="20001 calls"):
        parse_workload(many.encode(), name="w.csv", csv=True)


def test_a_range_of_sizes_is_where_to_begin_and_a_list_is_measured_as_it_stands() -> None:
    plan = default_plan(2)
    assert plan.refine
    assert not plan.override(sizes=[8, 64]).refine
    assert plan.override(sizes=[8, 64], refine=True).refine
