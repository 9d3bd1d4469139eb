"""Which files disagree under one key, and whose reading counts."""

from dataclasses import dataclass

from disarray.queries import conflicts
from disarray.queries.conflicts import Conflicts
from disarray.web.parameters import Limit, Subject, Uri
from disarray.web.route import API, Call, Route, Scope


@dataclass(frozen=True, kw_only=True)
class ConflictsAsked:
    """Whose conflicts."""

    subject_key: Subject | None = None
    source_uri: Uri | None = None
    limit: Limit = 100


def list_conflicts(call: Call, asked: ConflictsAsked) -> Conflicts:
    """Pairs of files that disagree."""
    return conflicts.list_conflicts(
        call.connection, subject_key=asked.subject_key, source_uri=asked.source_uri, limit=asked.limit
    )


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
