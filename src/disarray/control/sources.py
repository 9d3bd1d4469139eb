"""Table sources: whose turn it is to read one, and how far it has been read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from disarray.control.metadata import as_jsonb
from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.deliveries import BatchCounts
    from disarray.control.queue import Holder


class SourceDecision(StrEnum):
    """What an operator may decide about a source."""

    PAUSED = "paused"
    RESUMED = "resumed"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTurn:
    """The turn to read a source, and where the last one ended; None: nothing was ever taken."""

    pipeline_name: str
    table_name: str
    holder: Holder
    fence: int
    watermark: dict[str, Any] | None
    layout: dict[str, Any] | None
    notices: list[str]
    failure_count: int

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """What every call about the turn is checked by."""
        return (
            self.pipeline_name,
            self.table_name,
            self.holder.instance_name,
            self.holder.incarnation,
            self.fence,
        )


@dataclass(frozen=True)
class SourceRecord:
    """A source as a person sees it in a listing."""

    pipeline_name: str
    table_name: str
    watermark: dict[str, Any] | None
    layout: dict[str, Any] | None
    notices: list[str]
    rows_seen: int
    rows_taken: int
    rows_duplicate: int
    rows_rejected: int
    batches: int
    cursor_to: str | None
    last_run_id: UUID | None
    last_pulled_at: datetime | None
    last_delivered_at: datetime | None
    next_pull_at: datetime
    failure_count: int
    last_error: str | None
    last_error_at: datetime | None
    paused_at: datetime | None
    pause_reason: str | None
    held_by: str | None


def claim_source(
    connection: Connection,
    pipeline_name: str,
    table_name: str,
    holder: Holder,
    *,
    lease_seconds: int,
    is_asked_for: bool = False,
) -> SourceTurn | None:
    """Take the turn to read a source; None where it is held, paused or, unless asked for, not due."""
    with translated_errors():
        row = connection.execute(
            """
            select fence, watermark, layout, notices, failure_count
            from disarray.claim_source(%s, %s, %s, %s, %s, %s)
            """,
            (
                pipeline_name,
                table_name,
                holder.instance_name,
                holder.incarnation,
                lease_seconds,
                is_asked_for,
            ),
        ).fetchone()
    if row is None:
        return None
    fence, watermark, layout, notices, failure_count = row
    return SourceTurn(
        pipeline_name=pipeline_name,
        table_name=table_name,
        holder=holder,
        fence=fence,
        watermark=watermark,
        layout=layout,
        notices=notices,
        failure_count=failure_count,
    )


def renew_source(connection: Connection, turn: SourceTurn, *, lease_seconds: int) -> None:
    """Keep the turn for longer, or `LeaseLostError`."""
    with translated_errors():
        connection.execute("select disarray.renew_source(%s, %s, %s, %s, %s, %s)", (*turn.key, lease_seconds))


def advance_source(
    connection: Connection,
    turn: SourceTurn,
    *,
    run_id: UUID,
    watermark: Mapping[str, Any],
    counts: BatchCounts | None = None,
    layout: Mapping[str, Any] | None = None,
    notices: Sequence[str] | None = None,
    cursor_to: str | None = None,
) -> None:
    """Move the source on; in one transaction with `record_deliveries`, and before it: this locks and checks its row."""
    with translated_errors():
        connection.execute(
            "select disarray.advance_source(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                *turn.key,
                run_id,
                Jsonb(dict(watermark)),
                None if layout is None else Jsonb(dict(layout)),
                None if notices is None else Jsonb(list(notices)),
                as_jsonb(asdict(counts)) if counts else as_jsonb({}),
                cursor_to,
            ),
        )


def end_source_turn(
    connection: Connection, turn: SourceTurn, *, next_in: timedelta, error: str | None = None
) -> None:
    """Give the turn back: when the source is due again, and what went wrong if anything did."""
    with translated_errors():
        connection.execute(
            "select disarray.end_source_turn(%s, %s, %s, %s, %s, %s, %s)", (*turn.key, next_in, error)
        )


def list_sources(connection: Connection) -> list[SourceRecord]:
    """Every source that was ever read, by name and table."""
    with translated_errors(), connection.cursor(row_factory=class_row(SourceRecord)) as cursor:
        return cursor.execute("select * from disarray.list_sources()").fetchall()


def decide_source(
    connection: Connection,
    pipeline_name: str,
    table_name: str,
    decision: SourceDecision,
    *,
    reason: str,
    by: str,
    watermark: Mapping[str, Any] | None = None,
) -> None:
    """Pause a source, resume it, or reset it; of a reset, None is as if it had never been read."""
    with translated_errors():
        connection.execute(
            "select disarray.decide_source(%s, %s, %s, %s, %s, %s)",
            (
                pipeline_name,
                table_name,
                str(decision),
                reason,
                by,
                None if watermark is None else Jsonb(dict(watermark)),
            ),
        )
