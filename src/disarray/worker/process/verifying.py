"""Subjects are verified while there is nothing else to do, by one worker at a time, those first that waited longest."""

from __future__ import annotations

import logging
import random
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

from disarray.control.status import queue_status
from disarray.control.verification_runs import claim_scheduled_verification
from disarray.engine.verification.record import VerificationRecord
from disarray.engine.verification.verify import verify
from disarray.errors import HandedBackError
from disarray.sinks.hook_verification import note_failed_verification

if TYPE_CHECKING:
    import threading

    from disarray.control.connections import Connection
    from disarray.engine.verification.verification_report import VerificationReport
    from disarray.worker.process.settings import VerificationSettings
    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)

# A worker that has just started has other things to do.
LOOK_SECONDS = 600.0
# While there is something else to do a verification waits; for so long at a time, as it holds scratch files.
POLL_SECONDS = 0.5
MOST_WAITING_SECONDS = 3600.0


def verify_when_idle(
    workplace: Workplace,
    settings: VerificationSettings,
    stop: threading.Event,
    *,
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Look every so often whether it is time and nothing is queued. What goes wrong is told, and nothing ends by it."""
    # Workers that were started together do not all come at the same minute.
    while not stop.wait(look_seconds * random.uniform(0.9, 1.1)):  # noqa: S311 - spreads load, guards nothing
        try:
            verify_once(workplace, settings, stop)
        except HandedBackError as error:
            log.info("%s", error)
        except Exception as error:
            log.warning("subjects could not be verified, and are when it is time again: %s", error)


def verify_once(
    workplace: Workplace, settings: VerificationSettings, stop: threading.Event
) -> VerificationReport | None:
    """Verify for as long as budget and queue allow; None where there is something else to do, or it was done lately.

    What is queued meanwhile finds a core free, and has all of them as soon as the tasks under way end: the rest waits.
    """
    with workplace.pool.connection() as connection:
        selection = {
            "scheduled_by": workplace.holder.instance_name,
            "budget_seconds": settings.budget.total_seconds(),
        }
        verification_id = uuid.uuid4()
        if not _is_idle(connection) or not claim_scheduled_verification(
            connection, verification_id, selection=selection, every=settings.every
        ):
            return None
        # Sources go when nobody needs them any more: that is in the record, and wakes nobody up.
        tell_hooks = partial(
            note_failed_verification, connection, verification_id=verification_id, allow_vanished=True
        )
        report = verify(
            connection,
            workplace.runner.beside("verification"),
            workplace.datasets,
            lake=workplace.lake,
            budget_seconds=settings.budget.total_seconds(),
            may_go_on=lambda: not stop.is_set() and _is_idle(connection),
            give_way=lambda: _wait_until_idle(connection, stop),
            record=VerificationRecord(verification_id, selection, is_resumed=True),
            on_found=tell_hooks,
        )
        # Of subjects whose turn did not come: where a file counts is known of all.
        tell_hooks(report)
        log.log(
            logging.WARNING if report.differences else logging.INFO,
            "verified %d subjects, %d readings; %d values differ; %d subjects are left for another day",
            report.subjects,
            report.readings,
            len(report.differences),
            report.subjects_left,
        )
        return report


def _wait_until_idle(connection: Connection, stop: threading.Event) -> None:
    began = time.monotonic()
    while not stop.is_set() and not _is_idle(connection):
        if time.monotonic() - began > MOST_WAITING_SECONDS:
            raise HandedBackError(
                f"there was other work for {MOST_WAITING_SECONDS / 60:.0f} minutes: the verification was given up; "
                "what it had found out is written down, and the subjects that are left come first in the next one"
            )
        stop.wait(POLL_SECONDS)
    if stop.is_set():
        raise HandedBackError("the verification was broken off; what it had found out is written down")


def _is_idle(connection: Connection) -> bool:
    queue = queue_status(connection)["queue"]
    return bool(queue["claimed"] == 0 and queue["available"] == queue["delayed"])
