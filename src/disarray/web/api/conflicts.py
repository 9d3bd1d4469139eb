"""Which files disagree under one key, and whose reading counts."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import conflicts
from disarray.model.segments import datetime_of
from disarray.web.parameters import Limit, Subject, Uri
from disarray.web.route import API, Call, Route, Scope


@dataclass(frozen=True, kw_only=True)
class ConflictsAsked:
    """Whose conflicts."""

    subject: Subject | None = None
    uri: Uri | None = None
    limit: Limit = 100


@dataclass(frozen=True, kw_only=True)
class FileConflict:
    """Two files that disagree in a segment; `examples` are the earliest, with the value that counts and the other."""

    dataset: str
    subject: str
    segment: datetime
    winner: str
    loser: str
    conflicts: int
    examples: list[dict[str, object]]


@dataclass(frozen=True)
class Conflicts:
    """Pairs of files that disagree, by subject and segment; `more` where the limit cut the list off."""

    conflicts: list[FileConflict]
    more: bool


def list_conflicts(call: Call, asked: ConflictsAsked) -> Conflicts:
    """Pairs of files that disagree."""
    found = conflicts.list_conflicts(
        call.connection, subject_key=asked.subject, source_uri=asked.uri, limit=asked.limit + 1
    )
    shown = [
        FileConflict(
            dataset=each.dataset,
            subject=each.subject_key,
            segment=datetime_of(each.segment_us),
            winner=each.winner_uri,
            loser=each.loser_uri,
            conflicts=each.conflicts,
            examples=each.examples,
        )
        for each in found[: asked.limit]
    ]
    return Conflicts(shown, more=len(found) > asked.limit)


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/conflicts",
        scope=Scope.READ,
        summary="Files that disagree under one key: which counts, which does not, and the values",
        asks=ConflictsAsked,
        answers=Conflicts,
        handle=list_conflicts,
    ),
)
