"""Every column of the catalog that a number follows from is compared by somebody, or is said to decide none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from disarray.engine.verification.comparison import ROLLUP_PARTS, SEGMENTS, SUMMARIES
from tests.store.test_audit import filled, world  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from disarray.engine.verification.comparison import Comparison
    from tests.store.test_audit import World

pytestmark = pytest.mark.postgres

# What `verify` recomputes from the sources and compares; tests/engine/test_verification.py shows that it does.
VERIFIED: dict[str, Comparison] = {"segment": SEGMENTS, "segment_metric": SUMMARIES, "rollup": ROLLUP_PARTS}
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
}
WHO = "who did it and when: no number and no plan follows from it"
TOLD = "told to people who look at a file; nothing is computed from it"
# Columns whose change nobody notices, and why that serves nobody anything wrong.
COSMETIC = {
    "segment.revision": "a plan on another revision is refused and made again",
    "segment.duplicates": "told to people who look at a segment; nothing is computed from it",
    "segment.run_id": WHO,
    "segment.sealed_at": WHO,
    "fragment.fragment_id": "a number for the row",
    "fragment.created_at": WHO,
    "fragment.run_id": WHO,
    "fragment.dropped_at": "when the vacuum may delete the bytes; readers that lose them are told",
    "fragment.parse_version": "compared with that of the subject before anything is compacted",
    "fragment.contradicts": "which reason the quarantine gives; that it is parked is another column",
    "file_info.announced_hash": "what is to come: a wrong one makes a file be read once more, and that changes nothing",
    "file_info.quiet_hash": "whether an unterminated last line is asked for once more, and that changes nothing",
    "file_info.rejected_hash": "which version is not parked again; what counts does not follow from it",
    "file_info.parked_hash": "which version waits; a release reads the file as it is",
    "file_info.parked_at": WHO,
    "file_info.logical_start": TOLD,
    "file_info.logical_end": TOLD,
    "file_info.process_count": TOLD,
    "file_info.retry_count": "how often it is tried again; what counts does not follow from it",
    "file_info.crash_count": "whether it is claimed alone; what counts does not follow from it",
    "file_info.last_error": TOLD,
    "file_info.failed_at": WHO,
    "file_info.discarded_at": WHO,
    "file_info.first_seen_at": WHO,
    "file_info.last_seen_at": WHO,
    "file_fingerprint.run_id": WHO,
    "rollup_block.block": "a number for the row among those of its segment and rollup",
    "conflict.examples": "values shown beside a count that is recounted, and not for every pair",
    "subject_version.dataset": "a part of the key: what is left without its version is found by the readings",
    "dataset_version.registered_at": WHO,
    "dataset_version.in_force_since": WHO,
    "metric.unit": "printed beside a number; the next worker that starts writes it anew from disarray.toml",
    "unmatched_file.source_uri": "a list for people, made anew whenever the rules for files change; audit derives it",
    "unmatched_file.noted_at": WHO,
    "dimension.created_at": WHO,
    "lake_file.run_id": WHO,
    "lake_file.created_at": WHO,
    "lake_file.doomed_at": "a file that nothing may name any more; a commit that does is refused",
}
# Not to be tried on this plant, or to be had from nowhere else.
UNTRIED = {
    "fragment.cut_position": "nothing is cut here; the digest of the segment follows from it",
    "fragment.first_row": "nothing is packed here; the digest of the segment follows from it",
    "fragment.withdrawn_state": "what a blacklisted file counted for before is written down nowhere else",
    "file_info.status": "files that are pending or parked and are not found are rules of audit: test_audit.py",
    "file_info.failed_request": "a dead letter that does not say what was asked for is a rule of audit: test_audit.py",
    "file_info.metadata": "its lines are counted by rules of audit: test_audit.py; the rest is told to people",
    "file_info.arrival": "one more for all leaves the order; where it chooses winners, a digest follows from it",
    "file_fingerprint.fingerprint": "no formula changes it into another that can be read; verify reads files by it",
    "dataset_version.definition": "a worker that starts compares it with disarray.toml, and writes it anew",
    "dataset_version.superseded_at": "nothing is superseded here; work under a definition not in force is refused",
    "segment.table_digest": "no dataset has a table here; verify compares it with the rows",
    "dimension.dataset": "no dataset has a table here; a rule of audit finds another: test_dimensions.py",
    "dimension.column_name": "as dimension.dataset",
    "dimension.table_name": "as dimension.dataset",
}
CHANGES = {
    "bigint": "{0} + 1",
    "integer": "{0} + 1",
    "smallint": "1 - {0}",
    "boolean": "not {0}",
    "text": "{0} || 'x'",
    "double precision": "{0} + 1",
    "USER-DEFINED": "'parked'",
    "uuid": "gen_random_uuid()",
    "timestamp with time zone": "{0} + interval '1 hour'",
}
TABLES = (
    "segment",
    "segment_metric",
    "rollup",
    "rollup_block",
    "fragment",
    "lake_file",
    "file_info",
    "file_fingerprint",
    "conflict",
    "unmatched_file",
    "subject_version",
    "dataset_version",
    "metric",
    "dimension",
)


def columns(audited: World) -> list[tuple[str, str, str]]:
    found = audited.connection.execute(
        """
        select table_name::text, column_name::text, data_type::text
        from information_schema.columns
        where table_schema = 'disarray' and table_name = any(%s)
        order by table_name, ordinal_position
        """,
        (list(TABLES),),
    ).fetchall()
    return [(str(table), str(column), str(kind)) for table, column, kind in found]


def is_noticed(audited: World, table: str, column: str, kind: str) -> bool:
    """Change a column of every row, look, and change it back."""
    run = audited.connection.execute
    run(f"create temporary table kept as table disarray.{table}".encode())
    try:
        change = CHANGES[kind].format(column)
        which = f"{column} = 'active'" if column == "state" else f"{column} is not null"
        try:
            done = run(f"update disarray.{table} set {column} = {change} where {which}".encode())
        except psycopg.Error:
            return True  # the database refuses it
        if not done.rowcount:
            return False
        return bool(audited.broken())
    finally:
        # A table that others refer to is emptied and filled again as well.
        run(b"set session_replication_role = replica")
        run(f"delete from disarray.{table}".encode())
        run(f"insert into disarray.{table} overriding system value table kept".encode())
        run(b"reset session_replication_role")
        run(b"drop table kept")


def test_every_column_is_verified_or_audited_or_said_to_decide_nothing(world: World) -> None:  # noqa: F811
    unnoticed = [
        f"{table}.{column}"
        for table, column, kind in columns(world)
        if (table not in VERIFIED or column not in {"dataset", *VERIFIED[table].schema.names})
        and VERIFIED_PARTS.get(f"{table}.{column}") not in VERIFIED["rollup"].schema.names
        and f"{table}.{column}" not in COSMETIC.keys() | UNTRIED.keys()
        and not (kind in CHANGES and is_noticed(world, table, column, kind))
    ]
    assert not unnoticed, ", ".join(unnoticed)
    assert world.broken() == set(), "the test left something changed"


def test_what_is_said_to_decide_nothing_exists(world: World) -> None:  # noqa: F811
    named = COSMETIC.keys() | UNTRIED.keys() | VERIFIED_PARTS.keys()
    assert named <= {f"{table}.{column}" for table, column, _ in columns(world)}
