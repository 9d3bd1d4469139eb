"""Every column of the catalog that a number follows from is compared by somebody, or shown to decide none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from disarray.engine.verification.comparison import ROLLUP_PARTS, SEGMENTS, SUMMARIES
from disarray.errors import DisarrayError
from tests.store.answers import answers, changed
from tests.store.audited_plant import HEADER, lines
from tests.store.test_audit import filled, world  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from disarray.engine.verification.comparison import Comparison
    from disarray.model.description.dataset import Dataset
    from tests.store.test_audit import World

pytestmark = pytest.mark.postgres

# What `verify` recomputes from the sources and compares; tests/engine/test_verified_columns.py changes each.
# A base is stored in two parts, of the segment within its block and of the block: verify sees their sum.
VERIFIED: dict[str, Comparison] = {"segment": SEGMENTS, "segment_summary": SUMMARIES, "rollup": ROLLUP_PARTS}
# A block holds columns of parts: they are compared part by part, and the database wants as many of one as of another.
VERIFIED_PARTS = {
    "rollup_block.rollup": "rollup",
    "rollup_block.channels": "channel",
    "rollup_block.buckets_us": "bucket_us",
    "rollup_block.bucket_ends_us": "bucket_end_us",
    "rollup_block.labels": "label",
    "rollup_block.aggregates": "aggregate",
    "rollup_block.points": "points",
    "rollup_block.values_float": "value_float",
    "rollup_block.values_int": "value_int",
    "rollup_block.ats_us": "at_us",
    "rollup_block.pivots": "pivot",
    "rollup_block.offset_sums": "offset_sum",
    "rollup_block.offset_square_sums": "offset_square_sum",
    # Which place of which channel and bucket a number is for.
    "rollup_block.is_grid": "channel",
}
WHO = "who did it and when"
TURN = "whose turn it is; what counts does not follow from it"
OVER = "a range that is resolved; of open ones audit looks for their repair and for bases before them"
# Columns from which no answer and no plan follows, and what they are for. A test changes each and asks everything.
COSMETIC = {
    "dataset_store.dataset": "of a dataset in the lake there need not be a row",
    "dataset_store.changed_at": WHO,
    "dataset_version.registered_at": WHO,
    "dataset_version.in_force_since": WHO,
    "dirty_range.subject_key": OVER,
    "dirty_range.dataset": OVER,
    "dirty_range.range_start": OVER,
    "dirty_range.range_end": OVER,
    "dirty_range.reason": OVER,
    "dirty_range.created_at": OVER,
    "dirty_range.resolved_at": OVER,
    "file_fingerprint.run_id": WHO,
    "file_matching.rules": "a worker that starts with other rules holds all files against them once more",
    "file_matching.matched_at": WHO,
    "fragment.dropped_at": "when the vacuum may delete the bytes; readers that lose them are told",
    "instance.metadata": "for people who look at instances",
    "instance.turn_count": TURN,
    "lake_file.run_id": WHO,
    "lake_file.created_at": WHO,
    "metric.unit": "units are printed from the definition; this one is for SQL views",
    "moving_file.noted_at": WHO,
    "raw_event.recorded_by": WHO,
    "raw_event.available_at": TURN,
    "rollup_block.block": "a number for the row among those of its segment and rollup",
    "run.fence": "one more for all leaves the order, which a rule of audit is about",
    "source_state.notices": "told once to people",
    "source_state.registered_at": WHO,
    "subject.subject_key": TURN,
    "subject.live_served_at": TURN,
    "subject.first_seen_at": WHO,
    "subject.has_numbers": TURN,
    "subject.backfill_served_at": TURN,
    "unmatched_file.noted_at": WHO,
}
# Facts that are written down once and follow from nothing else that is stored, with every answer that shows them: no
# value, no rollup, no reading and, but for the first, no plan. A test changes each: these answers differ, and no other.
SHOWN = {
    # A plan on another revision is refused and made again.
    "segment.revision": {"plan.plans.plan.units.revision"},
    "commit_follower.follower": {"followers.follower"},
    "commit_follower.advanced_at": {"followers.advanced_at"},
    # Values beside a count that is recounted, and not for every pair.
    "conflict.examples": {"conflicts.conflicts.examples"},
    "delivery_batch.run_id": {"batches.run_id", "file.delivery.run_id"},
    "delivery_batch.instance_name": {"batches.instance_name"},
    "delivery_batch.cursor_from": {"batches.cursor_from", "file.delivery.cursor_from"},
    "delivery_batch.delivered_at": {"batches.delivered_at", "file.delivery.delivered_at"},
    "file_blacklist.reason": {"file.blacklist.reason"},
    "file_blacklist.blacklisted_by": {"file.blacklist.blacklisted_by"},
    "file_blacklist.blacklisted_at": {"file.blacklist.blacklisted_at"},
    "file_info.process_count": {"file.process_count"},
    "file_info.retry_count": {"dead_letters.dead_letters.attempts", "file.retry_count"},
    "file_info.crash_count": {"dead_letters.dead_letters.crashes"},
    "file_info.last_error": {"dead_letters.dead_letters.last_error", "file.last_error", "status.message"},
    "file_info.failed_at": {"dead_letters.dead_letters.failed_at", "file.failed_at", "status.since"},
    "file_info.first_seen_at": {"file.first_seen_at"},
    "file_info.last_seen_at": {"file.last_seen_at"},
    "fragment.created_at": {"file.segments.changed_at", "quarantine.waiting.parked_at", "status.since"},
    # Why it waits; that it waits is another column.
    "fragment.contradicts": {"quarantine.waiting.why", "status.message"},
    "instance.incarnation": {"status.instances.incarnation"},
    "instance.registered_at": {"status.instances.registered_at"},
    "instance.last_seen_at": {"status.instances.last_seen_at"},
    "raw_event.received_at": {"inbox.events.received_at"},
    "raw_event.attempts": {"inbox.events.attempts"},
    "raw_event.crashes": {"inbox.events.crashes"},
    "raw_event.reason": {"inbox.events.reason"},
    "raw_event.settled_at": {"inbox.events.settled_at"},
    # How many they are, their order and their run are rules of audit; what they said is in the file.
    "rejected_row.position": {"file.rejected_rows.position"},
    "rejected_row.line": {"file.rejected_rows.line"},
    "rejected_row.reason": {"file.rejected_rows.reason"},
    "rejected_row.detail": {"file.rejected_rows.detail"},
    "rejected_row.sample": {"file.rejected_rows.sample"},
    # That those which are named exist is a rule of audit.
    "restatement.source_uris": {"restatements.source_uris"},
    "restatement.restated_at": {"restatements.restated_at"},
    "run.instance_name": {"runs.runs.instance_name"},
    "run.committed_at": {"runs.runs.committed_at"},
    "run.metadata": {"runs.runs.metadata"},
    "source_state.table_name": {"sources.table_name"},
    # What the source has is known to the source alone: a resync compares.
    "source_state.watermark": {"sources.watermark"},
    "source_state.layout": {"sources.layout"},
    "source_state.last_run_id": {"sources.last_run_id"},
    "source_state.last_pulled_at": {"sources.last_pulled_at"},
    "source_state.last_delivered_at": {"sources.last_delivered_at"},
    "source_state.next_pull_at": {"sources.next_pull_at"},
    "source_state.failure_count": {"sources.failure_count"},
    "subject.backfill_turn_at": {"status.subjects.waiting"},
    "subject_commit.committed_at": {"commits.committed_at"},
}
TEXTS = (
    "no metric breaks or restarts here; a rule of audit finds another: tests/control/test_running_total.py"
)
HELD = "nothing is held here; whoever lost its lease is refused: tests/sources"
# Not to be tried on this plant: no row has it, or no formula makes another that can be read.
UNTRIED = {
    "dataset_store.definition": "no dataset has a table here; verify compares the rows of tables",
    "dataset_version.superseded_at": "work under a definition not in force is refused",
    "delivery.deleted_at": "nothing is deleted here; that what counts was not is a rule of audit",
    "delivery.superseded_at": "no source is resynced here; that none of them counts is a rule of audit: test_resync.py",
    "dimension.dataset": "no dataset has a table here; a rule of audit finds another: test_dimensions.py",
    "dimension.column_name": "as dimension.dataset",
    "dimension.table_name": "as dimension.dataset",
    "dimension.created_at": "as dimension.dataset, and " + WHO,
    "dirty_range.changed_segments": "only open ranges have it; what comes of it are bases, which are checked",
    "dirty_range.restates": "only open ranges have it; what comes of it is the ledger, which is checked",
    "file_blacklist.parent_uri": "no file is split here: tests/worker/test_splitting.py",
    "file_info.arrival": "one more for all leaves the order; where it chooses winners, a digest follows from it",
    "file_info.discarded_at": "no dead letter is discarded here; " + WHO,
    "file_info.metadata": "its lines are counted by rules of audit: test_audit.py; the rest is shown with the file",
    "file_info.parked_at": "no version waits here; " + WHO,
    "file_info.parked_hash": "no version waits here; a release reads the file as it is",
    "file_info.quiet_hash": "nothing went quiet here; a wrong one asks for the last line once more",
    "file_info.rejected_hash": "no version was rejected here; a wrong one parks a version once more",
    "file_info.status": "files that are pending, parked or refused and are not found are rules: test_audit.py",
    "fragment.cut_position": "nothing is cut here; the digest of the segment follows from it",
    "fragment.first_row": "nothing is packed here; the digest of the segment follows from it",
    "fragment.withdrawn_state": "what a blacklisted file counted for before is written down nowhere else",
    "instance.draining_incarnation": "no instance drains here; " + TURN,
    "instance.paused_at": "no instance is paused here; " + TURN,
    "lake_file.doomed_at": "no file is doomed here; a commit that names one that is is refused",
    "metric_block.first_break": TEXTS,
    "metric_block.first_reset": TEXTS,
    "metric_block.last_break": TEXTS,
    "metric_block.last_reset": TEXTS,
    "metric_block.prior_break": TEXTS,
    "moving_file.decision": "nothing is decided about a replaced file here: tests/worker/test_rotated_files.py",
    "raw_event.claimed_by_instance_name": HELD,
    "raw_event.claimed_incarnation": HELD,
    "raw_event.lease_expires_at": HELD,
    "reading_source.source_uri": "no dataset has a table here; verify compares the sources of rows in tables",
    "segment.sealed_at": "nothing is sealed here; tests/worker/test_retention.py",
    "segment.table_digest": "no dataset has a table here; verify compares it with the rows",
    "source_state.fence": HELD,
    "source_state.incarnation": HELD,
    "source_state.instance_name": HELD,
    "source_state.last_error": "no source failed here; for people",
    "source_state.last_error_at": "no source failed here; " + WHO,
    "source_state.lease_expires_at": HELD,
    "source_state.pause_reason": "no source is paused here; for people",
    "source_state.paused_at": "no source is paused here; " + TURN,
    "subject.live_turn_at": "nothing is due here; that what is due is called is a rule of audit: test_audit.py",
}
CHANGES = {
    "bigint": "{0} + 1",
    "integer": "{0} + 1",
    "smallint": "1 - {0}",
    "boolean": "not {0}",
    "text": "{0} || 'x'",
    "double precision": "{0} + 1",
    "numeric": "{0} + 1",
    "USER-DEFINED": "'parked'",
    "uuid": "gen_random_uuid()",
    "timestamp with time zone": "case when isfinite({0}) then {0} + interval '1 hour' else disarray.clock() end",
    "ARRAY": "{0}[2:]",
    "bytea": "decode(repeat('00', octet_length({0})), 'hex')",
    "json": "'{{}}'",
    "jsonb": "'{{}}'",
}
# Tables that hold no part of what is known of files and numbers, or that have no rows on this plant.
NOT_OF_THE_CATALOG = {
    "api_request": "answers to requests that are repeated, for a day",
    "api_token": "who may ask",
    "backfill_chunk": "work on tables of users; its verdict is of its own: tests/backfill",
    "backfill_job": "as backfill_chunk",
    "backfill_pace": "as backfill_chunk",
    "destination": "what is copied where, as the configuration says it; registered anew by every worker that starts",
    "destination_position": "how far a copy has come: tests/sinks compare the copy itself with what is answered",
    "figure": "counters for monitoring",
    "file_part": "no file is split here; a rule of audit is about every part: test_audit.py, test_splitting.py",
    "gate": "whose turn it is",
    "hook": "whom to tell, as the configuration says it: registered anew by every worker that starts",
    "ingest_event": "what happened, for people; rules of audit hold the queue against it",
    "ingest_queue": "work that waits: rules of audit are about every item; tests/control/test_queue_model.py",
    "materialized_view": "what is refreshed, as the configuration says it: tests/sinks/test_views.py",
    "part_delivery": "as file_part; what counts of it is the digest of its segments",
    "resync": "no source is resynced here; tests/backfill/test_resync.py compares what counts with the table",
    "source_chunk": "as source_load",
    "source_load": "no table is loaded here; tests/sources/test_initial_load.py compares what came with the table",
    "staged_delivery": "as resync; counts for nothing",
    "schema_migration": "compared with the program at every connect",
    "side_effect": "what was told to whom; tests/sinks/test_hooks.py",
    "subject_verification": "what a recompute said of a subject; no number and no plan follows from it",
    "subject_lock": "who works at what: rules of audit are about every lock",
    "verification": "as subject_verification",
    "view_position": "how far a view has come; one that is behind is refreshed: tests/sinks/test_views.py",
    "view_refresh": "what happened to views, for people",
    "test_clock": "the clock of this test",
}


def columns(audited: World) -> list[tuple[str, str, str]]:
    found = audited.connection.execute(
        """
        select stored.table_name::text, stored.column_name::text, stored.data_type::text
        from information_schema.columns as stored
        inner join pg_class as relation
            on relation.oid = format('%%I.%%I', stored.table_schema, stored.table_name)::regclass
        where
            stored.table_schema = 'disarray'
            and relation.relkind in ('r', 'p')
            and not relation.relispartition
            and not stored.table_name = any(%s)
        order by stored.table_name, stored.ordinal_position
        """,
        (list(NOT_OF_THE_CATALOG),),
    ).fetchall()
    return [(str(table), str(column), str(kind)) for table, column, kind in found]


@contextmanager
def damaged(audited: World, table: str, column: str, kind: str) -> Iterator[int | None]:
    """Change a column of every row that has it, and change it back; how many rows, None where it is refused."""
    run = audited.connection.execute
    run(f"create temporary table kept as table disarray.{table}".encode())
    try:
        change = CHANGES[kind].format(column)
        which = f"{column} = 'active'" if column == "state" else f"{column} is not null"
        try:
            rows: int | None = run(
                f"update disarray.{table} set {column} = {change} where {which}".encode()
            ).rowcount
        except psycopg.Error:
            rows = None
        yield rows
    finally:
        # A table that others refer to is emptied and filled again as well.
        run(b"set session_replication_role = replica")
        run(f"delete from disarray.{table}".encode())
        run(f"insert into disarray.{table} overriding system value table kept".encode())
        run(b"reset session_replication_role")
        run(b"drop table kept")


def is_noticed(audited: World, table: str, column: str, kind: str) -> bool:
    """Whether an audit notices, or cannot even be made, or the database refuses the change."""
    with damaged(audited, table, column, kind) as rows:
        try:
            return rows is None or (rows > 0 and bool(audited.broken()))
        except DisarrayError:
            return True


def test_every_column_is_verified_or_audited_or_said_to_decide_nothing(world: World) -> None:  # noqa: F811
    unnoticed = [
        f"{table}.{column}"
        for table, column, kind in columns(world)
        if (table not in VERIFIED or column not in {"dataset", *VERIFIED[table].schema.names})
        and VERIFIED_PARTS.get(f"{table}.{column}") not in VERIFIED["rollup"].schema.names
        and f"{table}.{column}" not in COSMETIC.keys() | SHOWN.keys() | UNTRIED.keys()
        and not (kind in CHANGES and is_noticed(world, table, column, kind))
    ]
    assert not unnoticed, ", ".join(unnoticed)
    assert world.broken() == set(), "the test left something changed"


def test_what_is_said_to_decide_nothing_changes_no_answer_and_no_plan_but_those_that_show_it(
    world: World,  # noqa: F811
    filled: tuple[str, Path, Mapping[str, Dataset]],  # noqa: F811
) -> None:
    planned = filled[1].parent / "inbox" / "T5" / "planned.csv"
    planned.write_text(HEADER + lines(9.03))
    stored = "select distinct dataset, subject_key from disarray.segment order by 1, 2"
    subjects = [(str(name), str(subject)) for name, subject in world.connection.execute(stored.encode())]
    before = answers(world, subjects, planned)
    # The clock, and names of files that are made up for a plan.
    unsteady = changed(before, answers(world, subjects, planned))
    assert len(unsteady) < 6, unsteady
    wrong = {}
    for table, column, kind in columns(world):
        name = f"{table}.{column}"
        if name not in COSMETIC.keys() | SHOWN.keys():
            continue
        with damaged(world, table, column, kind) as rows:
            assert rows, f"{name} cannot be tried here"
            differ = changed(before, answers(world, subjects, planned)) - unsteady
        expected = SHOWN.get(name, set())
        if not all(any(field.startswith(known) for known in expected) for field in differ) or not all(
            any(field.startswith(known) for field in differ) for known in expected
        ):
            wrong[name] = differ
    assert wrong == {}


def test_what_is_said_of_columns_is_said_once_and_of_columns_that_exist(world: World) -> None:  # noqa: F811
    existing = {f"{table}.{column}" for table, column, _ in columns(world)}
    assert COSMETIC.keys() | SHOWN.keys() | UNTRIED.keys() <= existing
    assert len(COSMETIC) + len(SHOWN) + len(UNTRIED) == len(COSMETIC.keys() | SHOWN.keys() | UNTRIED.keys())
