"""A plant whose dataset is fed by programs, and a process that drains its inbox."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from disarray.control import connections, instances, raw_events
from disarray.formats.loader import load_datasets
from disarray.sources.inbox import Inbox, InboxSettings
from disarray.sources.landing import Landing
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from disarray.control.raw_events import Recorded

DATASET = """
[[dataset]]
name = "press"
roots = ["landing/inbox-press"]
files = ["**/*.jsonl"]
format = "jsonl"
subject = { delivery = "folders" }
events = { subject = "tool", id = ["id"] }
event_time = { from = "at", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
restate_after = "0 s"
key = ["id"]
[dataset.columns.id]
type = "int64"
nullable = false
[dataset.columns.parts]
type = "int64"
from = "count.parts"
[dataset.columns.force]
type = "float64"
[dataset.metrics.parts_total]
kind = "sum"
input = "parts"
[dataset.metrics.work]
kind = "integral"
input = "force"
max_gap = "10 min"
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
events = "count"
"""
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# Few events in a batch, so that a drain has several.
SETTINGS = InboxSettings(batch_events=4)


def event(
    number: int, *, minutes: float | None = None, tool: object = "TOOL07", **more: object
) -> dict[str, Any]:
    """One event of a press."""
    at = NOON + timedelta(minutes=number if minutes is None else minutes)
    return {
        "id": number,
        "tool": tool,
        "at": at.isoformat(),
        "count": {"parts": number % 3},
        "force": number / 7,
        **more,
    }


class InboxPlant(Plant):
    """A plant with an inbox; `record` is a program, `deliver` a drainer, `drain` the worker."""

    def __init__(self, root: Path, dsn: str, *, description: str = DATASET) -> None:
        super().__init__(root, dsn, description=description)
        self.place = replace(self.place, landing=Landing(root / "landing"), inbox_settings=SETTINGS)

    def record(self, events: Iterable[Mapping[str, Any]]) -> Recorded:
        """Send events."""
        with self.pool.connection() as connection:
            return raw_events.record_events(connection, "press", [json.dumps(each) for each in events])

    def deliver(self) -> None:
        """Drain the inbox, and take in what was delivered."""
        assert self.place.inbox is not None
        for _ in self.place.inbox.drain():
            pass
        self.drain()

    def states(self) -> dict[str, int]:
        """How many events are in which state."""
        found = self.rows("select state::text, count(*) from disarray.raw_event group by 1")
        return {str(state): int(str(count)) for state, count in found}

    def total(self, subject: str = "TOOL07") -> int:
        """The newest value of the metric."""
        rows = self.rows(
            f"""
            select base_int + total_int from disarray.segment_metric
            where subject_key = '{subject}' and metric = 'parts_total' order by segment_us desc limit 1
            """
        )
        return int(str(rows[0][0])) if rows else 0


def drain_all(dsn: str, folder: Path) -> None:
    """One life of a drainer."""
    with connections.open_pool(dsn, max_size=2) as pool:
        with pool.connection() as connection:
            holder = instances.register_instance(connection, "Drainer")
        inbox = Inbox(
            pool=pool,
            landing=Landing(folder / "landing"),
            datasets=load_datasets(folder / "disarray.toml"),
            holder=holder,
            settings=SETTINGS,
        )
        for _ in inbox.drain():
            pass
