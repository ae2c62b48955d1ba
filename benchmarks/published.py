"""The cost model beside published figures of machines that nobody here owns; the deviation is printed, whatever it is.

    python benchmarks/published.py

Model: the best price of the schedules that the vendor's library is known to run there (mesh machines: direct; rings:
ring), each with its best segment, and the best of all schedules; datasheet parameters, nothing fitted. Lines: the
all_reduce fits of CANN ops-transformer (mc2/common/src/hccl_performance.cpp, fitted by the vendor to 8 dies, the 310P
ones to 2 and 4). A3: CANN 8.5 in AIV mode, as measured by Horacehxw/msModeling (comm_alignment_report_20260312); sizes
there are those of one rank's part. HCCL's own choice of algorithm is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.cost import machine_model
from autotune.simulate import NETWORK_SEGMENTS
from autotune.topology.machines import description
from autotune.types import Collective, Config, DType, OpClass, Problem, RuleKey, round_up_message
from autotune.units import format_us

MIB = 1 << 20
KIB = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A fit of all_reduce times over MiB: a floor, a parabola up to where the straight line begins.

    Args:
        floor_us: up to floor_mib.
        parabola: a, b, c of a x^2 + b x + c, from floor_mib to line_mib.
        slope_us, offset_us: of the line above.
    """

    floor_us: float
    floor_mib: float
    line_mib: float
    parabola: tuple[float, float, float]
    slope_us: float
    offset_us: float

    def time_us(self, message_bytes: int) -> float:
        x = message_bytes / MIB
        if x <= self.floor_mib:
            return self.floor_us
        a, b, c = self.parabola
        return a * x * x + b * x + c if x <= self.line_mib else self.slope_us * x + self.offset_us


FITS = (
    (
        "A2 (910B), full mesh",
        "atlas-800t-a2",
        8,
        "direct",
        Line(
            floor_us=18.0,
            floor_mib=64 / 1024,
            line_mib=8.0,
            parabola=(-0.9698202, 27.0622573, 14.769),
            slope_us=13.58491263,
            offset_us=61.508333,
        ),
    ),
    (
        "A3 (910C), double ring",
        "atlas-800t-a3",
        8,
        "ring",
        Line(
            floor_us=250.0,
            floor_mib=2.0,
            line_mib=2.0,
            parabola=(0.0, 0.0, 250.0),
            slope_us=11.38154641,
            offset_us=248.151561,
        ),
    ),
    (
        "310P, ring of 2",
        "atlas-300i-duo",
        2,
        "ring",
        Line(
            floor_us=10.0,
            floor_mib=64 / 1024,
            line_mib=64 / 1024,
            parabola=(0.0, 0.0, 10.0),
            slope_us=72.04417474,
            offset_us=6.693209,
        ),
    ),
    (
        "310P, ring of 4",
        "atlas-300i-duo",
        4,
        "ring",
        Line(
            floor_us=42.87,
            floor_mib=32 / 1024,
            line_mib=1.8,
            parabola=(-89.115824, 268.473025, 34.56467),
            slope_us=153.555534,
            offset_us=-48.264442,
        ),
    ),
    (
        "950, mesh",
        "atlas-950",
        8,
        "direct",
        Line(
            floor_us=5.70,
            floor_mib=0.032,
            line_mib=1.371,
            parabola=(0.0, 2.86702, 5.608),
            slope_us=2.59568,
            offset_us=5.8887,
        ),
    ),
)
FIT_SIZES = (64 * KIB, MIB, 16 * MIB, 256 * MIB)

_AG, _RS, _AR = Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_REDUCE
A3_MEASURED: tuple[tuple[Collective, int, tuple[tuple[float, float], ...]], ...] = (  # ranks; a rank's MiB, us
    (_AG, 16, ((0.072, 12.5), (0.271, 31.3), (0.29, 33.0), (1.3, 176.7), (3.8, 366.6), (5.0, 435.1), (8.8, 679.0))),
    (_AG, 16, ((21.4, 1628.0), (40.0, 3080.2))),
    (_RS, 16, ((1.3, 216.3), (3.8, 440.7), (8.8, 808.5), (21.4, 2044.3), (40.0, 3664.6))),
    (_AR, 16, ((0.156, 12.1),)),
    (_AG, 8, ((0.001, 5.4), (0.014, 5.6), (0.454, 30.4), (0.582, 155.3), (0.924, 171.0), (3.5, 166.9))),
    (_RS, 8, ((0.014, 6.1), (3.5, 202.1))),
)


def prices(machine: str, n_ranks: int, collective: Collective, message_bytes: int) -> dict[str, float]:
    """Microseconds of each algorithm, with its best segment."""
    model = machine_model(description(machine), 1, n_ranks)
    key = RuleKey(
        backend="native",
        collective=collective,
        dtype=DType.BFLOAT16 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )
    problem = Problem(key=key, message_bytes=round_up_message(collective, message_bytes, n_ranks, 2))
    return {
        name: min(
            model.price(problem, Config(algorithm=name, segment_bytes=segment)).time_us for segment in NETWORK_SEGMENTS
        )
        for name in model.algorithms(collective)
    }


def row(what: str, size: int, published_us: float, found: dict[str, float], like: str) -> str:
    best = min(found, key=lambda name: found[name])
    cells = [f"{name} {format_us(found[name])} ({found[name] / published_us - 1:+.0%})" for name in (like, best)]
    return f"{what:26} {size / MIB:>8.3f} MiB {format_us(published_us):>9}   {cells[0]:28} {cells[1]}"


def lines() -> Iterator[str]:
    yield f"{'all_reduce, fitted lines':26} {'message':>12} {'published':>9}   {'as the vendor':28} best of the model"
    for title, machine, n_ranks, like, line in FITS:
        for size in FIT_SIZES:
            yield row(title, size, line.time_us(size), prices(machine, n_ranks, _AR, size), like)
    yield ""
    yield f"{'A3, measured':26} {'message':>12} {'published':>9}   {'direct':28} best of the model"
    for collective, n_ranks, times in A3_MEASURED:
        for part_mib, time_us in times:
            size = round(part_mib * MIB) * (n_ranks if collective.splits_by_rank else 1)
            found = prices("atlas-800t-a3", n_ranks, collective, size)
            yield row(f"{collective.value}, {n_ranks} dies", size, time_us, found, "direct")


def main() -> None:
    for line in lines():
        print(line)


if __name__ == "__main__":
    main()
