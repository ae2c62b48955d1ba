"""The entry point: commands by name, and how errors, interruptions and closed pipes end.

Exit codes: 0 fine, 1 failed, 2 words that cannot be meant, 130 interrupted, 141 the reader of a pipe has gone. Errors
are two lines on standard error, ``error:`` and ``try:``. A traceback is a bug.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Never

import typer

from ..errors import AutotuneError, UsageError
from . import advise, algorithms, bench, db, export, host, imports, page, plugin, serve, simulate, tables, tuning
from .output import complain, show_text

app = typer.Typer(
    add_completion=False,
    # Help as plain text: it comes in half the time and stays whole in a pipe.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "probe": host.probe,
    "doctor": host.doctor,
    "run": tuning.run,
    "show": tables.show_table,
    "explain": tables.explain,
    "report": page.report,
    "serve": serve.serve,
    "export": export.export,
    "import": imports.import_,
    "plugin": plugin.plugin,
    "bench": bench.bench,
    "simulate": simulate.simulate,
    "advise": advise.advise,
    "algorithms": algorithms.algorithms,
    "settings": host.settings,
}
GROUPS: dict[str, typer.Typer] = {"db": db.app}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)

# What typer raises for words that it cannot read. It keeps the class to itself, but not its subclass.
_BadWords: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        show_text(f"autotune {__version__}\n")
        raise typer.Exit


@app.callback()
def autotune(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure the collectives of this host, remember what was best, apply it to every call.

    Begin with: autotune run --quick
    """


def main(words: Sequence[str] | None = None) -> Never:
    """Run one command line and exit."""
    sys.exit(_exit_code(sys.argv[1:] if words is None else list(words)))


def _exit_code(words: list[str]) -> int:
    try:
        _check_command(words)
        command = typer.main.get_command(app)
        code = command.main(words or ["--help"], prog_name="autotune", standalone_mode=False)
        show_text("", flush=True)
        return code if isinstance(code, int) else 0
    except AutotuneError as err:
        complain(err.message, err.remedy)
        return err.exit_code
    except _BadWords as err:
        complain(*_usage(err, words))
        return UsageError.exit_code
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return 130
    finally:
        _drain_output()


def _drain_output() -> None:
    """Leave nothing to the interpreter's last flush, which would complain once more of what cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_command(words: list[str]) -> None:
    """Name the nearest command; typer would name it in the middle of a sentence."""
    names = [*COMMANDS, *GROUPS]
    if not words or words[0].startswith("-") or words[0] in names:
        return
    nearest = difflib.get_close_matches(words[0], names, n=1, cutoff=0.5)
    remedy = f"autotune {nearest[0]}" if nearest else "autotune --help"
    raise UsageError(f"unknown command {words[0]!r}; the commands are {', '.join(names)}", remedy=remedy)


def _usage(err: Exception, words: list[str]) -> tuple[str, str]:
    """Typer's complaint in our words."""
    context = getattr(err, "ctx", None)
    command = " ".join(["autotune", *words[:1]]) if context is None else str(context.command_path)
    options = list(getattr(err, "possibilities", None) or ())
    message = str(getattr(err, "message", "")) if options else str(getattr(err, "format_message", err.__str__)())
    return (
        f"{message[:1].lower()}{message[1:].rstrip('.')}",
        f"{command} {options[0]}" if options else f"{command} --help",
    )
