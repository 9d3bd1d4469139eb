"""Subjects are verified while there is nothing else to do, by one worker at a time, those first that waited longest."""

from __future__ import annotations

import logging
import random
import uuid
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
    """Verify for as long as budget and queue allow; None where there is something else to do, or it was done lately."""
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
        report = verify(
            connection,
            workplace.runner,
            workplace.datasets,
            lake=workplace.lake,
            budget_seconds=settings.budget.total_seconds(),
            may_go_on=lambda: not stop.is_set() and _is_idle(connection),
            must_stop=stop.is_set,
            record=VerificationRecord(verification_id, selection, is_resumed=True),
        )
        # Sources go when nobody needs them any more: that is in the record, and wakes nobody up.
        if not report.is_identical(allow_vanished=True):
            note_failed_verification(connection, report, verification_id=verification_id, allow_vanished=True)
        log.log(
            logging.WARNING if report.differences else logging.INFO,
            "verified %d subjects, %d readings; %d values differ; %d subjects are left for another day",
            report.subjects,
            report.readings,
            len(report.differences),
            report.subjects_left,
        )
        return report


def _is_idle(connection: Connection) -> bool:
    queue = queue_status(connection)["queue"]
    return bool(queue["claimed"] == 0 and queue["available"] == queue["delayed"])
