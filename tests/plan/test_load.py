"""Plan files: what they may say, and one planted fault for each guard, with file, line and column."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import AutotuneError, UsageError
from autotune.measure import QUICK
from autotune.plan import Plan, default_plan, load_plan, parse_plan
from autotune.types import Collective, DType, Memory, ReduceOp

WHOLE = """\
# what our cluster runs
collectives: [all_reduce, all_to_all]
sizes: 8-2KiB
ranks: [4, 2]
dtypes: bfloat16
op: max
memory: [symmetric, private]
budget: 10m
effort: quick
rounds: 12
"""


def parse(text: str) -> Plan:
    return parse_plan(text.encode(), name="plan.yaml", n_cores=2)


def test_every_key_is_read() -> None:
    plan = parse(WHOLE)
    assert plan.collectives == (Collective.ALL_REDUCE, Collective.ALL_TO_ALL)
    assert plan.sizes == (8, 32, 128, 512, 2048)
    assert plan.ranks == (2, 4)
    assert plan.dtypes == (DType.BFLOAT16,)
    assert plan.op is ReduceOp.MAX
    assert plan.memories == (Memory.SYMMETRIC, Memory.PRIVATE)
    assert plan.budget_s == 600.0
    assert (plan.effort.name, plan.effort.confirm_rounds, plan.effort.most_rounds) == ("quick", 12, 15)
    assert plan.effort.keep == QUICK.keep


def test_what_is_left_out_is_as_in_the_default_plan() -> None:
    assert parse("ranks: 2,4") == default_plan(2)
    assert parse("op: sum") == parse("memory: private") == default_plan(2)
    assert parse("memory: symmetric").memories == (Memory.SYMMETRIC,)


@pytest.mark.parametrize("sizes", ["[8, 1KiB, 64-1K]", "8,1KiB,64-1K", "\n  - 8\n  - 64-1K\n  - 1024"])
def test_sizes_may_be_a_list_a_range_or_both(sizes: str) -> None:
    assert parse(f"sizes: {sizes}").sizes == (8, 64, 256, 1024)


def test_line_ends_of_windows_change_nothing() -> None:
    assert parse(WHOLE.replace("\n", "\r\n")) == parse(WHOLE)


@pytest.mark.parametrize(
    ("text", "place", "message", "remedy"),
    [
        ("collective: [all_reduce]", "1:1", "unknown key 'collective'", "write collectives"),
        ("op: sum\nbuget: 3m", "2:1", "unknown key 'buget'", "write budget"),
        ("collectives: [all_reduce, all_reduc]", "1:27", "unknown collective 'all_reduc'", "write all_reduce"),
        ("collectives: 7", "1:14", "unknown collective '7'", "write one of"),
        ("dtypes:\n  - float32\n  - fp16", "3:5", "unknown dtype 'fp16'", "write float16"),
        ("op: plus", "1:5", "unknown op 'plus'", "write one of"),
        ("memory: shared", "1:9", "unknown memory 'shared'", "write one of private, symmetric"),
        ("memory: [private, symetric]", "1:19", "unknown memory 'symetric'", "write symmetric"),
        ("memory: []", "1:9", "the list is empty", "leave the key out"),
        ("effort: fast", "1:9", "unknown effort 'fast'", "write one of"),
        ("sizes: [8, 12MB]", "1:12", "ambiguous", "12MiB"),
        ("sizes: 1e6k", "1:8", "'1e6k' is not a number of bytes", "64KiB"),
        ("sizes: 64KiB-8", "1:8", "runs from", "LOW-HIGH"),
        ("sizes: 0x10", "1:8", "'0x10'", "65536"),
        ("sizes: -8", "1:8", "''", "65536"),
        ("ranks: 0", "1:8", "'0' is not a whole number from 1", "2,4,8"),
        ("ranks: [2, yes]", "1:12", "'yes'", "2,4,8"),
        ("ranks: [2, 3.5]", "1:12", "'3.5'", "2,4,8"),
        ("budget: 10", "1:9", "'10'", "unit"),
        ("rounds: 8", "1:9", "rounds '8' is not a whole number from 9", "fewer cannot tell"),
        ("rounds: 1001", "1:9", "'1001'", "rounds: 9"),
        ("rounds: many", "1:9", "'many'", "rounds: 9"),
        ("op: sum\nop: max", "2:1", "op is given twice, first in line 1", "keep one"),
        ("ranks:\n  - 2\nranks: 4", "3:1", "ranks is given twice, first in line 1", "keep one"),
        ("op:", "1:4", "no value", "leave the key out"),
        ("op: ''", "1:5", "no value", "leave the key out"),
        ("sizes: []", "1:8", "the list is empty", "leave the key out"),
        ("op: [sum]", "1:5", "where one word is expected", "one word"),
        ("sizes: {low: 8}", "1:8", "where one word is expected", "one word"),
        ("ranks: [[]]", "1:9", "where one word is expected", "one word"),
        ("? [op]\n: sum", "1:3", "where one word is expected", "one word"),
        (f"op: {'x' * 201}", "1:5", "a value of 201 characters", "write a value"),
        ("- all_reduce", "1:1", "'key: value' lines", "collectives:"),
        ("all_reduce", "1:1", "'key: value' lines", "collectives:"),
        ("op: &a sum", "1:5", "anchors", "README"),
        ("op: *a", "1:5", "aliases", "README"),
        ("op: !!python/object/apply:os.getcwd []", "1:5", "tags", "README"),
        ("ranks: [[[2]]]", "1:10", "nested", "README"),
        ("ranks: " + "[" * 5000, "1:10", "nested", "README"),
        ("ranks: [2", "1:10", "expected ',' or ']'", "README"),
        ("op: sum\n---\nop: max", "2:1", "single document", "README"),
        ("op: 'sum", "1:9", "quoted scalar", "README"),
    ],
)
def test_a_planted_fault_is_named_with_its_place(text: str, place: str, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.message.startswith(f"plan.yaml:{place}: "), caught.value.message
    assert message in caught.value.message
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the plan is empty"),
        (b"# only a comment\n", "the plan is empty"),
        (b"{}", "the plan is empty"),
        (b"\xef\xbb\xbfop: sum\n", "byte order mark"),
        ("op: sum\n".encode("utf-16"), "byte order mark"),
        (b"op: sum\nranks: \0\n", "line 2 holds a NUL byte"),
        (b"op: s\xffm\n", "byte 5 is not UTF-8"),
        (b"op: \x07\n", "not YAML"),
        (b"#" * (65 << 10), "more than 65536 bytes"),
    ],
)
def test_what_is_no_text_is_refused_as_a_whole(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_plan(data, name="plan.yaml", n_cores=2)
    assert caught.value.message.startswith("plan.yaml: ")
    assert caught.value.remedy


def test_a_plan_with_too_many_cells_is_refused() -> None:
    with pytest.raises(UsageError, match="cells"):
        parse(f"sizes: [{','.join(map(str, range(1, 1000)))}]\nranks: [{','.join(map(str, range(1, 1000)))}]")


@pytest.mark.timeout(20)
def test_an_expansion_bomb_costs_nothing() -> None:
    lines = ["a: &a [x, x]"]
    for before, name in itertools.pairwise("abcdefgh"):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    with pytest.raises(UsageError, match="anchors"):
        parse("\n".join(lines))


@pytest.mark.timeout(20)
def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(UsageError, match="more than 65536 bytes"):
        load_plan(path, n_cores=2)


def test_files_are_read_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(WHOLE)
    assert load_plan(path, n_cores=2) == parse(WHOLE)
    path.write_text("op: plus")
    with pytest.raises(UsageError, match="unknown op") as caught:
        load_plan(str(path), n_cores=2)
    assert caught.value.message.startswith(f"{path}:1:5: ")


@pytest.mark.parametrize("name", ["absent.yaml", ".", "nul\0.yaml"])
def test_a_path_that_is_no_file_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_plan(tmp_path / name, n_cores=2)


def loads(data: bytes) -> bool:
    """Whether a plan comes of it; if not, the error has to be ours."""
    try:
        parse_plan(data, name="plan.yaml", n_cores=2)
    except AutotuneError as err:
        return not (err.message.startswith("plan.yaml") and err.remedy)
    return True


def test_any_prefix_of_a_plan_loads_or_is_an_error() -> None:
    loaded = [end for end in range(len(WHOLE) + 1) if loads(WHOLE[:end].encode())]
    assert len(WHOLE) in loaded
    assert 0 not in loaded


YAML_LIKE = st.text("[]{}:,-?*&!|>'\"#%@ \nop")


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(data=st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | YAML_LIKE.map(str.encode))
def test_any_bytes_are_no_plan_or_an_error_of_ours(data: bytes) -> None:
    assert not loads(data)


def test_the_canonical_text_is_a_plan_of_plain_values() -> None:
    assert yaml.safe_load(parse(WHOLE).canonical)["effort"]["confirm_rounds"] == 12
