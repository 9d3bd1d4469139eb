"""What waits for a decision, what it would change, and the decision."""

from dataclasses import dataclass

from disarray.control import quarantine
from disarray.model.quarantine_part import Part
from disarray.queries.quarantine import Quarantine, list_quarantine
from disarray.web.api.files import Queued, known_file
from disarray.web.parameters import PageAsked, Reason, Subject, Uri
from disarray.web.problems import Problem
from disarray.web.route import API, Call, Preview, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class QuarantineAsked(PageAsked):
    """Whose quarantine."""

    subject_key: Subject | None = None


@dataclass(frozen=True, kw_only=True)
class PreviewAsked:
    """Of which file, and of which of two things that wait of it."""

    source_uri: Uri
    part: Part | None = None


@dataclass(frozen=True, kw_only=True)
class QuarantineDecision:
    """What is decided about, and why."""

    source_uri: Uri
    reason: Reason
    part: Part | None = None


@dataclass(frozen=True)
class Rejected:
    """How many parked readings were dropped."""

    source_uri: str
    readings: int


def preview_release(call: Call, asked: PreviewAsked) -> Preview:
    """Find out what a release would change, without changing anything."""
    if call.sources.preview is None:
        raise Problem(
            501,
            "not here",
            "This host has no means to read and scan. Nothing was done. Run 'disarray quarantine preview' where "
            "a worker is installed.",
        )
    known_file(call, asked.source_uri)
    return call.sources.preview(call.connection, asked.source_uri, asked.part)


def release_file(call: Call, asked: QuarantineDecision) -> Queued:
    """Let what is parked of a file count."""
    known_file(call, asked.source_uri)
    return Queued(
        asked.source_uri,
        quarantine.release_file(
            call.connection, asked.source_uri, reason=asked.reason, by=call.who, part=asked.part
        ),
    )


def reject_file(call: Call, asked: QuarantineDecision) -> Rejected:
    """Drop what is parked of a file."""
    known_file(call, asked.source_uri)
    return Rejected(
        asked.source_uri,
        quarantine.reject_file(
            call.connection, asked.source_uri, reason=asked.reason, by=call.who, part=asked.part
        ),
    )


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/quarantine",
        scope=Scope.READ,
        summary="What waits for a decision, oldest first",
        asks=QuarantineAsked,
        answers=Quarantine,
        handle=on_connection(list_quarantine),
    ),
    Route(
        method="GET",
        path=f"{API}/quarantine/preview",
        scope=Scope.OPERATE,
        summary="Which numbers a release would change, by how much and from when; nothing is changed",
        asks=PreviewAsked,
        answers=Preview,
        handle=preview_release,
        refusals=(404, 409, 501),
    ),
    Route(
        method="POST",
        path=f"{API}/quarantine/release",
        scope=Scope.OPERATE,
        summary="Let what is parked of a file count; a worker does it next",
        asks=QuarantineDecision,
        answers=Queued,
        queued=lambda answer: [answer["queue_id"]],
        handle=release_file,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/quarantine/reject",
        scope=Scope.OPERATE,
        summary="Drop what is parked of a file, and nothing else of it",
        asks=QuarantineDecision,
        answers=Rejected,
        handle=reject_file,
        refusals=(404,),
    ),
)
