"""Subjects that have readings, and the span of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.control import dirty_ranges
from disarray.model.documents import document_of
from disarray.queries.subjects import Subjects, list_subjects
from disarray.web.parameters import InDataset, Limit, PageAsked, Reason, Subject
from disarray.web.route import API, Call, Route, Scope, on_connection
from disarray.web.schema import About


@dataclass(frozen=True, kw_only=True)
class SubjectsAsked(PageAsked):
    """Which subjects."""

    subject_key: Subject | None = None
    dataset: InDataset | None = None
    limit: Limit = 1000


@dataclass(frozen=True, kw_only=True)
class ReconcileAsked:
    """Whose stale numbers are to be mended, and why; everybody's where no subject is named."""

    subject_keys: Annotated[list[Subject], About(min_length=1, max_length=1000)] | None = None
    reason: Reason


@dataclass(frozen=True, kw_only=True)
class Reconcile:
    """A stale subject and the item that mends it; none where `held_by` sees to it already."""

    subject_key: str
    stale_from: datetime
    queue_id: int | None
    held_by: str | None


@dataclass(frozen=True)
class Reconciles:
    """Subjects that had stale numbers; the others are left out."""

    subjects: list[Reconcile]


def request_reconcile(call: Call, asked: ReconcileAsked) -> Reconciles:
    """Queue the repair of what is stale."""
    found = dirty_ranges.request_reconcile(
        call.connection, asked.subject_keys, reason=asked.reason, by=call.who
    )
    return Reconciles([document_of(Reconcile, each) for each in found])


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/subjects",
        scope=Scope.READ,
        summary="Subjects that have readings, in which dataset, and the span of them",
        asks=SubjectsAsked,
        answers=Subjects,
        handle=on_connection(list_subjects),
    ),
    Route(
        method="POST",
        path=f"{API}/subjects/reconcile",
        scope=Scope.OPERATE,
        summary="Queue the repair of subjects whose numbers are stale",
        asks=ReconcileAsked,
        answers=Reconciles,
        queued=lambda answer: [each["queue_id"] for each in answer["subjects"]],
        handle=request_reconcile,
    ),
)
