"""Rollup parts as columns: cut into blocks, sent in two forms, read back part by part with all their bits."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.control.records import RecordArray, Records, type_numbers
from disarray.kernels.binary_records import encode_records
from disarray.kernels.scanning import rollup_blocks
from disarray.kernels.scanning.rollup_blocks import RollupBlock, pack_parts
from disarray.kernels.scanning.rollups import ROLLUP_SCHEMA
from disarray.kernels.scanning.summaries import SUMMARY_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
NUMBERS = {
    "value_int": INTS,
    "value_float": FLOATS,
    "at_us": INTS,
    "pivot": FLOATS,
    "offset_sum": FLOATS,
    "offset_square_sum": FLOATS,
}


@st.composite
def segments(draw: st.DrawFn) -> pa.Table:
    """The parts of one segment as a scan gives them: every aggregate has one for each bucket of a channel."""
    rows: list[dict[str, Any]] = []
    for rollup in draw(st.lists(TEXTS, min_size=1, max_size=2, unique=True)):
        aggregates = draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
        places = draw(st.lists(st.tuples(TEXTS, st.integers(0, 5)), min_size=1, max_size=8, unique=True))
        if draw(st.booleans()):
            places = [
                (channel, bucket) for channel in {c for c, _ in places} for bucket in {b for _, b in places}
            ]
        points = draw(st.none() | st.integers(0, 2**62))
        has = draw(st.sets(st.sampled_from(sorted(NUMBERS))))
        for aggregate in aggregates:
            for channel, bucket in sorted(places, key=lambda place: (place[0].encode(), place[1])):
                numbers = {name: draw(st.none() | NUMBERS[name]) for name in sorted(has)}
                rows.append(
                    {
                        "segment_us": 7,
                        "rollup": rollup,
                        "aggregate": aggregate,
                        "channel": channel,
                        "bucket_us": bucket * 10,
                        "bucket_end_us": bucket * 10 + 10,
                        "label": "shift" if bucket % 2 else "",
                        "points": draw(st.integers(0, 2**62)) if points is None else points + bucket,
                        **numbers,
                    }
                )
    return pa.Table.from_pylist(rows, schema=ROLLUP_SCHEMA)


def bits(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(struct.pack("d", value) if isinstance(value, float) else value for value in row)


def stored_parts(connection: Connection) -> list[tuple[Any, ...]]:
    names = ", ".join(ROLLUP_SCHEMA.names)
    rows = connection.execute(f"select {names} from disarray.rollup".encode())
    return sorted((bits(row) for row in rows), key=repr)


def assert_channels_are_read_alone(connection: Connection, parts: pa.Table) -> None:
    """What is loaded of one channel are its parts among those of all, in the same order; of none, nothing."""
    names = ", ".join(ROLLUP_SCHEMA.names)
    query = f"select {names} from disarray.load_rollup('tools', 'T1', %s, -100, 100, %s)".encode()
    for rollup in sorted(set(parts.column("rollup").to_pylist())):
        everything = [bits(row) for row in connection.execute(query, (rollup, None))]
        assert len(everything) == parts.column("rollup").to_pylist().count(rollup)
        for channel in {*parts.column("channel").to_pylist(), "none of them"}:
            found = [bits(row) for row in connection.execute(query, (rollup, channel))]
            assert found == [
                row for row in everything if row[ROLLUP_SCHEMA.names.index("channel")] == channel
            ]


def put(connection: Connection, blocks: Sequence[RollupBlock], *, is_binary: bool) -> None:
    if is_binary:
        _, number = type_numbers(connection)
        given = RecordArray(number, Records(len(blocks), [block.record() for block in blocks]))
        source = "%s::disarray.scanned_rollup[]"
        argument: object = given
    else:
        source = (
            "array(select row from json_populate_recordset(null::disarray.scanned_rollup, %s::json) as row)"
        )
        argument = json.dumps([block.document() for block in blocks], allow_nan=False)
    connection.execute(f"select disarray.put_rollups('T1', 'tools', {source})".encode(), (argument,))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=segments(), block_parts=st.integers(1, 12), is_binary=st.booleans())
def test_parts_come_back_with_all_their_bits_however_they_travel_and_are_cut(
    connection: Connection, parts: pa.Table, block_parts: int, *, is_binary: bool
) -> None:
    with pytest.MonkeyPatch.context() as patched, connection.transaction(force_rollback=True):
        patched.setattr(rollup_blocks, "BLOCK_PARTS", block_parts)
        blocks = list(pack_parts(parts))
        put(connection, blocks, is_binary=is_binary)
        given_parts = sorted((bits(list(row.values())) for row in parts.to_pylist()), key=repr)
        assert stored_parts(connection) == given_parts
        assert_channels_are_read_alone(connection, parts)
        spans = connection.execute(
            """
            select count(*) from disarray.rollup_block
            where
                first_bucket_us = (select min(bucket) from unnest(buckets_us) as bucket)
                and last_bucket_end_us = (select max(bucket) from unnest(bucket_ends_us) as bucket)
            """
        ).fetchone()
    assert spans == (len(blocks),)
    assert sum(block.parts for block in blocks) == parts.num_rows
    assert all(block.parts <= max(block_parts, len(block.aggregates)) for block in blocks)
    again = [RollupBlock.of_document(json.loads(json.dumps(block.document()))) for block in blocks]
    assert [block.record() for block in again] == [block.record() for block in blocks]


def test_summaries_come_back_with_all_their_bits(connection: Connection) -> None:
    rows: list[dict[str, Any]] = [
        {
            "segment_us": -1, "channel": "é", "metric": "m", "piece": 1, "readings": 2**62, "first_reading_us": -5,
            "last_reading_us": 5, "points": 2, "total_float": -0.1, "first_us": -5, "first_float": 5e-324,
            "first_break": '["a"]', "last_us": 5, "last_float": -1.7976931348623157e308, "last_break": "",
            "first_reset": None, "last_reset": "[null]",
        },
        {"segment_us": 0, "channel": "", "metric": "m", "piece": 0, "readings": 1, "points": 0, "total_int": 0},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=SUMMARY_SCHEMA)
    number, _ = type_numbers(connection)
    connection.execute(
        """
        insert into disarray.dataset_version
            (dataset, parse_version, scan_version, definition, registered_at, in_force_since)
        values ('tools', '', '', '{}', disarray.clock(), disarray.clock());
        insert into disarray.subject_version (subject_key, dataset, parse_version, scan_version, block_length_us)
        values ('T1', 'tools', '', '', 3);
        """
    )
    connection.execute(
        "select disarray.put_summaries('T1', 'tools', %s::disarray.scanned_summary[])",
        (
            RecordArray(
                number, Records(2, [encode_records(table.slice(0, 1)), encode_records(table.slice(1))])
            ),
        ),
    )
    names = ", ".join(SUMMARY_SCHEMA.names)
    query = f"select {names} from disarray.segment_metric order by segment_us"
    assert [bits(row) for row in connection.execute(query.encode())] == [
        bits(list(row.values())) for row in table.to_pylist()
    ]


def test_only_blocks_of_the_span_are_opened(connection: Connection) -> None:
    rows = [
        {
            "segment_us": day * 86_400, "rollup": "hourly", "aggregate": "n", "channel": "c",
            "bucket_us": day * 86_400, "bucket_end_us": day * 86_400 + 3600, "label": "", "points": 1,
        }
        for day in range(2000)
    ]  # fmt: skip
    blocks = [
        block for row in rows for block in pack_parts(pa.Table.from_pylist([row], schema=ROLLUP_SCHEMA))
    ]
    put(connection, blocks, is_binary=True)
    connection.execute("analyze disarray.rollup_block")
    found = connection.execute(
        "select bucket_us from disarray.load_rollup('tools', 'T1', 'hourly', %s, %s)",
        (1990 * 86_400, 1992 * 86_400),
    ).fetchall()
    assert found == [(1990 * 86_400,), (1991 * 86_400,)]
    [body] = connection.execute(
        "select prosrc from pg_proc where oid = 'disarray.load_rollup'::regproc"
    ).fetchall()[0]
    for name, value in (
        ("p_dataset", "'tools'"),
        ("p_subject_key", "'T1'"),
        ("p_rollup", "'hourly'"),
        ("p_from_us", str(1990 * 86_400)),
        ("p_to_us", str(1992 * 86_400)),
        ("p_channel", "null::text"),
    ):
        body = body.replace(name, value)
    connection.execute("set search_path = disarray")
    plan = connection.execute(f"explain (analyze, timing off, format json) {body}".encode()).fetchone()
    assert plan is not None

    def opened(node: dict[str, Any]) -> float:
        own = node["Actual Rows"] * node["Actual Loops"] if node.get("Alias") == "block" else 0
        return float(own + sum(opened(child) for child in node.get("Plans", ())))

    assert opened(plan[0][0]["Plan"]) <= 4


def test_a_block_that_lacks_a_part_is_refused(connection: Connection) -> None:
    block = {
        "rollup": "r", "segment_us": 0, "block": 0, "first_bucket_us": 0, "last_bucket_end_us": 2, "channels": ["", ""],
        "buckets_us": [0, 1], "bucket_ends_us": [1, 2], "labels": ["", ""], "aggregates": ["n"], "points": [1],
    }  # fmt: skip
    with pytest.raises(Exception, match="each_aggregate_has_a_part_for_each_bucket"):
        put(connection, [RollupBlock.of_document(block)], is_binary=True)


def table_of(places: Sequence[tuple[str, int]], points: Sequence[int] = (1, 1)) -> pa.Table:
    """Parts of so many aggregates, each with as many points everywhere."""
    rows = [
        {
            "segment_us": 0, "rollup": "r", "aggregate": f"a{number}", "channel": channel, "bucket_us": bucket,
            "bucket_end_us": bucket + 1, "label": "", "points": count, "value_int": bucket,
        }
        for number, count in enumerate(points)
        for channel, bucket in places
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ROLLUP_SCHEMA)


def test_a_grid_names_each_channel_and_each_bucket_once() -> None:
    [block] = pack_parts(table_of([(channel, bucket) for channel in "abc" for bucket in (3, 5)]))
    assert (block.is_grid, block.parts) == (True, 12)
    assert block.channels.to_pylist() == ["a", "b", "c"]
    assert block.buckets_us.to_pylist() == [3, 5]
    assert block.points.to_pylist() == [1] * 6
    assert block.values_int is not None
    assert block.values_int.to_pylist() == [3, 5] * 6


def test_channels_with_other_buckets_are_no_grid() -> None:
    [block] = pack_parts(table_of([("a", 3), ("a", 5), ("b", 3), ("b", 6)], points=(1, 2)))
    assert (block.is_grid, block.parts) == (False, 8)
    assert block.channels.to_pylist() == ["a", "a", "b", "b"]
    assert block.points.to_pylist() == [1] * 4 + [2] * 4


@pytest.mark.parametrize(("block_parts", "cuts"), [(8, [["a", "b"], ["c"]]), (2, [[c] for c in "aabbcc"])])
def test_a_grid_is_cut_between_channels_or_within_one(
    monkeypatch: pytest.MonkeyPatch, block_parts: int, cuts: list[list[str]]
) -> None:
    monkeypatch.setattr(rollup_blocks, "BLOCK_PARTS", block_parts)
    blocks = list(pack_parts(table_of([(channel, bucket) for channel in "abc" for bucket in (3, 5)])))
    assert [block.channels.to_pylist() for block in blocks] == cuts
    assert all(block.is_grid for block in blocks)
