"""Runs of `verify`: what they were to cover, and what the newest one found out about each subject."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control.calls import call, fetch_records, fetch_value, find_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSubject:
    """A subject that is known, the readings it has, and when it was last verified, by which run, with what verdict.

    `wholly_verified_at` is when a run last left nothing of it out.
    """

    subject_key: str
    readings: int
    verified_at: datetime | None
    wholly_verified_at: datetime | None
    verification_id: UUID | None
    verdict: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVerification:
    """A run that was broken off, or runs still."""

    verification_id: UUID
    selection: Mapping[str, Any]
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationState:
    """What is known of all subjects, from the newest verification of each."""

    verification_id: UUID | None  # of the newest run
    started_at: datetime | None
    ended_at: datetime | None
    verified_subjects: int
    unverified_subjects: int
    oldest_verified_at: datetime | None
    partly_verified_subjects: int  # identical, as far as they were ever recomputed
    different_subjects: int
    unproven_subjects: int
    not_final_subjects: int
    different_keys: Sequence[str]  # the first of them


def list_verified_subjects(connection: Connection, subject_key: str | None = None) -> list[VerifiedSubject]:
    """Every subject that is known, or the one asked for if it is."""
    return fetch_records(
        connection, VerifiedSubject, "select * from disarray.list_verified_subjects(%s)", (subject_key,)
    )


def subject_keys(connection: Connection) -> list[str]:
    """Every subject that is known."""
    return [each.subject_key for each in list_verified_subjects(connection)]


def start_verification(
    connection: Connection,
    verification_id: UUID,
    *,
    selection: Mapping[str, Any],
    subjects: int,
    readings: int,
) -> None:
    """Write down that a run starts."""
    arguments = (verification_id, json.dumps(selection), subjects, readings)
    call(connection, "select disarray.start_verification(%s, %s::jsonb, %s, %s)", arguments)


def claim_scheduled_verification(
    connection: Connection, verification_id: UUID, *, selection: Mapping[str, Any], every: timedelta
) -> bool:
    """Write down that a worker verifies by itself; False where one did within this time."""
    return fetch_value(
        connection,
        bool,
        "select disarray.claim_scheduled_verification(%s, %s::jsonb, %s)",
        (verification_id, json.dumps(selection), every),
    )


def find_open_verification(connection: Connection) -> OpenVerification | None:
    """The newest run, if it has not ended and was somebody's own."""
    return find_record(connection, OpenVerification, "select * from disarray.find_open_verification()")


def note_subject_verification(
    connection: Connection,
    verification_id: UUID,
    subject_key: str,
    *,
    verdict: str,
    readings: int,
    findings: Sequence[Mapping[str, Any]],
    finding_count: int,
) -> None:
    """Write down what a run found out about a subject."""
    call(
        connection,
        "select disarray.note_subject_verification(%s, %s, %s, %s, %s, %s::jsonb)",
        (verification_id, subject_key, verdict, readings, finding_count, json.dumps(findings)),
    )


def end_verification(connection: Connection, verification_id: UUID) -> None:
    """Write down that a run has done what it was to do."""
    call(connection, "select disarray.end_verification(%s)", (verification_id,))


def verification_state(connection: Connection) -> VerificationState:
    """What is known of all subjects."""
    found = find_record(connection, VerificationState, "select * from disarray.verification_state()")
    assert found is not None
    return found
