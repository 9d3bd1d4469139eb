"""Files: where each stands, its whole history, and what to do about it."""

from dataclasses import dataclass

from disarray.control import blacklist, files
from disarray.control.metadata import Metadata
from disarray.errors import UnknownNameError
from disarray.model.file_status import FileStatus
from disarray.queries import files as view
from disarray.queries.files import Files, FileStory, list_files
from disarray.web.parameters import PageAsked, Reason, Subject, Uri
from disarray.web.route import API, Call, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class FilesAsked(PageAsked):
    """Which files."""

    status: FileStatus | None = None
    subject_key: Subject | None = None
    source_name: str | None = None


@dataclass(frozen=True)
class FileAsked:
    """Which file."""

    source_uri: Uri


@dataclass(frozen=True)
class FileDecision:
    """What is asked for, and why."""

    source_uri: Uri
    reason: Reason


@dataclass(frozen=True)
class Queued:
    """What was asked for is done by a worker next; no item where nothing is left to be done."""

    source_uri: str
    queue_id: int | None


def known_file(call: Call, source_uri: str) -> Metadata:
    """All that is known of a file, or a refusal."""
    known = files.describe_file(call.connection, source_uri)
    if known is None:
        raise UnknownNameError(
            f"no file {source_uri!r} was ever announced. Nothing was done. See {API}/files."
        )
    return known


def show_file(call: Call, asked: FileAsked) -> FileStory:
    """All that is known of a file, and all that ever happened to it."""
    return view.show_file(call.connection, known_file(call, asked.source_uri))


def reingest_file(call: Call, asked: FileDecision) -> Queued:
    """Read a file again from its first byte, whatever is known of it."""
    return Queued(
        asked.source_uri,
        files.reingest_file(call.connection, asked.source_uri, reason=asked.reason, by=call.who),
    )


def blacklist_file(call: Call, asked: FileDecision) -> Queued:
    """Make a file count for nothing."""
    known = known_file(call, asked.source_uri)
    queue_id = blacklist.blacklist_file(
        call.connection, asked.source_uri, known["subject_key"], reason=asked.reason, by=call.who
    )
    return Queued(asked.source_uri, queue_id)


def allow_file(call: Call, asked: FileDecision) -> Queued:
    """Let a blacklisted file count again."""
    known_file(call, asked.source_uri)
    return Queued(
        asked.source_uri,
        blacklist.allow_file(call.connection, asked.source_uri, reason=asked.reason, by=call.who),
    )


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/files",
        scope=Scope.READ,
        summary="Files that were ever announced, and where each stands",
        asks=FilesAsked,
        answers=Files,
        handle=on_connection(list_files),
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
        queued=lambda answer: [answer["queue_id"]],
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
        queued=lambda answer: [answer["queue_id"]],
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
        queued=lambda answer: [answer["queue_id"]],
        handle=allow_file,
        refusals=(404,),
    ),
)
