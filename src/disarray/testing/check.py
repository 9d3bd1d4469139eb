"""`check_format`: does a description read its instrument's files, and keep doing so whatever happens to them?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from disarray.errors import FormatCheckError
from disarray.formats.loader import Description, describe_text, shipped_descriptions
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.kernels.reading.preview import Preview, preview_file
from disarray.model.description.dataset_reader import read_datasets
from disarray.model.description.format import EVENT_US, POSITION, FileKind
from disarray.model.description.spec_table import Problems
from disarray.model.segments import datetime_of
from disarray.testing.variations import growth_steps, variations

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from disarray.kernels.parsing.rejects import Reject
    from disarray.model.description.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint, LineCounts

EVENT_TIME = "event_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What the sample holds. Readings are `{"column": value}`; `event_time` is ISO text in UTC."""

    readings: int | None = None
    rejected: int = 0
    first: Mapping[str, object] = field(default_factory=dict)
    last: Mapping[str, object] = field(default_factory=dict)
    preamble: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the sample gave, for further assertions of one's own."""

    readings: list[dict[str, object]]
    rejects: tuple[Reject, ...]
    counts: LineCounts
    preamble: dict[str, str]
    checks: tuple[str, ...]


def check_format(
    description: str | Path | Description,
    sample: bytes,
    *,
    expect: Expect | None = None,
    zone: str = "UTC",
    dataset: Mapping[str, object] | None = None,
) -> Checked:
    """Read a sample with a description, and all its variations alike; raise FormatCheckError with every failure.

    `description` is the name of a shipped format, the path of a TOML file, or a loaded description. `dataset` adds
    keys of a `[[dataset]]` table, such as columns for a format that has none.
    """
    with TemporaryDirectory() as folder:
        bench = _Bench(_dataset(description, zone, dataset or {}, folder), Path(folder))
        return bench.run(sample, expect or Expect())


class _Bench:
    """Reads contents as files of one dataset and notes what is not as it should be."""

    def __init__(self, dataset: Dataset, folder: Path) -> None:
        self.dataset = dataset
        self.folder = folder
        self.failures: list[str] = []
        self.checks: list[str] = []

    def run(self, sample: bytes, expect: Expect) -> Checked:
        whole = self.read(sample)
        if whole.outcome.status is not ReadStatus.READ or whole.outcome.fingerprint is None:
            raise FormatCheckError((f"the sample cannot be read: {whole.outcome.message}",))
        readings = _rows(whole.table)
        preamble = dict(whole.outcome.fingerprint.end.state.fields)
        self.balanced("the sample", whole)
        self.expected(expect, readings, whole, preamble)
        for name, content in variations(sample, self.dataset.format):
            self.same(name, self.read(content), readings)
        if self.dataset.format.kind is not FileKind.PARQUET:
            self.note("grown in steps", self.grown(sample) == readings, "other readings than at once")
        if self.failures:
            raise FormatCheckError(tuple(self.failures))
        return Checked(
            readings=readings,
            rejects=whole.outcome.rejects,
            counts=whole.outcome.fingerprint.counts,
            preamble=preamble,
            checks=tuple(self.checks),
        )

    def read(
        self, content: bytes, *, stored: Fingerprint | None = None, reason: ReadReason = ReadReason.QUIET
    ) -> Preview:
        path = self.folder / "sample"
        path.write_bytes(content)
        return preview_file(
            ReadRequest.for_dataset(
                self.dataset, str(path), reason=reason, now_us=time.time_ns() // 1_000, stored=stored
            )
        )

    def expected(
        self, expect: Expect, readings: list[dict[str, object]], whole: Preview, preamble: Mapping[str, str]
    ) -> None:
        counts = whole.outcome.counts
        wanted = expect.readings if expect.readings is not None else max(counts.kept, 1)
        self.note("number of readings", counts.kept == wanted, f"{counts.kept} instead of {wanted}")
        first_reject = next(iter(whole.outcome.rejects), None)
        self.note(
            "number of rejected rows",
            counts.rejected == expect.rejected,
            f"{counts.rejected} instead of {expect.rejected}, the first: {first_reject}",
        )
        for which, values, at in (("first", expect.first, 0), ("last", expect.last, -1)):
            row = readings[at] if readings else {}
            for column, value in values.items():
                found = row.get(column)
                same = type(found) is type(value) and found == value
                self.note(f"{which} {column}", same, f"{found!r} instead of {value!r}")
        for name, text in expect.preamble.items():
            self.note(
                f"preamble {name}", preamble.get(name) == text, f"{preamble.get(name)!r} instead of {text!r}"
            )

    def same(self, name: str, varied: Preview, readings: list[dict[str, object]]) -> None:
        if varied.outcome.status is not ReadStatus.READ:
            self.note(name, False, f"cannot be read: {varied.outcome.message}")
            return
        self.balanced(name, varied)
        found = _rows(varied.table)
        self.note(name, found == readings, _difference(found, readings))

    def grown(self, sample: bytes) -> list[dict[str, object]]:
        """The readings after the file grew bit by bit, each step reading only what was new."""
        kept: list[tuple[int, dict[str, object]]] = []
        stored: Fingerprint | None = None
        *steps, last = growth_steps(sample)
        for content, reason in [
            *((step, ReadReason.NOTIFICATION) for step in steps),
            (last, ReadReason.QUIET),
        ]:
            step = self.read(content, stored=stored, reason=reason)
            if step.outcome.status not in (ReadStatus.READ, ReadStatus.UNCHANGED):
                self.note("grown in steps", False, f"at {len(content)} bytes: {step.outcome.message}")
                break
            kept = [(position, row) for position, row in kept if position < step.outcome.seam_position]
            kept += zip(step.table.column(POSITION).to_pylist(), _rows(step.table), strict=True)
            stored = step.outcome.fingerprint
        return [row for _, row in kept]

    def balanced(self, name: str, read: Preview) -> None:
        counts = read.outcome.counts
        self.note(f"every line accounted for: {name}", counts.is_balanced, f"{counts}")

    def note(self, check: str, passed: bool, otherwise: str) -> None:
        self.checks.append(check)
        if not passed:
            self.failures.append(f"{check}: {otherwise}")


def _dataset(
    description: str | Path | Description, zone: str, own: Mapping[str, object], folder: str
) -> Dataset:
    known = {name: each.table for name, each in shipped_descriptions().items()}
    if isinstance(description, Path):
        description = describe_text(description.stem, description.read_text("utf-8"), shown=str(description))
    if isinstance(description, Description):
        known[description.name] = description.table
    name = description if isinstance(description, str) else description.name
    table = {
        "name": "checked",
        "roots": [folder],
        "files": ["**"],
        "format": name,
        "subject": {"constant": "checked"},
        "zone": zone,
        **own,
    }
    problems = Problems("check_format")
    (dataset,) = read_datasets(
        {"dataset": [table]}, problems=problems, descriptions=known, folder=Path(folder)
    )
    problems.raise_if_any()
    return dataset


def _rows(table: pa.Table) -> list[dict[str, object]]:
    """Readings as plain values, without the position, which line ends and other cells shift."""
    rows = []
    for row in table.drop_columns([POSITION]).to_pylist():
        event_us = row.pop(EVENT_US)
        rows.append({EVENT_TIME: datetime_of(event_us).isoformat(), **row})
    return rows


def _difference(found: list[dict[str, object]], readings: list[dict[str, object]]) -> str:
    if len(found) != len(readings):
        return f"{len(found)} readings instead of {len(readings)}"
    pairs = zip(found, readings, strict=True)
    return next((f"{left} instead of {right}" for left, right in pairs if left != right), "the same")
