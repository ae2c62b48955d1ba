"""Schedules with a codec: legal ones end with the same bits everywhere, within E; charges lose and double nothing."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from schedules.cases import Case, cases
from spec import Array, exact, stored, tolerance, widened
from wire.executor import Outcome, norm, run

from autotune.kernels.codecs import FLOAT_TYPES, Codec
from autotune.kernels.schedules import Schedule, Step, build, check
from autotune.kernels.schedules.wire import Wire, codec_legality, follow
from autotune.types import Collective, DType, ReduceOp

C = Collective
CODECS = ("threshold(0.0)", "threshold(0.4)", "threshold(1.5)", "threshold_abs(0.3)", "int8", "int4")
CASES = {
    f"{case.collective.value} {case.name} {case.n}{'' if case.layout is None else case.layout.groups}": case
    for case in cases(range(2, 10))
}
LEGAL = {name: case for name, case in CASES.items() if codec_legality(case.collective, case.build()) is None}


def inputs(case: Case, schedule: Schedule, length: int, dtype: DType, seed: int) -> list[list[Array]]:
    """[position][block]: normal values of another size at every position; the root's alone where it is the source."""
    rng = np.random.default_rng(seed)
    return [
        [stored(rng.normal(0, 2.0 ** (p % 3), length), dtype) for _ in range(schedule.blocks)] for p in range(case.n)
    ]


def outcome(
    case: Case, codec: Codec, dtype: DType, values: list[list[Array]], order: list[int], op: ReduceOp = ReduceOp.SUM
) -> Outcome:
    schedule = case.build()
    charged = follow(case.collective, schedule).charged
    return run(
        case.collective,
        schedule,
        order,
        lambda p, b: values[p][b],
        codec.native(dtype),
        dtype,
        op=op,
        charged=lambda step, place: place in charged[step],
    )


def test_which_are_illegal() -> None:
    """Where positions fold, not all that compute the sum may send it: pairs where n is no power of two, and leaders."""
    illegal = [case for case in CASES.values() if case not in LEGAL.values()]
    of_pairs = {(case.collective, case.name, case.n) for case in illegal if case.name != "folded_leaders"}
    assert of_pairs == {(C.ALL_REDUCE, "recursive_doubling", n) for n in (3, 5, 6, 7, 9)}
    for case in CASES.values():
        if case.name == "folded_leaders" and case.collective is C.ALL_REDUCE:
            assert case.layout is not None
            n_groups = len(case.layout.groups)
            sends_on = [len(group) > 1 or n_groups > 2 + leader for leader, group in enumerate(case.layout.groups[:2])]
            assert (case in illegal) == (sends_on[0] != sends_on[1])
    reason = codec_legality(C.ALL_REDUCE, build(C.ALL_REDUCE, "recursive_doubling", 3))
    assert reason is not None
    assert reason.startswith("positions 0 and 2 would end with different bits of block 0")


def test_one_rank_encodes_nothing() -> None:
    for case in cases([1]):
        assert follow(case.collective, case.build()) == Wire(objection=None, longest=0, total=0, charged=())


@pytest.mark.parametrize(
    ("collective", "name", "n", "longest", "total"),
    [
        (C.ALL_REDUCE, "flat", 8, 1, 8),
        (C.ALL_REDUCE, "direct", 8, 2, 8),
        (C.ALL_REDUCE, "ring", 8, 8, 8),
        (C.ALL_REDUCE, "chain", 5, 5, 5),
        (C.ALL_REDUCE, "tree", 8, 4, 8),
        (C.ALL_REDUCE, "recursive_doubling", 8, 3, 14),
        (C.REDUCE_SCATTER, "direct", 8, 1, 7),
        (C.ALL_GATHER, "ring", 8, 1, 1),
        (C.BROADCAST, "tree", 8, 1, 1),
        (C.ALL_TO_ALL, "bruck", 8, 1, 1),
        (C.GATHER, "tree", 8, 1, 1),
    ],
)
def test_how_often_values_are_encoded(collective: Collective, name: str, n: int, longest: int, total: int) -> None:
    """Sums are encoded anew, copies are not."""
    wire = follow(collective, build(collective, name, n))
    assert (wire.longest, wire.total) == (longest, total)


def test_errors_compound_with_encodings() -> None:
    wire = Wire(objection=None, longest=3, total=5, charged=())
    assert wire.relative_error(0.5) == pytest.approx(1.5**3 - 1)
    assert wire.relative_error(0.0) == 0.0
    assert wire.absolute_error(0.25) == 1.25


@given(
    name=st.sampled_from(sorted(LEGAL)),
    text=st.sampled_from(CODECS),
    dtype=st.sampled_from(FLOAT_TYPES),
    op=st.sampled_from((ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN)),
    length=st.integers(1, 300),
    seed=st.integers(0, 1 << 32),
    data=st.data(),
)
@settings(max_examples=400)
def test_same_bits_everywhere_and_within_the_bound(
    name: str, text: str, dtype: DType, op: ReduceOp, length: int, seed: int, data: st.DataObject
) -> None:
    case = LEGAL[name]
    order = data.draw(st.permutations(range(case.n)), label="order")
    check_case(case, Codec.parse(text), dtype, op, length, seed, order)


def test_every_legal_schedule_once() -> None:
    """What chance leaves out above."""
    for number, case in enumerate(LEGAL.values()):
        codec, dtype = Codec.parse(CODECS[number % len(CODECS)]), FLOAT_TYPES[number % len(FLOAT_TYPES)]
        check_case(case, codec, dtype, ReduceOp.SUM, 40, number, range(case.n))


def check_case(
    case: Case, codec: Codec, dtype: DType, op: ReduceOp, length: int, seed: int, order: range | list[int]
) -> None:
    schedule = case.build()
    wire = follow(case.collective, schedule)
    values = inputs(case, schedule, length, dtype, seed)
    outputs = outcome(case, codec, dtype, values, list(order), op).outputs
    for block in range(schedule.blocks):
        results = [(p, of[block]) for p, of in enumerate(outputs) if block in of]
        assert len({result.tobytes() for _, result in results}) <= 1, f"block {block} differs between ranks"
        for position, result in results[:1]:
            parts = contributions(case, values, position, block)
            wanted = exact(parts, op, dtype)
            error = widened(result, dtype).astype(np.float64) - wanted
            bound = wire.relative_error(codec.relative_error(dtype))
            norms = [norm([part], dtype) for part in parts]
            # Rounding comes on top, of values that the codec may have enlarged.
            rounding = tolerance([stored(np.full(length, n), dtype) for n in norms], ReduceOp.SUM, dtype).max()
            assert np.linalg.norm(error) <= bound * sum(norms) + (1 + bound) * rounding
            each = codec.absolute_error()
            if each is not None:
                off = wire.absolute_error(each)
                enlarged = [stored(np.abs(widened(part, dtype)) + off, dtype) for part in parts]
                assert np.all(np.abs(error) <= off + tolerance(enlarged, op, dtype))


def contributions(case: Case, values: list[list[Array]], position: int, block: int) -> list[Array]:
    """What the collective makes a block of, in the order of positions."""
    if case.collective.computes:
        return [of[block] for of in values]
    if case.collective in (C.BROADCAST, C.SCATTER):
        return [values[0][block]]
    source = block // case.n if case.collective is C.ALL_TO_ALL else block
    return [values[source][block]]


@pytest.mark.parametrize("name", sorted(name for name, case in LEGAL.items() if case.collective.computes))
@pytest.mark.parametrize("text", ["threshold(1.0)", "int4"])
def test_results_and_charges_add_up_to_the_contributions(name: str, text: str) -> None:
    """Whatever the codec dropped is in one rank's residual, once: in float64, so that rounding hides nothing."""
    case = LEGAL[name]
    schedule = case.build()
    values = inputs(case, schedule, 50, DType.FLOAT64, 3)
    got = outcome(case, Codec.parse(text), DType.FLOAT64, values, list(range(case.n)))
    everything = np.sum([np.concatenate(of) for of in values], axis=0)
    ends: dict[int, Array] = {}
    for of in got.outputs:
        ends |= of
    result = np.concatenate([ends[block] for block in range(schedule.blocks)])
    np.testing.assert_allclose(result + np.sum(got.dropped, axis=0), everything, rtol=0, atol=1e-12)
    assert np.linalg.norm(np.sum(got.dropped, axis=0)) > 0.01 * np.linalg.norm(everything), "nothing was dropped"


def test_charging_everybody_would_count_doubly() -> None:
    """The fault that `charged` is there for: at 4 ranks, two of them encode the same sum in the second step."""
    case = LEGAL["all_reduce recursive_doubling 4"]
    schedule = case.build()
    values = inputs(case, schedule, 50, DType.FLOAT64, 3)
    native = Codec.parse("int4").native(DType.FLOAT64)
    got = run(case.collective, schedule, range(4), lambda p, b: values[p][b], native, DType.FLOAT64)
    added = got.outputs[0][0] + np.sum(got.dropped, axis=0)
    assert np.abs(added - np.sum([of[0] for of in values], axis=0)).max() > 1e-3


def test_an_illegal_schedule_does_end_with_different_bits() -> None:
    """So the objection is no mere caution."""
    for n in (3, 5, 6, 7, 9):
        case = CASES[f"all_reduce recursive_doubling {n}"]
        schedule = case.build()
        values = inputs(case, schedule, 50, DType.FLOAT32, n)
        native = Codec.parse("int8").native(DType.FLOAT32)
        got = run(case.collective, schedule, range(n), lambda p, b, v=values: v[p][b], native, DType.FLOAT32)
        assert len({of[0].tobytes() for of in got.outputs}) == 2


def test_a_planted_fault_is_found() -> None:
    """0 and 1 compute the same sum, and 0 alone sends it to 2. Without a codec nothing is wrong with that."""
    pairs = [(src, dst) for dst in range(2) for src in range(3) if src != dst]
    exchange = Step.of(*zip(*pairs, strict=True), reduce=True)
    schedule = Schedule(n=3, blocks=1, steps=(exchange, Step.of(0, 2)))
    check(C.ALL_REDUCE, schedule)
    assert codec_legality(C.ALL_REDUCE, schedule) is not None
