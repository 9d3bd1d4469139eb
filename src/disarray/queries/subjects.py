"""Subjects: the span of their readings, and where each stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import subjects, values
from disarray.control.connections import Connection
from disarray.model.documents import document_of
from disarray.model.segments import datetime_of
from disarray.queries.pages import Order

ORDER = Order("subjects", {"subject_key": str, "dataset": str})
ORDER_OF_STATES = Order("subjects ever seen", {"subject_key": str})


@dataclass(frozen=True, kw_only=True)
class SubjectSpan:
    """A subject that has readings of a dataset, and from when to when."""

    subject_key: str
    dataset: str
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Subjects:
    """Subjects by name; `next` is the cursor of the next page, null on the last."""

    subjects: list[SubjectSpan]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class Span:
    """From the first reading to the last."""

    first: datetime
    last: datetime


@dataclass(frozen=True, kw_only=True)
class SubjectState:
    """Where a subject stands; `stale_from` is null where all its numbers are final."""

    subject_key: str
    first_seen_at: datetime
    files: int
    dead_letters: int
    waiting_items: int
    claimed_items: int
    held_by: str | None
    lease_expires_at: datetime | None
    stale_from: datetime | None
    datasets: dict[str, Span]


@dataclass(frozen=True)
class SubjectStates:
    """Every subject ever seen, by name; `next` is the cursor of the next page, null on the last."""

    subjects: list[SubjectState]
    next: str | None


def list_subjects(
    connection: Connection,
    *,
    subject_key: str | None = None,
    dataset: str | None = None,
    limit: int = 1000,
    after: str | None = None,
) -> Subjects:
    """Subjects that have readings, by name."""
    read = partial(values.list_subjects, connection, dataset=dataset, subject_key=subject_key)
    found, following = ORDER.page(read, after=after, limit=limit)
    shown = [
        SubjectSpan(
            subject_key=span.subject_key,
            dataset=span.dataset,
            first=datetime_of(span.first_us),
            last=datetime_of(span.last_us),
        )
        for span in found
    ]
    return Subjects(shown, following)


def list_subject_states(
    connection: Connection, *, limit: int = 1000, after: str | None = None
) -> SubjectStates:
    """Every subject ever seen: its files, what waits, who holds it, the span of its readings."""
    read = partial(subjects.list_subject_states, connection)
    found, following = ORDER_OF_STATES.page(read, after=after, limit=limit)
    spans = _spans_of(connection, [state.subject_key for state in found])
    shown = [document_of(SubjectState, state, datasets=spans[state.subject_key]) for state in found]
    return SubjectStates(shown, following)


def _spans_of(connection: Connection, subject_keys: Sequence[str]) -> dict[str, dict[str, Span]]:
    """The spans of subjects that follow one another by name, by dataset."""
    spans: dict[str, dict[str, Span]] = {key: {} for key in subject_keys}
    # Behind nothing of the first one, whose datasets have names.
    for each in values.all_subjects(connection, after=[subject_keys[0], ""]) if subject_keys else ():
        if each.subject_key not in spans:
            break
        span = Span(first=datetime_of(each.first_us), last=datetime_of(each.last_us))
        spans[each.subject_key][each.dataset] = span
    return spans
