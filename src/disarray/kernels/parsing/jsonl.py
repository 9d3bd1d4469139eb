"""One JSON object a line to typed rows.

Read one by one: exactness here is worth more than speed, and numbers keep the text they were written in, so
that a value means the same as it would in a delimited file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.binding import Binding, bind_header
from disarray.kernels.parsing.candidates import Candidates, Disposition, ExactRow, from_exact
from disarray.kernels.parsing.cell_values import is_null, read_value
from disarray.kernels.parsing.decoding import decode_line
from disarray.kernels.parsing.numbers import BLANKS
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.kernels.parsing.times import parse_stamp
from disarray.model.description.format import Origin
from disarray.model.fingerprints import ParserState, Phase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from disarray.kernels.parsing.framing import Frame
    from disarray.kernels.parsing.rejects import RejectLog
    from disarray.model.description.format import Format
    from disarray.model.description.read_spec import ReadSpec

_ABSENT = ""
_MAX_KEY_SETS = 256
_PARSED_AT_ONCE = 2 << 20
_MOST_VALUES = 2_000_000
_NAME_CHARACTERS = 4 << 20


class JsonLinesParser:
    """Reads frames of one file; a line's keys stand for the header, so nothing depends on earlier lines."""

    def __init__(self, spec: ReadSpec, state: ParserState) -> None:
        self.spec = spec
        self.state = replace(state, phase=Phase.BODY)
        # Numbers are numbers in JSON, whatever mark the locale has.
        self._format: Format = replace(spec.format, decimal=".", thousands="")
        self._spec = replace(spec, format=self._format)
        self._wanted = _Wanted.of(spec)
        self._bindings: dict[tuple[str, ...], Binding | None] = {}

    def parse(self, frame: Frame, dispositions: NDArray[np.uint8], log: RejectLog) -> Candidates:
        """Type the rows of a frame and write into `dispositions` what every other line is."""
        rows: list[ExactRow] = []
        for line in range(len(frame)):
            raw = frame.line(line)
            offset = frame.offset + int(frame.starts[line])
            try:
                text = decode_line(raw, self._format, at_start=offset == 0)
                if not text.strip(BLANKS):
                    dispositions[line] = Disposition.BLANK
                    continue
                rows.append(self._row(line, _load(text, self._wanted)))
            except RowRejected as rejected:
                dispositions[line] = Disposition.REJECTED
                number = frame.first_line + line
                log.add(rejected.reason, line=number, offset=offset, raw=raw, column=rejected.column)
        return from_exact(rows, self.spec.columns)

    def take_overlong(self, number: int) -> Disposition:
        """Nothing stands before the first line: an overlong one is a reject like any other."""
        return Disposition.REJECTED

    def _row(self, line: int, cells: dict[str, str]) -> ExactRow:
        names = tuple(cells)
        binding = self._bind(names)
        if binding is None:
            raise RowRejected(RejectReason.MISSING_VALUE)
        texts = list(cells.values())
        times = [texts[cell].strip(BLANKS) for cell in binding.time_cells]
        if any(is_null(time, self._format) for time in times):
            raise RowRejected(RejectReason.MISSING_TIME)
        layouts = self.spec.event_time.layouts
        stamp = parse_stamp(
            " ".join(times), layouts, numbers=binding.rules.numbers, start_us=binding.start_us
        )
        values = [
            read_value(
                _ABSENT if bound.cell is None else texts[bound.cell],
                replace(bound.column, nullable=column.nullable),
                rules=binding.rules,
            )
            for bound, column in zip(binding.columns, self.spec.columns, strict=True)
        ]
        return ExactRow(line, stamp, values)

    def _bind(self, names: tuple[str, ...]) -> Binding | None:
        """Tie the columns to one set of keys; a key that a line lacks is null there, event time excepted."""
        if names not in self._bindings:
            if len(self._bindings) > _MAX_KEY_SETS:
                self._bindings.clear()
            optional = tuple(replace(column, required=False, nullable=True) for column in self._spec.columns)
            try:
                self._bindings[names] = bind_header(replace(self._spec, columns=optional), names, {})
            except UnreadableFileError:
                self._bindings[names] = None
        return self._bindings[names]


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
        value = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        raise RowRejected(RejectReason.BAD_JSON) from None
    if not isinstance(value, dict):
        raise RowRejected(RejectReason.BAD_JSON)
    leaves = _leaves(value, wanted)
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
