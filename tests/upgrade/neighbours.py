"""What a recorded database holds beside files: a table source, events, a destination, a hook, a view, backfills."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disarray import config
from disarray.backfill.chunk_worker import ChunkWorker
from disarray.backfill.job_session import open_in_database, open_job
from disarray.backfill.serving_jobs import JobServer
from disarray.backfill.starting import start_backfill
from disarray.control import backfills, destinations, raw_events, side_effects, sources
from disarray.control.backfills import BackfillDecision
from disarray.formats.loader import load_sources
from disarray.sinks.destination_loader import DestinationLoader, LoaderSettings
from disarray.sinks.hook_settings import hook_settings, register_all_hooks
from disarray.sinks.views import ViewRefresher, apply_view, load_views
from disarray.sources.inbox import InboxSettings
from disarray.sources.landing import Landing
from tests.backfill.conftest import ADD_ONE, TABLE, spec_of
from tests.sinks.destination_plant import destinations_of
from tests.sinks.hook_plant import report
from tests.sources import inbox_plant, table_history

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from tests.plant import Plant

DESTINATION = """
[[destination]]
name = "meters"
readings = "meters"
database = "same"
table = "published.meters"
load = "upsert"
create = true
"""
VIEW = """
[[view]]
name = "meter_counts"
file = "meter_counts.sql"
key = ["subject_key"]
depends_on = ["meters"]
at_most_every = "1 min"
"""
VIEW_QUERY = "select subject_key, count(*) as readings\nfrom meters_running\ngroup by subject_key;\n"
NEIGHBOURS = (
    inbox_plant.DATASET
    + table_history.DESCRIPTION
    + table_history.WATERMARKS["timestamp"]
    + report(on='["restatement", "backfill_ended"]')
    + DESTINATION
    + VIEW
)
HISTORIAN = """
create table public.readings (
    id bigint primary key, tool text, at timestamptz not null, watts float8,
    updated_at timestamptz not null default now()
);
create index on public.readings (updated_at, id);
"""
HISTORIAN_ROWS = 5
EVENTS = 6


class Neighbours:
    """What works beside the files of a plant."""

    def __init__(self, plant: Plant, dsn: str) -> None:
        self.plant = plant
        self.dsn = dsn
        self.root = plant.description.parent
        os.environ["HISTORIAN_URL"] = dsn
        (self.root / "meter_counts.sql").write_text(VIEW_QUERY)
        plant.place = replace(
            plant.place,
            landing=Landing(self.root / "landing"),
            inbox_settings=InboxSettings(batch_events=4),
            sources=load_sources(plant.description, plant.datasets),
        )
        settings = hook_settings(config.load(self.root, environment={}), plant.datasets)
        with plant.pool.connection() as connection:
            register_all_hooks(connection, settings.hooks)

    def pull(self) -> int:
        """Take what the historian's table has."""
        [source], puller = self.plant.place.sources, self.plant.place.puller
        assert puller is not None
        return sum(pulled.counts.taken for pulled in puller.pull(source, is_asked_for=True))

    def drain_inbox(self) -> None:
        """Deliver the events that wait."""
        assert self.plant.place.inbox is not None
        for _ in self.plant.place.inbox.drain():
            pass

    def load(self) -> None:
        """Load the destination."""
        for destination in destinations_of(self.plant.description, self.plant.datasets):
            loader = DestinationLoader(
                pool=self.plant.pool,
                lake=self.plant.place.lake,
                destination=destination,
                holder=self.plant.place.holder,
                settings=LoaderSettings(),
            )
            loader.register()
            for _ in loader.load_due():
                pass

    def refresh(self) -> None:
        """Make the view, or refresh it."""
        with self.plant.pool.connection() as connection:
            for view in load_views(self.plant.description):
                apply_view(connection, view, by="ada")
        for _ in ViewRefresher(self.plant.pool, self.plant.place.holder).refresh_due():
            pass

    def run_job(self, job_id: int) -> None:
        """Work on a backfill until it has ended."""
        server = JobServer(dsn=self.dsn, holder=self.plant.place.holder, lease_seconds=60)
        server.run_job(job_id, threading.Event(), threads=1)


def write_neighbours(neighbours: Neighbours) -> None:
    """Everything once, each with something that is still to be done."""
    plant, dsn = neighbours.plant, neighbours.dsn
    with plant.pool.connection() as connection:
        connection.execute(HISTORIAN.encode())
        connection.execute(TABLE.encode())
    insert_rows(plant, 0, HISTORIAN_ROWS)
    neighbours.pull()
    plant.drain()
    send_events(plant, 0, EVENTS)
    neighbours.drain_inbox()
    plant.drain()
    send_events(plant, EVENTS, 2 * EVENTS)
    neighbours.load()
    neighbours.refresh()
    neighbours.run_job(start_backfill(dsn, spec_of(ADD_ONE), reason="test", by="ada"))
    begun = start_backfill(dsn, spec_of(ADD_ONE, {"name": "begun"}), reason="test", by="ada")
    with plant.pool.connection() as connection:
        [job] = backfills.list_active_backfills(connection)
        with open_job(
            dsn,
            begun,
            job_key=job.job_key,
            kind=job.kind,
            description=job.description,
            lease_seconds=60,
            open_kind=open_in_database,
        ) as session:
            ChunkWorker(session, plant.place.holder, lease_seconds=60).step()
        backfills.decide_backfill(connection, begun, BackfillDecision.PAUSED, reason="the weekend", by="ada")


def insert_rows(plant: Plant, first: int, end: int) -> None:
    """Rows of the historian."""
    plant.rows(
        f"""
        insert into public.readings (id, tool, at, watts)
        select n, 'TOOL07', timestamptz '2026-03-01' + n * interval '1 min', n / 7.0
        from generate_series({first}, {end - 1}) as n returning 1
        """
    )


def send_events(plant: Plant, first: int, end: int) -> None:
    """Events of a press."""
    with plant.pool.connection() as connection:
        events = [json.dumps(inbox_plant.event(number)) for number in range(first, end)]
        raw_events.record_events(connection, "press", events)


def state_of(connection: Connection) -> dict[str, Any]:
    """What these tables say to people, without the names of folders."""
    return {
        "backfills": [
            [job.name, job.state, job.chunks_done, job.rows_written, job.verdict]
            for job in backfills.list_backfills(connection)
        ],
        "destinations": [
            [each.destination, each.state, each.rows_loaded]
            for each in destinations.list_destinations(connection)
        ],
        "sources": [[each.table_name, each.rows_taken] for each in sources.list_sources(connection)],
        "effects": sorted(
            [each.hook_name, each.cause, each.state] for each in side_effects.list_side_effects(connection)
        ),
    }
