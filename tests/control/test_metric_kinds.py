"""Whatever does something with a metric by its kind knows every kind, and refuses one that it does not know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pyarrow as pa
import pytest

from disarray.control.audit_catalog import ChainLink
from disarray.control.values import MetricPiece
from disarray.engine.verification import base_check, metric_kinds
from disarray.kernels.scanning import folds
from disarray.model.description.format import ColumnType
from disarray.model.description.metrics import Metric, MetricKind
from disarray.queries.bases import ChannelSegment, end_value
from disarray.store.audit import bases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection

UNKNOWN = "median"
# A base of 5 and a fold of 3.
JOINED = {"sum": 8, "count": 8, "integral": 8, "increase": 8, "min": 3, "max": 5}
# From a point of 2 to one of 6, two seconds later.
STEPS = {"sum": 0, "count": 0, "integral": 8, "increase": 4, "min": 0, "max": 0}

JOINS = {
    "joined_float": "telemetry.joined_float({kind}, 5, 3)",
    "joined_int": "telemetry.joined_int({kind}, 5, 3)",
    "joined_number of floats": "telemetry.joined_number({kind}, false, 5, 3)",
    "joined_number of integers": "telemetry.joined_number({kind}, true, 5, 3)",
    "carried_float": "telemetry.carried_float({kind}, true, 5, 3)",
    "carried_int": "telemetry.carried_int({kind}, true, 5, 3)",
}
JUNCTIONS = {
    "junction_float": "telemetry.junction_float({kind}, 'trapezoid', 10000000, 0, 2, null, 2000000, 6, null)",
    "junction_int": "telemetry.junction_int({kind}, 0, 2, 2000000, 6)",
}


def metric_of(kind: str) -> Metric:
    return Metric(name="m", kind=cast("MetricKind", kind), input=None, type=ColumnType.FLOAT64)


def link_of(kind: str) -> ChainLink:
    link = object.__new__(ChainLink)
    object.__setattr__(link, "kind", kind)
    return link


def piece_of(base: float, total: float) -> MetricPiece:
    piece = object.__new__(MetricPiece)
    object.__setattr__(piece, "base", base)
    object.__setattr__(piece, "total", total)
    return piece


def by_query(kind: str) -> Any:
    piece = piece_of(5.0, 3.0)
    return end_value(metric_of(kind), ChannelSegment(piece, piece))


def by_audit(kind: str) -> Any:
    return bases.joined(link_of(kind), 5.0, 3.0)


def by_verify(kind: str) -> Any:
    return base_check._joined(metric_of(kind), pa.array([5.0]), pa.array([3.0]))[0].as_py()


def test_the_kinds_tested_here_are_all() -> None:
    assert list(JOINED) == list(STEPS) == list(MetricKind)


@pytest.mark.parametrize("table", [folds.FOLDS, metric_kinds.FOLDS, metric_kinds.ADDS_STEPS])
def test_tables_by_kind_have_every_kind(table: dict[MetricKind, object]) -> None:
    assert list(table) == list(MetricKind)


@pytest.mark.parametrize("kind", MetricKind)
@pytest.mark.parametrize("join", [by_query, by_audit, by_verify])
def test_every_kind_is_joined(join: Callable[[str], Any], kind: MetricKind) -> None:
    assert join(kind) == JOINED[kind]
    assert kind.is_extreme == (JOINED[kind] != 8)


@pytest.mark.parametrize("join", [by_query, by_audit, by_verify])
def test_no_program_joins_a_kind_that_it_does_not_know(join: Callable[[str], Any]) -> None:
    with pytest.raises((AssertionError, ValueError), match=UNKNOWN):
        join(UNKNOWN)


@pytest.fixture(scope="module")
def shared_connection(shared_dsn: str) -> Iterator[Connection]:
    with psycopg.connect(shared_dsn, autocommit=True) as session:
        yield session


def value_of(connection: Connection, expression: str, kind: str) -> Any:
    row = connection.execute(f"select {expression.format(kind=repr(str(kind)))}".encode()).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("expression", [pytest.param(text, id=name) for name, text in JOINS.items()])
def test_every_function_joins_every_kind_and_no_other(shared_connection: Connection, expression: str) -> None:
    found = {kind: value_of(shared_connection, expression, kind) for kind in [*MetricKind, UNKNOWN]}
    assert found == {**JOINED, UNKNOWN: None}


@pytest.mark.parametrize("name", JUNCTIONS)
def test_every_function_steps_between_points_of_every_kind_and_no_other(
    shared_connection: Connection, name: str
) -> None:
    found = {kind: value_of(shared_connection, JUNCTIONS[name], kind) for kind in [*MetricKind, UNKNOWN]}
    # An integral is of floats.
    known = {**STEPS, "integral": 0} if name == "junction_int" else STEPS
    assert found == {**known, UNKNOWN: None}


def carried_values(connection: Connection, kind: str) -> list[float]:
    """Two pieces with a fold of 3 each, and a base of 5 before both."""
    rows = connection.execute(
        """
        select
            (telemetry.carry(jsonb_populate_record(null::disarray.carried_piece, piece.value)) over in_time).base_float
        from jsonb_array_elements(%s::jsonb) as piece
        window in_time as (order by piece.value -> 'is_seed' desc)
        order by piece.value -> 'is_seed' desc
        """,
        (
            json.dumps(
                [
                    {
                        "kind": kind,
                        "piece": 0,
                        "total_float": 3,
                        "is_integer": False,
                        "is_seed": True,
                        "base_float": 5,
                    },
                    {"kind": kind, "piece": 0, "total_float": 3, "is_integer": False, "is_seed": False},
                ]
            ),
        ),
    ).fetchall()
    return [base for (base,) in rows]


@pytest.mark.parametrize("kind", MetricKind)
def test_every_kind_is_carried(shared_connection: Connection, kind: MetricKind) -> None:
    assert carried_values(shared_connection, kind) == [5, JOINED[kind]]


def test_a_kind_that_is_not_known_is_carried_nowhere(shared_connection: Connection) -> None:
    with pytest.raises(psycopg.DatabaseError, match="v_is_extreme"):
        carried_values(shared_connection, UNKNOWN)
