"""Destinations: which of their subjects are behind, who loads them, and how far they have come."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control.calls import call, fetch_records, fetch_value, find_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claimed:
    subject_key: str
    dataset: str
    commit_seq: int
    newest_seq: int
    is_whole_due: bool
    is_sweep_due: bool
    fence: int
    known_fences: Sequence[int] | None
    failure_count: int
    is_first: bool
    are_deletes_allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTurn:
    """The turn to load one subject: from the commits after `commit_seq` to the newest, or all that there is.

    `known_fences` are of former loads of it that the target may have: None where that was not written down yet.
    `is_first` where this database has never loaded it.
    """

    destination: str
    subject_key: str
    dataset: str
    commit_seq: int
    newest_seq: int
    is_whole_due: bool
    is_sweep_due: bool
    fence: int
    known_fences: Sequence[int] | None
    failure_count: int
    is_first: bool
    are_deletes_allowed: bool
    holder: Holder

    @property
    def key(self) -> tuple[object, ...]:
        """How the functions of the database are told which turn."""
        return (
            self.destination,
            self.subject_key,
            self.holder.instance_name,
            self.holder.incarnation,
            self.fence,
        )

    def follows(self, target_fence: int) -> bool:
        """Whether a target that was last loaded under a fence has what this database believes it to have.

        Nobody knows what it has under 0, or under the negative of a fence: pieces of that load are missing.
        """
        return target_fence > 0 and (self.known_fences is None or target_fence in self.known_fences)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneSweep:
    """A target to be cleared of subjects that are not asked for, where nothing is to be loaded that would do it."""

    fence: int
    are_deletes_allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPosition:
    """How far one subject of a destination has come, in few words."""

    subject_key: str
    commit_seq: int
    newest_seq: int
    is_whole_due: bool

    @property
    def is_current(self) -> bool:
        """Whether the target has all that there is."""
        return not self.is_whole_due and self.commit_seq >= self.newest_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationSize:
    """How many subjects a destination has, and the last by name; None of none."""

    subjects: int
    last_subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationState:
    """A destination as it stands: `state` is paused, failing, behind or current."""

    destination: str
    dataset: str
    definition: Mapping[str, Any]
    subject_patterns: Sequence[str]
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
    paused_at: datetime | None
    pause_reason: str | None
    failure_count: int
    last_error: str | None
    last_error_at: datetime | None
    is_held_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationSubject:
    """How far one subject of a destination has come."""

    subject_key: str
    dataset: str
    commit_seq: int
    newest_seq: int
    lag_commits: int
    lag_seconds: float
    is_whole_due: bool
    loads: int
    rows_loaded: int
    rows_deleted: int
    last_loaded_at: datetime | None
    last_seconds: float | None
    next_at: datetime | None
    held_by: str | None
    failure_count: int
    last_error: str | None
    last_error_at: datetime | None


def register_destination(
    connection: Connection,
    destination: str,
    *,
    dataset: str,
    definition: Mapping[str, object],
    subject_patterns: Sequence[str],
) -> bool:
    """Say what a destination is; whether that is news. Under another definition everything is loaded anew."""
    return fetch_value(
        connection,
        bool,
        "select disarray.register_destination(%s, %s, %s::jsonb, %s::text[])",
        (destination, dataset, json.dumps(definition), list(subject_patterns)),
    )


def claim_destination(
    connection: Connection,
    destination: str,
    holder: Holder,
    *,
    lease_seconds: int,
    definition: Mapping[str, object] | None = None,
) -> LoadTurn | None:
    """Take the turn to load a subject that is behind; None where there is none that is free and due.

    None as well where the destination has another definition by now than the one that the caller would load by.
    """
    claimed = find_record(
        connection,
        _Claimed,
        "select * from disarray.claim_destination(%s, %s, %s, %s, %s::jsonb)",
        (
            destination,
            holder.instance_name,
            holder.incarnation,
            lease_seconds,
            None if definition is None else json.dumps(definition),
        ),
    )
    return None if claimed is None else _turn(destination, holder, claimed)


def claim_destination_subject(
    connection: Connection,
    destination: str,
    subject_key: str,
    holder: Holder,
    *,
    lease_seconds: int,
    definition: Mapping[str, object],
) -> LoadTurn | None:
    """Take the turn to load all of one subject anew; None where another loads it now."""
    claimed = find_record(
        connection,
        _Claimed,
        "select * from disarray.claim_destination_subject(%s, %s, %s, %s, %s, %s::jsonb)",
        (
            destination,
            subject_key,
            holder.instance_name,
            holder.incarnation,
            lease_seconds,
            json.dumps(definition),
        ),
    )
    return None if claimed is None else _turn(destination, holder, claimed)


def _turn(destination: str, holder: Holder, claimed: _Claimed) -> LoadTurn:
    return LoadTurn(
        destination=destination,
        subject_key=claimed.subject_key,
        dataset=claimed.dataset,
        commit_seq=claimed.commit_seq,
        newest_seq=claimed.newest_seq,
        is_whole_due=claimed.is_whole_due,
        is_sweep_due=claimed.is_sweep_due,
        fence=claimed.fence,
        known_fences=claimed.known_fences,
        failure_count=claimed.failure_count,
        is_first=claimed.is_first,
        are_deletes_allowed=claimed.are_deletes_allowed,
        holder=holder,
    )


def renew_destination(connection: Connection, turn: LoadTurn, *, lease_seconds: int) -> None:
    """Keep the turn for longer, or `LeaseLostError`."""
    call(
        connection,
        "select disarray.renew_destination(%s, %s, %s, %s, %s, %s)",
        (*turn.key, lease_seconds),
    )


def advance_destination(
    connection: Connection,
    turn: LoadTurn,
    *,
    rows_loaded: int,
    rows_deleted: int,
    seconds: float,
    is_target_touched: bool = True,
) -> None:
    """Note that the subject is loaded up to the newest commit of the turn, and give it back; or `LeaseLostError`."""
    call(
        connection,
        "select disarray.advance_destination(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (*turn.key, turn.newest_seq, rows_loaded, rows_deleted, seconds, is_target_touched),
    )


def end_destination_turn(
    connection: Connection,
    turn: LoadTurn,
    *,
    next_in: timedelta,
    error: str | None = None,
    target_fence: int | None = None,
) -> None:
    """Give the turn back without having loaded: when it is due again, and what went wrong with this subject.

    `target_fence` is one that the target has and that this database never gave out: everything is loaded next.
    """
    call(
        connection,
        "select disarray.end_destination_turn(%s, %s, %s, %s, %s, %s, %s, %s)",
        (*turn.key, next_in, error, target_fence),
    )


def hold_destination_back(connection: Connection, turn: LoadTurn, reason: str) -> None:
    """Pause a destination before a load deletes more than it may, and give the turn back; or `LeaseLostError`."""
    call(
        connection,
        "select disarray.hold_destination_back(%s, %s, %s, %s, %s, %s)",
        (*turn.key, reason),
    )


def find_lone_sweep(
    connection: Connection, destination: str, definition: Mapping[str, object]
) -> LoneSweep | None:
    """A sweep that is due where no subject is to be loaded; None where there is none, or another definition by now."""
    return find_record(
        connection,
        LoneSweep,
        "select * from disarray.find_lone_sweep(%s, %s::jsonb)",
        (destination, json.dumps(definition)),
    )


def hold_lone_sweep_back(
    connection: Connection,
    destination: str,
    holder: Holder,
    *,
    definition: Mapping[str, object],
    reason: str,
) -> None:
    """Pause a destination before such a sweep deletes more than it may; or `LeaseLostError`."""
    call(
        connection,
        "select disarray.hold_lone_sweep_back(%s, %s::jsonb, %s, %s)",
        (destination, json.dumps(definition), holder.instance_name, reason),
    )


def restart_destination(connection: Connection, destination: str) -> None:
    """Load everything anew, because the target has nothing any more."""
    call(connection, "select disarray.restart_destination(%s)", (destination,))


def list_unasked_subjects(connection: Connection, destination: str, subjects: Sequence[str]) -> list[str]:
    """Of the subjects that a target has, those that the destination is not to have."""
    return fetch_value(
        connection,
        list,
        "select disarray.list_unasked_subjects(%s, %s::text[])",
        (destination, list(subjects)),
    )


def end_destination_sweep(connection: Connection, destination: str) -> None:
    """Note that the target has no subjects any more that are not asked for."""
    call(connection, "select disarray.end_destination_sweep(%s)", (destination,))


def note_destination_error(connection: Connection, destination: str, error: str | None) -> None:
    """Keep why nothing can be loaded into a destination; None, or the next load that works, clears it."""
    call(connection, "select disarray.note_destination_error(%s, %s)", (destination, error))


def list_destinations(connection: Connection) -> list[DestinationState]:
    """Every destination that was ever registered."""
    return fetch_records(connection, DestinationState, "select * from disarray.list_destinations()")


def list_destination_subjects(
    connection: Connection, destination: str, *, limit: int = 100, after: Sequence[str] | None = None
) -> list[DestinationSubject]:
    """How far each subject of a destination has come, by name."""
    return fetch_records(
        connection,
        DestinationSubject,
        "select * from disarray.list_destination_subjects(%s, %s, %s::text[])",
        (destination, limit, after),
    )


def list_destination_stretch(
    connection: Connection, destination: str, *, after: str | None, to: str | None, limit: int
) -> list[SubjectPosition]:
    """The subjects of a destination behind one, up to and with another, by name."""
    return fetch_records(
        connection,
        SubjectPosition,
        "select * from disarray.list_destination_stretch(%s, %s, %s, %s)",
        (destination, after, to, limit),
    )


def measure_destination(connection: Connection, destination: str) -> DestinationSize:
    """How many subjects a destination has."""
    [size] = fetch_records(
        connection, DestinationSize, "select * from disarray.measure_destination(%s)", (destination,)
    )
    return size


def decide_destination(
    connection: Connection,
    destination: str,
    decision: str,
    *,
    reason: str,
    by: str,
    subject_key: str | None = None,
    allows_deletes: bool = False,
) -> int:
    """Pause a destination, resume it, or load everything anew; how many of its subjects that concerns.

    With `allows_deletes` it may lose whatever is not known here, and goes on where it was held back for that; of one
    subject alone that is refused.
    """
    return fetch_value(
        connection,
        int,
        "select disarray.decide_destination(%s, %s, %s, %s, %s, %s)",
        (destination, decision, reason, by, subject_key, allows_deletes),
    )


def forget_destination(connection: Connection, destination: str, *, reason: str, by: str) -> int:
    """Forget a destination that is no longer described; how many subjects it followed. What it loaded stays."""
    return fetch_value(
        connection, int, "select disarray.forget_destination(%s, %s, %s)", (destination, reason, by)
    )
