"""Files: where each stands, and its whole history."""

from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from disarray.control import events, files
from disarray.control.connections import Connection
from disarray.control.metadata import Metadata
from disarray.errors import UnknownNameError
from disarray.model.description.spec_table import near_miss
from disarray.model.documents import document_of
from disarray.model.file_status import FileStatus
from disarray.model.uris import file_uri
from disarray.queries.events import FileEvent
from disarray.queries.pages import Order

ORDER = Order("files", {"source_uri": str})


@dataclass(frozen=True, kw_only=True)
class File:
    """Where a file stands; `parent_uri` is the file that a part is a part of."""

    source_uri: str
    subject_key: str
    dataset: str | None
    status: FileStatus
    content_hash: str | None
    process_count: int
    retry_count: int
    last_error: str | None
    first_seen_at: datetime
    last_seen_at: datetime
    parent_uri: str | None


@dataclass(frozen=True)
class Files:
    """Files by uri; `next` is the cursor of the next page, null on the last."""

    files: list[File]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class FileStory(File):
    """All that is known of a file: what it says about which segments, rejected lines, and every event, newest first.

    `parked_hash` is of a version that waits for a decision, `failed_request` what was given up, `delivery` the source,
    batch and stretch of its cursor that a file came from. `parts` are those of a file about several subjects: what each
    has of it, and how many deliveries wait to be taken in.
    """

    logical_start: datetime | None
    logical_end: datetime | None
    parked_hash: str | None
    parked_at: datetime | None
    rejected_hash: str | None
    failed_at: datetime | None
    discarded_at: datetime | None
    failed_request: dict[str, object] | None
    metadata: dict[str, object]
    fragments: dict[str, object]
    segments: list[dict[str, object]]
    rejected_count: int
    rejected_rows: list[dict[str, object]]
    conflicts: dict[str, object]
    blacklist: dict[str, object] | None
    delivery: dict[str, object] | None
    parts: list[dict[str, object]]
    events: list[FileEvent]


def list_files(
    connection: Connection,
    *,
    status: FileStatus | None = None,
    subject_key: str | None = None,
    source_name: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Files:
    """Files that were ever announced, or those that a source delivered, by uri."""
    read = partial(
        files.list_files, connection, status=status, subject_key=subject_key, source_name=source_name
    )
    found, following = ORDER.page(read, after=after, limit=limit)
    return Files([document_of(File, record, status=FileStatus(record.status)) for record in found], following)


def show_file(connection: Connection, known: Metadata) -> FileStory:
    """All that is known of a file, and all that ever happened to it; `known` is what is stored about it."""
    happened = events.list_file_events(connection, known["source_uri"])
    stored: dict[str, Any] = {name: known[name] for name in _STORED if name not in _INSTANTS}
    stored |= {
        name: None if known[name] is None else datetime.fromisoformat(known[name]) for name in _INSTANTS
    }
    stored["status"] = FileStatus(stored["status"])
    return FileStory(**stored, events=[document_of(FileEvent, event) for event in happened])


def find_file(connection: Connection, file: str) -> Metadata:
    """What is stored about a file, by its uri or a path; `source_uri` is that under which it is known."""
    path = str(Path(file).absolute())
    # A part is named by its file and by what follows it.
    whole, mark, part = file.partition("#")
    of_part = f"{file_uri(str(Path(whole).absolute()))}{mark}{part}"
    for uri in dict.fromkeys((file, file_uri(path), path, of_part)):
        known = files.describe_file(connection, uri)
        if known is not None:
            return known
    by_name = {record.source_uri.rpartition("/")[2] for record in files.list_files(connection, limit=10_000)}
    raise UnknownNameError(
        f"no file {file!r} was ever announced; {near_miss(Path(file).name, by_name) if by_name else 'none was'}"
    )


_STORED = tuple(each.name for each in fields(FileStory) if each.name != "events")
_INSTANTS = tuple(each.name for each in fields(FileStory) if each.type in (datetime, datetime | None))
