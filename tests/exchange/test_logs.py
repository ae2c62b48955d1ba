"""Every log format: the figures that a log holds, in our sizes; what is said of it; what is refused, with its place."""

from __future__ import annotations

import random

import pytest
from exchange import logs
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError, UsageError
from autotune.exchange.importing import IMPORTERS, Hints, Log, LogError, disagreeing, importer_for
from autotune.types import Collective, Config, DType, ReduceOp, TrialState

EIGHT = Hints(collective=Collective.ALL_REDUCE, n_ranks=8)


def read(name: str, text: str, hints: Hints | None = None) -> Log:
    return IMPORTERS[name].parse(text, "log.txt", hints or Hints(seats=8))


def times(log: Log) -> list[tuple[int, float | None]]:
    return [(figure.message_bytes, figure.time_us) for figure in log.figures]


@pytest.mark.parametrize("name", IMPORTERS)
def test_a_log_is_recognised_by_its_format_alone(name: str) -> None:
    assert importer_for(logs.LOGS[name], "log.txt").name == name


def test_a_text_of_no_format_is_refused() -> None:
    with pytest.raises(UsageError, match="looks like none of the formats"):
        importer_for("a letter\n", "log.txt")


@pytest.mark.parametrize("name", IMPORTERS)
@pytest.mark.parametrize("changed", ["crlf", "bom", "no end"])
def test_line_ends_and_marks_change_nothing(name: str, changed: str) -> None:
    text = logs.LOGS[name]
    other = {"crlf": text.replace("\n", "\r\n"), "bom": f"\ufeff{text}", "no end": text.rstrip("\n")}[changed]
    assert read(name, other, HINTS[name]) == read(name, text, HINTS[name])


HINTS = {
    "hccl_test": EIGHT,
    "hccl-profile": Hints(),
    "nccl-tests": Hints(),
    "osu": Hints(n_ranks=4),
    "imb": Hints(),
    "msmodeling": Hints(collective=Collective.ALL_GATHER),
    "csv": Hints(),
}


# hccl_test


def test_hccl_test_rows_are_read_whatever_the_spelling_and_order() -> None:
    assert times(read("hccl_test", logs.HCCL_TEST, EIGHT)) == [(1024, 10.0), (65536, 20.0), (1048576, 100.0)]
    assert times(read("hccl_test", logs.HCCL_TEST_ORDER, EIGHT)) == [(4096, 8.0)]
    assert {figure.batch_calls for figure in read("hccl_test", logs.HCCL_TEST, EIGHT).figures} == {20}


def test_gib_under_a_title_of_gb_is_said_and_not_used() -> None:
    notes = read("hccl_test", logs.HCCL_TEST_GIB, EIGHT).notes
    assert any("2 rows print GiB/s under the title GB/s" in note for note in notes)
    assert any("NULL" in note for note in notes)
    assert not any("GiB" in note for note in read("hccl_test", logs.HCCL_TEST, EIGHT).notes)


def test_a_bandwidth_that_is_neither_is_said() -> None:
    wrong = logs.HCCL_TEST.replace("3.27680", "9.27680")
    assert any("prints 9.27680 GB/s, but size and time give 3.277" in n for n in read("hccl_test", wrong, EIGHT).notes)


def test_of_several_ranks_the_slowest_counts_and_one_failure_fails_all() -> None:
    log = read("hccl_test", logs.HCCL_TEST_RANKS, EIGHT)
    assert times(log) == [(1024, 12.5), (2048, None)]
    assert [figure.state for figure in log.figures] == [TrialState.OK, TrialState.WRONG_RESULT]
    assert any("those of 2 ranks; the slowest counts" in note for note in log.notes)


def test_a_second_header_begins_a_repetition() -> None:
    assert times(read("hccl_test", logs.HCCL_TEST_ORDER * 3, EIGHT)) == [(4096, 8.0)] * 3


def test_the_simulator_s_constant_time_is_said() -> None:
    text = logs.HCCL_TEST
    for time in ("10.00", "20.00", "100.00"):
        text = text.replace(f" {time} ", " 1000.00 ")
    assert any("HCCL-VM" in note for note in read("hccl_test", text, EIGHT).notes)


def test_hccl_test_needs_to_be_told_the_collective() -> None:
    with pytest.raises(UsageError, match="does not say which collective") as found:
        read("hccl_test", logs.HCCL_TEST)
    assert "--collective" in found.value.remedy
    named = "mpirun -n 8 ./bin/all_gather_test -b 1K\n" + logs.HCCL_TEST
    assert read("hccl_test", named).figures[0].collective is Collective.ALL_GATHER
    with pytest.raises(UsageError, match="--collective is all_reduce, but the log is of all_gather"):
        read("hccl_test", named, EIGHT)


def test_hccl_s_scatter_is_counted_by_rank() -> None:
    scatter = Hints(collective=Collective.SCATTER, n_ranks=8)
    assert [size for size, _ in times(read("hccl_test", logs.HCCL_TEST, scatter))] == [8192, 524288, 8388608]


# The vendor's sweep


def test_a_sweep_says_what_ran_and_where() -> None:
    log = read("hccl-profile", logs.HCCL_PROFILE)
    first = log.figures[0]
    assert first.config == Config(
        algorithm="nhr", knobs=(("HCCL_BUFFSIZE", 200), ("engine", "aicpu"), ("executor", "sole"))
    )
    assert first.placement == (8, 8)
    assert (first.dtype, first.op, first.n_ranks) == (DType.FLOAT32, ReduceOp.SUM, 16)
    assert [figure.state.value for figure in log.figures] == ["ok", "ok", "ok", "wrong_result", "crashed"]
    assert log.figures[2].dtype is None
    assert disagreeing(log.figures) == []


# nccl-tests


def test_nccl_rows_are_the_out_of_place_half() -> None:
    log = read("nccl-tests", logs.NCCL)
    assert times(log) == [(1 << 20, 100.0), (2 << 20, 150.0), (4 << 20, 200.0)]
    figure = log.figures[0]
    assert (figure.collective, figure.n_ranks, figure.batch_calls) == (Collective.ALL_REDUCE, 2, 20)
    assert (figure.dtype, figure.op) == (DType.FLOAT32, ReduceOp.SUM)
    assert disagreeing(log.figures) == []


def test_older_and_newer_layouts_are_read_by_their_header() -> None:
    old = read("nccl-tests", logs.NCCL_OLD, Hints(collective=Collective.ALL_REDUCE, n_ranks=2))
    assert times(old) == [(1 << 20, 100.0)]
    assert any("were not checked" in note for note in old.notes)
    new = read("nccl-tests", logs.NCCL_PER_ITERATION)
    assert times(new) == [(1 << 20, 100.0)]
    assert new.figures[0].collective is Collective.ALL_GATHER
    assert disagreeing(new.figures) == []


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "[prterun-hosta-1@1,0]<stdout>: ", "0: ", "hosta: "])
def test_prefixes_of_launchers_are_taken_off(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in logs.NCCL.splitlines())
    assert times(read("nccl-tests", text)) == times(read("nccl-tests", logs.NCCL))


def test_lines_of_nccl_between_rows_and_inside_one_change_nothing() -> None:
    noise = "hosta:1234:1250 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    text = logs.NCCL.replace("     2097152", f"{noise}     2097152")
    text = text.replace(
        "     4194304       1048576     float     sum      -1",
        f"     4194304       1048576     float     sum      -1{noise}",
    )
    assert times(read("nccl-tests", text)) == times(read("nccl-tests", logs.NCCL))


def test_a_last_row_that_was_cut_off_is_left_out_and_said() -> None:
    cut = logs.NCCL[: logs.NCCL.index("4194304       1048576") + 60]
    log = read("nccl-tests", cut)
    assert times(log) == [(1 << 20, 100.0), (2 << 20, 150.0)]
    assert any("was cut off" in note for note in log.notes)
    spoiled = logs.NCCL.replace("150.00   13.98   13.98       0   149.00   14.07   14.07     N/A", "150.00   13.98")
    with pytest.raises(LogError, match=r"line 13, column .*13 fields"):
        read("nccl-tests", spoiled)


def test_wrong_elements_are_a_wrong_result() -> None:
    text = logs.NCCL.replace("20.97       0   199", "20.97      42   199")
    last = read("nccl-tests", text).figures[-1]
    assert (last.state, last.message, last.time_us) == (TrialState.WRONG_RESULT, "42 wrong elements", None)


def test_a_bus_bandwidth_of_another_rank_count_is_found() -> None:
    found = disagreeing(
        read("nccl-tests", logs.NCCL.replace("20.97   20.97       0   199", "20.97   36.70       0   199")).figures
    )
    assert [text for _, text in found] == [
        "line 14: prints 36.70 GB/s of bus bandwidth, but size and time of 2 ranks give 20.97"
    ]


def test_a_log_of_the_cpu_s_time_is_refused() -> None:
    with pytest.raises(LogError, match="the CPU's time is not the collective's"):
        read("nccl-tests", logs.NCCL.replace("   time   algbw", "cputime   algbw"))


def test_another_program_and_another_type_are_passed_over_and_said() -> None:
    text = logs.NCCL.replace("all_reduce_perf", "sendrecv_perf")
    with pytest.raises(LogError, match="sendrecv_perf is no collective of ours"):
        read("nccl-tests", text)
    with pytest.raises(LogError, match="rows of type fp8_e4m3 were passed over"):
        read("nccl-tests", logs.NCCL.replace("float", "fp8_e4m3"))


# OSU and IMB


def test_osu_counts_a_rank_s_part_and_the_slowest_rank() -> None:
    log = read("osu", logs.OSU, Hints(n_ranks=4))
    assert times(log) == [(4, 2.0), (4096, 5.0)]
    assert log.figures[0].batch_calls == 1000
    plain = read("osu", logs.OSU_PLAIN, Hints(n_ranks=2))
    assert times(plain) == [(4, 1.34), (1 << 20, 300.0)]
    assert plain.figures[0].dtype is DType.FLOAT32
    assert any("means over ranks" in note for note in plain.notes)


def test_imb_reads_every_collective_and_process_count() -> None:
    log = read("imb", logs.IMB)
    found = [(f.collective.value, f.n_ranks, f.message_bytes, f.time_us, f.batch_calls) for f in log.figures]
    assert found == [
        ("all_reduce", 2, 4, 2.0, 1000),
        ("all_reduce", 2, 1 << 20, 320.0, 40),
        ("all_gather", 4, 4096, 5.0, 1000),
    ]
    assert log.notes == ("PingPong is no collective of ours and was passed over",)
    assert len(read("imb", logs.IMB, Hints(n_ranks=4)).figures) == 1


# CSV


def test_ms_modeling_counts_a_rank_s_shard() -> None:
    gathered = read("msmodeling", logs.MS_MODELING, Hints(collective=Collective.ALL_GATHER))
    assert times(gathered) == [(8192, 5.4), (524288, 20.0)]
    reduced = read("msmodeling", logs.MS_MODELING, Hints(collective=Collective.ALL_REDUCE))
    assert times(reduced) == [(1024, 5.4), (65536, 20.0)]
    with pytest.raises(LogError, match="one tier in a file"):
        read("msmodeling", logs.MS_MODELING.replace("65536,8,bf16,1", "65536,8,bf16,0"), HINTS["msmodeling"])


def test_plain_csv_takes_sizes_of_one_rank_too() -> None:
    text = "per_rank_bytes,time_us\n1000,5\n"
    log = read("csv", text, Hints(collective=Collective.ALL_GATHER, n_ranks=4))
    assert times(log) == [(4000, 5.0)]


@pytest.mark.parametrize(
    ("name", "old", "new", "place", "says"),
    [
        ("hccl_test", "65536 ", "64KiB ", "line 4, column 1", "'64KiB'"),
        ("hccl_test", "20.00", "-20.0", "line 4, column 26", "a number above 0"),
        ("hccl_test", "3.27680        | success", "3.27680        | ok", "line 4, column 63", "success, failed, NULL"),
        ("hccl_test", "aveg_time(us):", "time:", "line 2, column 23", "aveg_time(us)"),
        ("hccl-profile", "allgather", "all_gatherv", "line 4, column 1", "reduce_scatter"),
        ("hccl-profile", ",16,8,2", ",16,8,3", "line 2, column 11", "that make 16 ranks"),
        ("hccl-profile", "reduce_type,", "", "line 1", "'reduce_type' is missing"),
        ("nccl-tests", "150.00", "15o.00", "line 13", "time in us, a number above 0"),
        ("nccl-tests", "2097152   ", "2O97152   ", "line 13, column 6", "size in bytes"),
        ("imb", "1048576   ", "1O48576   ", "line 15, column 7", "#bytes"),
        ("osu", "1024 ", "1024x", "line 5, column 1", "size in bytes"),
        ("osu", "MPI_CHAR.", "MPI_COMPLEX.", "line 2", "MPI_FLOAT"),
        ("imb", "320.00", "nan", "line 15, column 47", "t_max in us"),
        ("msmodeling", "bf16,1,20.0", "q4,1,20.0", "line 3, column 3", "bfloat16"),
        ("csv", "tree", "tr\tee", "line 4, column 4", "algorithm's name"),
        ("csv", ",tree", ",tree,1", "line 4", "7 fields under a header of 6"),
        ("csv", "busbw_gb_per_s", "busbw", "line 2, column 6", "the columns time_us"),
        ("csv", "algorithm", "n_ranks", "line 2, column 4", "each column once"),
    ],
)
def test_a_spoiled_log_is_refused_with_its_place(name: str, old: str, new: str, place: str, says: str) -> None:
    text = logs.LOGS[name].replace(old, new, 1 if name != "hccl-profile" else -1)
    assert text != logs.LOGS[name]
    with pytest.raises(LogError) as found:
        read(name, text, HINTS[name])
    assert found.value.message.startswith(f"log.txt, {place}"), found.value.message
    assert says in found.value.message + found.value.remedy


@pytest.mark.parametrize("name", IMPORTERS)
def test_an_empty_log_and_one_with_a_nul_are_refused(name: str) -> None:
    for text in ("", "\n", logs.LOGS[name] + "\0"):
        with pytest.raises(LogError):
            read(name, text, HINTS[name])


def attempt(name: str, text: str) -> tuple[Log | None, AutotuneError | None]:
    try:
        return read(name, text, HINTS[name]), None
    except AutotuneError as err:
        return None, err


@pytest.mark.parametrize("name", IMPORTERS)
@given(data=st.data())
def test_a_damaged_log_gives_sound_figures_or_one_clear_error(name: str, data: st.DataObject) -> None:
    lines = logs.LOGS[name].split("\n")
    kind = data.draw(st.sampled_from(("drop", "swap", "cut", "letter", "repeat")))
    at = data.draw(st.integers(0, len(lines) - 1))
    line = lines[at]
    spot = data.draw(st.integers(0, max(0, len(line) - 1)))
    if kind == "drop":
        del lines[at]
    elif kind == "swap":
        random.Random(at).shuffle(lines)
    elif kind == "cut":
        lines = [*lines[:at], line[:spot]]
    elif kind == "letter":
        lines[at] = line[:spot] + data.draw(st.sampled_from("x0-|,#. \t\"'\u00e9\u0661")) + line[spot + 1 :]
    else:
        lines.insert(at, line)
    log, error = attempt(name, "\n".join(lines))
    if error is not None:
        assert error.remedy
        assert error.message.startswith("log.txt")
        assert "\n" not in error.message
        return
    assert log is not None
    assert log.figures
    for figure in log.figures:
        assert figure.message_bytes > 0
        assert figure.n_ranks >= 1
        assert (figure.time_us is None) == (figure.state is not TrialState.OK)
