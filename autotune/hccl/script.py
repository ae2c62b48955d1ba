"""What a start script puts into the environment of what it starts. Pure; ``shell.py`` reads the words.

In:  a shell text. Out: settings in their order, with their places, and the environment of every started command.
May not touch: files, a shell. Branches are read one after the other, as if all were taken; the last setting counts.

Counted: ``export A=b``, ``declare -x A=b``, ``A=b`` that is exported, ``A=b command``, ``env A=b command``, and what
mpirun (``-x A=b``), docker (``-e``, ``--env``) and srun (``--export=ALL,A=b``) pass on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from .shell import Command, Place, ScriptReader, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_DECLARING = ("export", "declare", "typeset", "readonly", "local")
_RESERVED = ("if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "exec", "nohup")
_PASSING = ("-x", "-e", "--env")
_LOOKS_CUT = re.compile(r"[A-Za-z]+[0-9]?:[A-Za-z_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One setting.

    Args:
        value: None where the script computes it.
        places: of every character of the value; empty for the process's environment.
        rest: what follows an unquoted semicolon and looks like a part of the value.
        exported: whether anything that is started sees it.
    """

    name: str
    value: str | None
    place: Place | None
    places: tuple[Place, ...] = ()
    rest: str | None = None
    exported: bool = True

    def at(self, offset: int) -> Place | None:
        """Where a character of the value stands."""
        return self.places[offset] if offset < len(self.places) else self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a script gives.

    Args:
        given: in order, also what a later one replaces.
        launches: environments of commands that have settings of their own, and the one at the end.
    """

    given: tuple[Given, ...]
    launches: tuple[Mapping[str, Given], ...]


def environment_script(environ: Mapping[str, str]) -> Script:
    """The environment of a process, as if a script had given it."""
    given = tuple(Given(name=name, value=value, place=None) for name, value in sorted(environ.items()))
    return Script(given=given, launches=({one.name: one for one in given},))


def read_script(text: str, file: str) -> Script:
    """What the script gives.

    Raises:
        AutotuneError: a quote or here-document that does not end, with its place.
    """
    state = _State()
    reader = ScriptReader(text, file, state.values)
    after = ""
    while (found := reader.next_command(after)) is not None:
        command, after = found
        state.take(command)
    given = tuple(state.finished(one) for one in state.given)
    last = {name: one for name, one in state.shell.items() if name in state.exported}
    return Script(given=given, launches=(*state.launches, last))


@dataclass(slots=True)
class _State:
    """The shell's variables as far as the script has come."""

    given: list[Given] = field(default_factory=list)
    shell: dict[str, Given] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    launches: list[Mapping[str, Given]] = field(default_factory=list)
    rests: dict[Place, str] = field(default_factory=dict)
    open_end: Given | None = None  # the last word of the command before, where that is a setting

    def take(self, command: Command) -> None:
        """Carry out one command as far as the environment goes."""
        words = list(command.words)
        while words and words[0].text in _RESERVED:
            words.pop(0)
        if self.open_end is not None and command.after == ";" and words and _LOOKS_CUT.match(words[0].text):
            assert self.open_end.place is not None, "settings of scripts have places"
            self.rests[self.open_end.place] = words[0].text
        self.open_end = None
        leading: list[Given] = []
        while words and (given := _given(words[0])) is not None:
            leading.append(given)
            words.pop(0)
        if not words:
            for one in leading:
                self._set(one)
        elif words[0].text in _DECLARING:
            self._declare(words)
        elif words[0].text == "unset":
            for word in words[1:]:
                self.exported.discard(word.text)
                self.shell.pop(word.text, None)
                self.values.pop(word.text, None)
        elif words[0].text == "set" and any(word.text in ("-a", "-o allexport") for word in words[1:]):
            self.exported.update(self.shell)
        else:
            self._launch(leading, words)
        if leading and not words:
            self.open_end = leading[-1]

    def finished(self, one: Given) -> Given:
        """With what was learnt later."""
        assert one.place is not None, "settings of scripts have places"
        seen = one.exported or one.name in self.exported
        return replace(one, rest=self.rests.get(one.place), exported=seen)

    def _set(self, one: Given) -> None:
        self.given.append(replace(one, exported=False))
        self.shell[one.name] = one
        if one.value is None:
            self.values.pop(one.name, None)
        else:
            self.values[one.name] = one.value

    def _declare(self, words: list[Word]) -> None:
        options = [word.text for word in words[1:] if word.text.startswith("-")]
        exports = words[0].text == "export" or any("x" in option for option in options)
        for word in words[1:]:
            one = _given(word)
            if one is not None:
                self._set(one)
                self.open_end = one
            if exports and (one is not None or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word.text)):
                self.exported.add(word.text if one is None else one.name)

    def _launch(self, leading: list[Given], words: list[Word]) -> None:
        own = list(leading)
        in_env = words[0].text == "env" or words[0].text.endswith("/env")
        for before, word in pairwise(words):
            given = _given(word)
            if given is not None and (in_env or before.text in _PASSING):
                own.append(given)
                self.open_end = given
                continue
            in_env = in_env and (given is not None or word.text.startswith("-") or before.text == "-u")
            if word.text.startswith("--export="):
                own += _exported_by_srun(word)
        self.given += own
        if own:
            inherited = {name: one for name, one in self.shell.items() if name in self.exported}
            self.launches.append({**inherited, **{one.name: one for one in own}})


def _given(word: Word, start: int = 0) -> Given | None:
    found = _ASSIGNMENT.match(word.text, start)
    if found is None:
        return None
    return Given(
        name=found[1],
        value=word.text[found.end() :] if word.known else None,
        place=word.place(start),
        places=tuple(word.places[found.end() :]),
    )


def _exported_by_srun(word: Word) -> list[Given]:
    found = []
    for part in re.finditer(r"[^,]+", word.text[len("--export=") :]):
        start = part.start() + len("--export=")
        one = _given(Word(word.place(start), part[0], word.places[start : start + len(part[0])], word.known))
        found += [] if one is None else [one]
    return found
