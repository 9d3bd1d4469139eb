"""What waits for a decision, what it would change, and the decision."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from disarray.control import quarantine
from disarray.web.answers import instant
from disarray.web.api.files import Queued, known_file
from disarray.web.parameters import Limit, Reason, Subject, Uri
from disarray.web.problems import Problem
from disarray.web.route import API, Call, Preview, Route, Scope


class Part(StrEnum):
    """What waits of a file: readings of it, or a version that says less. Each is a decision of its own."""

    READINGS = "readings"
    VERSION = "version"


@dataclass(frozen=True, kw_only=True)
class QuarantineAsked:
    """Whose quarantine."""

    subject: Subject | None = None
    limit: Limit = 100


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """Parked readings of a file; a version that says less than the one before is not read, so it counts none."""

    uri: str
    subject: str
    dataset: str | None
    why: str
    segments: int
    readings: int
    first: datetime | None
    last: datetime | None
    parked_at: datetime
    message: str | None
    part: Part


@dataclass(frozen=True, kw_only=True)
class PreviewAsked:
    """Of which file, and of which of two things that wait of it."""

    uri: Uri
    part: Part | None = None


@dataclass(frozen=True, kw_only=True)
class QuarantineDecision:
    """What is decided about, and why."""

    uri: Uri
    reason: Reason
    part: Part | None = None


@dataclass(frozen=True)
class Quarantine:
    """What waits, oldest first; `more` where the limit cut the list off."""

    waiting: list[Quarantined]
    more: bool


@dataclass(frozen=True)
class Rejected:
    """How many parked readings were dropped."""

    uri: str
    readings: int


def list_quarantine(call: Call, asked: QuarantineAsked) -> Quarantine:
    """What waits for a decision, oldest first."""
    found = quarantine.list_quarantine(call.connection, subject_key=asked.subject, limit=asked.limit + 1)
    waiting = [
        Quarantined(
            uri=each.source_uri,
            subject=each.subject_key,
            dataset=each.dataset,
            why=each.why,
            segments=each.segments,
            readings=each.readings,
            first=instant(each.first_us),
            last=instant(each.last_us),
            parked_at=each.parked_at,
            message=each.message,
            part=Part(each.part),
        )
        for each in found[: asked.limit]
    ]
    return Quarantine(waiting, more=len(found) > asked.limit)


def preview_release(call: Call, asked: PreviewAsked) -> Preview:
    """Find out what a release would change, without changing anything."""
    if call.sources.preview is None:
        raise Problem(
            501,
            "not here",
            "This host has no means to read and scan. Nothing was done. Run 'disarray quarantine preview' where "
            "a worker is installed.",
        )
    known_file(call, asked.uri)
    return call.sources.preview(call.connection, asked.uri, asked.part)


def release_file(call: Call, asked: QuarantineDecision) -> Queued:
    """Let what is parked of a file count."""
    known_file(call, asked.uri)
    return Queued(
        asked.uri,
        quarantine.release_file(
            call.connection, asked.uri, reason=asked.reason, by=call.who, part=asked.part
        ),
    )


def reject_file(call: Call, asked: QuarantineDecision) -> Rejected:
    """Drop what is parked of a file."""
    known_file(call, asked.uri)
    return Rejected(
        asked.uri,
        quarantine.reject_file(call.connection, asked.uri, reason=asked.reason, by=call.who, part=asked.part),
    )


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/quarantine",
        scope=Scope.READ,
        summary="What waits for a decision, oldest first",
        asks=QuarantineAsked,
        answers=Quarantine,
        handle=list_quarantine,
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
