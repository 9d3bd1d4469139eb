"""Attacks by shadowing: whatever a caller puts first in the search path, the functions use their own."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray.control import (
    catalog,
    commits,
    events,
    files,
    instances,
    migrations,
    quarantine,
    queue,
    status,
    subjects,
    values,
    verification,
)
from disarray.control.commits import DatasetCommit, LakeFile, SubjectCommit
from disarray.model.plan import CatalogChanges, FragmentEntry, FragmentState

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

ROLES = ("disarray_agent", "disarray_worker", "disarray_operator", "disarray_reader")


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

    first, second, third, fourth = queue.fetch_items(session, holder)
    assert subjects.assert_subject_held(session, "TOOL01", holder, fence=first.fence) == first.fence
    assert queue.renew_subjects(session, ["TOOL01"], holder, lease_seconds=600) == ["TOOL01"]
    subjects.mark_dirty(
        session, "TOOL01", holder, range_start=now, range_end=now + timedelta(1), reason="late"
    )
    assert subjects.reconcile_subject(session, "TOOL01", holder) == now
    session.execute("select disarray.complete_item(%s, %s)", (first.queue_id, holder.instance_name))
    queue.complete_items(session, [second.queue_id], holder)
    queue.fail_item(session, third.queue_id, holder, error_message="unreadable", retry_delay_seconds=0)
    assert queue.return_unknown_claims(session, [], holder) == 1
    queue.release_subject(session, "TOOL01", holder)
    assert {entry.queue_id for entry in queue.list_queue(session)} == {third.queue_id, fourth.queue_id}

    assert files.blacklist_file(session, "file:///a", "TOOL01", reason="broken", by="alice") is not None
    assert files.allow_file(session, "file:///a", reason="mended", by="alice") is not None
    assert len(files.list_files(session)) == 4
    assert [known.instance_name for known in instances.list_instances(session)] == ["Worker01"]
    assert status.queue_status(session)["queue"]["available"] == 3
    migrations.check_schema(session)
    called = everything_about_the_catalog(session)
    events.provision_event_partitions(session, months_ahead=4)
    events.drop_old_events(session, keep=timedelta(days=365))
    return called | {
        "register_instance", "bind_instance", "enqueue_file", "enqueue_files", "fetch_items", "assert_subject_held",
        "renew_subjects", "mark_dirty", "reconcile_subject", "complete_item", "complete_items", "fail_item",
        "return_unknown_claims", "release_subject", "list_queue", "blacklist_file", "allow_file", "list_files",
        "list_instances", "list_migrations", "queue_status", "provision_event_partitions", "drop_old_events",
    }  # fmt: skip


def everything_about_the_catalog(session: Connection) -> set[str]:
    """A commit and all the questions about what it wrote."""
    holder = instances.register_instance(session, "Worker02", subject_patterns=["CELL*"])
    session.execute(
        "select disarray.register_dataset('cells', 'p1', 's1', '{}', %s)",
        ('[{"name": "sum", "kind": "sum", "method": "trapezoid", "is_integer": true, "unit": ""}]',),
    )
    files.enqueue_file(session, "file:///cell", "CELL1", metadata={"dataset": "cells"})
    [item] = queue.fetch_items(session, holder)
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
        "first_us": 1, "first_int": 3, "last_us": 2, "last_int": 4,
    }  # fmt: skip
    part = keys | {
        "rollup": "daily", "aggregate": "n", "bucket_us": 0, "bucket_end_us": 10, "label": "", "points": 2,
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
                    metrics=[summary], rollups=[part], source_uris=["file:///cell"], restate_before_us=10,
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
    assert catalog.load_fingerprints(session, ["file:///cell"]) == {}
    other = session.execute(
        "select disarray.find_other_version('cells', 'CELL1', 'p1', 's1', '{}')"
    ).fetchone()
    assert other == (None,)
    assert catalog.find_same_content(session, "cells", "CELL1", content_hashes=["h"]) == {}
    assert status.current_us(session) > 0
    [base] = values.load_bases(session, "cells", "CELL1", metric="sum", from_us=5, to_us=10)
    assert (base.base, base.total) == (0, 7)
    assert values.stale_from(session, "cells", "CELL1") is None
    [known] = values.load_rollup(session, "cells", "CELL1", rollup="daily", from_us=0, to_us=10)
    assert known.points == 2
    assert [noted.new for noted in values.list_restatements(session, subject_key="CELL1")] == [7]
    assert [span.last_us for span in values.list_subjects(session)] == [2]
    assert verification.list_verified_subjects(session, "CELL1") == ["CELL1"]
    stored = verification.load_subject(session, "CELL1")
    assert [len(stored.fragments["cells"]), len(stored.segments["cells"])] == [1, 1]
    assert [row["total_int"] for row in stored.summaries["cells"]] == [7]
    assert [row["points"] for row in stored.rollup_parts["cells"]] == [2]
    assert stored.files == ()
    everything_about_a_quarantine(session)
    return {
        "list_verified_subjects", "load_subject_files", "load_subject_fragments", "load_subject_segments",
        "load_subject_summaries", "load_subject_rollup_parts", "load_rejected_positions",
        "register_dataset", "commit_subject", "is_committed", "high_event_us", "load_segments",
        "load_segment_fragments", "load_file_fragments", "load_fingerprints", "find_same_content", "current_us",
        "find_other_version",
        "load_bases", "stale_from", "load_rollup", "list_restatements", "list_subjects", "list_quarantine",
        "release_file", "reject_file", "preview_commit", "list_file_events", "describe_file",
    }  # fmt: skip


def everything_about_a_quarantine(session: Connection) -> None:
    """A file of which part is parked, looked at, released and rejected."""
    holder = instances.register_instance(session, "Worker03", subject_patterns=["LATE*"])
    files.enqueue_file(session, "file:///late", "LATE1", metadata={"dataset": "cells"})
    [item] = queue.fetch_items(session, holder)
    parked = FragmentEntry(
        segment_us=0, source_uri="file:///late", generation=0, path="y.parquet", row_group=0, readings=3,
        first_position=0, last_position=9, first_us=1, last_us=2, state=FragmentState.PARKED,
    )  # fmt: skip
    part = DatasetCommit(
        dataset="cells", parse_version="p1", scan_version="s1", segments=[], metrics=[], rollups=[],
        changes=CatalogChanges(added=(parked,), dropped=(), cut=(), released=()), source_uris=["file:///late"],
    )  # fmt: skip
    commit = SubjectCommit(
        run_id=uuid.uuid4(), subject_key="LATE1", fence=item.fence, datasets=[part], completions={item.queue_id: {}}
    )  # fmt: skip
    commits.commit_subject(session, commit, holder)
    assert [waiting.readings for waiting in quarantine.list_quarantine(session)] == [3]
    segment = {
        "segment_us": 0, "segment_end_us": 10, "revision": 0, "readings": 3, "duplicates": 0, "conflicts": 0,
        "first_us": 1, "last_us": 2, "digest": "d",
    }  # fmt: skip
    preview = commits.preview_commit(session, "LATE1", replace(part, segments=[segment]))
    assert preview.frontier_us == 0
    assert quarantine.release_file(session, "file:///late", reason="right", by="alice") is not None
    assert quarantine.reject_file(session, "file:///late", reason="wrong", by="alice") == 3
    told = events.list_file_events(session, "file:///late")
    assert {"quarantine_released", "quarantine_rejected"} <= {event.event_type for event in told}
    assert files.describe_file(session, "file:///late") is not None


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
