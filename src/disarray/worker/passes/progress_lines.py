"""A pass as lines in the log: one for all of it, and one for each thing that somebody may want to look into."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from disarray.worker.passes.report import Arrival

if TYPE_CHECKING:
    from disarray.worker.passes.report import PassReport

log = logging.getLogger(__name__)


def log_pass(report: PassReport, seconds: float) -> None:
    """Write down what became of a batch."""
    arrivals = Counter(committed.arrival.value for committed in report.committed)
    log.info(
        "%d items in %.2f s: %s; %d failed, %d subjects lost",
        len(report.completed) + len(report.failed),
        seconds,
        ", ".join(f"{count} {name}" for name, count in sorted(arrivals.items())) or "nothing changed",
        len(report.failed),
        len(report.lost_subjects),
    )
    for committed in report.committed:
        if committed.arrival is Arrival.LATE:
            log.info(
                "%s (%s) was late: %d segments scanned, %d bases shifted, %d restatements",
                committed.plan.subject_key,
                committed.plan.dataset,
                len(committed.plan.units),
                committed.change.bases_shifted,
                committed.change.restatements,
            )
    for queue_id, message in report.failed.items():
        # The first line; the rest, such as a stack of Java, is kept with the file.
        log.warning("item %d failed: %s", queue_id, message.partition("\n")[0])
