"""Figures of backfills for Prometheus: by name while a job has not ended, and in all."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from prometheus_client.core import GaugeMetricFamily, Metric

from disarray.control import backfill_figures
from disarray.control.backfills import BackfillState, Verdict
from disarray.control.connections import Connection

# So that the alert on a verdict ends by itself where nobody starts the job anew.
VERDICTS_WITHIN = timedelta(days=1)


def backfill_metrics(connection: Connection, *, now: datetime) -> Iterator[Metric]:
    """Jobs that have ended have no series of their own: names of some of them come once and never again."""
    yield _counted(
        "disarray_backfills",
        "Backfills by state, those that have ended and are kept among them.",
        "state",
        BackfillState,
        backfill_figures.count_backfills(connection),
    )
    yield _counted(
        "disarray_backfill_verdicts",
        "Backfills that were verified in the last day, the newest of each name, by verdict.",
        "verdict",
        Verdict,
        backfill_figures.count_backfill_verdicts(connection, since=now - VERDICTS_WITHIN),
    )
    total = _of_job("total_rows", "Rows that a backfill has, as estimated at its start.")
    done = _of_job("done_rows", "Rows of chunks that are done.")
    dead = _of_job("dead_chunks", "Chunks that were given up.")
    held = _of_job("held", "1 where something holds a backfill back right now.", "held_by")
    idle = _of_job("idle_seconds", "Since a running backfill ended a chunk, or was last verified.")
    for job in backfill_figures.list_backfill_figures(connection):
        total.add_metric([job.name], job.rows_estimated)
        done.add_metric([job.name], job.rows_done)
        dead.add_metric([job.name], job.chunks_dead)
        if job.held_by is not None:
            held.add_metric([job.name, job.held_by], 1.0)
        if job.idle_seconds is not None:
            idle.add_metric([job.name], job.idle_seconds)
    yield from (total, done, dead, held, idle)


def _of_job(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    # Not "job": that is what Prometheus calls what it scrapes.
    return GaugeMetricFamily(f"disarray_backfill_{name}", text, labels=["backfill", *labels])


def _counted(
    name: str, text: str, label: str, kinds: type[StrEnum], counts: Mapping[str, int]
) -> GaugeMetricFamily:
    """A figure of each kind, also where there is none, so that an alert finds the series."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for kind in kinds:
        family.add_metric([kind.value], counts.get(kind.value, 0))
    return family
