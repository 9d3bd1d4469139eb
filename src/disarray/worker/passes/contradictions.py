"""Files that came and say something else than readings that count, in datasets that want an operator to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.model.description.conflict_rule import ConflictRule
from disarray.model.fragments import FragmentState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disarray.control.connections import Connection
    from disarray.engine.jobs.scan_job import ScannedSegment
    from disarray.model.description.dataset import Dataset
    from disarray.model.plan import SubjectPlan

Contradiction = tuple[tuple[str, str], str, int]  # dataset and subject, uri, segment


def find_contradictions(
    connection: Connection,
    plans: Iterable[SubjectPlan],
    datasets: Mapping[str, Dataset],
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
) -> frozenset[Contradiction]:
    """What of the files that came must wait; of two that came together, what was announced later.

    Subjects that are rebuilt are left alone: what counted under one definition goes on counting under the next.
    """
    found = set()
    for plan in plans:
        if datasets[plan.dataset].conflict.rule is not ConflictRule.PARK or plan.rebuild is not None:
            continue
        came = {
            (fragment.source_uri, fragment.segment_us)
            for fragment in plan.changes.added
            if fragment.state is FragmentState.ACTIVE
        }
        rows = [
            row
            for unit in plan.units
            if (key := (plan.dataset, plan.subject_key, unit.segment_us)) in scanned
            for row in scanned[key].conflicts
            if row["winner_uri"] != row["loser_uri"]
        ]
        uris = {row[name] for row in rows for name in ("winner_uri", "loser_uri")}
        arrivals = catalog.load_arrivals(connection, uris) if rows else {}
        for row in rows:
            both = [uri for uri in (row["winner_uri"], row["loser_uri"]) if (uri, row["segment_us"]) in came]
            if both:
                later = max(both, key=lambda uri: arrivals.get(uri, 0))
                found.add(((plan.dataset, plan.subject_key), later, row["segment_us"]))
    return frozenset(found)
