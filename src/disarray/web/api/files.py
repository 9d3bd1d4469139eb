"""Files: where each stands, its whole history, and what to do about it."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import events, files
from disarray.control.metadata import Metadata
from disarray.errors import UnknownNameError
from disarray.model.file_status import FileStatus
from disarray.web.parameters import Limit, Reason, Subject, Uri
from disarray.web.route import API, Call, Route, Scope


@dataclass(frozen=True, kw_only=True)
class FilesAsked:
    """Which files."""

    status: FileStatus | None = None
    subject: Subject | None = None
    limit: Limit = 100


@dataclass(frozen=True)
class FileAsked:
    """Which file."""

    uri: Uri


@dataclass(frozen=True)
class FileDecision:
    """What is asked for, and why."""

    uri: Uri
    reason: Reason


@dataclass(frozen=True, kw_only=True)
class File:
    """Where a file stands."""

    uri: str
    subject: str
    dataset: str | None
    status: FileStatus
    content_hash: str | None
    process_count: int
    retry_count: int
    last_error: str | None
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True)
class Files:
    """Files by uri; `more` where the limit cut the list off."""

    files: list[File]
    more: bool


@dataclass(frozen=True, kw_only=True)
class FileEvent:
    """Something that happened to a file; `who` is the worker, or the person who asked."""

    at: datetime
    event: str
    who: str | None
    details: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class FileStory:
    """All that is known of a file: what it says about which segments, rejected lines, and every event, newest first."""

    file: File
    logical_start: datetime | None
    logical_end: datetime | None
    metadata: dict[str, object]
    fragments: dict[str, object]
    segments: list[dict[str, object]]
    rejected_count: int
    rejected_rows: list[dict[str, object]]
    conflicts: dict[str, object]
    blacklist: dict[str, object] | None
    events: list[FileEvent]


@dataclass(frozen=True)
class Queued:
    """What was asked for is done by a worker next; no item where nothing is left to be done."""

    uri: str
    queue_id: int | None


def list_files(call: Call, asked: FilesAsked) -> Files:
    """Files by uri."""
    found = files.list_files(
        call.connection, status=asked.status, subject_key=asked.subject, limit=asked.limit + 1
    )
    shown = [
        File(
            uri=record.source_uri,
            subject=record.subject_key,
            dataset=record.dataset,
            status=FileStatus(record.status),
            content_hash=record.content_hash,
            process_count=record.process_count,
            retry_count=record.retry_count,
            last_error=record.last_error,
            first_seen_at=record.first_seen_at,
            last_seen_at=record.last_seen_at,
        )
        for record in found[: asked.limit]
    ]
    return Files(shown, more=len(found) > asked.limit)


def known_file(call: Call, uri: str) -> Metadata:
    """All that is known of a file, or a refusal."""
    known = files.describe_file(call.connection, uri)
    if known is None:
        raise UnknownNameError(f"no file {uri!r} was ever announced. Nothing was done. See {API}/files.")
    return known


def show_file(call: Call, asked: FileAsked) -> FileStory:
    """All that is known of a file, and all that ever happened to it."""
    known = known_file(call, asked.uri)
    told = events.list_file_events(call.connection, asked.uri)
    return FileStory(
        file=File(
            uri=asked.uri,
            subject=known["subject_key"],
            dataset=known["dataset"],
            status=FileStatus(known["status"]),
            content_hash=known["content_hash"],
            process_count=known["process_count"],
            retry_count=known["retry_count"],
            last_error=known["last_error"],
            first_seen_at=datetime.fromisoformat(known["first_seen_at"]),
            last_seen_at=datetime.fromisoformat(known["last_seen_at"]),
        ),
        logical_start=_instant(known["logical_start"]),
        logical_end=_instant(known["logical_end"]),
        metadata=known["metadata"],
        fragments=known["fragments"],
        segments=known["segments"],
        rejected_count=known["rejected_count"],
        rejected_rows=known["rejected_rows"],
        conflicts=known["conflicts"],
        blacklist=known["blacklist"],
        events=[
            FileEvent(
                at=event.occurred_at,
                event=event.event_type,
                who=event.metadata.get("by") or event.instance_name,
                details=event.metadata,
            )
            for event in told
        ],
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def reingest_file(call: Call, asked: FileDecision) -> Queued:
    """Read a file again from its first byte, whatever is known of it."""
    return Queued(
        asked.uri, files.reingest_file(call.connection, asked.uri, reason=asked.reason, by=call.who)
    )


def blacklist_file(call: Call, asked: FileDecision) -> Queued:
    """Make a file count for nothing."""
    known = known_file(call, asked.uri)
    queue_id = files.blacklist_file(
        call.connection, asked.uri, known["subject_key"], reason=asked.reason, by=call.who
    )
    return Queued(asked.uri, queue_id)


def allow_file(call: Call, asked: FileDecision) -> Queued:
    """Let a blacklisted file count again."""
    known_file(call, asked.uri)
    return Queued(asked.uri, files.allow_file(call.connection, asked.uri, reason=asked.reason, by=call.who))


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/files",
        scope=Scope.READ,
        summary="Files that were ever announced, and where each stands",
        asks=FilesAsked,
        answers=Files,
        handle=list_files,
    ),
    Route(
        method="GET",
        path=f"{API}/files/show",
        scope=Scope.READ,
        summary="All that is known of a file, and all that ever happened to it",
        asks=FileAsked,
        answers=FileStory,
        handle=show_file,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/files/reingest",
        scope=Scope.OPERATE,
        summary="Read a file again from its first byte, whatever is known of it",
        asks=FileDecision,
        answers=Queued,
        handle=reingest_file,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/files/blacklist",
        scope=Scope.OPERATE,
        summary="Make a file count for nothing: exactly its readings go",
        asks=FileDecision,
        answers=Queued,
        handle=blacklist_file,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/files/allow",
        scope=Scope.OPERATE,
        summary="Let a blacklisted file count again: the numbers of before come back",
        asks=FileDecision,
        answers=Queued,
        handle=allow_file,
        refusals=(404,),
    ),
)
