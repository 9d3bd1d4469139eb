"""What must hold at rest, whatever happened before: all of `disarray audit`, and what only this test can know."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.control import values
from disarray.control.figures import sum_figures
from disarray.store.audit.audit import AuditSettings, Outcome, audit
from disarray.worker.upkeep.housekeeping import sweep, vacuum
from tests.arrivals import differences, stored
from tests.store.agreement import assert_stores_agree

if TYPE_CHECKING:
    from tests.faults.deliveries import Deliveries
    from tests.plant import Plant

# At rest nobody is about to do anything, and everything is read.
AT_REST = AuditSettings(patience=timedelta(0), orphans_after=timedelta(0), is_deep=True)
# Questions that must have no answer, once nothing is left to do.
_QUESTIONS = {
    "something is queued": "select source_uri, status, reason from disarray.ingest_queue",
    "a subject is still held": "select subject_key, instance_name from disarray.subject_lock",
    "a range is still stale": "select subject_key, range_start from disarray.dirty_range where resolved_at is null",
    "a file version was taken in twice": """
        select source_uri, content_hash, count(*) from disarray.ingest_event
        where event_type = 'completed' and reason in ('file_notification', 'quiet')
            and metadata ->> 'change' <> 'unchanged'
        group by 1, 2 having count(*) > 1
    """,
}


def problems(plant: Plant, deliveries: Deliveries) -> list[str]:
    """Whatever is wrong, in words; the lake is swept first, as housekeeping would."""
    found = [f"{name}: {rows[:3]}" for name, question in _QUESTIONS.items() if (rows := plant.rows(question))]
    found += differences(stored(plant), deliveries.final())
    plant.place = replace(
        plant.place, housekeeping=replace(plant.place.housekeeping, vacuum_after=timedelta(0))
    )
    with plant.pool.connection() as connection:
        vacuum(connection, plant.place)
        sweep(connection, plant.place)
        for verdict in audit(connection, plant.place.lake, AT_REST):
            if verdict.outcome is not Outcome.HOLDS:
                found.append(f"{verdict.rule.name}: {verdict.note} {verdict.findings[:3]}")
        figures = sum_figures(connection)
        accounted = figures.readings_kept + figures.readings_duplicate + figures.readings_rejected
        accounted += figures.readings_parked + figures.lines_blank
        if figures.readings_seen != accounted:
            found.append(f"figures: seen {figures.readings_seen}, accounted for {accounted}")
        subjects = list(values.all_subjects(connection))
    for span in subjects:
        assert_stores_agree(plant, plant.datasets[span.dataset], span.subject_key)
    return found
