"""docs/commands.md, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from autotune.cli.main import app

PREFACE = """\
# Commands

This page is made from the commands: `UPDATE_GOLDEN=1 pytest tests/cli/test_help.py` writes it again.

Results go to standard output, everything else to standard error. With `--json` a command writes one JSON document and
nothing else: names carry their units (`message_bytes`, `median_us`, `busbw_gb_per_s`; GB/s is 1e9 bytes per second),
`null` is what is not known, and a later version may add names but does not change these. A table in JSON is described
in [table.md](table.md).

| exit code | meaning |
|---|---|
| 0 | fine |
| 1 | failed: two lines on standard error, `error:` and `try:`; a finding of `doctor`; a wrong answer in `bench` |
| 2 | words that cannot be meant, with the same two lines |
| 130 | interrupted; the same `autotune run` goes on where it stopped |
| 141 | the reader of standard output has gone |

| word | how it is written |
|---|---|
| SIZE | `65536`, `64K` or `64KiB`: K, M, G and KiB, MiB, GiB are powers of two; KB, MB, GB are refused as ambiguous |
| SIZES | a list such as `8,1K,1MiB`, or a range such as `8-64MiB`, which goes in powers of four |
| N,N | rank counts, such as `2,4` |
| TIME | with a unit: `500ms`, `90s`, `2m`, `1h` |
| COLLECTIVE | `all_reduce`, `all_gather`, `reduce_scatter`, `broadcast`, `reduce`, `scatter`, `gather`, `all_to_all` |
| TYPE | `float32`, `float64`, `float16`, `bfloat16`, `int8`, `uint8`, `int32`, `int64` |
"""


def markdown() -> str:
    """The whole page."""
    return "\n".join([PREFACE, *_sections()])


def command_names() -> list[str]:
    """Every command as it is typed; those of a group with its name before."""
    return list(_commands())


def _commands() -> dict[str, Any]:  # Any: click's commands, which typer keeps to itself
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined] # a group has them
        inside = getattr(command, "commands", None)
        found |= {name: command} if inside is None else {f"{name} {part}": leaf for part, leaf in inside.items()}
    return found


def _sections() -> Iterator[str]:
    for name, command in _commands().items():
        usage = [f"autotune {name}"]
        rows = []
        for param in command.params:
            if param.param_type_name == "argument":
                shown = param.metavar if param.required else f"[{param.metavar}]"
                usage.append(shown)
            else:
                shown = param.opts[0] if param.is_flag else f"{param.opts[0]} {param.metavar}"
                if param.required:
                    usage.append(shown)
            default = f" Default: `{param.default}`." if isinstance(param.default, str) else ""
            rows.append(f"| `{shown}` | {param.help}{default} |")
        yield f"## {usage[0]}\n"
        yield f"    {' '.join([*usage, '[OPTIONS]'])}\n"
        yield f"{command.help}\n"
        yield "| argument or option | meaning |\n|---|---|"
        yield "\n".join(rows) + "\n"
