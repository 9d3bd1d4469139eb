"""Destinations: how far each has come, and each of their subjects."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import destinations
from disarray.control.connections import Connection
from disarray.errors import UnknownNameError
from disarray.model.description.spec_table import near_miss
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("subjects of a destination", {"subject_key": str})


@dataclass(frozen=True, kw_only=True)
class Sink:
    """A destination. `state` is paused, failing, behind or current; the lag is what its subjects have not loaded.

    `held_back` where no person paused it: a load would have deleted too much of its target.
    """

    name: str
    dataset: str
    target: str
    load: str
    state: str
    subjects: int
    subjects_behind: int
    subjects_failing: int
    lag_commits: int
    lag_seconds: float
    loads: int
    rows_loaded: int
    rows_deleted: int
    last_loaded_at: datetime | None
    pause_reason: str | None
    held_back: bool
    last_error: str | None
    last_error_at: datetime | None


@dataclass(frozen=True)
class Sinks:
    """All destinations, by name."""

    sinks: list[Sink]


@dataclass(frozen=True, kw_only=True)
class SinkSubject:
    """How far one subject of a destination has come; `whole_due` where all of it is loaded next."""

    subject_key: str
    commit_seq: int
    newest_seq: int
    lag_commits: int
    lag_seconds: float
    whole_due: bool
    loads: int
    rows_loaded: int
    rows_deleted: int
    last_loaded_at: datetime | None
    next_at: datetime | None
    held_by: str | None
    last_error: str | None
    last_error_at: datetime | None


@dataclass(frozen=True)
class SinkSubjects:
    """Subjects by name; `next` is the cursor of the next page, null on the last."""

    sink: Sink
    subjects: list[SinkSubject]
    next: str | None


def list_sinks(connection: Connection) -> Sinks:
    """Every destination that was ever registered."""
    return Sinks([_sink(each) for each in destinations.list_destinations(connection)])


def show_sink(
    connection: Connection, name: str, *, limit: int = 100, after: str | None = None
) -> SinkSubjects:
    """One destination with its subjects."""
    known = {each.name: each for each in list_sinks(connection).sinks}
    if name not in known:
        raise UnknownNameError(f"there is no destination '{name}'; {near_miss(name, list(known))}")
    read = partial(destinations.list_destination_subjects, connection, name)
    found, following = ORDER.page(read, after=after, limit=limit)
    subjects = [document_of(SinkSubject, each, whole_due=each.is_whole_due) for each in found]
    return SinkSubjects(known[name], subjects, following)


def _sink(state: destinations.DestinationState) -> Sink:
    return document_of(
        Sink,
        state,
        name=state.destination,
        target=str(state.definition.get("target", "")),
        load=str(state.definition.get("load", "")),
        held_back=state.is_held_back,
    )
