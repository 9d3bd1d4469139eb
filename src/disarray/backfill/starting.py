"""A backfill before its first chunk: what it would do, tried on one chunk and undone, and its start."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.backfill.description import UPDATE, document_of_spec
from disarray.backfill.job_session import open_connections
from disarray.backfill.pacing import bounded_rows
from disarray.backfill.table_layout import refuse_unfit
from disarray.backfill.update import UpdateKind
from disarray.backfill.user_database.session import load_layout
from disarray.control import backfills
from disarray.control.backfills import HeldChunk
from disarray.control.connections import undone
from disarray.control.queue import Holder, Incarnation
from disarray.errors import BackfillTargetError

if TYPE_CHECKING:
    from disarray.backfill.description import BackfillSpec
    from disarray.control.connections import Connection

LEASE_SECONDS = 300
# Fewer are counted; of more the estimate of the server is near enough.
_COUNTED_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What a backfill would do, from one chunk that was tried and rolled back."""

    name: str
    table: str
    cursor: tuple[str, ...]
    columns: tuple[str, ...]
    rows: int
    is_estimate: bool
    bytes: int
    chunk_rows: int
    chunks: int
    expected_seconds: float
    sample_rows: int
    sample_rows_written: int
    sample_seconds: float
    is_one_database: bool
    row_check: str | None


def plan_backfill(dsn: str, spec: BackfillSpec) -> BackfillPlan:
    """Look at the table, process its first chunk and undo that."""
    with open_connections(dsn, spec, lease_seconds=LEASE_SECONDS) as (control, target):
        kind = _kind_for(target, spec)
        rows, is_estimate = _rows(kind, target)
        chunk_rows = bounded_rows(
            spec.source.batch_rows, processing=spec.processing, rate_limit=spec.processing.rate_limit
        )
        sampled, written, seconds = _sample(kind, target, chunk_rows)
        return BackfillPlan(
            name=spec.name,
            table=f"{kind.table.layout.schema}.{kind.table.layout.table}",
            cursor=spec.source.cursor,
            columns=spec.set_columns,
            rows=rows,
            is_estimate=is_estimate,
            bytes=kind.table.layout.bytes,
            chunk_rows=chunk_rows,
            chunks=math.ceil(rows / chunk_rows),
            expected_seconds=_expected(spec, rows=rows, sampled=sampled, seconds=seconds),
            sample_rows=sampled,
            sample_rows_written=written,
            sample_seconds=seconds,
            is_one_database=control is target,
            row_check=spec.row_check,
        )


def start_backfill(dsn: str, spec: BackfillSpec, *, reason: str, by: str) -> int:
    """Begin a job: its number. Rows with a greater cursor than the greatest of now are not its own."""
    with open_connections(dsn, spec, lease_seconds=LEASE_SECONDS) as (control, target):
        kind = _kind_for(target, spec)
        rows, _ = _rows(kind, target)
        return backfills.start_backfill(
            control,
            spec.name,
            UPDATE,
            description=document_of_spec(spec),
            cursor_end=kind.table.last_cursor(target),
            rows_estimated=rows,
            answer_before=kind.answer(target),
            rate_limit=spec.processing.rate_limit,
            max_concurrency=spec.processing.max_concurrency,
            chunk_rows=bounded_rows(
                spec.source.batch_rows, processing=spec.processing, rate_limit=spec.processing.rate_limit
            ),
            reason=reason,
            by=by,
        )


def _kind_for(target: Connection, spec: BackfillSpec) -> UpdateKind:
    layout = load_layout(target, spec.source.table)
    refuse_unfit(layout, spec)
    kind = UpdateKind(spec, layout)
    if kind.table.has_null_cursor(target):
        raise BackfillTargetError(
            f"rows of {layout.schema}.{layout.table} have no cursor ({', '.join(spec.source.cursor)} is NULL): no "
            "chunk would reach them. Nothing was changed. Give them one, or name other columns as source.cursor_column"
        )
    return kind


def _rows(kind: UpdateKind, target: Connection) -> tuple[int, bool]:
    estimated = kind.table.layout.rows_estimated
    if estimated > _COUNTED_ROWS:
        return estimated, True
    return kind.table.count(target), False


def _sample(kind: UpdateKind, target: Connection, rows: int) -> tuple[int, int, float]:
    end = kind.table.last_cursor(target)
    cut = None if end is None else kind.cut(target, None, end=end, rows=rows)
    if cut is None:
        return 0, 0, 0.0
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
    return cut.rows, result.rows_written, time.monotonic() - began


def _expected(spec: BackfillSpec, *, rows: int, sampled: int, seconds: float) -> float:
    if not sampled:
        return 0.0
    by_work = rows / sampled * seconds / spec.processing.max_concurrency
    rate = spec.processing.rate_limit
    return by_work if rate is None else max(by_work, rows / rate)
