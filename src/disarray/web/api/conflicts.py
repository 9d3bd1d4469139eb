"""Which files disagree under one key, and whose reading counts."""

from dataclasses import dataclass

from disarray.queries.conflicts import Conflicts, list_conflicts
from disarray.web.parameters import PageAsked, Subject, Uri
from disarray.web.route import API, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class ConflictsAsked(PageAsked):
    """Whose conflicts."""

    subject_key: Subject | None = None
    source_uri: Uri | None = None


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/conflicts",
        scope=Scope.READ,
        summary="Files that disagree under one key: which counts, which does not, and the values",
        asks=ConflictsAsked,
        answers=Conflicts,
        handle=on_connection(list_conflicts),
    ),
)
