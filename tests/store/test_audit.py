"""Every rule of an audit, broken by hand once: that rule fails, and no other. Where nothing is broken all hold."""

from __future__ import annotations

import os
import re
import shutil
import threading
import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray.control import connections
from disarray.store.audit.audit import AuditSettings, Outcome, audit
from disarray.store.audit.rules import RULES
from disarray.store.lake import Lake
from tests.plant import Plant
from tests.store.audited_plant import HEADER, build, lines
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from tests.databases import Databases

pytestmark = pytest.mark.postgres

DEEP = AuditSettings(is_deep=True)


@dataclass(frozen=True)
class World:
    """A database of the test's own, a copy of one that was filled once, and the lake that belongs to it."""

    connection: Connection
    lake: Lake
    datasets: Mapping[str, Dataset]

    def broken(self, settings: AuditSettings = DEEP) -> set[str]:
        """The names of the rules that do not hold."""
        verdicts = audit(
            self.connection, self.lake, replace(settings, datasets=tuple(self.datasets.values()))
        )
        return {verdict.rule.name for verdict in verdicts if verdict.outcome is Outcome.BROKEN}

    def damage(self, statement: str) -> None:
        """Change something as nobody but a superuser can."""
        changed = self.connection.execute(statement.encode())
        assert changed.rowcount > 0, "the damage did nothing"


@pytest.fixture(scope="module")
def filled(
    shared_dsn: str, server_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Mapping[str, Dataset]]:
    root = tmp_path_factory.mktemp("filled")
    plant = build(root, shared_dsn)
    plant.pool.close()
    name = psycopg.conninfo.conninfo_to_dict(shared_dsn)["dbname"]
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        # It is cloned from here on, which needs it to be nobody's: TimescaleDB has a scheduler in each database.
        admin.execute(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(str(name))))
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
    return shared_dsn, root / "lake", plant.datasets


@pytest.fixture
def world(
    filled: tuple[str, Path, Mapping[str, Dataset]], databases: Databases, tmp_path: Path
) -> Iterator[World]:
    dsn, lake, datasets = filled
    name = databases.create(template=str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]))
    shutil.copytree(lake, tmp_path / "lake")
    with connections.connect(databases.dsn(name)) as connection:
        yield World(connection, Lake(tmp_path / "lake"), datasets)
    databases.discard(name)


QUEUED = """
insert into disarray.ingest_queue (kind, source_uri, subject_key, reason, enqueued_at, available_at, retry_count)
select '{kind}', nullif('{uri}', ''), 'T1', 'reingest', clock.at, clock.at - interval '{age}', {attempts}
from (select disarray.clock() as at) as clock
"""
LOCK = """
insert into disarray.subject_lock (subject_key, instance_name, incarnation, fence, held_since, lease_expires_at)
select subject.key, '{holder}', known.incarnation, 99999, disarray.clock(), disarray.clock() + interval '{lease}'
from disarray.instance as known cross join unnest('{subjects}'::text[]) as subject (key)
"""

DAMAGES = {
    "pending_files_are_queued": "update disarray.file_info set status = 'pending' where source_uri like '%grown%'",
    "parts_add_up_to_their_file": """
        insert into disarray.file_part
        select 'file:///lost.csv#tool=T9', source_uri, 'T9', disarray.clock()
        from disarray.file_info where source_uri like '%grown%'
    """,
    "queued_files_are_known": QUEUED.format(kind="read", uri="file:///nowhere", age="0", attempts=0),
    "the_newest_version_is_in": "update disarray.file_info set announced_hash = 'h' where source_uri like '%grown%'",
    "requests_have_an_end": """
        insert into disarray.ingest_event (occurred_at, event_type, source_uri, metadata)
        values (disarray.clock(), 'enqueued', 'file:///lost', '{"queue_id": 99999}')
    """,
    "blacklisted_files_count_for_nothing": """
        insert into disarray.file_blacklist
        select source_uri, 'r', 'b', disarray.clock() from disarray.file_info where source_uri like '%grown%'
    """,
    "refused_files_are_on_the_blacklist": "delete from disarray.file_blacklist",
    "every_line_is_accounted_for": """
        update disarray.file_info set metadata = jsonb_set(metadata, '{lines,seen}', '9')
        where source_uri like '%grown%'
    """,
    "kept_lines_are_in_fragments": """
        update disarray.file_info
        set metadata = jsonb_set(jsonb_set(metadata, '{lines,seen}', '25'), '{lines,kept}', '24')
        where source_uri like '%allowed%'
    """,
    "no_line_counts_twice": """
        update disarray.fragment as later
        set first_position = earlier.last_position
        from disarray.fragment as earlier
        where
            later.source_uri like '%grown%'
            and later.source_uri = earlier.source_uri
            and later.segment_us = earlier.segment_us
            and later.first_position > earlier.last_position
    """,
    "segments_count_what_their_fragments_hold": "update disarray.segment set duplicates = duplicates + 1",
    "numbers_belong_to_a_segment": """
        update disarray.rollup_block set segment_us = segment_us + 7 where subject_key = 'T2'
    """,
    "blocks_span_their_buckets": "update disarray.rollup_block set first_bucket_us = 7 where subject_key = 'T2'",
    "bases_follow_from_summaries": """
        update disarray.segment_summary set base_float = greatest(base_float * 1.0000000000000002, 1e-9)
        where metric = 'energy' and segment_us = (select max(segment_us) from disarray.segment_metric)
    """,
    "blocks_follow_from_summaries": """
        update disarray.metric_block set offset_float = offset_float + 1e-16 where metric = 'energy'
    """,
    "files_count_where_they_belong": """
        update disarray.file_info set subject_key = 'T9' where source_uri like '%allowed%'
    """,
    "stale_numbers_wait_for_their_repair": """
        insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
        values ('T1', '2026-10-01T09:30Z', 'infinity', 'a test', disarray.clock() - interval '1 h')
    """,
    "a_subject_has_one_definition": "update disarray.segment set scan_version = 'older' where subject_key = 'T1'",
    "segments_come_from_a_commit": "update disarray.segment set run_id = gen_random_uuid() where subject_key = 'T1'",
    "commits_are_numbered_without_gaps": "update disarray.subject_commit set commit_seq = commit_seq + 1 "
    "where (subject_key, commit_seq) = (select subject_key, max(commit_seq) from disarray.subject_commit "
    "group by subject_key order by 2 desc limit 1)",
    "no_commit_passes_a_newer_fence": """
        insert into disarray.run (run_id, subject_key, instance_name, fence, committed_at)
        values (gen_random_uuid(), 'T1', 'Worker01', 0, disarray.clock())
    """,
    "claims_stand_on_a_lock": """
        insert into disarray.ingest_queue (
            source_uri, subject_key, reason, status, enqueued_at, available_at, claimed_by_instance_name,
            claimed_incarnation, fence, claimed_at, lease_expires_at
        )
        select source_uri, subject_key, 'reingest', 'claimed', disarray.clock(), disarray.clock(), 'Worker01', 1, 1,
            disarray.clock(), disarray.clock() + interval '1 h'
        from disarray.file_info where source_uri like '%grown%'
    """,
    "locks_belong_to_a_living_holder": LOCK.format(holder="Nobody", lease="1 h", subjects="{T1}"),
    "a_fence_is_given_once": LOCK.format(holder="Worker01", lease="1 h", subjects="{T1,T2}"),
    "leases_that_ran_out_are_returned": LOCK.format(holder="Worker01", lease="-1 h", subjects="{T1}"),
    "due_subjects_are_called": QUEUED.format(kind="reconcile", uri="", age="1 h", attempts=0),
    "due_subjects_are_served": "with bound as (update disarray.instance set subject_patterns = '{OTHER}'), "
    "called as (update disarray.subject set live_turn_at = disarray.clock())"
    + QUEUED.format(kind="reconcile", uri="", age="1 h", attempts=0),
    "attempts_are_limited": QUEUED.format(kind="reconcile", uri="", age="0", attempts=5),
    "what_is_kept_of_a_file_is_limited": """
        update disarray.file_info set metadata = metadata || jsonb_build_object('more', repeat('x', 16384))
        where source_uri like '%grown%'
    """,
    "rejected_rows_are_limited": """
        insert into disarray.rejected_row
        select source_uri, 1000 + number, 1000 + number, reason, detail, sample, run_id
        from (select * from disarray.rejected_row limit 1) as line cross join generate_series(1, 1000) as number
    """,
    "readings_have_an_origin": "delete from disarray.file_fingerprint where source_uri like '%grown%'",
    "files_are_known_as_they_were_read": "update disarray.file_fingerprint set content_hash = 'other'",
    "conflicts_are_those_of_the_readings": """
        update disarray.conflict set winner_uri = loser_uri, loser_uri = winner_uri
    """,
    "metrics_are_as_defined": "update disarray.metric set max_gap_us = max_gap_us + 1 where kind = 'integral'",
    "dead_letters_say_why_and_can_be_retried": """
        update disarray.file_info set failed_request = null where status = 'failed'
    """,
    "rejected_lines_can_be_looked_at": "delete from disarray.rejected_row",
    "what_is_parked_can_be_decided": "update disarray.file_info set status = 'processed' where status = 'parked'",
    "lake_files_are_as_written": "update disarray.lake_file set checksum = 'other'",
    "segments_say_when_they_begin_and_end": "update disarray.segment_summary set last_reading_us = last_reading_us + 1",
    "restatements_add_up": """
        update disarray.restatement set delta_int = delta_int + 1 where metric = 'good_total' and subject_key = 'T5'
    """,
    "restatements_come_from_a_commit": "update disarray.restatement set run_id = gen_random_uuid()",
    # Both ends and all bounds agree with each other, and with nothing else.
    "restatements_follow_each_other": """
        update disarray.restatement set old_int = old_int + 1, new_int = new_int + 1,
            first_old_int = first_old_int + 1, first_new_int = first_new_int + 1
        where restatement_id = (
            select max(restatement_id) from disarray.restatement where metric = 'good_total' and subject_key = 'T5'
        )
    """,
    "restatements_lead_to_the_values_of_today": """
        update disarray.restatement set first_old_int = first_old_int + 1, first_new_int = first_new_int + 1
        where metric = 'good_total' and subject_key = 'T5'
    """,
    "commits_say_what_they_changed": """
        update disarray.subject_commit set changed_from = changed_from + interval '1 h'
        where subject_key = 'CELL-B'
    """,
    "commits_name_what_is_new": """
        update disarray.subject_commit set changed_buckets = '{}' where subject_key = 'CELL-B'
    """,
    "followers_stand_at_a_kept_commit": "update disarray.commit_follower set commit_seq = commit_seq + 1",
    "files_say_when_their_readings_are": """
        update disarray.file_info set logical_end = logical_end + interval '1 s' where source_uri like '%allowed%'
    """,
    "rejected_lines_are_of_their_file": """
        delete from disarray.rejected_row where position = (select min(position) from disarray.rejected_row)
    """,
    "unmatched_files_are_known": "delete from disarray.unmatched_file",
    "moves_have_two_sides": "update disarray.moving_file set stale_from = stale_from + interval '1 h'",
    "deliveries_are_read_as_they_were_written": """
        update disarray.delivery set bytes = bytes + 1 where source_uri like '%historian%'
    """,
    "batches_add_up": "update disarray.source_state set batches = batches + 1",
    "events_are_where_they_say": """
        update disarray.raw_event set payload = payload || '{"id": 4711}' where payload is not null
    """,
    "segments_read_as_they_were_scanned": "update disarray.segment set digest = 'other' where subject_key = 'T1'",
}


def file_that_counts(world: World) -> Path:
    """Not just any: what is blacklisted may lie in a file of its own, which nobody misses."""
    [(path,)] = world.connection.execute(
        "select path from disarray.fragment where source_uri like '%/T1/rejected.csv' and state = 'active'"
    ).fetchall()
    return Path(world.lake.absolute(path))


def cut_a_file_short(world: World) -> None:
    path = file_that_counts(world)
    path.write_bytes(path.read_bytes()[:-1])


def leave_an_orphan(world: World) -> None:
    orphan = Path(world.lake.new_file("tools", uuid.uuid4(), 0))
    orphan.write_bytes(b"PAR1")
    os.utime(orphan, (0, 0))


LAKE_DAMAGES: dict[str, Callable[[World], None]] = {
    "the_lake_has_every_file": cut_a_file_short,
    "orphans_are_swept": leave_an_orphan,
}


def test_all_holds_where_nothing_is_broken(world: World) -> None:
    verdicts = audit(world.connection, world.lake, replace(DEEP, patience=timedelta(0)))
    assert [verdict.findings for verdict in verdicts] == [()] * len(RULES)
    assert {verdict.outcome for verdict in verdicts} == {Outcome.HOLDS}


# Positions that are damaged so that lines would count twice are not those of the readings either.
ALSO_BROKEN = {
    "no_line_counts_twice": {"segments_say_when_they_begin_and_end"},
    # Too many are also others than were counted.
    "rejected_rows_are_limited": {"rejected_lines_are_of_their_file"},
    # A base that is wrong makes values wrong that were restated with the right one.
    "bases_follow_from_summaries": {"restatements_lead_to_the_values_of_today"},
    # The same entry is told by its neighbours and by the value of today.
    "restatements_follow_each_other": {"restatements_lead_to_the_values_of_today"},
}


@pytest.mark.parametrize("rule", DAMAGES)
def test_a_broken_rule_is_found_and_no_other(world: World, rule: str) -> None:
    world.damage(DAMAGES[rule])
    assert world.broken() == {rule, *ALSO_BROKEN.get(rule, ())}


@pytest.mark.parametrize("rule", LAKE_DAMAGES)
def test_a_damaged_lake_is_found_without_reading_all_of_it(world: World, rule: str) -> None:
    LAKE_DAMAGES[rule](world)
    assert world.broken(AuditSettings()) == {rule}


def test_a_file_of_the_lake_that_is_gone_is_found(world: World) -> None:
    file_that_counts(world).unlink()
    assert world.broken(AuditSettings()) == {"the_lake_has_every_file"}


# About tables of readings, broken by tests/store/test_dimensions.py, and about split files: this plant has neither.
ABOUT_OTHERS = {
    "dimension_values_are_as_written",
    "parts_add_up_to_their_file",
    "rows_name_values_that_exist",
    "tables_hold_what_was_written",
}


def test_every_rule_is_broken_by_one_of_these_tests() -> None:
    assert DAMAGES.keys() | LAKE_DAMAGES.keys() | ABOUT_OTHERS == {rule.name for rule in RULES}


def test_numbers_that_are_known_to_be_stale_are_left_out_and_the_others_are_not(world: World) -> None:
    world.damage(
        "insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at) "
        "values ('T1', '2026-10-01T09:30Z', 'infinity', 'a test', disarray.clock())"
    )
    world.damage("update disarray.segment_summary set base_int = -1 where subject_key = 'T1'")
    [verdict] = [
        each
        for each in audit(world.connection, world.lake)
        if each.rule.name == "bases_follow_from_summaries"
    ]
    assert verdict.note == "not at rest: what is stale of cells/CELL-A, tools/T1 is left out"
    assert {finding.found_at for finding in verdict.findings} == {"tools/T1 2026-10-01T08:00:00Z"}


def test_commits_of_before_there_were_metrics_are_sound(tmp_path: Path, dsn: str) -> None:
    without = re.sub(r"\[dataset\.metrics\.\w+\]\n(?:(?!\[).*\n)*", "", DATASET)
    assert "metrics" in DATASET
    assert "metrics" not in without
    plant = Plant(tmp_path, dsn, description=without)
    plant.ingest(plant.write("T1/1.csv", "time,watts,good\n" + lines(3, 2.5)))
    plant.redefine(DATASET)
    plant.drain()
    with plant.pool.connection() as connection:
        verdicts = audit(connection, plant.place.lake)
    assert [finding for verdict in verdicts for finding in verdict.findings] == []
    plant.pool.close()


def test_a_first_reset_that_is_not_where_the_readings_have_it_is_told(tmp_path: Path, dsn: str) -> None:
    resets = '[dataset.metrics.energy_of_good]\nkind = "sum"\ninput = "watts"\nreset_on = ["good"]\n'
    plant = Plant(tmp_path, dsn, description=DATASET + resets)
    plant.ingest(plant.write("T1/1.csv", HEADER + lines(3)))
    plant.rows(
        "update disarray.segment_summary set reset_us = reset_us + 1 where reset_us is not null returning 1"
    )
    with plant.pool.connection() as connection:
        findings = [
            each for verdict in audit(connection, plant.place.lake, DEEP) for each in verdict.findings
        ]
    [finding] = findings
    assert finding.detail.startswith("the first reset of energy_of_good of channel '' is at ")
    plant.pool.close()


def test_nothing_is_broken_while_a_worker_is_at_work(tmp_path: Path, dsn: str) -> None:
    plant = Plant(tmp_path, dsn, description=DATASET)
    written = [
        plant.write(f"T{number % 3}/{number}.csv", "time,watts,good\n" + lines(number % 7, number % 5 + 0.1))
        for number in range(24)
    ]
    worker = threading.Thread(target=lambda: [plant.ingest(path) for path in written])
    worker.start()
    audits = 0
    try:
        with connections.connect(dsn) as connection:
            while worker.is_alive() or not audits:
                verdicts = audit(connection, plant.place.lake)
                assert [finding for verdict in verdicts for finding in verdict.findings] == []
                audits += 1
    finally:
        worker.join()
        plant.pool.close()
    assert plant.place.lake.root.is_dir()
