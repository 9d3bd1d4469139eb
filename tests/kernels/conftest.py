"""A desk on which a file lies, is read, grows and is read again; every read is checked to account for every line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import settings

from disarray.kernels.fragments.fragment_reader import read_fragment
from disarray.kernels.fragments.fragment_writer import FragmentBuilder, FragmentWriter, MemorySink
from disarray.kernels.parsing.readings import readings_schema
from disarray.kernels.reading import blocks, decompression, file_reader, ranges, stretches
from disarray.kernels.reading.file_reader import (
    read_file,
)
from disarray.kernels.reading.line_reader import LineReader
from disarray.kernels.reading.outcome import ReadOutcome, ReadReason, ReadRequest, ReadStatus
from disarray.model import fingerprints, seam
from disarray.model.description.format import (
    EVENT_US,
    POSITION,
    Column,
    ColumnType,
    EventTime,
    FileKind,
    Format,
    LayoutKind,
    Source,
    TimeLayout,
)
from disarray.model.description.read_spec import Key, KeyKind, ReadSpec, RejectLimits
from disarray.model.fingerprints import ORIGIN
from disarray.model.seam import Replacement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from disarray.kernels.fragments.fragment_writer import Fragment
    from disarray.model.fingerprints import Fingerprint

# Examples read and write files; a deadline would only measure who else uses the machine.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

NOW_US = 1_800_000_000_000_000
HOUR_US = 3_600_000_000
ISO = TimeLayout(LayoutKind.ISO)


def column(name: str, kind: ColumnType = ColumnType.FLOAT64, **more: Any) -> Column:
    """A column under its own name."""
    return Column(name=name, source=Source((name,)), type=kind, **more)


def spec_of(
    *columns: Column,
    fmt: Format | None = None,
    layouts: Sequence[TimeLayout] = (ISO,),
    zone: str | None = "UTC",
    time: Sequence[str] = ("time",),
    **more: Any,
) -> ReadSpec:
    """How to read a file with a time column and the given columns, by default one float `value`."""
    fields: dict[str, Any] = {
        "dataset": "desk",
        "format": fmt or Format(name="csv"),
        "columns": columns or (column("value"),),
        "event_time": EventTime(
            sources=tuple(Source((name,)) for name in time), layouts=tuple(layouts), zone=zone
        ),
        "channel": None,
        "order_by": (),
        "key": Key(KeyKind.CONTENT),
        "segment_length_us": HOUR_US,
        "future_tolerance_us": None,
        "reject_limits": RejectLimits(),
        "parse_version": "1",
    }
    return ReadSpec(**(fields | more))


JSONL = Format(name="jsonl", kind=FileKind.JSONL)


def assert_every_line_is_accounted_for(outcome: ReadOutcome) -> None:
    """The one identity that no read may break, for the lines read now and for the file as a whole."""
    assert outcome.counts.is_balanced, outcome.counts
    assert sum(outcome.rejects_by_reason.values()) == outcome.counts.rejected
    assert sum(fragment.readings for fragment in outcome.fragments) == outcome.counts.kept
    if outcome.fingerprint is not None:
        assert outcome.fingerprint.counts.is_balanced, outcome.fingerprint.counts


def read_fragments(fragments: Sequence[Fragment], spec: ReadSpec) -> pa.Table:
    """The readings of these fragments in file order."""
    tables = [read_fragment(fragment.path, fragment.row_group) for fragment in fragments]
    return pa.concat_tables([readings_schema(spec).empty_table(), *tables]).sort_by(POSITION)


@dataclass
class Desk:
    """One file and what is known of it; `readings` is what a catalog would hold after every read so far."""

    folder: Path
    spec: ReadSpec
    name: str = "file.csv"
    stored: Fingerprint | None = None
    readings: pa.Table | None = None
    options: dict[str, Any] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=count)

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def request(self, reason: ReadReason = ReadReason.NOTIFICATION, **more: Any) -> ReadRequest:
        fields: dict[str, Any] = {
            "path": str(self.path),
            "roots": (str(self.folder),),
            "spec": self.spec,
            "reason": reason,
            "now_us": NOW_US,
            "stored": self.stored,
        }
        return ReadRequest(**(fields | self.options | more))

    def writer(self) -> FragmentWriter:
        return FragmentWriter(str(self.folder / f"fragments-{next(self._numbers)}.parquet"), self.spec)

    def write(self, data: bytes) -> Desk:
        self.path.write_bytes(data)
        return self

    def read(self, reason: ReadReason = ReadReason.NOTIFICATION, **more: Any) -> ReadOutcome:
        """Read the file as it is now, and keep what a catalog would keep."""
        writer = self.writer()
        outcome = read_file(self.request(reason, **more), writer)
        writer.close()
        assert_every_line_is_accounted_for(outcome)
        assert "unexpected" not in (outcome.message or ""), outcome.message
        if outcome.status is ReadStatus.READ:
            self.apply(outcome)
        return outcome

    def apply(self, outcome: ReadOutcome) -> None:
        fresh = read_fragments(outcome.fragments, self.spec)
        old = fresh.slice(0, 0) if self.readings is None else self.readings
        if outcome.replacement is not Replacement.NEW_GENERATION:
            old = old.filter(pa.compute.field(POSITION) < outcome.seam_position)
        self.readings = pa.concat_tables([old, fresh])
        self.stored = outcome.fingerprint

    def values(self, name: str = "value") -> list[Any]:
        """One column of all readings, in file order."""
        assert self.readings is not None
        values: list[Any] = self.readings.column(name).to_pylist()
        return values

    def times(self) -> list[int]:
        """The event times of all readings, in file order."""
        return self.values(EVENT_US)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, spec_of())


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 bytes and strides of 256: a short file then has as many as a big one."""
    for module in (fingerprints, seam, blocks, decompression, stretches, file_reader, ranges):
        for name, size in (("BLOCK_BYTES", 64), ("STRIDE_BYTES", 256)):
            monkeypatch.setattr(module, name, size, raising=False)


def with_columns(spec: ReadSpec, **changes: Any) -> ReadSpec:
    """The same description with another format detail."""
    return replace(spec, format=replace(spec.format, **changes))


def parse(
    data: bytes, spec: ReadSpec, *, reason: ReadReason = ReadReason.QUIET
) -> tuple[pa.Table, LineReader]:
    """The readings of some bytes in file order, without a file; for properties with many examples."""
    sink = MemorySink()
    lines = LineReader(spec, ORIGIN, FragmentBuilder(spec, sink), latest_us=None)
    lines.feed(data)
    _, counts = lines.finish(take=reason is ReadReason.QUIET, is_cut_off=False)
    assert counts.is_balanced, counts
    assert counts.rejected == lines.log.total
    return pa.concat_tables([readings_schema(spec).empty_table(), *sink.tables]).sort_by(POSITION), lines
