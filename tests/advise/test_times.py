"""Where the times of an advice are from: a table's own figures, between two of them, or the model; else unknown."""

from __future__ import annotations

import math

import pytest
from exchange.library_tables import config, key, table_of

from autotune.advise import advise, first_of, predicted, tuned
from autotune.models import ModelCall, Phase, Split, Step, model_shape
from autotune.report.advice import TimeSource
from autotune.runtime import Source
from autotune.simulate import subject
from autotune.table import TuningTable
from autotune.types import Collective, DType

MACHINE = subject("atlas-800t-a2", None, staging_bytes=8 << 20)


def call(message_bytes: int, *, collective: Collective | None = Collective.ALL_GATHER, n_ranks: int = 8) -> ModelCall:
    return ModelCall(
        where="here",
        collective=collective,
        message_bytes=message_bytes,
        n_ranks=n_ranks,
        dtype=DType.BFLOAT16,
        calls_per_step=1,
    )


@pytest.fixture
def table() -> TuningTable:
    """Rules of all_gather on 8 ranks that begin at 1 KiB and 16 KiB; the last edge ends them."""
    sizes = {1024: config("ring"), 16384: config("direct"), 65536: config("direct")}
    return table_of({key(Collective.ALL_GATHER, 8): sizes})


def test_a_table_tells_its_figures_and_what_lies_between(table: TuningTable) -> None:
    rules = next(iter(table.rules.values()))
    time_of = tuned(Source(table=table, origin="here"))
    assert time_of(call(1024)) == (rules[0].median_us, "ring", TimeSource.MEASURED)
    between = time_of(call(4096))
    assert between is not None
    assert between[0] == pytest.approx(math.sqrt(rules[0].median_us * rules[1].median_us))
    assert between[1:] == ("ring", TimeSource.INTERPOLATED)


@pytest.mark.parametrize("size", [512, 65536, 32768])
def test_beyond_its_sizes_a_table_tells_nothing(size: int, table: TuningTable) -> None:
    """Above the last measured size there is nothing to interpolate to, though the rule still decides."""
    assert tuned(Source(table=table, origin="here"))(call(size)) is None


def test_other_keys_and_sends_are_unknown(table: TuningTable) -> None:
    time_of = tuned(Source(table=table, origin="here"))
    assert time_of(call(1024, n_ranks=4)) is None
    assert time_of(call(1024, collective=Collective.ALL_TO_ALL)) is None
    assert time_of(call(1024, collective=None)) is None
    assert predicted(MACHINE)(call(1024, collective=None)) is None


def test_the_first_source_that_tells_counts(table: TuningTable) -> None:
    time_of = first_of(tuned(Source(table=table, origin="here")), predicted(MACHINE))
    known, other = time_of(call(1024)), time_of(call(1 << 20))
    assert known is not None
    assert other is not None
    assert (known[2], other[2]) == (TimeSource.MEASURED, TimeSource.PREDICTED)
    assert first_of()(call(1024)) is None


def test_more_ranks_than_the_machine_fills_have_no_time() -> None:
    assert predicted(MACHINE)(call(1024, n_ranks=12)) is None


def test_an_advice_with_an_unknown_time_has_no_total() -> None:
    found = advise(model_shape("qwen-72b"), Split(tensor=8), Step(phase=Phase.DECODE), first_of())
    assert found.step_us is None
    assert [one.step_us for one in found.alternatives] == [None, None, 0.0, None, None]
    assert found.warnings == ()


def test_what_does_not_fit_is_told_by_name() -> None:
    step = Step(phase=Phase.DECODE, batch=8, sequence=4096)
    found = advise(model_shape("qwen-72b"), Split(tensor=8), step, first_of(), memory_bytes=64 << 30)
    assert found.warnings == ("KV cache kept gathered: 80GiB a rank, and a device has 64GiB",)
