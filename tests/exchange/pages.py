"""docs/export.md and docs/import.md, made from the registries of formats and from words.json."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from exchange.library_tables import native_table
from exchange.selection_tree import BASE

from autotune.exchange import EXPORTERS, Exporter, Request, Wire
from autotune.exchange.importing import IMPORTERS, Importer
from autotune.exchange.sizes import Counted
from autotune.exchange.words import Library, library
from autotune.types import Collective

_COUNTED = {
    Counted.MESSAGE: "`message_bytes`",
    Counted.PER_RANK: "one rank's part, `message_bytes` / ranks",
}
_MADE = "This page is made from the formats: `UPDATE_GOLDEN=1 pytest tests/exchange/test_pages.py` writes it again."

EXPORT = f"""\
# Export: a table in the format of the library that a job uses

{_MADE}

    autotune export --format FORMAT [--output PATH] [--table PATH] [--evidence KIND]

The text goes to standard output or to PATH. On standard error stands what the format cannot express, which rules of
this very table were left out and why, and the lines for a shell that make the library use the file. A rule that a
library has no word for is left out, never guessed: that library then decides as it would without the file.

- Names: a table of a library's own backend keeps its names. The names of every other table are the field's (`ring`,
  `tree` ...) and are translated by the table of each section; what is not in it has no counterpart there.
- Sizes: ours are `message_bytes`, the larger of a rank's input and output buffer. Each section says what the library
  counts; ranges are converted, and stay without gap or overlap.
- Evidence: measured rules count; simulated and imported ones only with `--evidence simulated` or `--evidence imported`.
- The algorithm `auto` is the library's own choice: no rule is written for it.
- Where a library cannot tell two kinds of call apart (element types, mostly), the rules for lossless float32 sums in
  private memory are taken, and what else the table has is said to be left out.
"""
IMPORT = f"""\
# Import: figures that others measured

{_MADE}

    autotune import LOG... --topology MACHINE [--backend NAME] [--algorithm NAME] [--set NAME=VALUE] [--table PATH]

Every figure becomes a trial in the database, in a session of its own that says `imported`; no tuning run takes it for
a measurement, and no table that `select` finds by itself is made of it. The command shows what all imports of this
machine and backend suggest together; `--table PATH` writes that table, whose rules have the evidence `imported`:

    autotune import docs/examples/eight_npus.csv --topology docs/examples/eight_npus.json --backend hccl --table t.json

    select("all_reduce", message_bytes=1_000_000, n_ranks=8, backend="hccl", evidence=("imported",), table="t.json")

These are the figures of two articles: `tree` wins at 1 MB, `ring` at 16 and 256 MB. The import also warns: 256 MB in
320 us means 1,400 GB/s of bus bandwidth, above the 392 GB/s that eight NPUs with seven links of 56 GB/s each have.

- Two logs under two settings (`--algorithm`, `--set HCCL_BUFFSIZE=400`) give a table of which setting wins where. A log
  without either is the library's own choice, `auto`, which is the default to beat.
- Several LOGs of one command, and rows that repeat, are repetitions. From six on a rule's `low_us` and `high_us` are a
  95 % interval of the median; below, they are the lowest and the highest figure, and `n_rounds` says how many there
  were. Another setting than the default wins only if its median is at least 2 % lower and the intervals are apart.
- The same files under the same setting are stored once. A newer log of a setting takes the place of an older one.
- Sizes are converted to `message_bytes` as each section says. Bandwidths that a log prints are computed again from size
  and time, and a difference is a warning; so is a bus bandwidth above the topology's theoretical one.
- Parsers are strict: an error names file, line, column, the word found and the words allowed, and nothing is stored.
  Prefixes of launchers (`[1,0]<stdout>:`, `0: `, `hosta: `) are taken off. A last row that was cut off is left out, and
  that is said; so is how many other lines were passed over.
- `--topology` is a machine's name or a file, as `autotune simulate` takes it; `--hosts N` for several hosts.
  `--collective`, `--ranks`, `--dtype` and `--op` say what a log leaves out; they may not contradict it.
"""
_ABOUT = {
    "hccl-tuner": (
        "Every rule names rank count, servers and element type; ranges hold both ends and are disjoint. A rule "
        "that the plugin's schema or HCCL's selector would refuse is left out, since one such rule makes the "
        "plugin pass over the whole file."
    ),
    "hccl-env": (
        "One algorithm for each operator is all that HCCL_ALGO can say. The one is taken that loses least against "
        "the table's choices by size; every measured size counts the same, or as `--weights 1MiB=3,64MiB=1` says. "
        "The times behind it come from the trial database. Knobs named `HCCL_...` become variables of the process,"
        " and are chosen together with the algorithms. `--soc` checks what the chip has."
    ),
    "nccl-tuner": (
        "Each row names its channels and protocol: `-1` channels would not mean NCCL's own number with the stock "
        "plugin, which sets one channel first, also for a call that no row matches. Hence the last rows, for all "
        "other calls, which `--channels` and `--protocol` fill. The plugin takes unknown words for others in "
        "silence; none are written."
    ),
    "openmpi": (
        "The classic file, for Open MPI 5 and older; a reader of version 6 shifts its communicator sizes, so use "
        "`openmpi-json` there. `coll_tuned_priority` lets these rules decide where `han` would come first. Settings "
        "that Open MPI reads when a job starts (such as `btl_sm_eager_limit`) are one set for all sizes: the one that "
        "loses least against the best for each size, by the trials; its lines to export stand in the file too, as "
        "comments."
    ),
    "openmpi-json": (
        "For Open MPI 6. Where the table was measured on one host, or with one rank on each, the rules say so. "
        "Settings of the whole job are chosen as for `openmpi`, and stand in the lines to export alone."
    ),
    "mpich": (
        "The file replaces MPICH's whole tree. So `--base` names the libmpi.so that will read it (whose tree "
        "stands inside), or the source's `maint/tuning/coll/mpir/generic.json`; outside the table's rank counts "
        "and sizes, and for operations that an algorithm is not for, that tree decides. On one host MPICH's shared "
        "memory takes broadcast, reduce and all_reduce over after a few calls, and never looks there; so a second "
        "file, written beside the first (`tree.device.json`), replaces what it goes by: it does as before where the "
        "table keeps MPICH's own choice, and asks the tree where the table names an algorithm."
    ),
    "ucc": ("Each range has the score `inf`, so that it holds against UCC's other transports."),
}


def export_page() -> str:
    """docs/export.md."""
    return "\n".join([EXPORT, _overview(), *(_export_section(exporter) for exporter in EXPORTERS.values())])


def import_page() -> str:
    """docs/import.md."""
    rows = [
        f"| [`{importer.name}`](#{importer.name}) | {importer.summary} | {importer.backend or '`--backend`'} |"
        for importer in IMPORTERS.values()
    ]
    overview = "\n".join(["| format | reads | backend |", "|---|---|---|", *rows, ""])
    return "\n".join([IMPORT, overview, *(_import_section(importer) for importer in IMPORTERS.values())])


def _overview() -> str:
    rows = [f"| [`{e.name}`](#{e.name}) | {e.summary} | {e.checked} |" for e in EXPORTERS.values()]
    return "\n".join(["| format | for | checked |", "|---|---|---|", *rows, ""])


def _export_section(exporter: Exporter) -> str:
    parts = [f"## {exporter.name}\n", f"For {exporter.summary}.\n"]
    if exporter.name in _ABOUT:
        parts.append(f"{fill(_ABOUT[exporter.name], 120)}\n")
    asked = Request(base=BASE, channels=8, protocol=Wire.SIMPLE)
    usage = exporter.render(native_table(), asked).usage
    if usage:
        file = f"$PWD/table{exporter.suffix}"
        lines = [f"    {line.format(path=file, beside=f'$PWD/table.device{exporter.suffix}')}" for line in usage]
        parts.append("\n".join(["To use it:\n", *lines, ""]))
    if exporter.library is not None:
        parts += _vocabulary(library(exporter.library))
    loses = exporter.loses or ("nothing: it is the whole table",)
    parts.append("\n".join(["It cannot express:\n", *(f"- {loss}" for loss in loses), ""]))
    parts.append(f"Checked: {exporter.checked}.\n")
    return "\n".join(parts)


def _vocabulary(words: Library) -> Iterator[str]:
    yield "| collective | there | a size is | our algorithm: theirs | all of theirs |\n|---|---|---|---|---|"
    for collective, calls in words.calls.items():
        for call in calls:
            pairs = ", ".join(f"`{ours}`: `{theirs}`" for ours, theirs in call.native.items()) or "none"
            own = ", ".join(f"`{name}`" for name in call.algorithms)
            yield f"| `{collective.value}` | `{call.name}` | {_COUNTED[call.counted]} | {pairs} | {own} |"
    for collective, why in words.refused.items():
        yield f"| `{collective.value}` | refused: {why} | | | |"
    yield f"\nSource: {words.source}.\n"


def _import_section(importer: Importer) -> str:
    sizes: dict[Counted, list[str]] = {}
    for collective in Collective:
        if collective in importer.sizes:
            sizes.setdefault(importer.sizes[collective], []).append(f"`{collective.value}`")
    lines = [f"## {importer.name}\n", f"Reads {importer.summary}.\n"]
    lines.append("| its size is | for |\n|---|---|")
    lines += [f"| {_COUNTED[counted]} | {', '.join(names)} |" for counted, names in sizes.items()]
    lines.append("")
    if importer.must_say:
        lines.append(f"You say: {'; '.join(importer.must_say)}.\n")
    lines.append(f"{fill(_READS[importer.name], 120)}\n")
    return "\n".join(lines)


_READS = {
    "hccl_test": (
        "Columns are found by name (`avg_time` and `aveg_time`), in any order. Rows of one size under one header "
        "are those of several ranks: the slowest counts, and a failure of one fails all; a new header begins a "
        "repetition. `check_result` NULL means that nothing was checked. GiB/s under the title GB/s is recognised,"
        " computed again, and said. Times of exactly 1000 us are those of HCCL-VM, the simulator, and are said to "
        "be no measurement."
    ),
    "hccl-profile": (
        "`algorithm.template_type` is the algorithm; engine, executor and HCCL_BUFFSIZE are knobs. `failed` and "
        "`noresult` become failed trials. The table can be written again with `autotune export --format "
        "hccl-tuner`."
    ),
    "nccl-tests": (
        "Columns are those that the header names, in every layout: with and without root, per-iteration columns, "
        "time stamps, `N/A`. The out-of-place half counts. NCCL's own lines between rows, or inside one, are "
        "passed over. A log of `-C` (CPU time) is refused."
    ),
    "osu": ("`Max Latency` counts where `-f` printed it; else the mean over ranks, and that is said."),
    "imb": (
        "`t_max` counts. One file may hold several benchmarks and process counts; `--ranks` and `--collective` "
        "pick some."
    ),
    "msmodeling": ("One file holds one collective and one `topology_tier` for each rank count."),
    "csv": (
        "For figures from a page or a program of your own. Lines that begin with `#` are comments. Columns of "
        "bandwidth are checked against size and time. Column numbers in errors count fields."
    ),
}
