"""The words of a start script, with their places; read, never executed. Pure.

In:  a POSIX shell text. Out: commands, each a list of words. May not touch: files, a shell, the environment.

Quotes, escapes, lines continued by a backslash, comments, here-documents and the separators of commands are read as
POSIX.1-2017 says (Shell Command Language, 2.2 to 2.4, 2.7.4). ``$NAME`` and ``${NAME:-word}`` stand for what the script
itself gave, else for the word; every other expansion makes its word unknown, and an unknown word is never judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import AutotuneError

MAX_BYTES = 1 << 20
_SEPARATORS = ";&|()\n"
_EXPANSION = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?-)([^{}$`]*))?\}|([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Line and column, both from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Word:
    """A word without its quotes.

    Args:
        places: of every character of the text.
        known: False where a part of it comes from an expansion that is not understood.
    """

    start: Place
    text: str = ""
    places: list[Place] = field(default_factory=list)
    known: bool = True

    def place(self, offset: int) -> Place:
        """Of a character; of the end where there are fewer."""
        return self.places[offset] if offset < len(self.places) else (self.places or [self.start])[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Words up to a separator.

    Args:
        after: the separator before it; empty for the first one.
    """

    words: tuple[Word, ...]
    after: str


class ScriptReader:
    """Gives the commands of a text one by one, so that the caller can tell what ``$NAME`` is by then.

    Args:
        file: names the text in errors.
        values: what the script has given so far; the caller adds to it between commands.
    """

    def __init__(self, text: str, file: str, values: Mapping[str, str]) -> None:
        self._text, self._file, self._values = text, file, values
        self._at, self._line, self._column = 0, 1, 1
        self._documents: list[tuple[str, bool]] = []  # here-documents whose bodies follow this line
        if len(text) > MAX_BYTES:
            raise AutotuneError(f"{file}: longer than {MAX_BYTES} characters", remedy="give the start script itself")
        for bad, what in (("\0", "a NUL"), ("\r", "a carriage return, which would become part of a value")):
            if bad in text:
                line = text[: text.index(bad)].count("\n") + 1
                column = text.index(bad) - (text.rfind("\n", 0, text.index(bad)) + 1) + 1
                raise AutotuneError(f"{file}, line {line}, column {column}: {what}", remedy=f"sed -i 's/\\r$//' {file}")

    def next_command(self, after: str) -> tuple[Command, str] | None:
        """The next command and the separator that ends it; None at the end of the text."""
        if self._at >= len(self._text):
            return None
        words: list[Word] = []
        while True:
            self._skip_blanks()
            here = self._peek()
            if here == "#":
                while self._peek() not in ("", "\n"):
                    self._take()
            elif here == "" or here in _SEPARATORS:
                ended = self._take() if here else ""
                if ended == "\n":
                    self._skip_documents()
                return Command(words=tuple(words), after=after), ended
            elif here in "<>":
                self._redirection()
            else:
                words.append(self._word())

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._text[at] if at < len(self._text) else ""

    def _take(self) -> str:
        taken = self._text[self._at]
        self._at += 1
        self._line, self._column = (self._line + 1, 1) if taken == "\n" else (self._line, self._column + 1)
        return taken

    def _here(self) -> Place:
        return Place(self._line, self._column)

    def _skip_blanks(self) -> None:
        while self._peek() in (" ", "\t") or (self._peek() == "\\" and self._peek(1) == "\n"):
            self._take()
            if self._text[self._at - 1] == "\\":
                self._take()

    def _word(self) -> Word:
        word = Word(self._here())
        while (here := self._peek()) and here not in _SEPARATORS and here not in " \t<>":
            if here == "\\":
                self._escape(word)
            elif here == "'":
                self._single_quoted(word)
            elif here == '"':
                self._double_quoted(word)
            elif here in "$`":
                self._expand(word)
            else:
                self._keep(word)
        return word

    def _keep(self, word: Word) -> None:
        word.places.append(self._here())
        word.text += self._take()

    def _escape(self, word: Word) -> None:
        self._take()
        if self._peek() == "\n":
            self._take()  # the line goes on
        elif self._peek():
            self._keep(word)

    def _single_quoted(self, word: Word) -> None:
        start = self._here()
        self._take()
        while self._peek() != "'":
            self._must_go_on(start, "a single quote")
            self._keep(word)
        self._take()

    def _double_quoted(self, word: Word) -> None:
        start = self._here()
        self._take()
        while self._peek() != '"':
            self._must_go_on(start, "a double quote")
            if self._peek() == "\\" and self._peek(1) in ("$", "`", '"', "\\", "\n"):
                self._escape(word)
            elif self._peek() in "$`":
                self._expand(word)
            else:
                self._keep(word)
        self._take()

    def _expand(self, word: Word) -> None:
        start = self._here()
        if self._peek() == "`":
            self._take()
            while self._peek() != "`":
                self._must_go_on(start, "a backquote")
                self._take()
            self._take()
            word.known = False
            return
        self._take()
        found = _EXPANSION.match(self._text, self._at)
        if found is None:
            self._unknown_expansion(word, start)
            return
        name = found[1] or found[4]
        value = self._values.get(name, "")
        if name not in self._values or (found[2] == ":-" and not value):
            value = found[3] or ""
            word.known = word.known and found[2] is not None
        while self._at < found.end():
            self._take()
        word.text += value
        word.places += [start] * len(value)

    def _unknown_expansion(self, word: Word, start: Place) -> None:
        """``$(...)``, ``$((...))``, ``${NAME...}`` and the like: skipped as a whole."""
        opening = self._peek()
        closing = {"(": ")", "{": "}"}.get(opening)
        word.known = False
        if closing is None:
            if opening and opening not in " \t\n\"'":
                self._take()  # $1, $?, $@
            return
        depth = 0
        while True:
            self._must_go_on(start, f"${opening}")
            taken = self._take()
            if taken == "\\" and self._peek():
                self._take()
            elif taken == "'" and opening == "(":
                while self._peek() != "'":
                    self._must_go_on(start, "a single quote")
                    self._take()
                self._take()
            depth += (taken == opening) - (taken == closing)
            if depth == 0:
                return

    def _redirection(self) -> None:
        operator = ""
        while self._peek() and self._peek() in "<>&|-" and len(operator) < 3:
            operator += self._take()
        if operator in ("<<", "<<-"):
            self._skip_blanks()
            self._documents.append((self._word().text, operator == "<<-"))

    def _skip_documents(self) -> None:
        for ending, tabs in self._documents:
            start = self._here()
            while True:
                if not self._peek():
                    raise self._error(start, f"a here-document is not ended by {ending!r}")
                line = ""
                while self._peek() not in ("", "\n"):
                    line += self._take()
                if self._peek():
                    self._take()
                if (line.lstrip("\t") if tabs else line) == ending:
                    break
        self._documents = []

    def _must_go_on(self, start: Place, what: str) -> None:
        if not self._peek():
            raise self._error(start, f"{what} is not closed")

    def _error(self, place: Place, what: str) -> AutotuneError:
        return AutotuneError(
            f"{self._file}, line {place.line}, column {place.column}: {what}",
            remedy=f"bash -n {self._file} says where a shell stops",
        )
