"""Attacks by shadowing: whatever a caller puts first in the search path, the functions use their own."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from disarray.control import (
    audit,
    audit_catalog,
    audit_intake,
    audit_ledger,
    backfill_chunks,
    backfill_figures,
    backfill_verifications,
    backfills,
    blacklist,
    blocks,
    catalog,
    claim_ends,
    claims,
    commits,
    conflicts,
    dead_letters,
    definitions,
    deliveries,
    destinations,
    dimensions,
    dirty_ranges,
    events,
    explanations,
    figures,
    file_parts,
    files,
    hooks,
    housekeeping,
    instances,
    migrations,
    moving_files,
    previews,
    quarantine,
    queue,
    raw_events,
    readings,
    rebuilds,
    replays,
    requests,
    resyncs,
    runs,
    side_effects,
    source_loads,
    sources,
    status,
    subject_commits,
    subjects,
    tokens,
    values,
    verification,
    verification_runs,
    views,
)
from disarray.control.commits import DatasetCommit, LeavingFile, Profile, SubjectCommit
from disarray.control.moving_files import HandOver, Move
from disarray.control.records import Records
from disarray.kernels.binary_records import encode_records
from disarray.kernels.scanning.rollup_blocks import RollupBlock
from disarray.kernels.scanning.summaries import SUMMARY_SCHEMA
from disarray.model.catalog_changes import CatalogChanges
from disarray.model.description.dataset import Store, Version
from disarray.model.fragments import FragmentEntry, FragmentState, LakeFile
from disarray.model.plan import RebuildStep
from disarray.model.side_effect import EffectOutcome, HookCause

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

ROLES = ("disarray_agent", "disarray_producer", "disarray_worker", "disarray_operator", "disarray_reader")


def own_tables(connection: Connection) -> list[str]:
    rows = connection.execute(
        """
        select relname
        from pg_class
        where relnamespace = 'disarray'::regnamespace and relkind in ('r', 'p')
        """
    )
    return [name for (name,) in rows]


def everything_a_caller_can_do(session: Connection) -> set[str]:
    """One pass through every function that has a caller, each checked for its effect; the names called."""
    now = datetime.now(UTC)
    holder = instances.register_instance(session, "Worker01")
    instances.bind_instance(session, "Worker01", ["TOOL*"], by="alice")
    assert files.enqueue_file(session, "file:///a", "TOOL01") is not None
    answers = files.enqueue_files(
        session, [files.Notification(f"file:///{name}", "TOOL01") for name in "bcd"]
    )
    assert [answer.verdict for answer in answers] == [files.Verdict.ENQUEUED] * 3

    first, second, third, fourth = claims.fetch_items(session, holder)
    assert claim_ends.assert_subject_held(session, "TOOL01", holder, fence=first.fence) == first.fence
    assert claim_ends.renew_subjects(session, ["TOOL01"], holder, lease_seconds=600) == ["TOOL01"]
    dirty_ranges.mark_dirty(
        session, "TOOL01", holder, range_start=now, range_end=now + timedelta(1), reason="late"
    )
    assert dirty_ranges.reconcile_subject(session, "TOOL01", holder) == now
    session.execute("select disarray.complete_item(%s, %s)", (first.queue_id, holder.instance_name))
    claim_ends.complete_items(session, [second.queue_id], holder)
    claim_ends.fail_item(session, third.queue_id, holder, error_message="unreadable", retry_delay_seconds=0)
    assert claim_ends.return_unknown_claims(session, [], holder) == 1
    claim_ends.release_subjects(session, ["TOOL01"], holder)
    assert claims.is_live_work_waiting(session, holder)
    assert {entry.queue_id for entry in queue.list_queue(session)} == {third.queue_id, fourth.queue_id}

    assert blacklist.blacklist_file(session, "file:///a", "TOOL01", reason="broken", by="alice") is not None
    assert blacklist.allow_file(session, "file:///a", reason="mended", by="alice") is not None
    assert len(files.list_files(session)) == 4
    assert [known.instance_name for known in instances.list_instances(session)] == ["Worker01"]
    assert status.queue_status(session)["queue"]["available"] == 3
    migrations.check_schema(session)
    called = everything_about_the_catalog(session) | everything_an_operator_asks(session)
    called |= everything_about_the_api(session) | everything_about_the_inbox(session)
    called |= everything_about_hooks(session) | everything_about_parts(session)
    called |= everything_about_destinations(session)
    called |= everything_about_backfills(session)
    called |= everything_about_a_resync(session)
    events.provision_event_partitions(session, months_ahead=4)
    events.drop_old_events(session, keep=timedelta(days=365))
    return called | {
        "register_instance", "bind_instance", "enqueue_file", "enqueue_files", "fetch_items", "assert_subject_held",
        "renew_subjects", "mark_dirty", "reconcile_subject", "complete_item", "complete_items", "fail_item",
        "return_unknown_claims", "release_subject", "release_subjects", "is_live_work_waiting",
        "list_queue", "blacklist_file", "allow_file", "list_files",
        "list_instances", "list_migrations", "function_release", "queue_status", "provision_event_partitions",
        "drop_old_events",
    }  # fmt: skip


def everything_an_operator_asks(session: Connection) -> set[str]:
    """A dead letter with its two ends, an instance with its states, a stale subject, and all the listings."""
    since = datetime.now(UTC) - timedelta(hours=1)
    decision = {"reason": "late", "by": "alice"}
    holder = instances.register_instance(session, "Worker04", subject_patterns=["DEAD*"])
    files.enqueue_file(session, "file:///dead", "DEAD1")
    [item] = claims.fetch_items(session, holder)
    failure = claim_ends.Failure(item.queue_id, "unreadable", is_permanent=True)
    dirty_ranges.mark_dirty(
        session, "DEAD1", holder, range_start=since, range_end=since + timedelta(1), reason="late"
    )
    claim_ends.fail_items(session, [failure], holder)
    assert len(dead_letters.list_dead_letters(session)) == 1
    assert len(dead_letters.retry_dead_letters(session, ["file:///dead"], **decision)) == 1
    [item] = claims.fetch_items(session, holder)
    claim_ends.fail_items(session, [replace(failure, queue_id=item.queue_id)], holder)
    dead_letters.discard_dead_letters(session, ["file:///dead"], **decision)
    assert files.reingest_file(session, "file:///dead", **decision) is not None
    instances.pause_instance(session, "Worker04", **decision)
    instances.drain_instance(session, "Worker04", **decision)
    instances.resume_instance(session, "Worker04", **decision)
    assert instances.instance_state(session, "Worker04") == "active"
    claim_ends.release_subject(session, "DEAD1", holder)
    assert [asked.held_by for asked in dirty_ranges.request_reconcile(session, None, **decision)] == [None]
    assert subjects.list_subject_states(session, subject_key="DEAD1")[0].stale_from == since
    assert {each.subject_key for each in runs.list_runs(session)} == {"CELL1", "LATE1", "RIGHT1"}
    assert {run.subject_key for run in runs.list_runs(session)} == {"CELL1", "LATE1", "RIGHT1"}
    assert events.count_events(session, since=since)["dead_letter"] == 2
    assert len(events.list_events(session, since=since, subject_key="DEAD1")) > 5
    assert explanations.explain_segment(session, "cells", "CELL1", segment_us=0) is not None
    told = explanations.list_metric_restatements(session, "cells", "CELL1", metric="sum", channel="", at_us=2)
    assert [noted.new for noted in told] == [9]
    assert figures.sum_figures(session).commits == 5
    assert len(figures.lateness_histogram(session)) == 9
    return {
        "fail_items", "list_dead_letters", "retry_dead_letters", "discard_dead_letters", "reingest_file",
        "pause_instance", "drain_instance", "resume_instance", "instance_state", "request_reconcile",
        "list_subject_states", "list_runs", "list_events", "count_events", "explain_segment",
        "list_metric_restatements", "sum_figures", "lateness_histogram",
    }  # fmt: skip


def everything_about_the_catalog(session: Connection) -> set[str]:
    """A commit and all the questions about what it wrote."""
    holder = instances.register_instance(session, "Worker02", subject_patterns=["CELL*"])
    session.execute(
        "select disarray.register_dataset('cells', 'p1', 's1', '{}', %s)",
        ('[{"name": "sum", "kind": "sum", "method": "trapezoid", "is_integer": true, "unit": ""}]',),
    )
    files.enqueue_file(session, "file:///cell", "CELL1", metadata={"dataset": "cells"})
    [item] = claims.fetch_items(session, holder)
    fragment = FragmentEntry(
        segment_us=0, source_uri="file:///cell", generation=0, path="x.parquet", row_group=0, readings=2,
        first_position=0, last_position=9, first_us=1, last_us=2,
    )  # fmt: skip
    keys = {"dataset": "cells", "subject_key": "CELL1", "segment_us": 0, "channel": ""}
    changes = CatalogChanges(added=(fragment,), dropped=(), cut=(), released=())
    segment = {
        "segment_us": 0, "segment_end_us": 10, "revision": 0, "readings": 2, "duplicates": 0, "conflicts": 0,
        "first_us": 1, "last_us": 2, "digest": "d",
    }  # fmt: skip
    summary = keys | {
        "metric": "sum", "piece": 0, "readings": 2, "points": 2, "total_int": 7,
        "first_us": 1, "first_int": 3, "last_us": 2, "last_int": 4, "first_reading_us": 1, "last_reading_us": 2,
    }  # fmt: skip
    block = {
        "rollup": "daily", "segment_us": 0, "block": 0, "first_bucket_us": 0, "last_bucket_end_us": 10,
        "channels": [""], "buckets_us": [0], "bucket_ends_us": [10], "labels": [""], "aggregates": ["n"], "points": [2],
    }  # fmt: skip
    run_id = uuid.uuid4()
    commits.commit_subject(
        session,
        SubjectCommit(
            run_id=run_id,
            subject_key="CELL1",
            fence=item.fence,
            datasets=[
                DatasetCommit(
                    dataset="cells", parse_version="p1", scan_version="s1", changes=changes, segments=[segment],
                    metrics=[summary], rollups=[block], source_uris=["file:///cell"], restate_before_us=10,
                )
            ],
            lake_files=[LakeFile(path="x.parquet", bytes=1, checksum="c")],
            completions={item.queue_id: {}},
        ),
        holder,
    )  # fmt: skip
    assert commits.is_committed(session, run_id, "CELL1")
    assert catalog.high_event_us(session, "cells", "CELL1") == 2
    assert len(catalog.load_segments(session, "cells", "CELL1", from_us=0, to_us=0)) == 1
    assert len(catalog.load_segment_fragments(session, "cells", "CELL1", segments=[0])) == 1
    assert list(catalog.load_file_fragments(session, ["file:///cell"])) == ["file:///cell"]
    assert catalog.load_withdrawn_fragments(session, ["file:///cell"]) == {}
    assert session.execute("select arrival from disarray.load_arrivals('{file:///cell}')").fetchone()
    assert conflicts.list_conflicts(session) == []
    assert catalog.load_fingerprints(session, ["file:///cell"]) == {}
    assert catalog.find_same_content(session, "cells", "CELL1", content_hashes=["h"]) == {}
    assert status.current_us(session) > 0
    [base] = values.load_bases(session, "cells", "CELL1", metric="sum", from_us=5, to_us=10)
    assert (base.base, base.total) == (0, 7)
    assert values.stale_from(session, "cells", "CELL1") is None
    [known] = values.load_rollup(session, "cells", "CELL1", rollup="daily", from_us=0, to_us=10)
    assert known.points == 2
    files.enqueue_file(session, "file:///more", "CELL1", metadata={"dataset": "cells"})
    [item] = claims.fetch_items(session, holder)
    stretch = {
        "metric": "sum", "channel": "", "segment_us": 0, "from_us": 1, "to_us": 2, "old_mode": 2, "new_mode": 2,
        "old_first": 3, "old_last": 7, "new_first": 5, "new_last": 9, "low": 0, "high": 0, "same": False,
    }  # fmt: skip
    commits.commit_subject(
        session,
        SubjectCommit(
            run_id=uuid.uuid4(),
            subject_key="CELL1",
            fence=item.fence,
            datasets=[
                DatasetCommit(
                    dataset="cells", parse_version="p1", scan_version="s1",
                    segments=[segment | {"revision": 1, "digest": "e"}], metrics=[summary | {"total_int": 9}],
                    changes=CatalogChanges(added=(), dropped=(), cut=(), released=()), rollups=[block],
                    source_uris=["file:///more"], restate_before_us=10, restates=True,
                    profile=Profile(segments=[0], stretches=[stretch]),
                )
            ],
            completions={item.queue_id: {}},
        ),
        holder,
    )  # fmt: skip
    assert [noted.new for noted in values.list_restatements(session, subject_key="CELL1")] == [9]
    assert [span.last_us for span in values.list_subjects(session)] == [2]
    [verified] = verification_runs.list_verified_subjects(session, "CELL1")
    assert verified.subject_key == "CELL1"
    run_id = uuid.uuid4()
    verification_runs.start_verification(session, run_id, selection={}, subjects=1, readings=2)
    assert getattr(verification_runs.find_open_verification(session), "verification_id", None) == run_id
    verification_runs.note_subject_verification(
        session, run_id, "CELL1", verdict="different", readings=2, findings=[{}], finding_count=1
    )
    verification_runs.end_verification(session, run_id)
    assert verification_runs.verification_state(session).different_keys == ["CELL1"]
    assert verification_runs.claim_scheduled_verification(
        session, uuid.uuid4(), selection={"scheduled_by": "w"}, every=timedelta(hours=1)
    )
    stored = verification.load_subject(session, "CELL1")
    assert [len(stored.fragments["cells"]), len(stored.segments["cells"])] == [1, 1]
    assert [row["total_int"] for row in stored.summaries["cells"]] == [9]
    assert [row["points"] for row in stored.rollup_parts["cells"]] == [2]
    assert stored.files == ()
    streamed: list[Any] = []
    verification.load_subject(
        session,
        "CELL1",
        columns={verification.SubjectRows.ROLLUP_PARTS: ["points"]},
        on_rows=lambda _, rows: streamed.extend(rows),
        takes=lambda *_: True,
    )
    assert streamed == [("cells", 2)]
    everything_about_replays(session)
    everything_about_followers(session)
    everything_about_a_quarantine(session)
    everything_about_a_table(session)
    everything_about_a_view(session)
    everything_about_housekeeping(session)
    everything_about_an_audit(session)
    everything_about_a_definition(session)
    everything_about_a_move(session)
    everything_about_a_source(session)
    return {
        "next_batch", "record_deliveries", "note_deleted_deliveries", "list_batches", "list_spent_deliveries",
        "find_unknown_deliveries", "claim_source", "renew_source", "advance_source", "end_source_turn",
        "decide_source", "list_sources", "begin_source_load", "find_source_load", "settle_source_load",
        "add_source_chunks", "claim_source_chunks", "renew_source_chunks", "complete_source_chunk",
        "release_source_chunks", "end_source_load", "list_source_loads",
        "hand_over_items", "load_file_homes", "load_moving_files", "count_moving_files", "list_known_files",
        "queue_moves", "matching_rules", "note_matching", "list_unmatched_files",
        "find_sealed_segments", "begin_housekeeping", "end_housekeeping", "list_cold_segments", "list_expired_segments",
        "load_kept_fragments", "queue_compaction", "compact_segments", "seal_segments", "list_dead_lake_files",
        "doom_lake_files", "forget_lake_files", "find_unknown_lake_files", "oldest_claim_age", "forget_history",
        "start_verification", "find_open_verification", "note_subject_verification", "end_verification",
        "verification_state", "claim_scheduled_verification",
        "list_verified_subjects", "load_subject_files", "load_subject_fragments", "load_subject_segments",
        "load_subject_summaries", "load_subject_rollup_parts", "list_rollup_segments", "load_rejected_positions",
        "load_block_lengths",
        "next_replayed_subject", "measure_replay", "newest_commit_seq", "load_span_summaries", "load_last_summaries",
        "load_span_rollup_parts", "carry_bases", "distrust_segments",
        "next_pending_rebuild", "measure_pending_rebuilds", "rebuild_progress",
        "audit_files", "audit_leases", "audit_progress", "audit_limits", "audit_readings", "audit_commits",
        "audit_origins", "load_base_chains", "load_metric_blocks", "list_live_lake_files",
        "audit_restatements", "list_settled_restatements", "audit_notices", "audit_file_records", "audit_deliveries",
        "register_dataset", "commit_subject", "put_rows", "finish_commit", "is_committed", "high_event_us",
        "list_commits", "follow_commits", "advance_follower", "unfollow_commits", "list_followers", "drop_commits",
        "load_segments",
        "load_segment_fragments", "load_file_fragments", "load_withdrawn_fragments",
        "load_arrivals", "list_conflicts", "load_lake_checksums",
        "load_fingerprints",
        "find_same_content", "current_us",
        "assert_in_force", "load_definition", "definition_in_force", "load_subject_versions", "list_rebuilds",
        "count_rebuilt", "queue_rebuilds", "load_rebuild_files",
        "load_bases", "stale_from", "load_rollup", "list_restatements", "list_subjects", "list_quarantine",
        "list_waiting",
        "release_file", "reject_file", "preview_commit", "list_file_events", "describe_file",
        "provision_readings", "change_store", "store_of", "queue_copies", "list_copies", "prepare_months",
        "number_sources", "name_sources", "clear_rows",
        "number_values", "rows_relation", "audit_dimensions", "audit_numbers",
        "put_view", "claim_view", "begin_view_refresh", "end_view_refresh", "list_views", "list_view_refreshes",
        "drop_view", "grant_view_creation", "revoke_view_creation",
    }  # fmt: skip


def everything_about_replays(session: Connection) -> None:
    """What is stored of CELL1 in a span, and its base carried on once more."""
    span = {"from_us": 0, "to_us": 10}
    found = replays.next_replayed_subject(session, None, datasets=["cells"], subjects=None, **span)
    assert found == replays.ReplayedSubject("CELL1", "cells", 2)
    assert replays.measure_replay(session, datasets=None, subjects=["CELL1"], **span).readings == 2
    assert replays.newest_commit_seq(session, "CELL1", "cells") == 2
    [stored] = replays.load_span_summaries(session, "cells", "CELL1", **span)
    [last] = replays.load_last_summaries(session, "cells", "CELL1", before_us=10)
    assert last["summary"]["total_int"] == stored["total_int"]
    assert len(replays.load_span_rollup_parts(session, "cells", "CELL1", **span)) == 1
    piece = {
        name: value for name, value in stored.items() if name not in ("dataset", "subject_key", "base_int")
    }
    metric = {"name": "sum", "kind": "sum", "method": "trapezoid", "is_integer": True, "unit": ""}
    [carried] = session.execute(
        "select (carried).base_int from disarray.carry_bases('cells', 'CELL1', %s::json, 0, %s::json)",
        (json.dumps([metric]), json.dumps([piece])),
    ).fetchall()
    assert carried == (stored["base_int"],)
    assert replays.distrust_segments(session, "cells", "CELL1", segments=[99]) == 0
    assert rebuilds.next_pending_rebuild(session, None, datasets=["cells"], subjects=None) is None
    assert rebuilds.measure_pending_rebuilds(session, datasets=["cells"], subjects=["CELL1"]).subjects == 0
    progress = rebuilds.rebuild_progress(session, "cells", "CELL1", since=datetime.now(UTC))
    assert progress == rebuilds.RebuildProgress(is_pending=False, is_queued=False, last_error=None)


def everything_about_the_api(session: Connection) -> set[str]:
    """A token from its first day to its last, and a request that is made twice."""
    tokens.create_token(
        session, token_id="0" * 16, token_name="ada", token_hash=b"h" * 32, scope="read", by="alice",
        valid_for=timedelta(days=1),
    )  # fmt: skip
    assert tokens.find_token(session, "0" * 16) == tokens.KnownToken("ada", "read", b"h" * 32)
    [known] = tokens.list_tokens(session)
    assert known.last_used_at is not None
    assert tokens.revoke_token(session, "ada", by="alice")
    request = requests.Request("ada", "POST /files/reingest", "k1")
    with session.transaction():
        assert requests.begin_request(session, request, request_hash=b"r") is None
        requests.keep_answer(session, request, request_hash=b"r", answer="{}")
    assert requests.begin_request(session, request, request_hash=b"r") == "{}"
    return {"create_token", "find_token", "list_tokens", "revoke_token", "begin_request", "keep_answer"}


def everything_about_the_inbox(session: Connection) -> set[str]:
    """An event from its arrival to each of its ends."""
    decision = {"reason": "late", "by": "alice"}
    definition = json.dumps({"dataset": {"events": {"subject": "tool", "id": ["n"]}}})
    session.execute("select disarray.register_dataset('hmi', 'p', 's', %s::json, '[]')", (definition,))
    holder = instances.register_instance(session, "Worker05", subject_patterns=["NONE"])
    answer = raw_events.record_events(
        session, "hmi", ['{"n": 1}', '{"n": {"m": [1]}}', '{"n": 2, "n": 2}', "{"]
    )
    assert (answer.new, len(answer.rejected)) == (2, 2)

    def claim(batch_no: int, *, refuse: bool = True) -> list[int]:
        events = raw_events.claim_raw_events(
            session, holder, ["hmi"], batch_no=batch_no, limit=10, lease_seconds=60, max_attempts=1
        )
        refused = {event.event_id: "bad" for event in events} if refuse else {}
        raw_events.settle_raw_events(
            session, holder, batch_no=batch_no, events=len(events), refused=refused, max_attempts=1
        )
        return [event.event_id for event in events]

    first, second = claim(1)
    assert len(raw_events.list_raw_events(session)) == 2
    assert raw_events.replay_raw_events(session, [first], **decision) == 1
    assert raw_events.correct_raw_event(session, second, '{"n": 5}', **decision) > second
    raw_events.claim_raw_events(
        session, holder, ["hmi"], batch_no=2, limit=1, lease_seconds=60, max_attempts=1
    )
    assert raw_events.release_raw_events(session, holder, batch_no=2) == 1
    assert len(claim(3, refuse=False)) == 2
    raw_events.record_events(session, "hmi", ['{"n": 6}'])
    assert raw_events.discard_raw_events(session, claim(4), **decision) == 1
    assert raw_events.count_raw_events(session) == []
    assert raw_events.forget_raw_events(session, keep=timedelta(days=1)) == 0
    return {
        "record_events", "claim_raw_events", "settle_raw_events", "release_raw_events", "list_raw_events",
        "count_raw_events", "replay_raw_events", "correct_raw_event", "discard_raw_events", "forget_raw_events",
    }  # fmt: skip


def everything_about_hooks(session: Connection) -> set[str]:
    """A message from its cause to each of its ends."""
    decision = {"reason": "mended", "by": "alice"}
    holder = instances.register_instance(session, "Worker06", subject_patterns=["NONE"])
    described = {
        "hook_name": "quality", "kind": "webhook", "subject_patterns": ["*"], "dataset_patterns": ["*"],
        "causes": ["restatement", "quarantine", "dead_letter", "no_data_since", "stale_longer_than"],
        "larger_than": {"*": 1}, "no_data_since_seconds": 60, "stale_longer_than_seconds": 60,
        "definition": {}, "definition_digest": "d",
    }  # fmt: skip
    assert hooks.register_hooks(session, [described]) == 1
    side_effects.note_conditions(session, every_seconds=0)
    for number in range(3):
        noted = side_effects.note_side_effects(
            session, HookCause.DEAD_LETTER, subject_key="T", dataset=None, occasion=str(number), summary="s", details={}
        )  # fmt: skip
        assert noted == 1

    def claim() -> side_effects.ClaimedEffect:
        held = side_effects.claim_side_effect(
            session, "quality", holder, definition_digest="d", lease_seconds=60, max_attempts=1
        )
        assert held is not None
        return held

    assert side_effects.release_side_effect(session, claim())
    ends = (EffectOutcome(reason=None), EffectOutcome(reason="no"))
    states = [
        side_effects.settle_side_effect(session, claim(), end, retry_seconds=0, max_attempts=1)
        for end in ends
    ]
    assert states == ["done", "dead"]
    [dead] = side_effects.list_side_effects(session, state="dead")
    assert side_effects.resend_side_effects(session, [dead.effect_id], **decision) == 1
    assert side_effects.count_side_effects(session)["pending"] == 2
    assert side_effects.forget_side_effects(session, keep=timedelta(days=1)) == 0
    assert [each.done for each in hooks.list_hooks(session)] == [1]
    return {
        "register_hooks", "note_conditions", "note_side_effects", "claim_side_effect", "release_side_effect",
        "settle_side_effect", "list_side_effects", "resend_side_effects", "count_side_effects", "forget_side_effects",
        "list_hooks",
    }  # fmt: skip


def everything_about_destinations(session: Connection) -> set[str]:
    """A destination from its first load to its end; what it loads was committed above."""
    decision = {"reason": "another table", "by": "alice"}
    holder = instances.register_instance(session, "Worker07", subject_patterns=["NONE"])
    assert destinations.register_destination(
        session, "copy", dataset="cells", definition={"table": "t"}, subject_patterns=["*"]
    )

    def decide(what: str) -> int:
        return destinations.decide_destination(session, "copy", what, reason="another table", by="alice")

    def claim() -> destinations.LoadTurn:
        turn = destinations.claim_destination(session, "copy", holder, lease_seconds=60)
        assert turn is not None
        return turn

    turn = claim()
    destinations.renew_destination(session, turn, lease_seconds=60)
    destinations.advance_destination(session, turn, rows_loaded=1, rows_deleted=0, seconds=0.1)
    assert decide("republished") > 0
    destinations.end_destination_turn(session, claim(), next_in=timedelta(seconds=1), error="away")
    destinations.note_destination_error(session, "copy", "away")
    destinations.restart_destination(session, "copy")
    assert destinations.list_unasked_subjects(session, "copy", ["NOBODY"]) == ["NOBODY"]
    destinations.end_destination_sweep(session, "copy")
    assert [each.destination for each in destinations.list_destinations(session)] == ["copy"]
    decide("republished")
    destinations.hold_destination_back(session, claim(), "too much would go")
    decide("resumed")
    definition = {"table": "t"}
    while (due := destinations.claim_destination(session, "copy", holder, lease_seconds=60)) is not None:
        destinations.advance_destination(session, due, rows_loaded=1, rows_deleted=0, seconds=0.1)
    assert destinations.find_lone_sweep(session, "copy", definition) is not None
    destinations.hold_lone_sweep_back(session, "copy", holder, definition=definition, reason="too much")
    decide("resumed")
    assert destinations.list_destination_subjects(session, "copy")
    size = destinations.measure_destination(session, "copy")
    assert size.last_subject is not None
    [last] = destinations.list_destination_stretch(session, "copy", after=None, to=None, limit=9)[-1:]
    assert last.subject_key == size.last_subject
    assert destinations.claim_destination_subject(
        session, "copy", size.last_subject, holder, lease_seconds=60, definition={"table": "t"}
    )
    assert destinations.forget_destination(session, "copy", **decision) > 0
    return {
        "register_destination", "claim_destination", "renew_destination", "advance_destination", "end_destination_turn",
        "note_destination_error", "list_destinations", "list_destination_subjects", "decide_destination",
        "forget_destination", "restart_destination", "list_unasked_subjects", "end_destination_sweep",
        "measure_destination", "list_destination_stretch", "claim_destination_subject", "hold_destination_back",
        "find_lone_sweep", "hold_lone_sweep_back",
    }  # fmt: skip


def everything_about_parts(session: Connection) -> set[str]:
    """Questions about files that were split; there are none here, and whoever is trapped finds out all the same."""
    uri = "file:///several"
    assert file_parts.load_file_parts(session, [uri]) == {}
    assert file_parts.load_part_deliveries(session, [(uri, "T")]) == {}
    assert file_parts.load_part_parents(session, [uri]) == {}
    assert list(file_parts.list_split_files(session)) == []
    return {"load_file_parts", "load_part_deliveries", "load_part_parents", "list_split_files"}


def everything_about_a_resync(session: Connection) -> set[str]:
    """A resync that stages one file, and is given up before it is swapped."""
    job_id = backfills.start_backfill(
        session, "once_more", "resync", description={}, cursor_end=["9"], rows_estimated=1, answer_before=None,
        rate_limit=None, max_concurrency=1, chunk_rows=1, reason="deletes", by="alice",
    )  # fmt: skip
    assert resyncs.begin_resync(
        session, job_id, source_name="historian", table_name="readings", dataset="cells", key_end=None, server="1/1",
        description="as it is",
    )  # fmt: skip
    assert not resyncs.find_resync(session, job_id).is_verified
    staged = deliveries.DeliveredFile(
        source_uri="file:///landing/2.parquet", subject_key="S2", rows=1, bytes=1
    )
    resyncs.stage_deliveries(session, job_id, 1, [staged])
    assert resyncs.list_staged_deliveries(session, job_id, 1) == [staged]
    assert resyncs.next_staged_chunk(session, job_id, None) is None
    holder = instances.register_instance(session, "Worker07", subject_patterns=["NONE"])
    with session.transaction():
        assert backfill_chunks.lock_backfill_scan(session, job_id, ahead=4) is not None
        backfill_chunks.add_backfill_chunk(session, job_id, cursor_to=["compare", "1"], rows=1, is_last=False)
    limits = backfill_chunks.FailureLimits(max_attempts=1, max_error_rate=1, alert_threshold=0)
    claim = backfill_chunks.claim_backfill_chunk(session, job_id, holder, lease_seconds=60, limits=limits)
    assert claim.fence is not None
    held = backfill_chunks.HeldChunk(
        job_id=job_id, chunk_no=1, cursor_from=None, cursor_to=("compare", "1"), rows_cut=1, attempts=1,
        fence=claim.fence, holder=holder,
    )  # fmt: skip
    resyncs.repeat_staged_chunk(session, held, 1, "bad")
    assert resyncs.measure_swap(session, job_id).rows_staged == 1
    resyncs.verify_resync(session, job_id)
    assert resyncs.next_swapped_subject(session, job_id, "S1") == ("S2", 1)
    resyncs.queue_resync(session, job_id, "S2")
    assert resyncs.resync_progress(session, job_id, "S2", since=datetime.now(tz=UTC)).is_queued
    assert resyncs.load_swap(session, job_id, "S2") is not None
    assert resyncs.find_superseded_deliveries(session, [staged.source_uri]) == set()
    return {
        "begin_resync", "find_resync", "stage_deliveries", "list_staged_deliveries", "next_staged_chunk",
        "repeat_staged_chunk", "measure_swap", "verify_resync", "next_swapped_subject", "queue_resync",
        "resync_progress", "load_swap", "find_superseded_deliveries",
    }  # fmt: skip


def everything_about_backfills(session: Connection) -> set[str]:
    """A backfill of three chunks: one is done, one fails, one is dead; then its verdict."""
    decision = {"reason": "new column", "by": "alice"}
    job_id = backfills.start_backfill(
        session,
        "fill",
        "update",
        description={"source": {"table": "t"}},
        cursor_end=["9"],
        rows_estimated=9,
        answer_before=None,
        rate_limit=None,
        max_concurrency=3,
        chunk_rows=3,
        **decision,
    )
    holder = instances.register_instance(session, "Worker06", subject_patterns=["NONE"])
    with session.transaction():
        assert backfill_chunks.lock_backfill_scan(session, job_id, ahead=4) is not None
        for last in ("3", "6", "9"):
            backfill_chunks.add_backfill_chunk(session, job_id, cursor_to=[last], rows=3, is_last=last == "9")

    limits = backfill_chunks.FailureLimits(max_attempts=1, max_error_rate=1, alert_threshold=0)

    def claim() -> backfill_chunks.HeldChunk:
        claimed = backfill_chunks.claim_backfill_chunk(
            session, job_id, holder, lease_seconds=60, limits=limits
        )
        assert claimed.chunk_no is not None
        assert claimed.fence is not None
        return backfill_chunks.HeldChunk(
            job_id=job_id, chunk_no=claimed.chunk_no, cursor_from=None, cursor_to=("3",), rows_cut=3, attempts=1,
            fence=claimed.fence, holder=holder,
        )  # fmt: skip

    def fail(*, is_to_blame: bool) -> str:
        return backfill_chunks.fail_backfill_chunk(
            session, claim(), "bad", retry_delay_seconds=0, is_to_blame=is_to_blame, limits=limits
        )

    result = backfill_chunks.ChunkResult(
        rows_written=3, rows_read_again=0, rows_after=3, checksum="0" * 32, written_xid="7"
    )
    for _ in range(2):
        held = claim()
        backfill_chunks.renew_backfill_chunk(session, held, lease_seconds=60)
        backfill_chunks.hold_backfill_chunk(session, held)
        backfill_chunks.complete_backfill_chunk(
            session, held, result, seconds=1, seconds_per_row=0.3, chunk_rows=3
        )
    assert backfill_chunks.cut_backfill_chunk(session, claim(), "slow", cursor_to=["8"], rows=2) == 4
    assert (fail(is_to_blame=False), fail(is_to_blame=True)) == ("waiting", "dead")
    backfills.note_backfill_hold(session, job_id, "max_queue_age", "busy")
    backfills.set_backfill_pace(session, job_id, rate_limit=5000, max_concurrency=1, **decision)
    assert (
        backfills.decide_backfill(session, job_id, backfills.BackfillDecision.PAUSED, **decision) == "paused"
    )
    assert (
        backfills.decide_backfill(session, job_id, backfills.BackfillDecision.RESUMED, **decision)
        == "running"
    )
    assert (fail(is_to_blame=True), fail(is_to_blame=True)) == ("dead", "dead")
    fence = backfill_verifications.claim_backfill_verification(session, job_id, holder, lease_seconds=60)
    assert fence is not None
    backfill_verifications.renew_backfill_verification(session, job_id, holder, fence=fence, lease_seconds=60)
    assert [job.job_id for job in backfills.list_active_backfills(session)] == [job_id]
    backfill_verifications.record_backfill_verdict(
        session, job_id, holder, fence=fence, verdict=backfills.Verdict.INCOMPLETE, details={}
    )
    backfills.stop_backfill(session, job_id, "late")
    [job] = backfills.list_backfills(session)
    assert (job.state, job.chunks_done, job.chunks_dead) == ("done", 2, 2)
    assert [chunk.chunk_no for chunk in backfill_chunks.list_backfill_chunks(session, job_id)] == [1, 2, 3, 4]
    assert backfills.forget_backfills(session, keep=timedelta(days=1)) == 0
    assert replays.list_backfill_findings(session, job_id) == []
    assert not replays.begin_applying(session, job_id, 99)
    replays.note_backfill_applied(session, job_id, files=0, rebuilds=0, **decision)
    backfills.live_health(session)
    assert backfill_figures.count_backfills(session) == {"done": 1}
    assert backfill_figures.count_backfill_verdicts(session, since=job.started_at) == {"incomplete": 1}
    assert backfill_figures.list_backfill_figures(session) == []
    return {
        "start_backfill", "lock_backfill_scan", "add_backfill_chunk", "claim_backfill_chunk",
        "hold_backfill_chunk", "renew_backfill_chunk", "cut_backfill_chunk", "forget_backfills",
        "complete_backfill_chunk", "fail_backfill_chunk", "stop_backfill", "list_backfill_findings",
        "begin_applying",
        "note_backfill_applied",
        "note_backfill_hold", "claim_backfill_verification", "renew_backfill_verification",
        "record_backfill_verdict", "decide_backfill", "set_backfill_pace", "list_backfills",
        "list_active_backfills", "list_backfill_chunks", "live_health", "count_backfills",
        "count_backfill_verdicts", "list_backfill_figures",
    }  # fmt: skip


def everything_about_followers(session: Connection) -> None:
    """A follower of CELL1 from its first position to its end."""
    listed = subject_commits.list_commits(session, "CELL1", "cells")
    newest = subject_commits.follow_commits(session, "sink", "CELL1", "cells")
    assert [notice.commit_seq for notice in listed] == list(range(1, newest + 1))
    assert subject_commits.advance_follower(session, "sink", "CELL1", "cells", commit_seq=1) == newest
    assert [each.commit_seq for each in subject_commits.list_followers(session)] == [newest]
    assert subject_commits.drop_commits(session, keep=timedelta(days=1)) == 0
    assert subject_commits.unfollow_commits(session, "sink") == 1


def everything_about_a_move(session: Connection) -> None:
    """A file that is announced for the wrong subject and handed over, and one that no dataset takes."""
    holder = instances.register_instance(session, "Worker04", subject_patterns=["WRONG*", "RIGHT*"])
    files.enqueue_file(session, "file:///moved", "WRONG1", metadata={"dataset": "cells"})
    [item] = claims.fetch_items(session, holder)
    moving_files.hand_over_items(session, [HandOver(item.queue_id, "RIGHT1", "cells")], holder)
    [item] = claims.fetch_items(session, holder)
    assert (item.subject_key, item.retry_count) == ("RIGHT1", 1)
    leaving = LeavingFile(
        source_uri="file:///moved", dataset="cells", subject_key="WRONG1", generation=0, first_us=1
    )
    commit = SubjectCommit(
        run_id=uuid.uuid4(), subject_key="RIGHT1", fence=item.fence, completions={item.queue_id: {"dataset": "cells"}},
        leaving=[leaving],
    )  # fmt: skip
    commits.commit_subject(session, commit, holder)
    assert list(moving_files.load_file_homes(session, ["file:///late"])) == ["file:///late"]
    assert [each.source_uri for each in moving_files.load_moving_files(session, ["WRONG1"])] == [
        "file:///moved"
    ]
    assert moving_files.count_moving_files(session) == 1
    assert list(moving_files.list_known_files(session, with_fingerprints=True)) == []
    moving_files.queue_moves(session, [Move("file:///cell", "CELL1", "cells")])
    moving_files.note_matching(session, "[]", unmatched_uris=["file:///cell"])
    assert moving_files.matching_rules(session) == "[]"
    assert [each.source_uri for each in moving_files.list_unmatched_files(session)] == ["file:///cell"]


def everything_about_a_quarantine(session: Connection) -> None:
    """A file of which part is parked, looked at, released and rejected."""
    holder = instances.register_instance(session, "Worker03", subject_patterns=["LATE*"])
    files.enqueue_file(session, "file:///late", "LATE1", metadata={"dataset": "cells"})
    [item] = claims.fetch_items(session, holder)
    parked = FragmentEntry(
        segment_us=0, source_uri="file:///late", generation=0, path="y.parquet", row_group=0, readings=3,
        first_position=0, last_position=9, first_us=1, last_us=2, state=FragmentState.PARKED,
    )  # fmt: skip
    part = DatasetCommit(
        dataset="cells", parse_version="p1", scan_version="s1", segments=[], metrics=[], rollups=[],
        changes=CatalogChanges(added=(parked,), dropped=(), cut=(), released=()), source_uris=["file:///late"],
    )  # fmt: skip
    commit = SubjectCommit(
        run_id=uuid.uuid4(), subject_key="LATE1", fence=item.fence, datasets=[part], completions={item.queue_id: {}},
        lake_files=[LakeFile(path="y.parquet", bytes=1, checksum="c")],
    )  # fmt: skip
    commits.commit_subject(session, commit, holder)
    assert [waiting.readings for waiting in quarantine.list_quarantine(session)] == [3]
    assert status.list_waiting(session)
    segment = {
        "segment_us": 0, "segment_end_us": 10, "revision": 0, "readings": 3, "duplicates": 0, "conflicts": 0,
        "first_us": 1, "last_us": 2, "digest": "d",
    }  # fmt: skip
    preview = previews.preview_commit(session, "LATE1", replace(part, segments=[segment]))
    assert preview.frontier_us == 0
    assert quarantine.release_file(session, "file:///late", reason="right", by="alice") is not None
    assert quarantine.reject_file(session, "file:///late", reason="wrong", by="alice") == 3
    told = events.list_file_events(session, "file:///late")
    assert {"quarantine_released", "quarantine_rejected"} <= {event.event_type for event in told}
    assert files.describe_file(session, "file:///late") is not None


def everything_about_a_table(session: Connection) -> None:
    """A table of readings, made, changed, prepared, cleared and left again."""
    column = {"name": "amps", "type": "float64"}
    metric = {
        "metric": "sum", "name": "sum", "local": "_local_sum", "restarted": "_restarted_sum", "type": "int64",
        "kind": "sum",
    }  # fmt: skip
    definition = {
        "table": "shelf", "running": "shelf_running", "segment_us": 10, "chunk_us": 10**12,
        "columns": [column], "metrics": [metric],
    }  # fmt: skip

    def call(name: str, *arguments: object) -> object:
        places = sql.SQL(", ").join([sql.Placeholder()] * len(arguments))
        statement = sql.SQL("select disarray.{}({})").format(sql.Identifier(name), places)
        row = session.execute(statement, arguments).fetchone()
        assert row is not None
        return row[0]

    assert call("provision_readings", "shelf", "timescale", Jsonb(definition)) == "timescale"
    valued = {"name": "recipe", "type": "string", "dimension": "shelf_recipe"}
    changed = definition | {
        "columns": [column | {"type": "int64"}, {"name": "job", "type": "string"}, valued],
        "joined": "shelf_joined",
    }
    call("change_store", "shelf", "timescale", Jsonb(changed))
    assert call("store_of", "shelf") == "timescale"
    # A hypertable needs none.
    assert readings.prepare_months(session, "shelf", [0, 40 * 86_400_000_000]) in (0, 2)
    numbers = readings.number_sources(session, ["file:///b", "file:///a"])
    assert readings.name_sources(session, numbers.values()) == {
        number: uri for uri, number in numbers.items()
    }
    assert dimensions.rows_relation(session, "shelf") == "shelf_joined"
    assert len(set(dimensions.number_values(session, "shelf", "recipe", ["b", "a"]))) == 2
    assert dimensions.audit_dimensions(session, limit=9) + dimensions.audit_numbers(session, limit=9) == []
    holder = instances.register_instance(session, "Worker04", subject_patterns=["SHELF*"])
    files.enqueue_file(session, "file:///shelf", "SHELF1", metadata={"dataset": "shelf"})
    [item] = claims.fetch_items(session, holder)
    types = readings.clear_rows(
        session, "shelf", "SHELF1", holder, fence=item.fence, store=Store.TIMESCALE, kept_of={0: 0}
    )
    assert (types["amps"], types["job"], types["_local_sum"]) == ("bigint", "text", "bigint")
    assert readings.list_copies(session, "shelf") == []
    assert readings.queue_copies(session, "shelf", by="alice") == 0


def everything_about_a_view(session: Connection) -> None:
    """A view from its first day to its last, as far as functions know it."""
    views.put_view(
        session, "counts", schema_name="telemetry", definition="select 1 as one", unique_key=["one"], by="alice",
        depends_on=["cells", "cells.daily"], at_most_every=timedelta(minutes=1), timeout_seconds=60, is_built=False,
    )  # fmt: skip
    holder = instances.register_instance(session, "Worker05")
    turn = views.claim_view(session, holder)
    assert turn is not None
    position = views.begin_view_refresh(session, turn, holder)
    views.end_view_refresh(session, turn, holder, seconds=0.5, position=position)
    [known] = views.list_views(session)
    assert (known.commit_position, known.is_stale) == (position, False)
    assert [each.seconds for each in views.list_view_refreshes(session, "counts")] == [0.5]
    assert views.drop_view(session, "counts")
    may_create = "select has_schema_privilege('disarray_views', 'telemetry', 'create')"
    with views.creation_granted(session):
        assert session.execute(may_create).fetchone() == (True,)
    assert session.execute(may_create).fetchone() == (False,)


def everything_about_a_definition(session: Connection) -> None:
    """A dataset that is defined anew, a subject that is rebuilt, and one that is not."""
    session.execute("select disarray.assert_in_force(array['cells'], array['p1'], array['s1'])")
    queued = session.execute(
        "select disarray.register_dataset('cells', 'p1', 's2', '{\"a\": 1}', '[]')"
    ).fetchone()
    assert queued == (2,)
    assert definitions.definition_in_force(session, "cells") == Version("p1", "s2")
    definition = session.execute("select disarray.load_definition('cells', 'p1', 's2')").fetchone()
    assert definition == ({"a": 1},)
    made = definitions.load_subject_versions(session, ["CELL1"])
    assert made == {("cells", "CELL1"): definitions.SubjectVersion(Version("p1", "s1"), is_in_force=False)}
    assert definitions.load_rebuild_files(session, "cells", "CELL1") == {}
    assert [each.segments for each in definitions.list_rebuilds(session, subject_key="CELL1")] == [1]
    assert definitions.queue_rebuilds(session, dataset="cells", subject_key="CELL1") == 1
    holder = instances.register_instance(session, "Worker02", subject_patterns=["CELL*"])
    [item] = claims.fetch_items(session, holder)
    nothing = CatalogChanges(added=(), dropped=(), cut=(), released=())
    step = RebuildStep(before=Version("p1", "s1"), kept_metrics=("sum",), kept_rollups=())
    part = DatasetCommit(
        dataset="cells", parse_version="p1", scan_version="s2", changes=nothing, segments=[], metrics=[], rollups=[],
        source_uris=[], rebuild=step,
    )  # fmt: skip
    commit = SubjectCommit(
        run_id=uuid.uuid4(), subject_key="CELL1", fence=item.fence, datasets=[part], completions={item.queue_id: {}},
        read_again={"file:///cell": {"content_hash": "h", "parse_version": "p1"}}, rows_follow=True,
    )  # fmt: skip
    numbers = {
        "metric": "more", "channel": "", "segment_us": 0, "piece": 0, "readings": 1, "first_reading_us": 0,
        "last_reading_us": 0, "points": 0,
    }  # fmt: skip
    summaries = encode_records(pa.Table.from_pylist([numbers], schema=SUMMARY_SCHEMA))
    block = RollupBlock.of_document(
        {
            "rollup": "r", "segment_us": 0, "block": 0, "first_bucket_us": 0, "last_bucket_end_us": 1, "channels": [""],
            "buckets_us": [0], "bucket_ends_us": [1], "labels": [""], "aggregates": ["n"], "points": [1],
        }
    )  # fmt: skip
    with session.transaction():
        prepared = commits.prepare_commit(commit)
        changes = commits.commit_subject(session, prepared, holder)
        commits.put_rows(session, commit, "cells", Records(1, [summaries]), Records(1, [block.record()]))
        commits.finish_commit(session, prepared, changes)
    assert definitions.count_rebuilt(session, "cells") == (1, 2)


def everything_about_an_audit(session: Connection) -> None:
    """Every rule looked at once: the commit of CELL1 left no fingerprint, and that is all that is found."""
    hour = timedelta(hours=1)
    found = [
        *audit.audit_files(session, since=hour, limit=9),
        *audit.audit_leases(session, since=hour, patience=hour, limit=9),
        *audit.audit_progress(session, patience=hour, limit=9),
        *audit.audit_limits(session, limit=9),
        *audit_catalog.audit_readings(session, limit=9),
        *audit_catalog.audit_commits(session, limit=9),
        *audit_catalog.audit_origins(session, limit=9),
        *audit_ledger.audit_restatements(session, limit=9),
        *audit_ledger.audit_notices(session, limit=9),
        *audit_intake.audit_file_records(session, limit=9),
        *audit_intake.audit_deliveries(session, limit=9),
    ]
    assert [each.new for each in audit_ledger.list_settled_restatements(session, "CELL1")] == [5, 9]
    assert {finding.rule for finding in found} == {"readings_have_an_origin"}
    assert [link.base_int for link in audit_catalog.load_base_chains(session, "CELL1")] == [0]
    assert [block.base_int for block in blocks.load_metric_blocks(session, "CELL1")] == [0]
    assert audit_catalog.list_live_lake_files(session) != []


def everything_about_housekeeping(session: Connection) -> None:
    """The segment of CELL1 compacted, sealed, and its files deleted and forgotten."""
    holder = instances.register_instance(session, "Worker02", subject_patterns=["CELL*"])
    now, hour = timedelta(0), timedelta(hours=1)
    with housekeeping.housekeeping_turn(session) as is_ours:
        assert is_ours
    cold = session.execute(
        "select * from disarray.list_cold_segments('cells', 'p1', 's1', '0', 1, 1000000, 'CELL1')"
    ).fetchall()
    assert cold == []  # one row group cannot become fewer
    expired = session.execute(
        "select * from disarray.list_expired_segments('cells', 'p1', 's1', -8)"
    ).fetchall()
    assert expired == [("CELL1", 0, 2)]
    assert housekeeping.queue_compaction(session, ["CELL1"]) == 1
    [item] = claims.fetch_items(session, holder)
    assert housekeeping.oldest_claim_age(session) is not None
    [fragment] = catalog.load_kept_fragments(session, "cells", "CELL1", segments=[0])
    session.execute(
        "select disarray.compact_segments(%s, 'CELL1', %s, %s, %s, %s)",
        (
            uuid.uuid4(), holder.instance_name, holder.incarnation, item.fence,
            json.dumps(
                {
                    "dataset": "cells", "parse_version": "p1", "dropped": [fragment.fragment_id],
                    "added": [commits.fragment_row(replace(fragment, path="z.parquet"))],
                    "lake_files": [{"path": "z.parquet", "bytes": 1, "checksum": "c"}],
                    "segments": [{"segment_us": 0, "revision": 2, "digest": "e"}],
                }
            ),
        ),
    )  # fmt: skip
    sealed = housekeeping.seal_segments(
        session, uuid.uuid4(), "CELL1", holder, fence=item.fence, dataset="cells", segments=[0]
    )
    assert sealed == 1
    assert catalog.find_sealed_segments(session, "cells", "CELL1", segments=[0]) == {0}
    claim_ends.complete_item(session, item.queue_id, holder)
    assert {file.path for file in housekeeping.list_dead_lake_files(session, keep=hour)} == set()
    dead = {file.path for file in housekeeping.doom_lake_files(session, keep=now)}
    # What was rejected is kept: a copy of its file comes up for review anew.
    assert dead == {"x.parquet", "z.parquet"}
    assert housekeeping.forget_lake_files(session, sorted(dead)) == 2
    assert housekeeping.find_unknown_lake_files(session, ["x.parquet"]) == ["x.parquet"]
    gone = housekeeping.forget_history(session, keep=timedelta(days=1), keep_fragments=now)
    assert gone == housekeeping.Forgotten(0, 0, 0)


def everything_about_a_source(session: Connection) -> None:
    """A source that is read once and paused."""
    holder = instances.register_instance(session, "Worker09", subject_patterns=["SOURCE*"])
    turn = sources.claim_source(session, "historian", "readings", holder, lease_seconds=60)
    assert turn is not None
    sources.renew_source(session, turn, lease_seconds=60)
    batch = deliveries.begin_batch(session, "historian", run_id=uuid.uuid4())
    delivered = deliveries.DeliveredFile(
        source_uri="file:///landing/1.parquet", subject_key="SOURCE1", rows=1, bytes=1
    )
    counts = deliveries.BatchCounts(seen=1, taken=1)
    sources.advance_source(session, turn, run_id=batch.run_id, watermark={"cursor": 1}, counts=counts)
    [queued] = deliveries.record_deliveries(
        session, batch, [delivered], dataset="cells", counts=counts, instance_name="Worker09"
    )
    assert queued.verdict == "enqueued"
    source_loads.begin_source_load(
        session, turn, plan={}, open_transactions=["3/1", "4/1"], key_end=[9], rows_estimated=1
    )
    load = source_loads.find_source_load(session, "historian", "readings")
    assert load is not None
    source_loads.settle_source_load(session, load.load_id, ["4/1"])
    assert source_loads.add_source_chunks(session, load.load_id, cut_up_to=None, ends=[[5]], is_last=True)
    first, last = source_loads.claim_source_chunks(session, load.load_id, holder, lease_seconds=60, limit=2)
    assert source_loads.renew_source_chunks(session, load.load_id, holder, first.fence, lease_seconds=60) == 2
    nothing = deliveries.BatchCounts(seen=0, taken=0)
    for chunk in (first, last):
        source_loads.complete_source_chunk(
            session, load.load_id, chunk, holder, counts=nothing, read_under=None, reached=None, notices=["n"]
        )
    source_loads.release_source_chunks(
        session, load.load_id, holder, first.fence, error=None, next_in=timedelta(0)
    )
    assert source_loads.end_source_load(session, load.load_id)
    assert [told.state for told in source_loads.list_source_loads(session)] == ["done"]
    sources.end_source_turn(session, turn, next_in=timedelta(seconds=1))
    assert [told.rows_taken for told in deliveries.list_batches(session, source_name="historian")] == [1]
    assert deliveries.find_unknown_deliveries(session, ["file:///landing/1.parquet", "file:///x"]) == [
        "file:///x"
    ]
    assert deliveries.list_spent_deliveries(session, keep=timedelta(0)) == []
    deliveries.note_deleted_deliveries(session, ["file:///landing/1.parquet"])
    sources.decide_source(
        session, "historian", "readings", sources.SourceDecision.PAUSED, reason="a test", by="alice"
    )
    assert [known.rows_taken for known in sources.list_sources(session)] == [1]
    [item] = claims.fetch_items(session, holder)
    claim_ends.complete_items(session, [item.queue_id], holder)


# Runs as the attacker: everything that the functions name, once more, and a trap in each.
SET_TRAPS = """
do $traps$
declare
    v_place constant text := %(place)s;
    v_one record;
begin
    for v_one in
        select
            routine.proname as name,
            array_to_string(array(
                select kind.type::regtype::text
                from unnest(routine.proargtypes) with ordinality as kind (type, place)
                order by kind.place
            ), ', ') as arguments
        from pg_catalog.pg_proc as routine
        where
            routine.pronamespace = 'disarray'::regnamespace
            or (
                routine.pronamespace = 'pg_catalog'::regnamespace
                and routine.prokind = 'f'
                and routine.proname = any(%(built_in)s)
                and not 'pg_catalog."any"'::regtype = any(routine.proargtypes::oid[])
                and not 'internal'::regtype = any(routine.proargtypes::oid[])
            )
    loop
        execute format(
            'create function %%s.%%I(%%s) returns void language plpgsql as %%L',
            v_place, v_one.name, v_one.arguments, 'begin raise exception ''trap''; end'
        );
    end loop;

    for v_one in
        select relation.relname as name
        from pg_catalog.pg_class as relation
        where relation.relnamespace = 'disarray'::regnamespace and relation.relkind in ('r', 'p')
    loop
        execute format('create table %%s.%%I (like shape.%%I)', v_place, v_one.name, v_one.name);
    end loop;

    for v_one in
        select kind.typname as name
        from pg_catalog.pg_type as kind
        where kind.typnamespace = 'disarray'::regnamespace and kind.typtype = 'e'
    loop
        execute format('create type %%s.%%I as enum (''trap'')', v_place, v_one.name);
    end loop;
    execute format('create type %%s.file_request as (trap integer)', v_place);

    for v_one in
        select
            operator.oprname as name,
            operator.oprleft::regtype as left_type,
            operator.oprright::regtype as right_type
        from pg_catalog.pg_operator as operator
        where
            operator.oprnamespace = 'pg_catalog'::regnamespace
            and operator.oprname in ('=', '<>', '<', '<=', '>', '>=', '||', '->', '->>', '?', '-', '+', '~', '*', '/')
            and operator.oprleft::regtype::text = any(%(types)s)
            and operator.oprright::regtype::text = any(%(types)s)
        union all
        -- The built-in ones are for any enum; these fit better and would be preferred.
        select
            comparison.name,
            kind.oid::regtype,
            kind.oid::regtype
        from pg_catalog.pg_type as kind
        cross join unnest(array['=', '<>', '<', '<=', '>', '>=']) as comparison (name)
        where kind.typnamespace = 'disarray'::regnamespace and kind.typtype = 'e'
    loop
        execute format(
            'create or replace function %%s.spring(%%s, %%s) returns boolean language plpgsql as %%L',
            v_place, v_one.left_type, v_one.right_type, 'begin raise exception ''trap''; end'
        );
        execute format(
            'create operator %%s.%%s (function = %%s.spring, leftarg = %%s, rightarg = %%s)',
            v_place, v_one.name, v_place, v_one.left_type, v_one.right_type
        );
    end loop;
end
$traps$
"""

BUILT_IN = [
    "clock_timestamp", "octet_length", "cardinality", "jsonb_typeof", "jsonb_concat", "jsonb_path_exists", "left",
    "btrim", "date_trunc", "make_interval", "to_char", "to_date", "nextval", "starts_with", "regexp_replace",
    "replace", "array_to_string", "unnest", "generate_series", "quote_literal", "to_regclass", "hashtext",
    "pg_advisory_xact_lock", "jsonb_object_agg", "timezone", "array_append", "array_cat", "ceil", "round", "lower",
]  # fmt: skip
TYPES = [
    "text", "jsonb", "timestamp with time zone", "bigint", "integer", "interval", "boolean", "numeric", "name", "oid",
    "date", "text[]", "anyarray", "anycompatiblearray", "anycompatible",
]  # fmt: skip


def publish_shapes(connection: Connection) -> None:
    """What our tables look like is no secret: the attacker cannot read them, but can read the source."""
    connection.execute("create schema shape; grant usage on schema shape to public")
    for name in own_tables(connection):
        copy, original = sql.Identifier("shape", name), sql.Identifier("disarray", name)
        connection.execute(sql.SQL("create table {} as select * from {} limit 0").format(copy, original))
        connection.execute(sql.SQL("grant select on {} to public").format(copy))


@pytest.fixture(params=["pg_temp", "trap"])
def trapped(
    request: pytest.FixtureRequest, connection: Connection, connect_as: Callable[..., Connection]
) -> tuple[str, Connection]:
    """The session of an attacker who has set traps in the schema named, and put it first in the search path."""
    place: str = request.param
    publish_shapes(connection)
    attacker = connect_as(*ROLES)
    name = attacker.info.parameter_status("session_authorization")
    assert name is not None
    connection.execute(sql.SQL("create schema trap authorization {}").format(sql.Identifier(name)))
    traps = psycopg.ClientCursor(attacker).mogrify(
        SET_TRAPS, {"place": place, "built_in": BUILT_IN, "types": TYPES}
    )
    attacker.execute(traps.encode())
    if place == "trap":
        # Whoever runs into a trap must be able to: a schema that may not be used is passed over.
        attacker.execute(
            "grant usage on schema trap to public; grant all on all tables in schema trap to public"
        )
    attacker.execute(sql.SQL("set search_path = {}, pg_catalog, disarray").format(sql.Identifier(place)))
    return place, attacker


def test_the_traps_are_sharp(trapped: tuple[str, Connection], connection: Connection) -> None:
    place, attacker = trapped
    for table in own_tables(connection):
        seen = attacker.execute(f"select '{table}'::pg_catalog.regclass::pg_catalog.oid").fetchone()
        assert seen != connection.execute(f"select 'disarray.{table}'::regclass::oid").fetchone()
    # PostgreSQL never looks for functions and operators in pg_temp.
    for sprung in ("select clock_timestamp()", "select 'a'::pg_catalog.text = 'a'::pg_catalog.text"):
        if place == "trap":
            with pytest.raises(psycopg.errors.RaiseException, match="trap"):
                attacker.execute(sprung)
    connection.execute("alter function disarray.queue_status() reset search_path")
    with pytest.raises(psycopg.Error):
        attacker.execute("select disarray.queue_status()")


def test_no_function_uses_what_a_caller_put_first_in_the_search_path(
    trapped: tuple[str, Connection], connection: Connection
) -> None:
    place, attacker = trapped
    shadowed = own_tables(connection)
    called = everything_a_caller_can_do(attacker)

    definers = connection.execute(
        "select proname from pg_proc where pronamespace = 'disarray'::regnamespace and prosecdef"
    ).fetchall()
    assert called == {name for (name,) in definers}
    attacker.execute("reset search_path")
    for table in shadowed:
        shadow = sql.SQL("select count(*) from {}").format(sql.Identifier(place, table))
        assert attacker.execute(shadow).fetchone() == (0,), table
