"""Bases by SQL against the law written out as a loop, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
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


def chain(metric: MetricUnderTest, pieces: list[Piece]) -> list[Base]:
    """Rule 6 of the canonical arithmetic, one piece after the other."""
    bases: list[Base] = []
    point: tuple[int, float, str | None] | None = None
    former: Piece | None = None
    for piece in pieces:
        restarts = former is None or piece.piece == 1 or piece.first_reset != former.last_reset
        zero: float | None = None if metric.kind in ("min", "max") else 0
        if restarts or former is None:
            point, base, before = None, zero, zero
        elif metric.kind in ("min", "max"):
            known = [value for value in (bases[-1].base, former.total) if value is not None]
            base = (min(known) if metric.kind == "min" else max(known)) if known else None
            before = base
        else:
            assert bases[-1].base is not None
            assert former.total is not None
            base = bases[-1].base + (former.total + junction(metric, point, piece.first))
            before = bases[-1].base + former.total
        bases.append(Base(base, before, point))
        point = piece.last or point
        former = piece
    return bases


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


def store(connection: Connection, metric: MetricUnderTest, pieces: list[Piece]) -> None:
    suffix = "int" if metric.is_integer else "float"
    connection.execute(
        "insert into disarray.dataset_version values ('D', 'parse', 'scan', '{}', now(), now()) on conflict do nothing"
    )
    connection.execute(
        "insert into disarray.subject_version values ('S', 'D', 'parse', 'scan') on conflict do nothing"
    )
    connection.execute("delete from disarray.metric")
    connection.execute(
        "insert into disarray.metric values ('D', 'scan', 'm', %s, %s, %s, %s, '')",
        (metric.kind, metric.method, GAP, metric.is_integer),
    )
    for piece in pieces:
        store_piece(connection, suffix, piece)


def store_piece(connection: Connection, suffix: str, piece: Piece) -> None:
    first, last = piece.first or (None, None, None), piece.last or (None, None, None)
    connection.execute(
        f"""
        insert into disarray.segment_metric (
            dataset, subject_key, metric, channel, segment_us, piece, readings, points, total_{suffix},
            first_us, first_{suffix}, first_break, first_reset, last_us, last_{suffix}, last_break, last_reset
        )
        values ('D', 'S', 'm', '', %s, %s, 5, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        on conflict on constraint segment_metric_pkey do update
        set total_{suffix} = excluded.total_{suffix}
        """.encode(),
        (
            *(piece.segment, piece.piece, 2 if piece.first else 0, piece.total),
            *(*first, piece.first_reset),
            *(*last, piece.last_reset),
        ),
    )


def recompute(connection: Connection, frontier: int) -> int:
    row = connection.execute(
        "select telemetry.recompute_running_totals('D', 'S', %s)", (frontier,)
    ).fetchone()
    assert row is not None
    return int(row[0])


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
    with connection.transaction(force_rollback=True):
        store(connection, metric, pieces)
        recompute(connection, 0)
        assert stored_bases(connection, metric) == chain(metric, pieces)
        if not pieces:
            return
        changed = data.draw(st.integers(0, len(pieces) - 1))
        if pieces[changed].total is not None:
            pieces[changed] = replace(pieces[changed], total=(pieces[changed].total or 0) + 1)
        store_piece(connection, "int" if metric.is_integer else "float", pieces[changed])
        recompute(connection, pieces[changed].segment)
        assert stored_bases(connection, metric) == chain(metric, pieces)
        assert recompute(connection, 0) == 0


def test_a_shift_costs_what_the_subject_has_also_before_anybody_counted_it(connection: Connection) -> None:
    """A planner that takes a new subject for one row must not fold the whole history anew for each of its rows."""
    metric = MetricUnderTest("sum", "trapezoid", is_integer=False, resets=False)
    with connection.transaction(force_rollback=True):
        store(connection, metric, [])
        connection.execute(
            """
            insert into disarray.segment_metric (
                dataset, subject_key, metric, channel, segment_us, piece, readings, points, total_float,
                first_us, first_float, last_us, last_float
            )
            select 'D', 'S', 'm', '', at, 0, 1, 1, 1, at, 1, at, 1
            from generate_series(1, 4000) as at
            """
        )
        connection.execute("set local statement_timeout = '10s'")
        assert recompute(connection, 0) == 4000
        assert stored_bases(connection, metric)[-1].base == 3999
