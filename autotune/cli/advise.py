"""Which primitive: advise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .options import AsJson, TableFile, settings_with, table_source
from .output import say, show, show_json, write_file

if TYPE_CHECKING:
    from ..advise import TimeOf
    from ..models import Split, Step
    from ..plan import Workload
    from ..settings import Settings
    from ..simulate import Subject

ModelName = Annotated[
    str,
    typer.Option("--model", metavar="MODEL", help="A known one, such as qwen-72b, or hidden=4096,layers=32,..."),
]
TensorParallel = Annotated[int, typer.Option("--tensor-parallel", metavar="N", min=1, help="Ranks that share layers.")]
SequenceParallel = Annotated[
    bool, typer.Option("--sequence-parallel", help="Split what lies between those layers by tokens.")
]
PipelineParallel = Annotated[
    int, typer.Option("--pipeline-parallel", metavar="P", min=1, help="Stages of so many layers each.")
]
ExpertParallel = Annotated[int, typer.Option("--expert-parallel", metavar="E", min=1, help="Ranks that share experts.")]
PhaseName = Annotated[str, typer.Option("--phase", metavar="PHASE", help="prefill, decode or train.")]
Batch = Annotated[int, typer.Option("--batch", metavar="B", min=1, help="Sequences of a step.")]
Sequence = Annotated[int, typer.Option("--sequence", metavar="S", min=1, help="Tokens of each, or its context.")]
MicroBatches = Annotated[
    int, typer.Option("--micro-batches", metavar="M", min=1, help="Parts into which a pipeline cuts it.")
]


def advise(
    model: ModelName,
    tensor_parallel: TensorParallel = 1,
    sequence_parallel: SequenceParallel = False,
    pipeline_parallel: PipelineParallel = 1,
    expert_parallel: ExpertParallel = 1,
    phase: PhaseName = "decode",
    batch: Batch = 1,
    sequence: Sequence = 2048,
    micro_batches: MicroBatches = 1,
    dtype: Annotated[str, typer.Option("--dtype", metavar="TYPE", help="Type of activations and caches.")] = "bfloat16",
    topology: Annotated[
        str | None,
        typer.Option("--topology", "--machine", metavar="MACHINE", help="Predict times there, as simulate does."),
    ] = None,
    hosts: Annotated[int | None, typer.Option("--hosts", metavar="H", min=1, help="So many of that machine.")] = None,
    memory: Annotated[
        str | None, typer.Option("--device-memory", metavar="SIZE", help="Of a device; else what the machine says.")
    ] = None,
    table: TableFile = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="FILE.yaml", help="Write the calls for autotune run --workload, too."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a model sends in a step, and what costs less.

    Each layer's collectives with bytes and calls; all_reduce against reduce_scatter and all_gather; sharded against
    gathered KV caches. Times are those of the tuning table, else predicted for --topology; without either only bytes
    are told.
    """
    from ..advise import advise as advice_of
    from ..advise import workload as workload_of
    from ..models import model_shape
    from ..plan.plan import parse_dtype
    from ..plan.workload import workload_text
    from ..report.advice import advice_document, advice_view
    from ..simulate import subject
    from ..units import parse_bytes

    settings = settings_with(None)
    machine = None if topology is None else subject(topology, hosts, staging_bytes=settings.staging_bytes)
    if hosts is not None and topology is None:
        raise UsageError("--hosts without --topology", remedy="name the machine: --topology atlas-800t-a2")
    found = advice_of(
        model_shape(model),
        split_of(tensor_parallel, pipeline_parallel, expert_parallel, sequence=sequence_parallel),
        step_of(phase, batch, sequence, micro_batches),
        _times(machine, table, settings),
        dtype=parse_dtype(dtype),
        memory_bytes=parse_bytes(memory) if memory is not None else _memory_of(machine),
    )
    if workload is not None:
        write_file(workload, workload_text(workload_of([one.call for one in found.calls])))
        say(f"{workload}: the collectives of a step; autotune run --workload {Path(workload).name} measures them")
    if as_json:
        show_json(advice_document(found))
    else:
        show(advice_view(found))


def job_calls(
    workload: str | None,
    model: str | None,
    tensor_parallel: int | None,
    batch: int | None,
    sequence: int | None,
    phase: str | None,
) -> Workload | None:
    """What `autotune run` is asked to measure for a job: a file's calls, or those of a model's step; None for neither.

    Raises:
        UsageError: both, words of a step without a model, or a model that cannot be split so.
    """
    from ..advise import workload as workload_of
    from ..models import calls_of, model_shape
    from ..plan import load_workload

    if model is None:
        if any(word is not None for word in (tensor_parallel, batch, sequence, phase)):
            raise UsageError(
                "--tensor-parallel, --batch, --sequence and --phase are about a model, and none is named",
                remedy="--model qwen-72b",
            )
        return None if workload is None else load_workload(workload)
    if workload is not None:
        raise UsageError("--workload and --model are two lists of calls", remedy="leave one out")
    split = split_of(tensor_parallel or 1, 1, 1, sequence=False)
    step = step_of(phase or "decode", batch or 1, sequence or 2048, 1)
    return workload_of(calls_of(model_shape(model), split, step))


def split_of(tensor: int, pipeline: int, expert: int, *, sequence: bool) -> Split:
    """The split that the options name."""
    from ..models import Split

    return Split(tensor=tensor, sequence=sequence, pipeline=pipeline, expert=expert)


def step_of(phase: str, batch: int, sequence: int, micro_batches: int) -> Step:
    """The step that the options name.

    Raises:
        UsageError: an unknown phase.
    """
    from ..models import Phase, Step
    from ..plan.plan import named

    return Step(
        phase=named("phase", phase, {one.value: one for one in Phase}),
        batch=batch,
        sequence=sequence,
        micro_batches=micro_batches,
    )


def _times(machine: Subject | None, table: str | None, settings: Settings) -> TimeOf:
    """A machine that is named is predicted; a table counts for the host that it was measured on."""
    from ..advise import first_of, predicted, tuned

    if table is not None:
        measured = tuned(table_source(table, settings))
        return measured if machine is None else first_of(measured, predicted(machine))
    if machine is not None:
        return predicted(machine)
    source = table_source(None, settings)
    return first_of() if source.why_shipped is not None else tuned(source)


def _memory_of(machine: Subject | None) -> int | None:
    """The least memory of the machine's accelerators; None where it has none, or does not say."""
    if machine is None:
        return None
    from ..topology.graph import Topology

    host = machine.place if isinstance(machine.place, Topology) else machine.place.host
    sizes = [device.memory_bytes for device in host.accelerators()]
    return None if not sizes or None in sizes else min(size for size in sizes if size is not None)
