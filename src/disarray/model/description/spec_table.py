"""Strict reading of TOML tables: each key is asked for by name, faults are collected, none stops the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from disarray.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Value = TypeVar("Value")
Default = TypeVar("Default")


class MisfitError(Exception):
    """A value is not what its key needs; `key` names the part inside a list or table that is at fault."""

    def __init__(self, expected: str, *, found: object = None, hint: str = "", key: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found
        self.hint = hint
        self.key = key


@dataclass(slots=True)
class Problems:
    """The faults found in one file, and which keys each kind of table knows."""

    file: str
    lines: list[str] = field(default_factory=list)
    known_keys: dict[str, set[str]] = field(default_factory=dict)

    def add(self, path: str, message: str) -> None:
        """Note a fault at a key path such as `dataset[0].columns.amps.type`."""
        self.lines.append(f"{self.file}: {path}: {message}")

    def raise_if_any(self) -> None:
        """Stop here, with all that was found, if anything was."""
        if self.lines:
            raise SpecError(tuple(self.lines))


class Table:
    """One TOML table. Asking for a key makes it known; `close` refuses the keys that nobody asked for."""

    def __init__(self, values: Mapping[str, object], *, path: str, kind: str, problems: Problems) -> None:
        self.values = values
        self.path = path
        self.problems = problems
        self._kind = kind
        self._known = problems.known_keys.setdefault(kind, set())
        self._retired: set[str] = set()

    def required(self, key: str, read: Callable[[object], Value], fallback: Default) -> Value | Default:
        """The value of a key that has to be there; `fallback` only lets the check of the rest go on."""
        self._known.add(key)
        if key not in self.values:
            self.refuse(key, f"expected {_expectation(read)}, found nothing; the key is required")
            return fallback
        return self._read(key, read, fallback)

    def optional(self, key: str, read: Callable[[object], Value], default: Default) -> Value | Default:
        """The value of a key, or the default where it is not written."""
        self._known.add(key)
        return self._read(key, read, default) if key in self.values else default

    def table(self, key: str, kind: str) -> Table:
        """The table under a key; where it is not written, an empty one."""
        self._known.add(key)
        return self._child(key, self.values.get(key, {}), kind)

    def tables(
        self, key: str, kind: str, *, name: Callable[[object], str], shorthand: str = ""
    ) -> Iterator[tuple[str, Table]]:
        """Named tables under a key; with a shorthand, `name = "x"` means `name = { shorthand = "x" }`."""
        self._known.add(key)
        for own_name, value in self._child(key, self.values.get(key, {}), "").values.items():
            written = {shorthand: value} if shorthand and isinstance(value, str) else value
            try:
                yield name(own_name), self._child(f"{key}.{own_name}", written, kind)
            except MisfitError as misfit:
                self.refuse(f"{key}.{own_name}", f"expected {misfit.expected}")

    def array(self, key: str, kind: str) -> Iterator[Table]:
        """The tables of a list under a key."""
        self._known.add(key)
        values = self.values.get(key, [])
        if not isinstance(values, list):
            self.refuse(key, f"expected a list of tables, found {describe(values)}")
            return
        for index, value in enumerate(values):
            yield self._child(f"{key}[{index}]", value, kind)

    def retired(self, key: str, message: str) -> None:
        """Refuse a key that meant something once, with what to do instead; it is known no more."""
        self._retired.add(key)
        if key in self.values:
            self.refuse(key, message)

    def refuse(self, key: str, message: str) -> None:
        """Note a fault at one of this table's keys."""
        self.problems.add(self.path_of(key), message)

    def path_of(self, key: str) -> str:
        """Where a key stands in the file."""
        return f"{self.path}.{key}" if self.path else key

    def close(self) -> None:
        """Refuse what nobody asked for: a misspelt key would otherwise be ignored without a word."""
        for key in self.values:
            if key not in self._known and key not in self._retired:
                self.refuse(key, f"unknown key; {near_miss(key, self._known)}")

    def _child(self, key: str, value: object, kind: str) -> Table:
        if not isinstance(value, dict):
            self.refuse(key, f"expected a table, found {describe(value)}")
            value = {}
        return Table(value, path=self.path_of(key), kind=kind, problems=self.problems)

    def _read(self, key: str, read: Callable[[object], Value], fallback: Default) -> Value | Default:
        try:
            return read(self.values[key])
        except MisfitError as misfit:
            found = describe(self.values[key] if misfit.found is None else misfit.found)
            hint = f"; {misfit.hint}" if misfit.hint else ""
            self.refuse(key + misfit.key, f"expected {misfit.expected}, found {found}{hint}")
            return fallback


def near_miss(word: str, known: Sequence[str] | set[str]) -> str:
    """What was probably meant, or else all that could have been."""
    candidates = sorted(known)
    near = get_close_matches(word, candidates, n=1, cutoff=0.6)
    if not near:
        folded = {candidate.casefold(): candidate for candidate in candidates}
        near = [folded[word.casefold()]] if word.casefold() in folded else []
    if near:
        return f"did you mean '{near[0]}'?"
    return f"known are {', '.join(candidates)}" if candidates else "none is known here"


def describe(value: object) -> str:
    """A value as a person would recognise it in the file, cut to one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "a table"
        case list():
            return "a list" if value else "an empty list"
        case None:
            return "nothing"
        case _:
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:57]}…"


def _expectation(read: Callable[[object], object]) -> str:
    """What a reader accepts: it says so itself when given nothing."""
    try:
        read(None)
    except MisfitError as misfit:
        return misfit.expected
    return "a value"
