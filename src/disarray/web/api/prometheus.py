"""Figures for Prometheus: facts come from the database and survive restarts, durations are those of this process."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import accumulate
from typing import Annotated

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from disarray import __version__
from disarray.control import destinations, events, figures, instances, views
from disarray.control.connections import Connection
from disarray.control.instances import InstanceState
from disarray.control.metadata import Metadata
from disarray.control.snapshots import snapshot
from disarray.control.status import current_us, queue_status
from disarray.control.timings import BOUNDS_SECONDS, NO_TIMING, TIMINGS
from disarray.model.file_status import FileStatus
from disarray.model.segments import datetime_of
from disarray.queries.verifications import show_verification
from disarray.web.api.backfill_metrics import backfill_metrics
from disarray.web.route import Call, Route, Scope
from disarray.web.schema import About

RECENTLY = timedelta(minutes=10)
# Shown also where none happened, so that an alert finds the series.
RECENT_EVENTS = (
    "enqueued",
    "merged",
    "unchanged",
    "superseded",
    "refused_blacklisted",
    "completed",
    "failed",
    "dead_letter",
    "lease_expired",
    "taken_over",
    "reconciled",
)
_COUNTERS = {
    "commits": "Commits of passes over a subject.",
    "segments_scanned": "Segments that were scanned.",
    "segments_changed": "Segments in which a reading really changed.",
    "readings_seen": "Lines of arriving files: kept, duplicate, rejected, parked or blank.",
    "readings_scanned": "Readings that were scanned, late or not.",
    "bases_shifted": "Bases that moved.",
    "restatements": "Metrics and channels of which a commit changed values that people may have used.",
    "files_parked": "Arriving files of which something waits for a decision.",
    "late_readings": "Readings that came behind the newest of their subject.",
    "repair_readings": "Readings that were scanned again because of late ones.",
    "repair_bases": "Bases that were shifted because of late ones.",
}


class Figures(StrEnum):
    """Which figures: those of the database, which every server tells alike, or those of the process that is asked."""

    ALL = "all"
    FACTS = "facts"
    PROCESS = "process"


@dataclass(frozen=True, kw_only=True)
class MetricsAsked:
    """Which figures."""

    of: Annotated[
        Figures,
        About(
            text="Where several servers are scraped: facts of one of them, and of every one those of its process."
        ),
    ] = Figures.ALL


class _Collected:
    """Families that were collected already, as a registry wants them."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def show_metrics(call: Call, asked: MetricsAsked) -> str:
    """Everything at this moment. No label names a subject or a file: there may be any number of them.

    What one label tells apart has nothing in common, so that it can be summed; what overlaps has names of its own.
    """
    families: list[Metric] = []
    if asked.of is not Figures.PROCESS:
        with snapshot(call.connection):
            families += [*_facts(call.connection), *_standing(call.connection)]
    if asked.of is not Figures.FACTS:
        families += _durations()
    registry = CollectorRegistry()
    registry.register(_Collected(families))
    return generate_latest(registry).decode()


def _facts(connection: Connection) -> Iterator[Metric]:
    """What was committed, ever."""
    counted = figures.sum_figures(connection)
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(f"disarray_{name}", text, value=getattr(counted, name))
    files = CounterMetricFamily("disarray_files", "Arriving files by outcome.", labels=["outcome"])
    for outcome in ("read", "unchanged"):
        files.add_metric([outcome], getattr(counted, f"files_{outcome}"))
    yield files
    readings = CounterMetricFamily(
        "disarray_readings", "Lines of arriving files by outcome.", labels=["outcome"]
    )
    for outcome in ("kept", "duplicate", "rejected", "parked"):
        readings.add_metric([outcome], getattr(counted, f"readings_{outcome}"))
    readings.add_metric(["blank"], counted.lines_blank)
    yield readings
    classes = figures.lateness_histogram(connection)
    bounds = ["+Inf" if each.bound_seconds is None else str(each.bound_seconds) for each in classes]
    yield HistogramMetricFamily(
        "disarray_lateness_seconds",
        "Arriving files by how far their last reading lay behind the newest of the subject.",
        buckets=list(zip(bounds, accumulate(each.files for each in classes), strict=True)),
        sum_value=counted.lateness_seconds,
    )


def _standing(connection: Connection) -> Iterator[Metric]:
    """What stands where now, and what happened lately."""
    status = queue_status(connection)
    yield _labelled(
        "disarray_queue_items",
        "Queued items.",
        "status",
        {
            "available": status["queue"]["available"] - status["queue"]["delayed"],
            **_of(status["queue"], "delayed", "claimed"),
        },
    )
    yield _labelled("disarray_queue_lane_items", "Available items by lane.", "lane", status["lanes"])
    yield GaugeMetricFamily(
        "disarray_queue_oldest_seconds",
        "Age of the oldest queued item; 0 where nothing is queued.",
        value=status["queue"]["oldest_seconds"] or 0.0,
    )
    known = {each.value: status["files"].get(each.value, 0) for each in FileStatus}
    yield _labelled("disarray_files_known", "Files by where they stand.", "status", known)
    subjects = status["subjects"]
    for name, text, count in (
        ("subjects", "Subjects ever seen.", subjects["known"]),
        ("subjects_held", "Subjects that a worker holds.", subjects["held"]),
        ("subjects_waiting", "Subjects that have work that is due.", subjects["waiting"]),
        ("subjects_unserved", "Subjects that wait and match no worker.", len(status["unserved_subjects"])),
    ):
        yield GaugeMetricFamily(f"disarray_{name}", text, value=count)
    yield GaugeMetricFamily(
        "disarray_open_dirty_ranges", "Spans with stale numbers.", value=status["open_dirty_ranges"]
    )
    yield GaugeMetricFamily(
        "disarray_conflicts",
        "Readings that do not count because another file says something else under their key.",
        value=status["conflicts"]["readings"],
    )
    yield GaugeMetricFamily(
        "disarray_dead_letters", "Files that were given up.", value=status["dead_letters"]
    )
    effects = status["side_effects"]
    yield _labelled(
        "disarray_side_effects",
        "Messages to hooks that wait, are being sent, or were given up.",
        "state",
        _of(effects, "pending", "sending", "dead"),
    )
    yield GaugeMetricFamily(
        "disarray_side_effects_oldest_seconds",
        "Age of the oldest message to a hook that is not sent; 0 where all are.",
        value=effects["oldest_seconds"] or 0.0,
    )
    now = datetime_of(current_us(connection))
    # Not "instance": that is what Prometheus calls the server that it asked.
    ages = GaugeMetricFamily(
        "disarray_instance_seen_seconds", "Since a worker was last heard of.", labels=["worker", "state"]
    )
    workers = instances.list_instances(connection)
    for each in workers:
        ages.add_metric([each.instance_name, each.state], max(0.0, (now - each.last_seen_at).total_seconds()))
    yield ages
    states = Counter(each.state for each in workers)
    yield _labelled(
        "disarray_instances",
        "Workers that ever registered, by whether they claim.",
        "state",
        {state.value: states[state] for state in InstanceState},
    )
    # By destination, of which there are as many as somebody wrote down; never by subject.
    commits = GaugeMetricFamily(
        "disarray_sink_lag_commits", "Commits that a destination has not loaded.", labels=["sink"]
    )
    seconds = GaugeMetricFamily(
        "disarray_sink_lag_seconds",
        "Age of the oldest commit that a destination has not loaded.",
        labels=["sink"],
    )
    failing = GaugeMetricFamily(
        "disarray_sink_failing",
        "1 where a destination or one of its subjects cannot be loaded.",
        labels=["sink"],
    )
    held_back = GaugeMetricFamily(
        "disarray_sink_held_back",
        "1 where a destination waits for a person, because a load would have deleted too much of its target.",
        labels=["sink"],
    )
    for sink in destinations.list_destinations(connection):
        commits.add_metric([sink.destination], sink.lag_commits)
        seconds.add_metric([sink.destination], sink.lag_seconds)
        failing.add_metric([sink.destination], float(sink.state == "failing"))
        held_back.add_metric([sink.destination], float(sink.is_held_back))
    yield from (commits, seconds, failing, held_back)
    yield from _views(connection)
    yield from backfill_metrics(connection, now=now)
    verified = show_verification(connection)
    yield _labelled(
        "disarray_verification_subjects",
        "Subjects by what the newest verification of each found out.",
        "verdict",
        {
            "identical": verified.subjects_identical,
            "identical_in_part": verified.subjects_identical_in_part,
            "different": verified.subjects_different,
            "unproven": verified.subjects_unproven,
            "not_final": verified.subjects_not_final,
            "never": verified.subjects_never,
        },
    )
    oldest = verified.oldest_verified_at
    yield GaugeMetricFamily(
        "disarray_verification_oldest_seconds",
        "Since the subject that has waited longest was verified, whole if it ever was; 0 where none was.",
        value=0.0 if oldest is None else max(0.0, (now - oldest).total_seconds()),
    )
    lately = events.count_events(connection, since=now - RECENTLY)
    yield _labelled(
        "disarray_recent_events",
        "What happened in the last ten minutes.",
        "event",
        dict.fromkeys(RECENT_EVENTS, 0) | lately,
    )


def _views(connection: Connection) -> Iterator[Metric]:
    """By view, of which there are as many as somebody wrote down."""
    commits = GaugeMetricFamily(
        "disarray_view_lag_commits", "Commits that a view does not have in it.", labels=["view"]
    )
    seconds = GaugeMetricFamily(
        "disarray_view_lag_seconds",
        "Age of the oldest commit that a view does not have in it.",
        labels=["view"],
    )
    failing = GaugeMetricFamily(
        "disarray_view_failing", "1 where the last refresh of a view failed.", labels=["view"]
    )
    for view in views.list_views(connection):
        commits.add_metric([view.name], view.lag_commits)
        seconds.add_metric([view.name], view.lag_seconds)
        failing.add_metric([view.name], float(view.last_error is not None))
    yield from (commits, seconds, failing)


def _durations() -> Iterator[Metric]:
    """How long things took in this process since it began."""
    info = GaugeMetricFamily("disarray_info", "The program.", labels=["version"])
    info.add_metric([__version__], 1)
    yield info
    for name, text, label in (
        ("commit", "Transactions that make a pass over a subject visible.", None),
        ("reconcile", "Shifts of bases that were too large for their commit.", None),
        ("request", "Requests to this server.", "route"),
    ):
        family = HistogramMetricFamily(
            f"disarray_{name}_seconds", text, labels=[label] if label is not None else []
        )
        counted = TIMINGS.of(name)
        if label is None:
            # Nothing yet is shown as nothing, so that dashboards and alerts find the series.
            counted = {"": NO_TIMING} | counted
        for kind, timing in counted.items():
            bounds = [*(str(bound) for bound in BOUNDS_SECONDS), "+Inf"]
            family.add_metric(
                [kind] if label is not None else [],
                list(zip(bounds, accumulate(timing.counts), strict=True)),
                timing.seconds,
            )
        yield family


def _labelled(name: str, text: str, label: str, values: Metadata) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _of(document: Metadata, *names: str) -> Metadata:
    return {name: document[name] for name in names}


ROUTES = (
    Route(
        method="GET",
        path="/metrics",
        scope=Scope.READ,
        summary="Figures in the text format of Prometheus",
        asks=MetricsAsked,
        answers=str,
        handle=show_metrics,
        media_type="text/plain; version=0.0.4",
    ),
)
