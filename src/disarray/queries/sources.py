"""Table sources: how far each is read, and what is worth knowing about it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from disarray.control import source_loads, sources
from disarray.control.connections import Connection
from disarray.control.source_loads import LoadRecord
from disarray.control.sources import SourceRecord
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("sources", {"pipeline_name": str, "table_name": str})


@dataclass(frozen=True, kw_only=True)
class InitialLoadProgress:
    """How far a table that was there already is taken in. While it is cut, `chunks` is an estimate."""

    state: str
    chunks_done: int
    chunks: int
    is_cut: bool
    open_transactions: int  # of the source, that may still write what belongs to the load
    rows_estimated: int
    rows_taken: int
    rows_rejected: int
    rows_per_second: float | None
    started_at: datetime
    last_delivered_at: datetime | None
    ended_at: datetime | None
    failure_count: int
    last_error: str | None
    notices: list[str]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table source that was read or decided about; nothing up to `settled` is looked at again, null: of nothing."""

    pipeline_name: str
    table_name: str
    watermark: str | None
    settled: list[str] | None
    open_transactions: int  # that have to end before it settles further
    rows_seen: int
    rows_taken: int
    rows_duplicate: int
    rows_rejected: int
    batches: int
    cursor_to: str | None
    last_pulled_at: datetime | None
    last_delivered_at: datetime | None
    next_pull_at: datetime
    failure_count: int
    last_error: str | None
    last_error_at: datetime | None
    paused_at: datetime | None
    pause_reason: str | None
    held_by: str | None
    notices: list[str]
    initial_load: InitialLoadProgress | None


@dataclass(frozen=True)
class Sources:
    """Table sources by name; `next` is the cursor of the next page, null on the last."""

    sources: list[Source]
    next: str | None


def list_sources(connection: Connection, *, limit: int = 100, after: str | None = None) -> Sources:
    """Every table source that was ever read, by name."""
    found, following = ORDER.page_of(sources.list_sources(connection), after=after, limit=limit)
    loads = _loads(connection)
    return Sources([_source(each, loads) for each in found], following)


def find_source_state(connection: Connection, pipeline_name: str, table_name: str) -> Source | None:
    """What is known of one source; None if it was never read."""
    for each in sources.list_sources(connection):
        if (each.pipeline_name, each.table_name) == (pipeline_name, table_name):
            return _source(each, _loads(connection))
    return None


def _loads(connection: Connection) -> dict[tuple[str, str], LoadRecord]:
    return {
        (load.pipeline_name, load.table_name): load for load in source_loads.list_source_loads(connection)
    }


def _progress(load: LoadRecord | None) -> InitialLoadProgress | None:
    if load is None:
        return None
    seconds = ((load.last_delivered_at or load.started_at) - load.started_at).total_seconds()
    rows_of_a_chunk = load.rows_taken / load.chunks_done if load.chunks_done else 0
    estimated = round(load.rows_estimated / rows_of_a_chunk) if rows_of_a_chunk else 0
    return document_of(
        InitialLoadProgress,
        load,
        chunks=load.chunks_cut if load.is_cut else max(load.chunks_cut, estimated),
        rows_per_second=round(load.rows_taken / seconds, 1) if seconds > 0 else None,
    )


def _source(record: SourceRecord, loads: dict[tuple[str, str], LoadRecord]) -> Source:
    mark: dict[str, Any] = record.watermark or {}
    settled = mark.get("settled") or mark.get("sweep")
    return document_of(
        Source,
        record,
        watermark=mark.get("kind"),
        settled=None if settled is None else [str(value) for value in settled],
        initial_load=_progress(loads.get((record.pipeline_name, record.table_name))),
        open_transactions=len((mark.get("pending") or {}).get("open", ())),
    )
