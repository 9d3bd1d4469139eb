"""One extract of a table source, by the watermark that its database allows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from disarray.errors import ConfigError, SourceAccessError, SourceError
from disarray.model.description.table_source import Start, WatermarkKind
from disarray.sources.buffered_extract import before, begin_buffered, extract_buffered
from disarray.sources.settled_extract import begin_settled, cached_numbers, extract_settled, start_settled
from disarray.sources.table_columns import layout_notices, literal, relation_of
from disarray.sources.table_session import Server
from disarray.sources.watermark import BufferMark, SettledMark, restore_buffer, restore_settled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from disarray.control.deliveries import BatchCounts
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_session import TableSession

# A function of PostgreSQL 13.
_OLDEST_VERSION = 130_000
DESCRIBED = "described"  # what positions of a watermark, and of chunks, mean something under
_STARTED = "at"


@dataclass(frozen=True, slots=True)
class Extract:
    """The rows of one extract by subject, and what is kept of the source once they are delivered."""

    parts: Mapping[str, pa.Table]
    counts: BatchCounts
    watermark: Mapping[str, Any]
    layout: Mapping[str, Any]
    notices: Sequence[str]
    is_complete: bool
    cursor_from: str | None
    cursor_to: str | None


@dataclass(frozen=True, slots=True)
class Exactness:
    """Whether a source can be read by snapshots; `reason` says why not. Without `can_settle`, all of it each time."""

    reason: str | None = None
    can_settle: bool = True
    notice: str | None = None


def extract(
    session: TableSession,
    source: TableSource,
    dataset: Dataset,
    *,
    watermark: Mapping[str, Any] | None,
    layout: Mapping[str, Any] | None,
    notices: Sequence[str] = (),
    on_page: Callable[[], None] = lambda: None,
) -> Extract:
    """Read on from where the source was left; nothing is changed anywhere."""
    refuse_other_description(source, watermark)
    exactness = exactness_of(session, source)
    found: Any
    if exactness.reason is None:
        settled = _settled_mark(session, source, watermark)
        found = extract_settled(
            session, source, dataset, settled, can_settle=exactness.can_settle, on_page=on_page
        )
    else:
        buffered = _buffer_mark(session, source, watermark)
        found = extract_buffered(session, source, dataset, buffered, on_page=on_page)
    fresh = [
        *([exactness.notice] if exactness.notice else []),
        *found.rows.notices,
        *layout_notices(source.name, found.layout, layout),
    ]
    return Extract(
        parts=found.rows.by_subject(),
        counts=found.rows.counts,
        watermark=watermark_document(source, found.mark),
        layout=_kept_layout(found.layout.document(), layout),
        # Room for all of them in the row of the source: each may quote a key.
        notices=list(dict.fromkeys([*notices, *(notice[:500] for notice in fresh)]))[:100],
        is_complete=found.is_complete,
        cursor_from=found.cursor_from,
        cursor_to=found.cursor_to,
    )


def exactness_of(session: TableSession, source: TableSource) -> Exactness:
    """Whether the database tells which rows a snapshot showed; where it does not, there has to be a cursor."""
    if source.watermark is WatermarkKind.BUFFER:
        return Exactness(reason="the source says so")
    reason = _obstacle(session, source)
    if reason is None:
        if source.watermark is WatermarkKind.SEQUENCE and (cache := cached_numbers(session, source)) > 1:
            return Exactness(
                can_settle=False,
                notice=f"each session takes {cache} numbers of the sequence of {source.cursor} at once, so that low "
                "ones come late: the whole table is compared at every extract, as with watermark = 'snapshot'",
            )
        return Exactness()
    if source.cursor is None:
        raise SourceError.of(
            source.name,
            f"watermark = 'snapshot' cannot be had here: {reason}. Name a cursor and use 'buffer'",
        )
    return Exactness(
        reason=reason,
        notice=f"the watermark is not exact, because {reason}: it reads like watermark = 'buffer', and a row that "
        "commits later than the buffer is long is missed",
    )


def reset_watermark(source: TableSource, at: Start | int | str) -> dict[str, Any]:
    """What is kept of a source that is to go on from elsewhere; the next extract makes a watermark of it."""
    return {"kind": str(source.watermark), _STARTED: at if isinstance(at, int) else str(at)}


def watermark_document(source: TableSource, mark: SettledMark | BufferMark) -> dict[str, Any]:
    """A watermark as it is kept, with what its positions mean something under."""
    return {**mark.document(), DESCRIBED: _description(source)}


def starting_point(source: TableSource, watermark: Mapping[str, Any] | None) -> Start | int | str | None:
    """Where a source is to begin that was never read, or was reset; None where it is under way."""
    if watermark is None:
        return source.at
    return _start(watermark[_STARTED]) if _STARTED in watermark else None


def _obstacle(session: TableSession, source: TableSource) -> str | None:
    if session.server is Server.SQLITE:
        return "SQLite does not tell which rows a reader saw"
    if source.table is None:
        return "the rows of a query do not tell which transaction wrote them"
    known = session.rows(
        "select pg_is_in_recovery() as is_replica, current_setting('server_version_num')::int8 as version, "  # noqa: S608
        f"(select relkind::text from pg_class where oid = {literal(relation_of(source))}::regclass) as kind"
    ).to_pylist()[0]
    if known["version"] < _OLDEST_VERSION:
        return "PostgreSQL before 13 does not tell its snapshots"
    if known["is_replica"]:
        return "a replica does not tell which transactions are open on the primary"
    if known["kind"] not in ("r", "p"):
        return "rows of a view or foreign table do not tell which transaction wrote them"
    try:
        session.rows("select count(*) as locks from pg_locks")
        session.rows("select system_identifier from pg_control_system()")
    except SourceAccessError:
        return "the login may not see pg_locks"
    return None


def _settled_mark(
    session: TableSession, source: TableSource, watermark: Mapping[str, Any] | None
) -> SettledMark:
    if watermark is None:
        return begin_settled(session, source)
    if _STARTED in watermark:
        return begin_settled(session, replace(source, at=_start(watermark[_STARTED])))
    if watermark["kind"] == WatermarkKind.BUFFER and source.cursor is not None:
        former = restore_buffer(watermark)
        if former.high is None:
            return start_settled(source, Start.BEGINNING)
        return SettledMark(kind=source.watermark, settled=(before(former.high, source.buffer),))
    _refuse_other_kind(source, watermark)
    return restore_settled(watermark)


def _buffer_mark(
    session: TableSession, source: TableSource, watermark: Mapping[str, Any] | None
) -> BufferMark:
    if watermark is None:
        return begin_buffered(session, source, source.at)
    if _STARTED in watermark:
        return begin_buffered(session, source, _start(watermark[_STARTED]))
    if watermark["kind"] == WatermarkKind.BUFFER:
        return restore_buffer(watermark)
    _refuse_other_kind(source, watermark)
    return BufferMark(sweep=restore_settled(watermark).settled)


def _start(at: str | int) -> Start | int | str:
    return Start(at) if at in tuple(Start) else at


def _refuse_other_kind(source: TableSource, watermark: Mapping[str, Any]) -> None:
    if watermark["kind"] != source.watermark:
        raise ConfigError(
            f"source {source.name} was read by watermark = '{watermark['kind']}' and is described with "
            f"'{source.watermark}' now. Nothing was taken. Run: disarray source reset {source.name} --to VALUE"
        )


def _description(source: TableSource) -> dict[str, Any]:
    """What positions of a watermark mean something under."""
    query = None if source.query is None else hashlib.sha256(source.query.encode()).hexdigest()
    return {"cursor": source.cursor, "key": list(source.key), "query": query}


def refuse_other_description(source: TableSource, watermark: Mapping[str, Any] | None) -> None:
    """Refuse to go on from a position in another order, or in another query: rows would be skipped silently."""
    before = (watermark or {}).get(DESCRIBED)
    now = _description(source)
    if before is None or before == now:
        return
    changed = " and ".join(name for name in now if before.get(name) != now[name])
    raise ConfigError(
        f"source {source.name}: its {changed} changed since it was last read, and its watermark says nothing about "
        f"that. Nothing was taken. Put it back, or run: disarray source reset {source.name} --to VALUE"
    )


def _kept_layout(now: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was read once stays known; what was added is known from now on."""
    if before is None:
        return now
    return {"columns": {**before["columns"], **now["columns"]}, "names": now["names"]}
