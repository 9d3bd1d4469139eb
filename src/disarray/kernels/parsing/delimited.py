"""Delimited text to typed rows: Arrow for what is plain, one line at a time for what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.arrow_rows import ArrowRowReader, ArrowRows
from disarray.kernels.parsing.binding import Binding, bind_header
from disarray.kernels.parsing.candidates import Candidates, Disposition, ExactRow, from_exact, in_file_order
from disarray.kernels.parsing.cell_values import is_null, read_value
from disarray.kernels.parsing.cells import split_line
from disarray.kernels.parsing.decoding import CleanLines, clean_lines, decode_line
from disarray.kernels.parsing.numbers import BLANKS
from disarray.kernels.parsing.preface import (
    after_header,
    ends_preamble,
    guard_preamble,
    header_cells,
    is_header_line,
    is_preamble_again,
    lenient_text,
    try_header_cells,
    with_fields,
)
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.kernels.parsing.times import parse_stamp
from disarray.model.description.format import ShortRows
from disarray.model.fingerprints import ParserState, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.kernels.parsing.framing import Frame
    from disarray.kernels.parsing.rejects import RejectLog
    from disarray.model.description.read_spec import ReadSpec

_SMALLEST_SECTION = 1_024


class DelimitedParser:
    """Reads frames of one file in order; `state` is what the next line's meaning depends on."""

    def __init__(self, spec: ReadSpec, state: ParserState) -> None:
        self.spec = spec
        self.state = state
        self._binding: Binding | None = None
        self._reader: ArrowRowReader | None = None
        if state.header:
            self._bind(must=False)

    def parse(self, frame: Frame, dispositions: NDArray[np.uint8], log: RejectLog) -> Candidates:
        """Type the rows of a frame and write into `dispositions` what every other line is."""
        clean = clean_lines(frame, self.spec.format)
        parts: list[Candidates] = []
        at, length = 0, len(frame)
        while at < len(frame):
            if self.state.phase is not Phase.BODY:
                at = self._preface(frame, at, dispositions)
                continue
            stop = min(at + length, len(frame))
            reached = self._section(frame, clean, at, stop, dispositions, log, parts)
            # A file that changes its header at every turn must not be parsed whole at every turn.
            length = 2 * length if reached == stop else _SMALLEST_SECTION
            at = reached
        return in_file_order(parts, self.spec.columns)

    def _preface(self, frame: Frame, at: int, dispositions: NDArray[np.uint8]) -> int:
        fmt = self.spec.format
        raw = frame.line(at)
        number = frame.first_line + at
        if self.state.phase is Phase.UNITS:
            self.state = replace(self.state, phase=Phase.BODY)
            dispositions[at] = Disposition.PREAMBLE
            return at + 1
        guard_preamble(number, fmt)
        if len(raw) > fmt.max_line_bytes:
            self.take_overlong(number)
        text = lenient_text(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, fmt)
        if ends_preamble(text, number, fmt):
            self.state = replace(self.state, header=fmt.header.names, phase=Phase.BODY)
            self._bind(must=True)
            return at
        if not fmt.header.names and is_header_line(text, number, fmt):
            try:
                cells = header_cells(decode_line(raw, fmt, at_start=number == 1), fmt)
            except RowRejected as rejected:
                raise UnreadableFileError(f"header in line {number}: {rejected.reason.value}") from rejected
            self.state = after_header(self.state, cells, fmt)
            self._bind(must=True)
        else:
            self.state = with_fields(self.state, text, fmt)
        blank = not text.strip(BLANKS) and fmt.preamble.lines is None
        dispositions[at] = Disposition.BLANK if blank else Disposition.PREAMBLE
        return at + 1

    def take_overlong(self, number: int) -> Disposition:
        """Say what a line beyond the cap is; where the header should be, it fails the file."""
        if self.state.phase is Phase.PREAMBLE:
            cap = self.spec.format.max_line_bytes
            raise UnreadableFileError(f"line {number}, before the header, is longer than {cap} bytes")
        if self.state.phase is Phase.UNITS:
            self.state = replace(self.state, phase=Phase.BODY)
            return Disposition.PREAMBLE
        return Disposition.REJECTED

    def _bind(self, *, must: bool) -> None:
        try:
            self._binding = bind_header(self.spec, self.state.header, dict(self.state.fields))
            self._reader = ArrowRowReader(self.spec, self._binding)
        except UnreadableFileError:
            if must:
                raise
            self._binding = self._reader = None

    def _section(
        self,
        frame: Frame,
        clean: CleanLines,
        low: int,
        high: int,
        dispositions: NDArray[np.uint8],
        log: RejectLog,
        parts: list[Candidates],
    ) -> int:
        """Read lines low to high - 1 under one header; return how far that header reached."""
        arrow, lines, doubtful = self._read_plain(clean, low, high)
        exact: list[ExactRow] = []
        reached = high
        for line in doubtful:
            before = self.state
            row = self._read_exact(frame, line, dispositions, log)
            if row is not None:
                exact.append(row)
            elif self.state is not before:
                reached = line + 1
                break
        if arrow is not None:
            rows = lines if len(arrow.rows) == len(lines) else lines[arrow.rows]
            plain = Candidates(rows, arrow.stamps.us, arrow.stamps.is_local, arrow.columns)
            if len(arrow.doubtful):
                plain = plain.filter((rows < reached) & ~np.isin(arrow.rows, arrow.doubtful))
            elif reached < high:
                plain = plain.filter(rows < reached)
            parts.append(plain)
        if exact:
            parts.append(from_exact(exact, self.spec.columns))
        return reached

    def _read_plain(
        self, clean: CleanLines, low: int, high: int
    ) -> tuple[ArrowRows | None, NDArray[np.int64], list[int]]:
        """What Arrow could read, which lines it was given, and the lines that are left for the exact way."""
        first, last = np.searchsorted(clean.doubtful, [low, high]).tolist()
        left_out = clean.doubtful[first:last]
        data, lines = clean.between(low, high)
        if self._reader is None or not len(lines):
            return None, lines, sorted([*left_out.tolist(), *lines.tolist()])
        arrow = self._reader.read(data, len(lines))
        if arrow is None:
            data, lines, quoted = _without_quotes(data, lines, self.spec.format.quote)
            left_out = np.concatenate([left_out, quoted])
            arrow = self._reader.read(data, len(lines)) if len(lines) else None
            if arrow is None:
                return None, lines, sorted([*left_out.tolist(), *lines.tolist()])
        return arrow, lines, np.sort(np.concatenate([left_out, lines[arrow.doubtful]])).tolist()

    def _read_exact(
        self, frame: Frame, line: int, dispositions: NDArray[np.uint8], log: RejectLog
    ) -> ExactRow | None:
        fmt = self.spec.format
        raw = frame.line(line)
        offset = frame.offset + int(frame.starts[line])
        try:
            text = decode_line(raw, fmt, at_start=offset == 0)
            if not text.strip(BLANKS):
                dispositions[line] = Disposition.BLANK
                return None
            if fmt.comment and text.startswith(fmt.comment):
                dispositions[line] = Disposition.PREAMBLE
                return None
            try:
                return self._row(line, text)
            except RowRejected:
                # Only a line that is no reading may be a header: which way a reading comes must not matter.
                if not self._is_preface_again(text):
                    raise
                dispositions[line] = Disposition.PREAMBLE
        except RowRejected as rejected:
            dispositions[line] = Disposition.REJECTED
            number = frame.first_line + line
            log.add(rejected.reason, line=number, offset=offset, raw=raw, column=rejected.column)
        return None

    def _is_preface_again(self, text: str) -> bool:
        """Whether a header or preamble stands among the readings; what it says takes effect at once."""
        fmt = self.spec.format
        if is_preamble_again(text, fmt):
            changed = with_fields(self.state, text, fmt, again=True)
        elif self._is_header(text):
            changed = after_header(self.state, header_cells(text, fmt), fmt)
        else:
            return False
        if changed != self.state:
            self.state = changed
            self._bind(must=False)
        return True

    def _is_header(self, text: str) -> bool:
        fmt = self.spec.format
        cells = None if fmt.header.names else try_header_cells(text, fmt)
        if cells is None:
            return False
        if not fmt.header.repeats:
            if cells == self.state.header:
                raise RowRejected(RejectReason.REPEATED_HEADER)
            return False
        if fmt.header.pattern:
            return is_header_line(text, 0, replace(fmt, header=replace(fmt.header, line=None)))
        if cells == self.state.header:
            return True
        try:
            bind_header(self.spec, cells, dict(self.state.fields))
        except UnreadableFileError:
            return False
        return True

    def _row(self, line: int, text: str) -> ExactRow:
        binding, fmt = self._binding, self.spec.format
        if binding is None:
            raise RowRejected(RejectReason.NO_HEADER)
        cells = split_line(text, fmt)
        if fmt.trailing_delimiter and len(cells) == binding.width + 1 and is_null(cells[-1], fmt):
            cells.pop()
        if len(cells) > binding.width:
            raise RowRejected(RejectReason.TOO_MANY_CELLS)
        if len(cells) < binding.width:
            if fmt.short_rows is ShortRows.REJECT:
                raise RowRejected(RejectReason.TOO_FEW_CELLS)
            cells += [""] * (binding.width - len(cells))
        times = [cells[cell].strip(BLANKS) for cell in binding.time_cells]
        if any(is_null(time, fmt) for time in times):
            raise RowRejected(RejectReason.MISSING_TIME)
        layouts = self.spec.event_time.layouts
        stamp = parse_stamp(
            " ".join(times), layouts, numbers=binding.rules.numbers, start_us=binding.start_us
        )
        values = [
            bound.constant
            if bound.cell is None
            else read_value(cells[bound.cell], bound.column, rules=binding.rules)
            for bound in binding.columns
        ]
        return ExactRow(line, stamp, values)


def _without_quotes(
    data: bytes, lines: NDArray[np.int64], quote: str
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Part the lines into those without any quote and those with one."""
    split = data.split(b"\n")[:-1]
    quoted = np.array([bool(quote) and quote.encode() in line for line in split], dtype=np.bool_)
    plain = b"".join(line + b"\n" for line, has_quote in zip(split, quoted, strict=True) if not has_quote)
    return plain, lines[~quoted], lines[quoted]
