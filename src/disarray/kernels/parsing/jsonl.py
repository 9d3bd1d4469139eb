"""One JSON object a line to typed rows.

Numbers keep the text they were written in, so that a value means the same as it would in a delimited file: whole
columns of texts are typed at once, and what is doubtful there is read again one by one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.binding import Binding, bind_header
from disarray.kernels.parsing.candidates import Candidates, Disposition, ExactRow, from_exact, in_file_order
from disarray.kernels.parsing.cell_values import is_null, read_value
from disarray.kernels.parsing.columns import constant_column, finish_column, trimmed
from disarray.kernels.parsing.decoding import decode_line
from disarray.kernels.parsing.numbers import BLANKS
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.kernels.parsing.times import parse_stamp, parse_stamps
from disarray.model.description.format import Origin
from disarray.model.fingerprints import ParserState, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from disarray.kernels.parsing.framing import Frame
    from disarray.kernels.parsing.rejects import RejectLog
    from disarray.model.description.format import Column, Format
    from disarray.model.description.read_spec import ReadSpec

_ABSENT = ""
_MAX_KEY_SETS = 256
_PARSED_AT_ONCE = 2 << 20
_MOST_VALUES = 2_000_000
_NAME_CHARACTERS = 4 << 20
# Of fewer lines with the same keys, making columns costs more than it saves.
_FEWEST_FOR_COLUMNS = 16
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class JsonLinesParser:
    """Reads frames of one file; a line's keys stand for the header, so nothing depends on earlier lines."""

    def __init__(self, spec: ReadSpec, state: ParserState) -> None:
        self.spec = spec
        self.state = replace(state, phase=Phase.BODY)
        # Numbers are numbers in JSON, whatever mark the locale has.
        self._format: Format = replace(spec.format, decimal=".", thousands="")
        self._spec = replace(spec, format=self._format)
        self._wanted = _Wanted.of(spec)
        self._bindings: dict[tuple[str, ...], _BoundKeys | None] = {}

    def parse(self, frame: Frame, dispositions: NDArray[np.uint8], log: RejectLog) -> Candidates:
        """Type the rows of a frame and write into `dispositions` what every other line is."""
        groups: dict[tuple[str, ...], _Lines] = {}
        refused: dict[int, RowRejected] = {}
        for line in range(len(frame)):
            try:
                text = decode_line(
                    frame.line(line), self._format, at_start=frame.offset + int(frame.starts[line]) == 0
                )
                if not text.strip(BLANKS):
                    dispositions[line] = Disposition.BLANK
                    continue
                cells = _load(text, self._wanted)
            except RowRejected as rejected:
                refused[line] = rejected
                continue
            lines = groups.setdefault(tuple(cells), _Lines())
            lines.numbers.append(line)
            lines.texts.append(list(cells.values()))
        parts = [part for names, lines in groups.items() for part in self._typed(names, lines, refused)]
        for line in sorted(refused):
            dispositions[line] = Disposition.REJECTED
            log.add(
                refused[line].reason,
                line=frame.first_line + line,
                offset=frame.offset + int(frame.starts[line]),
                raw=frame.line(line),
                column=refused[line].column,
            )
        return in_file_order(parts, self.spec.columns)

    def take_overlong(self, number: int) -> Disposition:
        """Nothing stands before the first line: an overlong one is a reject like any other."""
        return Disposition.REJECTED

    def _typed(
        self, names: tuple[str, ...], lines: _Lines, refused: dict[int, RowRejected]
    ) -> Iterator[Candidates]:
        """The rows of lines that have the same keys; those that are none are added to `refused`."""
        bound = self._bind(names)
        if bound is None:
            refused |= {number: RowRejected(RejectReason.MISSING_VALUE) for number in lines.numbers}
            return
        doubtful = np.ones(len(lines.numbers), dtype=np.bool_)
        if len(lines.numbers) >= _FEWEST_FOR_COLUMNS:
            plain, doubtful = self._columns(bound, lines)
            yield plain.filter(~doubtful)
        exact: list[ExactRow] = []
        for at in np.flatnonzero(doubtful).tolist():
            try:
                exact.append(self._row(bound, lines.numbers[at], lines.texts[at]))
            except RowRejected as rejected:
                refused[lines.numbers[at]] = rejected
        if exact:
            yield from_exact(exact, self.spec.columns)

    def _columns(self, bound: _BoundKeys, lines: _Lines) -> tuple[Candidates, NDArray[np.bool_]]:
        """All lines as typed columns, and which of them have to be read one by one all the same."""
        binding, rules = bound.binding, bound.binding.rules
        nulls = pa.array(["", *self._format.null_tokens], pa.string())
        texts = [pa.array(cells, pa.string()) for cells in zip(*lines.texts, strict=True)]
        times = [trimmed(texts[cell], self._format) for cell in binding.time_cells]
        time = times[0] if len(times) == 1 else pc.binary_join_element_wise(*times, " ")
        stamps = parse_stamps(
            time.fill_null(""),
            self.spec.event_time.layouts,
            numbers=rules.numbers,
            start_us=binding.start_us,
        )
        doubtful = ~stamps.ok
        columns: list[pa.Array[Any]] = []
        for cell, column in bound.cells:
            if cell is None:
                columns.append(constant_column(None, column, len(lines.numbers)))
                doubtful |= not column.nullable
                continue
            raw = texts[cell]
            is_absent = pc.is_in(raw, nulls)
            finished = finish_column(
                pc.if_else(is_absent, pa.scalar(None, pa.string()), raw), column, rules=rules
            )
            columns.append(finished.values)
            if finished.doubtful is not None:
                doubtful |= finished.doubtful
        numbers = np.array(lines.numbers, dtype=np.int64)
        return Candidates(numbers, stamps.us, stamps.is_local, columns), doubtful

    def _row(self, bound: _BoundKeys, line: int, texts: list[str]) -> ExactRow:
        binding = bound.binding
        times = [texts[cell].strip(BLANKS) for cell in binding.time_cells]
        if any(is_null(time, self._format) for time in times):
            raise RowRejected(RejectReason.MISSING_TIME)
        layouts = self.spec.event_time.layouts
        stamp = parse_stamp(
            " ".join(times), layouts, numbers=binding.rules.numbers, start_us=binding.start_us
        )
        values = [
            read_value(_ABSENT if cell is None else texts[cell], column, rules=binding.rules)
            for cell, column in bound.cells
        ]
        return ExactRow(line, stamp, values)

    def _bind(self, names: tuple[str, ...]) -> _BoundKeys | None:
        """Tie the columns to one set of keys; a key that a line lacks is null there, event time excepted."""
        if names not in self._bindings:
            if len(self._bindings) > _MAX_KEY_SETS:
                self._bindings.clear()
            optional = tuple(replace(column, required=False, nullable=True) for column in self._spec.columns)
            try:
                binding = bind_header(replace(self._spec, columns=optional), names, {})
            except UnreadableFileError:
                self._bindings[names] = None
            else:
                cells = tuple(
                    (bound.cell, replace(bound.column, nullable=column.nullable))
                    for bound, column in zip(binding.columns, self.spec.columns, strict=True)
                )
                self._bindings[names] = _BoundKeys(binding, cells)
        return self._bindings[names]


@dataclass(frozen=True, slots=True)
class _BoundKeys:
    """The columns tied to one set of keys: where each stands (None: nowhere), and what it has to be."""

    binding: Binding
    cells: tuple[tuple[int | None, Column], ...]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of a frame that have the same keys: their numbers there, and the texts of each by key."""

    numbers: list[int] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The dotted paths that a dataset reads, and the objects on the way to them."""

    names: frozenset[str]
    above: frozenset[str]
    every: bool

    @classmethod
    def of(cls, spec: ReadSpec) -> _Wanted:
        sources = [*spec.event_time.sources]
        for column in spec.columns:
            if column.origin is not Origin.PREAMBLE:
                sources += [column.source, *(each.source for each in column.alternatives)]
        names = {name for source in sources for name in source.names}
        above = {name[: at + 1] for name in names for at, letter in enumerate(name) if letter == "."}
        return cls(frozenset(names), frozenset(above), any(source.pattern for source in sources))


def _load(text: str, wanted: _Wanted) -> dict[str, str]:
    """The leaves of one object by dotted path, as text, as far as somebody reads them; null is the empty text."""
    if len(text) > _PARSED_AT_ONCE and sum(map(text.count, "[{,")) > _MOST_VALUES:
        # Each of them is a Python object: a line of brackets takes twenty-five times its length.
        raise RowRejected(RejectReason.LINE_TOO_LONG)
    try:
        value = _DECODER.decode(text)
        if not isinstance(value, dict):
            raise RowRejected(RejectReason.BAD_JSON)
        leaves = _leaves(value, wanted)
    except (ValueError, RecursionError):
        # Also a list that can be read and not be written as text again.
        raise RowRejected(RejectReason.BAD_JSON) from None
    text = "".join([*leaves, *leaves.values()])
    if "\0" in text:
        raise RowRejected(RejectReason.NUL_BYTE)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate can be written in JSON and is no text anywhere else.
        raise RowRejected(RejectReason.UNDECODABLE) from None
    return leaves


def _leaves(value: dict[str, Any], wanted: _Wanted) -> dict[str, str]:
    leaves: dict[str, str] = {}
    pending = [("", value)]
    room = _NAME_CHARACTERS
    while pending:
        path, node = pending.pop()
        for key, child in node.items():
            if wanted.every:
                # Any path may fit the pattern, so all of them are built, and many long ones are a bomb.
                room -= len(path) + len(key)
                if room < 0:
                    raise RowRejected(RejectReason.LINE_TOO_LONG)
            name = f"{path}{key}"
            if isinstance(child, dict):
                below = f"{name}."
                if wanted.every or below in wanted.above:
                    pending.append((below, child))
            elif not wanted.every and name not in wanted.names:
                continue
            elif isinstance(child, bool):
                leaves[name] = "true" if child else "false"
            elif child is None:
                leaves[name] = _ABSENT
            elif isinstance(child, str):
                leaves[name] = child
            else:
                leaves[name] = json.dumps(child)
    return leaves
