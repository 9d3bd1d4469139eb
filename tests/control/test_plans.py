"""What is asked all the time stays on its indexes, counted in rows and buffers rather than in seconds.

The plans are those of the statements inside the functions as they really ran: auto_explain reports each of them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import claim_ends, claims, files, instances
from disarray.control.claims import FetchPolicy
from disarray.control.files import Notification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg.errors import Diagnostic

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder

pytestmark = pytest.mark.postgres

QUEUED = 100_000
POLICY = FetchPolicy(limit=10, give_way_batches=1_000_000, give_way_seconds=1_000_000)


@dataclass(frozen=True)
class Scan:
    """One node of a plan that read a table, and how much."""

    kind: str
    table: str
    index: str | None
    rows_read: float
    statement: str


@dataclass(frozen=True)
class Execution:
    """What one call did: every scan inside it that ran, and the buffers of all together."""

    scans: list[Scan]
    buffers: int

    def of(self, table: str) -> list[Scan]:
        return [scan for scan in self.scans if scan.table == table]


def nodes_of(plan: dict[str, Any], table: str | None = None) -> Iterator[tuple[dict[str, Any], str | None]]:
    table = plan.get("Relation Name", table)
    yield plan, table
    for part in plan.get("Plans", []):
        yield from nodes_of(part, table)


def scans_in(statement: str, plan: dict[str, Any]) -> Iterator[Scan]:
    for node, table in nodes_of(plan):
        if "Relation Name" in node and "Scan" in node["Node Type"] and node["Actual Loops"] > 0:
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            yield Scan(
                node["Node Type"],
                str(table),
                node.get("Index Name"),
                rows * node["Actual Loops"],
                " ".join(statement.split()),
            )


def execute_explained(connection: Connection, statement: str) -> Execution:
    explained: list[dict[str, Any]] = []

    def take(notice: Diagnostic) -> None:
        before, found, plan = (notice.message_primary or "").partition("plan:")
        if found and before.startswith("duration"):
            explained.append(json.loads(plan))

    connection.execute(
        """
        load 'auto_explain';
        set auto_explain.log_nested_statements = on;
        set auto_explain.log_analyze = on;
        set auto_explain.log_timing = off;
        set auto_explain.log_buffers = on;
        set auto_explain.log_format = json;
        set client_min_messages = log;
        """
    )
    connection.execute("set auto_explain.log_min_duration = 0")
    connection.add_notice_handler(take)
    connection.execute(statement.encode())
    connection.remove_notice_handler(take)
    connection.execute("set auto_explain.log_min_duration = -1")
    connection.execute("reset client_min_messages")
    # The statement itself ends last, and counts the buffers of all that ran inside it.
    whole = explained[-1]["Plan"]
    return Execution(
        [scan for one in explained for scan in scans_in(one["Query Text"], one["Plan"])],
        whole["Shared Hit Blocks"] + whole["Shared Read Blocks"],
    )


def fill_queue(connection: Connection, *, subjects: int, items_each: int) -> None:
    connection.execute(
        """
        insert into disarray.subject (subject_key, live_turn_at, first_seen_at)
        select 'TOOL' || number, now(), now()
        from generate_series(1, %s) as number
        """,
        (subjects,),
    )
    connection.execute(
        """
        insert into disarray.ingest_queue (source_uri, subject_key, reason, enqueued_at, available_at)
        select
            'file:///' || number || '/' || item,
            'TOOL' || number,
            'file_notification',
            now(),
            now() - interval '1 hour' + item * interval '1 ms'
        from generate_series(1, %s) as item, generate_series(1, %s) as number
        """,
        (items_each, subjects),
    )


def fill_backfill_lane(connection: Connection, *, subjects: int, orders_each: int) -> None:
    connection.execute(
        """
        insert into disarray.subject (subject_key, backfill_turn_at, first_seen_at)
        select 'TOOL' || number, now(), now()
        from generate_series(1, %s) as number
        on conflict (subject_key) do update
        set backfill_turn_at = excluded.backfill_turn_at
        """,
        (subjects,),
    )
    connection.execute(
        """
        insert into disarray.ingest_queue (kind, lane, subject_key, dataset, reason, enqueued_at, available_at)
        select 'copy', 'backfill', 'TOOL' || number, 'dataset' || part, 'copy', now(), now() - interval '2 hours'
        from generate_series(1, %s) as part, generate_series(1, %s) as number
        """,
        (orders_each, subjects),
    )


def fetch_explained(connection: Connection, holder: Holder) -> Execution:
    return execute_explained(
        connection,
        "select * from disarray.fetch_items("
        f"'{holder.instance_name}', {POLICY.limit}, 300, {holder.incarnation}, 1, "
        f"{POLICY.give_way_batches}, {POLICY.give_way_seconds})",
    )


def warm_fetch(connection: Connection, holder: Holder) -> Execution:
    """A fetch by a session that has done it before: the first one reads the system catalogs."""
    for _ in range(2):
        claims.fetch_items(connection, holder, POLICY)
    return fetch_explained(connection, holder)


@pytest.mark.parametrize("statistics", ["fresh", "of an empty queue"])
@pytest.mark.parametrize("subjects", [1, 100, 10_000])
def test_a_claim_reads_a_few_rows_of_a_hundred_thousand(
    connection: Connection, connect: Callable[[], Connection], subjects: int, statistics: str
) -> None:
    connection.execute("analyze disarray.ingest_queue, disarray.subject")
    fill_queue(connection, subjects=subjects, items_each=QUEUED // subjects)
    if statistics == "fresh":
        connection.execute("analyze disarray.ingest_queue, disarray.subject")
    holder = instances.register_instance(connection, "Worker01")
    execution = warm_fetch(connect(), holder)

    line = [scan for scan in execution.of("ingest_queue") if scan.index == "ingest_queue_in_line"]
    assert line, "the line of a subject was not read from its index"
    assert [scan for scan in execution.of("ingest_queue") if scan.kind == "Seq Scan"] == []
    assert [scan for scan in execution.of("subject") if scan.kind == "Seq Scan" and subjects > 100] == []
    assert [scan for scan in execution.scans if scan.rows_read > 150] == []
    assert execution.buffers < 600


@pytest.mark.parametrize("statistics", ["fresh", "of an empty queue"])
@pytest.mark.parametrize("subjects", [1, 100, 10_000])
def test_a_claim_reads_a_few_rows_of_a_hundred_thousand_in_either_lane(
    connection: Connection, connect: Callable[[], Connection], subjects: int, statistics: str
) -> None:
    connection.execute("analyze disarray.ingest_queue, disarray.subject")
    fill_queue(connection, subjects=subjects, items_each=QUEUED // subjects)
    fill_backfill_lane(connection, subjects=subjects, orders_each=QUEUED // subjects)
    if statistics == "fresh":
        connection.execute("analyze disarray.ingest_queue, disarray.subject")
    holder = instances.register_instance(connection, "Worker01")
    session = connect()
    warm_fetch(session, holder)
    lanes = []
    # Whichever lane's turn it is: five in a row have one of each.
    for _ in range(5):
        before = claims_by_lane(connection)
        execution = fetch_explained(session, holder)
        lanes.append(next(iter(claims_by_lane(connection) - before)))
        assert [scan for scan in execution.scans if scan.kind == "Seq Scan" and scan.rows_read > 10] == []
        assert [scan for scan in execution.scans if scan.rows_read > 150] == []
        assert execution.buffers < 600
    assert Counter(lanes) == {"live": 4, "backfill": 1}


def claims_by_lane(connection: Connection) -> Counter[str]:
    return Counter(
        lane
        for (lane,) in connection.execute(
            "select lane::text from disarray.ingest_queue where status = 'claimed'"
        ).fetchall()
    )


def test_a_claim_costs_the_same_at_a_thousand_and_at_a_hundred_thousand_queued(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    holder = instances.register_instance(connection, "Worker01")
    fill_queue(connection, subjects=1, items_each=1000)
    connection.execute("analyze")
    few = warm_fetch(connect(), holder)
    connection.execute("truncate disarray.ingest_queue, disarray.subject, disarray.subject_lock")
    fill_queue(connection, subjects=1, items_each=QUEUED)
    connection.execute("analyze")
    many = warm_fetch(connect(), holder)
    assert many.buffers <= 1.5 * few.buffers


def work_off(connection: Connection, holder: Holder, count: int) -> None:
    for _ in range(count // 1000):
        policy = FetchPolicy(limit=1000, give_way_batches=1_000_000, give_way_seconds=1_000_000)
        items = claims.fetch_items(connection, holder, policy)
        claim_ends.complete_items(connection, [item.queue_id for item in items], holder)


def test_dead_rows_that_a_reader_keeps_from_vacuum_neither_change_the_plan_nor_outlast_the_reader(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    finished = 20_000
    connection.execute("alter table disarray.ingest_queue set (autovacuum_enabled = off)")
    fill_queue(connection, subjects=1, items_each=finished + 1000)
    connection.execute("analyze")
    holder = instances.register_instance(connection, "Worker01")
    clean = warm_fetch(connect(), holder)

    reader = connect()
    reader.execute("begin isolation level repeatable read")
    reader.execute("select count(*) from disarray.ingest_queue")
    work_off(connection, holder, finished)
    connection.execute("vacuum disarray.ingest_queue")
    held_up = warm_fetch(connect(), holder)

    assert [scan for scan in held_up.of("ingest_queue") if scan.kind == "Seq Scan"] == []
    assert [scan for scan in held_up.scans if scan.rows_read > 150] == []
    # Index entries of the dead are walked past; they lie side by side, many to a buffer.
    assert held_up.buffers - clean.buffers < finished / 5

    reader.execute("rollback")
    connection.execute("vacuum disarray.ingest_queue")
    assert warm_fetch(connect(), holder).buffers <= 1.5 * clean.buffers


def test_the_queue_is_vacuumed_long_before_a_share_of_it_is_dead(connection: Connection) -> None:
    row = connection.execute(
        "select reloptions from pg_class where oid = 'disarray.ingest_queue'::regclass"
    ).fetchone()
    assert row is not None
    assert {"autovacuum_vacuum_scale_factor=0.0", "autovacuum_vacuum_threshold=2000"} <= set(row[0])


def test_enqueueing_reads_a_few_rows_of_a_hundred_thousand(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    fill_queue(connection, subjects=100, items_each=QUEUED // 100)
    connection.execute(
        """
        insert into disarray.file_info (source_uri, subject_key, status, first_seen_at, last_seen_at)
        select source_uri, subject_key, 'pending', enqueued_at, enqueued_at
        from disarray.ingest_queue
        """
    )
    connection.execute("analyze")
    session = connect()
    session.execute("select disarray.enqueue_file('file:///1/1', 'TOOL1')")
    execution = execute_explained(session, "select disarray.enqueue_file('file:///1/2', 'TOOL1')")
    assert [scan for scan in execution.scans if scan.rows_read > 150] == []
    assert execution.buffers < 400


def test_the_newest_value_costs_an_index_step_per_channel_however_long_the_history(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    connection.execute("analyze disarray.segment_summary")
    connection.execute(
        """
        insert into disarray.segment_summary (
            dataset, subject_key, metric, channel, block_us, segment_us, piece, readings, points,
            first_reading_us, last_reading_us, is_carried
        )
        select 'D', 'S', metric, 'C' || channel, day / 128 * 128, day, 0, 1, 0, day, day, true
        from generate_series(1, 1157) as day, generate_series(1, 100) as channel, unnest(array['a', 'b', 'c']) as metric
        """
    )
    connection.execute(
        """
        insert into disarray.metric_block (dataset, subject_key, metric, channel, block_us, kind, restarts)
        select distinct dataset, subject_key, metric, channel, block_us, 'sum', false
        from disarray.segment_summary
        """
    )
    session = connect()
    statement = "select count(*) from disarray.load_bases('D', 'S', 'b', 1157, 1157)"
    assert session.execute(statement.encode()).fetchone() == (100,)
    every_channel = execute_explained(session, statement)
    assert [scan for scan in every_channel.of("segment_summary") if scan.kind == "Seq Scan"] == []
    assert [scan for scan in every_channel.scans if scan.rows_read > 150] == []
    assert every_channel.buffers < 100 * 20
    one = execute_explained(
        session, "select count(*) from disarray.load_bases('D', 'S', 'b', 900, 900, 'C7')"
    )
    assert one.buffers < 60


def test_subjects_are_listed_by_steps_of_the_index(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    connection.execute(
        """
        insert into disarray.segment (
            dataset, subject_key, segment_us, segment_end_us, revision, readings, duplicates, conflicts,
            first_us, last_us, digest, scan_version, run_id
        )
        select 'D', 'S' || subject, day, day + 1, 1, 1, 0, 0, day, day, '', '', gen_random_uuid()
        from generate_series(1, 2000) as day, generate_series(1, 20) as subject
        """
    )
    session = connect()
    statement = "select count(*) from disarray.list_subjects()"
    assert session.execute(statement.encode()).fetchone() == (20,)
    execution = execute_explained(session, statement)
    assert [scan for scan in execution.of("segment") if scan.rows_read > 150] == []


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ("null, 'S07000'", 3),
        ("'D1', 'S07000'", 1),
        ("null, 'S0700'", 0),
        ("null, null, 10, '{S07000,D1}'", 10),
        ("'D2', null, 10", 10),
    ],
)
def test_one_subject_and_one_page_are_found_without_walking_through_all_subjects(
    connection: Connection, connect: Callable[[], Connection], arguments: str, rows: int
) -> None:
    connection.execute(
        """
        insert into disarray.segment (
            dataset, subject_key, segment_us, segment_end_us, revision, readings, duplicates, conflicts,
            first_us, last_us, digest, scan_version, run_id
        )
        select 'D' || kind, 'S' || lpad(number::text, 5, '0'), 0, 1, 1, 1, 0, 0, 0, 0, '', '', gen_random_uuid()
        from generate_series(1, 10000) as number, generate_series(1, 3) as kind
        """
    )
    session = connect()
    statement = f"select count(*) from disarray.list_subjects({arguments})"
    assert session.execute(statement.encode()).fetchone() == (rows,)
    execution = execute_explained(session, statement)
    assert execution.of("segment")
    assert [scan for scan in execution.scans if scan.rows_read > 150] == []
    assert execution.buffers < 600


def test_a_page_of_a_list_is_read_from_where_it_begins(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    connection.execute(
        """
        insert into disarray.file_info (
            source_uri, subject_key, status, failed_at, failed_request, first_seen_at, last_seen_at
        )
        select 'file:///' || lpad(number::text, 6, '0'), 'S', 'failed', now(), '{}', now(), now()
        from generate_series(1, 20000) as number
        """
    )
    connection.execute(
        """
        insert into disarray.run (run_id, subject_key, instance_name, fence, committed_at)
        select gen_random_uuid(), 'S', 'Worker', 1, timestamptz '2026-10-01' + number * interval '1 s'
        from generate_series(1, 20000) as number
        """
    )
    connection.execute("analyze disarray.file_info, disarray.run")
    session = connect()
    for table, statement in (
        ("file_info", "select * from disarray.list_files(null, null, 100, '{file:///015000}')"),
        (
            "file_info",
            "select * from disarray.list_dead_letters(null, null, null, 100, array[now()::text, 'file:///015000'])",
        ),
        (
            "run",
            """
            select * from disarray.list_runs(
                null, '-infinity', 100, '{2026-10-01T03:00Z,00000000-0000-0000-0000-000000000000,S}'
            )
            """,
        ),
    ):
        execution = execute_explained(session, statement)
        assert sum(scan.rows_read for scan in execution.of(table)) <= 150, statement


def test_versions_that_wait_for_an_operator_are_found_among_many_files(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    connection.execute(
        """
        insert into disarray.file_info (
            source_uri, subject_key, status, parked_hash, parked_at, first_seen_at, last_seen_at
        )
        select
            'file:///' || number,
            'S',
            case when number % 1000 = 0 then 'parked' else 'processed' end::disarray.file_info_status,
            case when number % 1000 = 0 then 'smaller' end,
            case when number % 1000 = 0 then now() end,
            now(),
            now()
        from generate_series(1, 20000) as number
        """
    )
    connection.execute("analyze disarray.file_info")
    session = connect()
    statement = "select count(*) from disarray.list_quarantine()"
    assert session.execute(statement.encode()).fetchone() == (20,)
    assert sum(scan.rows_read for scan in execute_explained(session, statement).of("file_info")) <= 150


def test_taking_files_in_touches_no_index_of_theirs(connection: Connection) -> None:
    holder = instances.register_instance(connection, "Worker01")
    count = 500
    with connection.transaction():
        files.enqueue_files(
            connection,
            [
                Notification(f"file:///{number:06d}", "S", metadata={"content_hash": f"{number:064x}"})
                for number in range(count)
            ],
        )
        items = claims.fetch_items(connection, holder, FetchPolicy(limit=count))
        claim_ends.complete_items(connection, [item.queue_id for item in items], holder)
        row = connection.execute(
            """
            select pg_stat_get_xact_tuples_updated(file.oid), pg_stat_get_xact_tuples_hot_updated(file.oid)
            from pg_class as file
            where file.oid = 'disarray.file_info'::regclass
            """
        ).fetchone()
    assert row == (count, count)


def test_a_shift_of_bases_folds_once_also_where_no_statistics_were_ever_taken(connection: Connection) -> None:
    segments = 300
    with connection.transaction(force_rollback=True):
        connection.execute(
            """
            insert into disarray.dataset_version values ('D', 'parse', 'scan', '{}', now(), now());
            insert into disarray.metric values ('D', 'scan', 'm', 'sum', 'trapezoid', null, false, '');
            insert into disarray.subject_version values ('S', 'D', 'parse', 'scan', 100);
            """
        )
        connection.execute(
            """
            insert into disarray.segment_summary (
                dataset, subject_key, metric, channel, block_us, segment_us, piece, readings, points, total_float,
                first_us, last_us
            )
            select 'D', 'S', 'm', '', at_us / 100 * 100, at_us, 0, 1, 1, 1.0, at_us, at_us
            from generate_series(1, %s) as at_us
            """,
            (segments,),
        )
        done = execute_explained(connection, "select telemetry.recompute_running_totals('D', 'S', 1)")
    # Once to find the series, once to fold and once to compare: not once more for each base.
    assert sum(scan.rows_read for scan in done.of("segment_summary")) <= 4 * segments
    assert sum(scan.rows_read for scan in done.of("metric")) <= segments


def test_running_values_of_many_metrics_are_looked_up(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    metrics, channels, segments, blocks = 7, 20, 600, 5
    definition = {
        "table": "d",
        "running": "d_running",
        "columns": [],
        "segment_us": 1,
        "chunk_us": 2_592_000_000_000,
        "metrics": [
            {
                "metric": f"m{number}",
                "name": f"v{number}",
                "local": f"l{number}",
                "type": "float64",
                "kind": "sum",
            }
            for number in range(metrics)
        ],
    }
    connection.execute("select disarray.change_store('D', 'timescale', %s::jsonb)", (json.dumps(definition),))
    connection.execute("select disarray.prepare_months('D', array[0])")
    connection.execute(
        """
        insert into disarray.segment_summary (
            dataset, subject_key, metric, channel, block_us, segment_us, piece, readings, points,
            first_us, last_us, is_carried, base_float
        )
        select
            'D', 'S' || subject, 'm' || metric, 'C' || channel, at_us / 128 * 128, at_us, 0, 1, 1,
            at_us, at_us, true, 1.0
        from generate_series(1, 2) as subject, generate_series(0, %s - 1) as metric,
            generate_series(1, %s) as channel, generate_series(1, %s) as at_us
        """,
        (metrics, channels, segments),
    )
    connection.execute(
        """
        insert into disarray.metric_block (dataset, subject_key, metric, channel, block_us, kind, restarts, base_float)
        select distinct dataset, subject_key, metric, channel, block_us, 'sum', false, 1.0
        from disarray.segment_summary;
        insert into telemetry.d (event_at, _segment_us, position, ordinal, _source_id, subject_key, channel, l0)
        select
            disarray.instant_of(segment_us), segment_us, 0, substr(channel, 2)::integer, 0, subject_key, channel, 1.0
        from disarray.segment_summary
        where metric = 'm0';
        analyze disarray.segment_summary;
        analyze disarray.metric_block;
        analyze telemetry.d;
        """
    )
    done = execute_explained(
        connect(),
        """
        select * from telemetry.d_running
        where subject_key = 'S2' and event_at >= disarray.instant_of(500) and event_at < disarray.instant_of(502)
        """,
    )
    summaries = done.of("segment_summary")
    assert {(scan.kind, scan.index) for scan in summaries} == {("Index Scan", "segment_summary_pkey")}
    # One for each reading and metric.
    assert sum(scan.rows_read for scan in summaries) == metrics * channels * 2
    # All of the subject are read at once, where they are few.
    assert sum(scan.rows_read for scan in done.of("metric_block")) <= metrics * channels * blocks
