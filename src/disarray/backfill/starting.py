"""A backfill before its first chunk: what it would do, tried on one chunk and undone, and its start."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.backfill.description import (
    RebuildSpec,
    ReplaySpec,
    RepublishSpec,
    ResyncSpec,
    UpdateSpec,
)
from disarray.backfill.job_session import open_connections, open_in_database
from disarray.backfill.pacing import bounded_rows
from disarray.backfill.stored_description import document_of_spec
from disarray.backfill.user_database.row_check import with_derived_check
from disarray.control import backfills
from disarray.control.backfill_chunks import HeldChunk
from disarray.control.connections import undone
from disarray.control.queue import Holder, Incarnation

if TYPE_CHECKING:
    from disarray.backfill.description import BackfillSpec
    from disarray.backfill.kind import BackfillKind, Extent, KindOpener
    from disarray.control.connections import Connection

LEASE_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One chunk that was tried and rolled back."""

    rows: int
    rows_written: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What a backfill would do; where a chunk can be undone, from one that was. `expected_seconds` needs one too."""

    name: str
    kind: str
    target: str
    summary: str
    rows: int
    is_estimate: bool
    bytes: int
    chunk_rows: int
    chunks: int
    expected_seconds: float | None
    sample: Sample | None
    is_one_database: bool
    proof: str


def plan_backfill(dsn: str, spec: BackfillSpec, *, open_kind: KindOpener = open_in_database) -> BackfillPlan:
    """Look at what there is to do, process the first chunk and undo that."""
    with (
        open_connections(dsn, spec, lease_seconds=LEASE_SECONDS) as (control, target),
        open_kind(target, spec) as kind,
    ):
        spec = _settled(target, spec)
        extent = kind.extent(target)
        chunk_rows = _first_rows(spec)
        sample = _sample(kind, target, extent, chunk_rows) if kind.can_be_undone else None
        return BackfillPlan(
            name=spec.name,
            kind=spec.kind,
            target=spec.target,
            summary=spec.summary,
            rows=extent.rows,
            is_estimate=extent.is_estimate,
            bytes=extent.bytes,
            chunk_rows=chunk_rows,
            chunks=math.ceil(extent.rows / chunk_rows),
            expected_seconds=_expected(spec, extent.rows, sample),
            sample=sample,
            is_one_database=control is target,
            proof=spec.proof,
        )


def start_backfill(
    dsn: str, spec: BackfillSpec, *, reason: str, by: str, open_kind: KindOpener = open_in_database
) -> int:
    """Begin a job: its number. Rows with a greater cursor than the greatest of now are not its own."""
    with (
        open_connections(dsn, spec, lease_seconds=LEASE_SECONDS) as (control, target),
        open_kind(target, spec) as kind,
    ):
        spec = _settled(target, spec)
        extent = kind.extent(target)
        return backfills.start_backfill(
            control,
            spec.name,
            spec.kind,
            description=document_of_spec(spec),
            cursor_end=extent.last,
            rows_estimated=extent.rows,
            answer_before=kind.answer(target),
            rate_limit=spec.processing.rate_limit,
            max_concurrency=spec.processing.max_concurrency,
            chunk_rows=_first_rows(spec),
            reason=reason,
            by=by,
        )


def _settled(target: Connection, spec: BackfillSpec) -> BackfillSpec:
    """The description with what only the database can tell about it."""
    match spec:
        case UpdateSpec():
            return with_derived_check(target, spec)
        case ReplaySpec() | RebuildSpec() | RepublishSpec() | ResyncSpec():
            return spec
        case _:
            assert_never(spec)


def _first_rows(spec: BackfillSpec) -> int:
    return bounded_rows(spec.first_rows, processing=spec.processing, rate_limit=spec.processing.rate_limit)


def _sample(kind: BackfillKind, target: Connection, extent: Extent, rows: int) -> Sample:
    if extent.last is None:
        return Sample(rows=0, rows_written=0, seconds=0.0)
    cut = kind.cut(target, None, end=extent.last, rows=rows)
    assert cut is not None, "nothing is before the first chunk"
    chunk = HeldChunk(
        job_id=0,
        chunk_no=1,
        cursor_from=None,
        cursor_to=cut.to,
        rows_cut=cut.rows,
        attempts=1,
        fence=0,
        holder=Holder("plan", Incarnation(0)),
    )
    began = time.monotonic()
    known = kind.read(target, chunk)
    with undone(target):
        result = kind.write(target, chunk, known)
    return Sample(rows=cut.rows, rows_written=result.rows_written, seconds=time.monotonic() - began)


def _expected(spec: BackfillSpec, rows: int, sample: Sample | None) -> float | None:
    rate = spec.processing.rate_limit
    by_rate = None if rate is None else rows / rate
    if sample is None:
        return by_rate
    if not sample.rows:
        return 0.0
    by_work = rows / sample.rows * sample.seconds / spec.processing.max_concurrency
    return by_work if by_rate is None else max(by_work, by_rate)
