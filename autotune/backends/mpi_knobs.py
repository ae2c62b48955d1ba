"""What MPI libraries can be told of an algorithm, and which of that is worth a sample. Pure.

In:  a problem or a config, and the library's words (exchange/words.json), which the exporters write as well.
Out: configs; the control variables that make the library run one.
May not touch: processes.

Sources: Open MPI v5.0.x, ompi/mca/coll/tuned/coll_tuned_<collective>_decision.c (algorithms, segments); MPICH v5.0,
src/mpi/coll/cvars.txt and <collective>/*.c (what an algorithm asks for).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..exchange.words import LIBRARY_CHOICE, Call, Library, library
from ..types import Collective, Config, DType, OpClass, Problem

SEGMENTS = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
"""Segment sizes of the grid, in bytes; one that the message does not exceed would change nothing."""

DTYPES = (DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8, DType.INT32, DType.INT64)
"""MPI has no 16-bit floats."""

_OPERATIONS = {OpClass.SUM: "sum", OpClass.MINMAX: "max", OpClass.PROD: "prod"}
_TIMED = {Collective.REDUCE_SCATTER: "reduce_scatter_block"}
"""Where one of our collectives is several of MPI's: the one that is measured."""


def call_of(backend: str, collective: Collective) -> Call | None:
    """What the library calls it; None where it cannot be tuned (`Library.refused` says why)."""
    calls = library(backend).calls.get(collective, ())
    return next((call for call in calls if call.name == _TIMED.get(collective, call.name)), None)


def why_not(backend: str, problem: Problem) -> str | None:
    """Why a problem cannot be measured with an MPI; None where it can."""
    words: Library = library(backend)
    key = problem.key
    if call_of(backend, key.collective) is None:
        return f"{words.title} is not tuned for {key.collective.value}: {words.refused[key.collective]}"
    if problem.timed_dtype not in DTYPES:
        return f"MPI has no {problem.timed_dtype.value}; it has {', '.join(dtype.value for dtype in DTYPES)}"
    return None


def candidates(backend: str, problem: Problem) -> tuple[Config, ...]:
    """Every algorithm that the rank count and the message allow, with every segment size that cuts the message; these
    and the library's own choice once more under each start."""
    call = call_of(backend, problem.key.collective)
    assert call is not None
    plain = tuple(config for name in call.algorithms for config in _of_algorithm(call, name, problem))
    every = (Config(algorithm=LIBRARY_CHOICE), *plain)
    return plain + tuple(replace(config, knobs=start) for start in library(backend).starts for config in every)


def _of_algorithm(call: Call, name: str, problem: Problem) -> Iterator[Config]:
    facts, n_ranks = call.algorithms[name], problem.key.n_ranks
    elements = problem.message_bytes // problem.timed_dtype.itemsize
    power_of_two = 1 << (n_ranks.bit_length() - 1)
    if facts.get("ranks", n_ranks) != n_ranks or (facts.get("even_ranks") and n_ranks % 2):
        return
    if facts.get("pow2_ranks") and n_ranks != power_of_two:
        return
    if facts.get("at_least_pow2_elements") and elements < power_of_two:
        return
    if facts.get("cuts") != "always":
        yield Config(algorithm=name)
    if "cuts" in facts:
        yield from (Config(algorithm=name, segment_bytes=size) for size in SEGMENTS if size < problem.message_bytes)


def variables(backend: str, collective: Collective, config: Config) -> dict[str, str]:
    """Control variables by name; none for the library's own choice."""
    if config.algorithm == LIBRARY_CHOICE:
        return {}
    call = call_of(backend, collective)
    assert call is not None
    if backend == "mpich":
        upper, word = call.name.upper(), config.algorithm.partition("_intra_")[2]
        # Shared memory's own algorithms would take over after a few calls, and never ask for this word.
        return {f"MPIR_CVAR_{upper}_DEVICE_COLLECTIVE": "0", f"MPIR_CVAR_{upper}_INTRA_ALGORITHM": word}
    name = f"coll_tuned_{call.name}_algorithm"
    found = {
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_priority": "100",
        name: str(call.algorithms[config.algorithm]["number"]),
    }
    if config.segment_bytes is not None:
        found[f"{name}_segmentsize"] = str(config.segment_bytes)
    return found


def sample_words(backend: str, problem: Problem, config: Config) -> str:
    """A config as mpi_csrc/mpi.c reads it."""
    operation = _OPERATIONS[problem.key.op_class or OpClass.SUM]
    settings = variables(backend, problem.key.collective, config)
    return " ".join([problem.timed_dtype.value, operation, *(f"{name}={value}" for name, value in settings.items())])
