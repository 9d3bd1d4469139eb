"""What each commit of a subject changed, in order, and how far those who follow it have come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control.calls import fetch_dicts, fetch_records, fetch_value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBuckets:
    """Buckets of one rollup that a commit changed: those named, or all from `from_us` on where that is not None."""

    buckets: tuple[int, ...] = ()
    from_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNotice:
    """One commit of one dataset of a subject: no reading and no value differs outside of its span.

    `changed_from` is None where everything may differ, `changed_to` where there is no end to it. `changed_segments` and
    `changed_buckets` are None where they are too many to be named: all from `changed_from` on. A rollup that is not
    among the buckets did not change.
    """

    subject_key: str
    dataset: str
    commit_seq: int
    run_id: UUID | None
    changed_from: datetime | None
    changed_to: datetime | None
    changed_segments: tuple[int, ...] | None
    changed_buckets: Mapping[str, ChangedBuckets] | None
    is_redefined: bool
    committed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerPosition:
    """The last commit that a follower has done, and the newest that there is."""

    follower: str
    subject_key: str
    dataset: str
    commit_seq: int
    newest_seq: int
    advanced_at: datetime


def list_commits(
    connection: Connection, subject_key: str, dataset: str, *, after_seq: int = 0, limit: int = 100
) -> list[CommitNotice]:
    """What was committed after a number, in order and without a gap.

    `CommitsDroppedError` where some of it is no longer kept: then everything has to be loaded anew.
    """
    rows = fetch_dicts(
        connection,
        "select * from disarray.list_commits(%s, %s, %s, %s)",
        (subject_key, dataset, after_seq, limit),
    )
    return [_notice(row) for row in rows]


def follow_commits(connection: Connection, follower: str, subject_key: str, dataset: str) -> int:
    """Where a follower goes on. A new one begins at the newest commit, and has to load everything after this call."""
    return fetch_value(
        connection, int, "select disarray.follow_commits(%s, %s, %s)", (follower, subject_key, dataset)
    )


def advance_follower(
    connection: Connection, follower: str, subject_key: str, dataset: str, *, commit_seq: int
) -> int:
    """Note that a follower has done everything up to a commit; its position, which never goes back."""
    return fetch_value(
        connection,
        int,
        "select disarray.advance_follower(%s, %s, %s, %s)",
        (follower, subject_key, dataset, commit_seq),
    )


def unfollow_commits(connection: Connection, follower: str) -> int:
    """Forget a follower, so that nothing is kept for it any more; how many positions it had."""
    return fetch_value(connection, int, "select disarray.unfollow_commits(%s)", (follower,))


def list_followers(connection: Connection) -> list[FollowerPosition]:
    """How far each follower has come with each dataset of each subject."""
    return fetch_records(connection, FollowerPosition, "select * from disarray.list_followers()")


def drop_commits(connection: Connection, *, keep: timedelta, is_rehearsal: bool = False) -> int:
    """Drop what is old enough and what every follower has done; how many commits that are, or would be."""
    return fetch_value(connection, int, "select disarray.drop_commits(%s, %s)", (keep, is_rehearsal))


def _notice(row: dict[str, Any]) -> CommitNotice:
    segments, buckets = row.pop("changed_segments"), row.pop("changed_buckets")
    return CommitNotice(
        **row,
        changed_segments=None if segments is None else tuple(segments),
        changed_buckets=None
        if buckets is None
        else {
            rollup: ChangedBuckets(buckets=tuple(named.get("buckets", ())), from_us=named.get("from_us"))
            for rollup, named in buckets.items()
        },
    )
