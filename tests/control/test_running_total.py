"""Bases by SQL against the law written out as a loop, bit for bit."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.control.audit_catalog import load_base_chains
from disarray.control.blocks import load_metric_blocks
from disarray.control.calls import fetch_dicts
from disarray.control.commits import MAX_SHIFT_ROWS
from disarray.control.replays import load_last_summaries, without_owner
from disarray.store.audit.bases import find_wrong_bases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.audit import Finding
    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

SECOND = 1_000_000
SEGMENT = 100 * SECOND
KINDS = ("sum", "count", "integral", "increase", "min", "max")
GAP = 150 * SECOND


@dataclass(frozen=True)
class Piece:
    """A summary as the scan kernel would have made it."""

    segment: int
    piece: int
    first: tuple[int, float, str | None] | None
    last: tuple[int, float, str | None] | None
    total: float | None
    first_reset: str | None
    last_reset: str | None


@dataclass(frozen=True)
class Base:
    """What SQL has to find for a piece."""

    base: float | None
    before: float | None
    prior: tuple[int, float, str | None] | None


@dataclass(frozen=True)
class MetricUnderTest:
    kind: str
    method: str
    is_integer: bool
    resets: bool


def junction(
    metric: MetricUnderTest,
    start: tuple[int, float, str | None] | None,
    end: tuple[int, float, str | None] | None,
) -> float:
    if start is None or end is None or metric.kind not in ("integral", "increase"):
        return 0
    (us0, x0, break0), (us1, x1, break1) = start, end
    if metric.kind == "increase":
        return x1 if x1 < x0 else x1 - x0
    if us1 - us0 > GAP or break0 != break1:
        return 0.0
    seconds = (us1 - us0) / 1e6
    if abs(x0 if metric.method == "previous" else x0 + x1) < 1e-280:
        return 0.0
    return x0 * seconds if metric.method == "previous" else ((x0 + x1) * 0.5) * seconds


def chain(metric: MetricUnderTest, pieces: list[Piece], block_us: int) -> list[Base]:
    """Rule 6 of the canonical arithmetic: one piece after the other in each block, and one block after the other."""
    bases: list[Base] = []
    former: Block | None = None
    for own in blocks_of(pieces, block_us):
        offsets = walk(metric, own)
        carried = own[: next((at for at in range(1, len(own)) if restarts(own[at - 1], own[at])), len(own))]
        opening = next((piece.first for piece in carried if piece.first), None)
        zero: float | None = None if metric.kind in ("min", "max") else 0
        if former is None or own[0].first_reset != former.last.last_reset:
            block = Base(zero, zero, None)
        else:
            block = step(metric, former, opening)
        for piece, offset in zip(own, offsets, strict=True):
            if not any(piece is each for each in carried):
                bases.append(offset)
                continue
            is_reached = offset.prior is not None or piece.first is not None
            bases.append(
                Base(
                    joined(metric, block.base if is_reached else block.before, offset.base),
                    joined(metric, block.base if offset.prior else block.before, offset.before),
                    offset.prior or block.prior,
                )
            )
        point = own[-1].last or bases[-1].prior
        former = Block(bases[-1].base, own[-1], point)
    return bases


@dataclass(frozen=True)
class Block:
    """What the next block continues from: the last piece, its base, and the last point."""

    base: float | None
    last: Piece
    point: tuple[int, float, str | None] | None


def blocks_of(pieces: list[Piece], block_us: int) -> list[list[Piece]]:
    own: dict[int, list[Piece]] = {}
    for piece in pieces:
        own.setdefault(piece.segment // block_us, []).append(piece)
    return list(own.values())


def restarts(former: Piece, piece: Piece) -> bool:
    return piece.piece == 1 or piece.first_reset != former.last_reset


def walk(metric: MetricUnderTest, pieces: list[Piece]) -> list[Base]:
    """Bases as if the history began with these pieces."""
    zero: float | None = None if metric.kind in ("min", "max") else 0
    bases = [Base(zero, zero, None)][: len(pieces)]
    for former, piece in pairwise(pieces):
        if restarts(former, piece):
            bases.append(Base(zero, zero, None))
        else:
            point = former.last or bases[-1].prior
            bases.append(step(metric, Block(bases[-1].base, former, point), piece.first))
    return bases


def step(metric: MetricUnderTest, former: Block, first: tuple[int, float, str | None] | None) -> Base:
    if metric.kind in ("min", "max"):
        extreme = joined(metric, former.base, former.last.total)
        return Base(extreme, extreme, former.point)
    assert former.base is not None
    assert former.last.total is not None
    return Base(
        former.base + (former.last.total + junction(metric, former.point, first)),
        former.base + former.last.total,
        former.point,
    )


def joined(metric: MetricUnderTest, ground: float | None, offset: float | None) -> float | None:
    if metric.kind in ("min", "max"):
        known = [value for value in (ground, offset) if value is not None]
        return (min(known) if metric.kind == "min" else max(known)) if known else None
    assert ground is not None
    assert offset is not None
    return ground + offset


@st.composite
def metrics(draw: st.DrawFn) -> MetricUnderTest:
    kind = draw(st.sampled_from(KINDS))
    is_integer = kind == "count" or (kind != "integral" and draw(st.booleans()))
    return MetricUnderTest(
        kind, draw(st.sampled_from(["trapezoid", "previous"])), is_integer, draw(st.booleans())
    )


@st.composite
def histories(draw: st.DrawFn, metric: MetricUnderTest) -> list[Piece]:
    if metric.is_integer:
        value: st.SearchStrategy[Any] = st.integers(-1000, 1000)
    else:
        value = st.floats(-1e6, 1e6).map(lambda x: x + 0.0)
    pieces = []
    for segment in sorted(draw(st.sets(st.integers(0, 12), max_size=7))):
        has_reset = metric.resets and draw(st.booleans())
        for number in (0, 1) if has_reset else (0,):
            start = segment * SEGMENT + number * SEGMENT // 2
            first = last = None
            if draw(st.integers(0, 3)):
                break_key = st.sampled_from(["[1]", "[2]"])
                first = (start + draw(st.integers(0, 9)) * SECOND, draw(value), draw(break_key))
                last = (first[0] + draw(st.integers(0, 30)) * SECOND, draw(value), draw(break_key))
            total = draw(value) if first or metric.kind not in ("min", "max") else None
            total = 0 if first is None and total is not None else total
            keys = [draw(st.sampled_from(["[7]", "[8]"])) if metric.resets else None for _ in range(2)]
            pieces.append(Piece(segment * SEGMENT, number, first, last, total, keys[0], keys[1]))
            if not has_reset:
                pieces[-1] = replace(pieces[-1], last_reset=keys[0])
    return pieces


def store(connection: Connection, metric: MetricUnderTest, pieces: list[Piece], block_us: int) -> None:
    suffix = "int" if metric.is_integer else "float"
    connection.execute(
        "insert into disarray.dataset_version values ('D', 'parse', 'scan', '{}', now(), now()) on conflict do nothing"
    )
    connection.execute(
        "insert into disarray.subject_version values ('S', 'D', 'parse', 'scan', %s)", (block_us,)
    )
    connection.execute("delete from disarray.metric")
    connection.execute(
        "insert into disarray.metric values ('D', 'scan', 'm', %s, %s, %s, %s, '')",
        (metric.kind, metric.method, GAP, metric.is_integer),
    )
    for piece in pieces:
        store_piece(connection, suffix, piece, block_us)


def store_piece(connection: Connection, suffix: str, piece: Piece, block_us: int) -> None:
    first, last = piece.first or (None, None, None), piece.last or (None, None, None)
    connection.execute(
        f"""
        insert into disarray.segment_summary (
            dataset, subject_key, metric, channel, segment_us, piece, readings, points, total_{suffix},
            first_us, first_{suffix}, first_break, first_reset, last_us, last_{suffix}, last_break, last_reset,
            block_us
        )
        values ('D', 'S', 'm', '', %s, %s, 5, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        on conflict on constraint segment_summary_pkey do update
        set total_{suffix} = excluded.total_{suffix}
        """.encode(),
        (
            *(piece.segment, piece.piece, 2 if piece.first else 0, piece.total),
            *(*first, piece.first_reset),
            *(*last, piece.last_reset),
            piece.segment // block_us * block_us,
        ),
    )


def recompute(connection: Connection, frontier: int) -> int:
    row = connection.execute(
        "select telemetry.recompute_running_totals('D', 'S', %s)", (frontier,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def shift(connection: Connection, changed: list[int]) -> int:
    row = connection.execute(
        "select bases_shifted from telemetry.shift_bases('D', 'S', %s, null, %s)", (min(changed), changed)
    ).fetchone()
    assert row is not None
    return int(row[0])


def stored_blocks(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("select * from disarray.metric_block order by block_us").fetchall()


def stored_bases(connection: Connection, metric: MetricUnderTest) -> list[Base]:
    suffix = "int" if metric.is_integer else "float"
    rows = connection.execute(
        f"""
        select base_{suffix}, before_{suffix}, prior_us, prior_{suffix}, prior_break
        from disarray.segment_metric
        order by segment_us, piece
        """.encode()
    ).fetchall()
    return [Base(base, before, None if us is None else (us, x, key)) for base, before, us, x, key in rows]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bases_equal_the_law_after_any_change_and_from_any_frontier(
    connection: Connection, data: st.DataObject
) -> None:
    metric = data.draw(metrics())
    pieces = data.draw(histories(metric))
    block_us = data.draw(st.sampled_from([1, 2, 3, 5, 100])) * SEGMENT
    suffix = "int" if metric.is_integer else "float"
    with connection.transaction(force_rollback=True):
        store(connection, metric, pieces, block_us)
        recompute(connection, 0)
        assert stored_bases(connection, metric) == chain(metric, pieces, block_us)
        if not pieces:
            return
        changed = pieces[data.draw(st.integers(0, len(pieces) - 1))].segment
        is_removed = data.draw(st.booleans())
        connection.execute("delete from disarray.segment_summary where segment_us = %s", (changed,))
        touched = [piece for piece in pieces if piece.segment == changed]
        pieces = [piece for piece in pieces if piece.segment != changed]
        if not is_removed:
            anew = [each if each.total is None else replace(each, total=each.total + 1) for each in touched]
            pieces = sorted([*pieces, *anew], key=lambda piece: (piece.segment, piece.piece))
            for each in anew:
                store_piece(connection, suffix, each, block_us)
        if data.draw(st.booleans()):
            recompute(connection, changed)
        else:
            shift(connection, [changed])
        assert stored_bases(connection, metric) == chain(metric, pieces, block_us)
        blocks = stored_blocks(connection)
        assert len(blocks) == len(blocks_of(pieces, block_us))
        assert recompute(connection, 0) == 0
        assert stored_blocks(connection) == blocks


def test_a_late_file_writes_the_bases_of_its_block_and_those_of_the_blocks_behind_it(
    connection: Connection,
) -> None:
    metric = MetricUnderTest("sum", "trapezoid", is_integer=True, resets=False)
    with connection.transaction(force_rollback=True):
        pieces = [
            Piece(at * SEGMENT, 0, (at * SEGMENT, 1, None), (at * SEGMENT, 1, None), 1, None, None)
            for at in range(1000)
        ]
        store(connection, metric, pieces, 20 * SEGMENT)
        recompute(connection, 0)
        pieces[110] = replace(pieces[110], total=2)
        connection.execute("delete from disarray.segment_summary where segment_us = %s", (110 * SEGMENT,))
        store_piece(connection, "int", pieces[110], 20 * SEGMENT)
        # Itself, the nine behind it in its block, and the 44 blocks behind that.
        assert shift(connection, [110 * SEGMENT]) == 10 + 44
        assert stored_bases(connection, metric) == chain(metric, pieces, 20 * SEGMENT)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bases_carried_on_from_anywhere_are_those_that_are_stored(
    connection: Connection, data: st.DataObject
) -> None:
    """A replay carries bases over a part of a history, and goes on from what it carried."""
    metric = data.draw(metrics())
    pieces = data.draw(histories(metric))
    block_us = data.draw(st.sampled_from([2, 3, 5])) * SEGMENT
    first, second = sorted(data.draw(st.tuples(st.integers(0, 12), st.integers(0, 12))))
    with connection.transaction(force_rollback=True):
        store(connection, metric, pieces, block_us)
        recompute(connection, 0)
        expected = chain(metric, pieces, block_us)[sum(piece.segment < first * SEGMENT for piece in pieces) :]
        seeds = load_last_summaries(connection, "D", "S", before_us=first * SEGMENT)
        carried = carry_on(connection, metric, seeds, range(first, second))
        seeds = [row for row in carried if row["summary"] is not None] or seeds
        carried += carry_on(connection, metric, seeds, range(second, 13))
    assert [base_of(row, metric) for row in carried] == expected


def carry_on(
    connection: Connection, metric: MetricUnderTest, seeds: Sequence[dict[str, Any]], segments: range
) -> list[dict[str, Any]]:
    """The pieces of some segments, their bases carried on from the seeds."""
    given = connection.execute(
        "select row_to_json(known) from disarray.segment_summary as known where segment_us >= %s and segment_us < %s",
        (segments.start * SEGMENT, segments.stop * SEGMENT),
    ).fetchall()
    declared = {"name": "m", "kind": metric.kind, "method": metric.method, "max_gap_us": GAP}
    pieces = [*(row["summary"] for row in seeds), *(piece for (piece,) in given)]
    blocks = [block for row in seeds for block in row["blocks"]]
    return fetch_dicts(
        connection,
        """
        select (made.carried).*, made.summary, made.blocks
        from disarray.carry_bases('D', 'S', %s::json, %s, %s::json, %s::json) as made
        order by (made.carried).segment_us, (made.carried).piece
        """,
        (
            json.dumps([{**declared, "is_integer": metric.is_integer, "unit": ""}]),
            segments.start * SEGMENT,
            json.dumps([without_owner(piece) for piece in pieces]),
            json.dumps([without_owner(block) for block in blocks]),
        ),
    )


def base_of(row: dict[str, Any], metric: MetricUnderTest) -> Base:
    suffix = "int" if metric.is_integer else "float"
    prior = (row["prior_us"], row[f"prior_{suffix}"], row["prior_break"])
    return Base(row[f"base_{suffix}"], row[f"before_{suffix}"], None if prior[0] is None else prior)


def audited(connection: Connection, block_us: int) -> list[Finding]:
    return list(
        find_wrong_bases(
            "S",
            load_base_chains(connection, "S"),
            load_metric_blocks(connection, "S"),
            block_lengths_us={"D": block_us},
            stale_from_us={},
        )
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_audit_finds_what_is_changed_in_a_block_and_nothing_in_those_that_are_right(
    connection: Connection, data: st.DataObject
) -> None:
    metric = data.draw(metrics())
    pieces = data.draw(histories(metric))
    block_us = data.draw(st.sampled_from([1, 2, 5])) * SEGMENT
    with connection.transaction(force_rollback=True):
        store(connection, metric, pieces, block_us)
        recompute(connection, 0)
        assert audited(connection, block_us) == []
        name = data.draw(
            st.sampled_from(["first_break", "first_reset", "last_break", "last_reset", "prior_break"])
        )
        changed = connection.execute(f"update disarray.metric_block set {name} = {name} || 'x'".encode())
        connection.execute(f"update disarray.metric_block set {name} = 'x' where {name} is null".encode())
        assert (audited(connection, block_us) != []) == (changed.rowcount > 0)


@dataclass(frozen=True)
class FormerHistory:
    """Pieces with bases as they were stored before there were blocks."""

    metric: MetricUnderTest
    pieces: list[Piece]
    block_us: int

    def store(self, connection: Connection) -> None:
        """The state between the migration and the functions."""
        store(connection, self.metric, self.pieces, self.block_us)
        suffix = "int" if self.metric.is_integer else "float"
        for piece, base in zip(self.pieces, walk(self.metric, self.pieces), strict=True):
            connection.execute(
                f"""
                update disarray.segment_summary
                set base_{suffix} = %s, before_{suffix} = %s, prior_us = %s, prior_{suffix} = %s, prior_break = %s
                where segment_us = %s and piece = %s
                """.encode(),
                (base.base, base.before, *(base.prior or (None, None, None)), piece.segment, piece.piece),
            )
        connection.execute(
            """
            create table disarray.former_base as
            select
                dataset, subject_key, metric, channel, segment_us, piece,
                base_float, base_int, before_float, before_int, prior_us
            from disarray.segment_summary
            """
        )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_upgrade_makes_blocks_of_bases_that_had_none(connection: Connection, data: st.DataObject) -> None:
    metric = data.draw(metrics())
    former = FormerHistory(
        metric, data.draw(histories(metric)), data.draw(st.sampled_from([1, 2, 5])) * SEGMENT
    )
    with connection.transaction(force_rollback=True):
        former.store(connection)
        connection.execute("select disarray.make_blocks()")
        assert stored_bases(connection, metric) == chain(metric, former.pieces, former.block_us)
        assert recompute(connection, 0) == 0


def test_an_upgrade_refuses_bases_that_do_not_follow_from_their_summaries(connection: Connection) -> None:
    metric = MetricUnderTest("sum", "trapezoid", is_integer=False, resets=False)
    pieces = [
        Piece(at * SEGMENT, 0, (at * SEGMENT, 0.1, None), (at * SEGMENT, 0.1, None), 0.1, None, None)
        for at in range(9)
    ]
    former = FormerHistory(metric, pieces, 2 * SEGMENT)
    with connection.transaction(force_rollback=True):
        former.store(connection)
        connection.execute(
            "update disarray.former_base set base_float = base_float + 1e-6 where segment_us = %s",
            (5 * SEGMENT,),
        )
        with pytest.raises(
            psycopg.DatabaseError, match=r"metric m of D/S at .*: the stored base is 0\.500001"
        ):
            connection.execute("select disarray.make_blocks()")


def test_a_shift_costs_what_the_subject_has_also_before_anybody_counted_it(connection: Connection) -> None:
    """A planner that takes a new subject for one row must not fold the whole history anew for each of its rows."""
    metric = MetricUnderTest("sum", "trapezoid", is_integer=False, resets=False)
    with connection.transaction(force_rollback=True):
        store(connection, metric, [], 100)
        connection.execute(
            """
            insert into disarray.segment_summary (
                dataset, subject_key, metric, channel, block_us, segment_us, piece, readings, points, total_float,
                first_us, first_float, last_us, last_float
            )
            select 'D', 'S', 'm', '', at / 100 * 100, at, 0, 1, 1, 1, at, 1, at, 1
            from generate_series(1, 4000) as at
            """
        )
        connection.execute("set local statement_timeout = '10s'")
        assert recompute(connection, 0) == 4000
        assert stored_bases(connection, metric)[-1].base == 3999


def test_a_late_file_of_a_thousand_channels_is_shifted_with_its_commit(connection: Connection) -> None:
    """Seven metrics of each, and four years of days to its right: nobody is told stale numbers."""
    metric = MetricUnderTest("sum", "trapezoid", is_integer=False, resets=False)
    with connection.transaction(force_rollback=True):
        store(connection, metric, [], 128 * SEGMENT)
        connection.execute(
            """
            insert into disarray.segment_summary (
                dataset, subject_key, metric, channel, block_us, segment_us, piece, readings, points, total_float,
                first_us, first_float, last_us, last_float
            )
            select
                'D', 'S', 'm', channel, at / 128 * 128 * %(us)s::bigint, at * %(us)s, 0, 1, 1, 1, at * %(us)s, 1, at, 1
            from generate_series(0, 2) as channel
            cross join generate_series(0::bigint, 11 * 128) as at
            """,
            {"us": SEGMENT},
        )
        recompute(connection, 0)
        [(rows,)] = connection.execute("select disarray.count_shifted('D', 'S', 0, array[0])").fetchall()
        assert rows == 3 * (128 + 12)
        assert shift(connection, [0]) <= rows
    assert rows / 3 * 7 * 1000 <= MAX_SHIFT_ROWS


@pytest.mark.parametrize("changed", [0, 639])
def test_a_shift_reads_what_its_blocks_have_and_nothing_of_other_subjects(
    connection: Connection, changed: int
) -> None:
    metric = MetricUnderTest("sum", "trapezoid", is_integer=False, resets=False)
    with connection.transaction(force_rollback=True):
        store(connection, metric, [], 128 * SEGMENT)
        connection.execute(
            """
            insert into disarray.segment_summary (
                dataset, subject_key, metric, channel, block_us, segment_us, piece, readings, points, total_float,
                first_us, first_float, last_us, last_float, first_reading_us, last_reading_us
            )
            select
                'D', subject, 'm', channel, at / 128 * 128 * %(us)s::bigint, at * %(us)s, 0, 1, 1, 1, at * %(us)s, 1,
                at * %(us)s, 1, at * %(us)s, at * %(us)s
            from unnest(array['S', 'T', 'U']) as subject
            cross join generate_series(0, 19) as channel
            cross join generate_series(0::bigint, 639) as at
            """,
            {"us": SEGMENT},
        )
        recompute(connection, 0)
        connection.execute("analyze disarray.segment_summary, disarray.metric_block")
        connection.execute(
            """
            update disarray.segment_summary set total_float = 2
            where subject_key = 'S' and segment_us = %s and channel = '7'
            """,
            (changed * SEGMENT,),
        )
        before = summaries_read(connection)
        connection.execute(
            """
            select telemetry.shift_bases(
                'D', 'S', %(us)s, jsonb_build_object('changed', array[%(us)s], 'heads', '[]'::jsonb), array[%(us)s]
            )
            """,
            {"us": changed * SEGMENT},
        )
        # Of twenty channels the block that holds the segment, some times; the plant has 38,400.
        assert summaries_read(connection) - before < 20 * 128 * 4


def summaries_read(connection: Connection) -> int:
    [(rows,)] = connection.execute(
        """
        select seq_tup_read + coalesce(idx_tup_fetch, 0)
        from pg_stat_xact_all_tables
        where relid = 'disarray.segment_summary'::regclass
        """
    ).fetchall()
    return int(rows)
