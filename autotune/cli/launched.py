"""Commands that may be started by torchrun, srun or mpirun: rank 0 carries them out, the others follow it.

In:  a command with a parameter ``job``. Out: the same command without it. What the command prints, rank 0 prints; the
other ranks write only why they failed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, get_type_hints

import typer

from .output import say

if TYPE_CHECKING:
    from ..backends.rank_process import Json
    from ..launch.agent import Handlers
    from ..settings import Settings

JOB = "job"


def on_every_rank(command: Callable[..., None]) -> Callable[..., None]:
    """The command for the ranks of a launcher's job, and for a process that no launcher started: its job is None then.

    Raises:
        typer.Exit: on ranks other than 0 that were interrupted.
    """

    @functools.wraps(command)
    def led(**words: object) -> None:
        from ..settings import launcher_environment, read

        environ = launcher_environment()
        if not environ:
            return command(**words, job=None)
        from ..launch import Follower, join

        settings = read()
        job = join(settings, environ, _handlers(settings), say)
        if job is None:
            return command(**words, job=None)
        if isinstance(job, Follower):
            try:
                return job.follow()
            except KeyboardInterrupt:  # rank 0 says so
                raise typer.Exit(130) from None
        with job:
            return command(**words, job=job)

    # typer reads the options from the signature, whose annotations are no words any more.
    led.__annotations__ = {name: hint for name, hint in command.__annotations__.items() if name != JOB}
    hints = get_type_hints(led, include_extras=True)
    signature = inspect.signature(command)
    options = [own.replace(annotation=hints[name]) for name, own in signature.parameters.items() if name != JOB]
    led.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined] # inspect documents it
    return led


def _handlers(settings: Settings) -> Handlers:
    """What a rank answers rank 0 by itself."""
    from ..probing import host_report, keep_own_rate
    from ..run import keep_table

    return {
        "report": lambda asked: host_report(settings, _numbers(asked["cpus"])),
        "doctor": lambda asked: _doctor(settings, asked["ranks"]),
        "keep_rate": lambda asked: keep_own_rate(settings, asked["rates"]),
        "keep_table": lambda asked: keep_table(settings, str(asked["text"])),
    }


def _doctor(settings: Settings, ranks: Json) -> Json:
    """This host's findings; of as many ranks as the launcher's variables say, unless told."""
    from .diagnosing import own_rows

    return [list(row) for row in own_rows(settings, None if ranks is None else int(str(ranks)))]


def _numbers(listed: object) -> list[int]:
    assert isinstance(listed, list)
    return [int(str(number)) for number in listed]
