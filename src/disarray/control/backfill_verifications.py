"""Turns to verify a backfill, and what verification found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.control.calls import call, find_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.control.backfills import Verdict
    from disarray.control.connections import Connection
    from disarray.control.queue import Holder


def claim_backfill_verification(
    connection: Connection, job_id: int, holder: Holder, *, lease_seconds: int, is_asked_for: bool = False
) -> int | None:
    """Take the turn to verify a job: the fence; None where it is not due or another verifies it."""
    return find_value(
        connection,
        int,
        "select disarray.claim_backfill_verification(%s, %s, %s, %s, %s)",
        (job_id, holder.instance_name, holder.incarnation, lease_seconds, is_asked_for),
    )


def renew_backfill_verification(
    connection: Connection, job_id: int, holder: Holder, *, fence: int, lease_seconds: int
) -> None:
    """Keep the turn to verify for longer, or `LeaseLostError`."""
    call(
        connection,
        "select disarray.renew_backfill_verification(%s, %s, %s, %s, %s)",
        (job_id, holder.instance_name, holder.incarnation, fence, lease_seconds),
    )


def record_backfill_verdict(
    connection: Connection,
    job_id: int,
    holder: Holder,
    *,
    fence: int,
    verdict: Verdict,
    details: Mapping[str, Any],
) -> None:
    """Keep what verification found, and end the job."""
    call(
        connection,
        "select disarray.record_backfill_verdict(%s, %s, %s, %s, %s, %s)",
        (job_id, holder.instance_name, holder.incarnation, fence, str(verdict), Jsonb(dict(details))),
    )
