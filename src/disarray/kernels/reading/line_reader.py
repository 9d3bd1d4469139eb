"""Lines of one file, from a checkpoint on, into fragments, rejects and counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.candidates import Disposition
from disarray.kernels.parsing.delimited import DelimitedParser
from disarray.kernels.parsing.framing import Frame, Framer, OverlongLine
from disarray.kernels.parsing.jsonl import JsonLinesParser
from disarray.kernels.parsing.readings import count_dispositions, place_in_time
from disarray.kernels.parsing.rejects import RejectLog, RejectReason
from disarray.kernels.reading.splitting import Splitter
from disarray.model.description.format import EVENT_US, FileKind
from disarray.model.fingerprints import Checkpoint, LineCounts, ParserState, Tail

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from disarray.kernels.fragments.fragment_writer import FragmentBuilder
    from disarray.kernels.parsing.candidates import Candidates
    from disarray.model.description.read_spec import ReadSpec


_CELLS_AT_ONCE = 2_000_000


class LineParser(Protocol):
    """What turns frames into typed rows."""

    state: ParserState

    def parse(self, frame: Frame, dispositions: NDArray[np.uint8], log: RejectLog) -> Candidates: ...
    def take_overlong(self, number: int) -> Disposition: ...


class LineReader:
    """Takes the bytes of one file in order; at every moment it can say from where to go on."""

    def __init__(
        self,
        spec: ReadSpec,
        start: Checkpoint,
        builder: FragmentBuilder | Splitter,
        *,
        latest_us: int | None,
    ) -> None:
        self.log = RejectLog()
        self._spec = spec
        self._start = start
        self._builder = builder
        self._latest_us = latest_us
        self._framer = Framer(start.offset, start.line, spec.format.max_line_bytes)
        is_json = spec.format.kind is FileKind.JSONL
        self._parser: LineParser = (JsonLinesParser if is_json else DelimitedParser)(spec, start.state)
        # A short line may stand for a row of many empty cells: what is bounded is the cells, not the bytes.
        self._most_lines = max(1_000, _CELLS_AT_ONCE // (len(spec.columns) + 1))
        self._counts = LineCounts()
        self._first_us = start.first_us
        self._last_us = start.last_us

    @property
    def counts(self) -> LineCounts:
        """Of the whole lines taken so far; what is seen is counted apart from what was made of it."""
        return replace(self._counts, seen=self._framer.seen)

    @property
    def has_tail(self) -> bool:
        """Whether the last line is without its newline."""
        return self._framer.has_tail

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        for item in self._framer.feed(piece):
            self._take(item)
        rejected = self._start.counts.rejected + self._counts.rejected
        limit = self._spec.reject_limits.max_count
        if limit is not None and rejected > limit:
            raise UnreadableFileError(f"more than {limit} rows are rejected, which is the dataset's limit")

    def checkpoint(self) -> Checkpoint:
        """Where reading can go on, with totals from the start of the file."""
        return Checkpoint(
            offset=self._framer.line_start,
            line=self._framer.line_number,
            counts=self._start.counts + self.counts,
            first_us=self._first_us,
            last_us=self._last_us,
            state=self._parser.state,
            parts=self._builder.marks if isinstance(self._builder, Splitter) else (),
        )

    def finish(self, *, take: bool, is_cut_off: bool) -> tuple[Tail, LineCounts]:
        """Settle the bytes after the last newline; return the counts of all lines, that one included.

        A line that a broken stream cut off is never a reading: its last digits may be missing.
        """
        if not self.has_tail:
            self._builder.cut()
            return Tail.NONE, self.counts
        if not take:
            self._builder.cut()
            counts = self.counts
            return Tail.WAITING, replace(counts, seen=counts.seen + 1, waiting=counts.waiting + 1)
        # Its own fragment: if the line turns out longer one day, nothing else has to go with it.
        self._builder.cut()
        tail = self._framer.take_tail()
        if is_cut_off:
            sample = tail.sample if isinstance(tail, OverlongLine) else tail.data
            number = tail.number if isinstance(tail, OverlongLine) else tail.first_line
            self.log.add(RejectReason.TRUNCATED_STREAM, line=number, offset=tail.offset, raw=sample)
            self._counts += LineCounts(rejected=1)
        else:
            self._take(tail)
        self._builder.cut()
        return Tail.TAKEN, self.counts

    def _take(self, item: Frame | OverlongLine) -> None:
        if isinstance(item, OverlongLine):
            disposition = self._parser.take_overlong(item.number)
            self._count(np.array([disposition], dtype=np.uint8))
            if disposition is Disposition.REJECTED:
                self.log.add(
                    RejectReason.LINE_TOO_LONG, line=item.number, offset=item.offset, raw=item.sample
                )
            return
        for part in item.parts(self._most_lines):
            self._take_lines(part)

    def _take_lines(self, item: Frame) -> None:
        dispositions = np.zeros(len(item), dtype=np.uint8)
        candidates = self._parser.parse(item, dispositions, self.log)

        def reject(rows: NDArray[np.int64], reason: RejectReason) -> None:
            dispositions[rows] = Disposition.REJECTED
            for row in rows.tolist():
                offset = item.offset + int(item.starts[row])
                self.log.add(reason, line=item.first_line + row, offset=offset, raw=item.line(row))

        positions = item.starts + item.offset
        if isinstance(self._builder, Splitter):
            for table in self._builder.take(candidates, positions=positions, reject=reject):
                self._note_times(table)
            self._count(dispositions)
            return
        placed = place_in_time(
            candidates,
            self._spec,
            positions=positions,
            folds=self._parser.state.folds,
            latest_us=self._latest_us,
            reject=reject,
        )
        if placed.folds != self._parser.state.folds:
            self._parser.state = replace(self._parser.state, folds=placed.folds)
        self._count(dispositions)
        if placed.table.num_rows:
            self._note_times(placed.table)
            self._builder.add(placed.table)

    def _note_times(self, table: pa.Table) -> None:
        event_us = table.column(EVENT_US).to_numpy()
        low_us, high_us = int(event_us.min()), int(event_us.max())
        self._first_us = low_us if self._first_us is None else min(low_us, self._first_us)
        self._last_us = high_us if self._last_us is None else max(high_us, self._last_us)

    def _count(self, dispositions: NDArray[np.uint8]) -> None:
        counts = count_dispositions(dispositions)
        self._counts += LineCounts(
            kept=counts[Disposition.KEPT],
            rejected=counts[Disposition.REJECTED],
            blank=counts[Disposition.BLANK],
            preamble=counts[Disposition.PREAMBLE],
        )
