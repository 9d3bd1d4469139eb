"""The view of readings with their running values: what it makes of every base, and how it comes after former ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control.migrations import migrate

if TYPE_CHECKING:
    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

KINDS = ("sum", "count", "integral", "increase", "min", "max")
# One of each kind and type, and one that restarts.
METRICS = [
    {
        "metric": f"{kind}_{word}",
        "name": f"{kind}_{word}",
        "local": f"_local_{kind}_{word}",
        "restarted": "_restarted_sum_int" if (kind, word) == ("sum", "int") else None,
        "type": {"int": "int64", "float": "float64"}[word],
        "kind": kind,
    }
    for kind in KINDS
    for word in ("int", "float")
    if (kind, word) != ("integral", "int")
]
DEFINITION = {
    "table": "d",
    "running": "d_running",
    "columns": [],
    "metrics": METRICS,
    "segment_us": 100,
    "chunk_us": 2_592_000_000_000,
}


@pytest.fixture
def readings(connection: Connection) -> Connection:
    """Three readings of each of 96 channels, no two of which have the same sort of base."""
    connection.execute("select disarray.change_store('D', 'timescale', %s::jsonb)", (json.dumps(DEFINITION),))
    connection.execute("select disarray.prepare_months('D', array[0])")
    connection.execute(
        """
        create temporary table drawn as
        select
            row_number() over ()::integer as number,
            to_char(row_number() over (), '"c"FM000') as channel,
            drawn.*
        from (
            select *
            from unnest(array[true, false, null]) as is_carried
            cross join unnest(array[0, 3]) as points
            cross join unnest(array[50, null]) as prior_us
            cross join unnest(array[true, false]) as has_block
            -- Nothing is known yet of the base in the block, or of the base of the block.
            cross join unnest(array[true, false]) as has_base
            cross join unnest(array[true, false]) as has_ground
        ) as drawn
        """
    )
    connection.execute(
        """
        insert into disarray.segment_summary (
            dataset, subject_key, metric, channel, block_us, segment_us, piece, readings,
            points, first_us, last_us, prior_us, is_carried, base_int, before_int, base_float, before_float
        )
        select
            'D', 'S', metric, channel, 100, 200, piece, 3, points,
            case when points > 0 then 200 end, case when points > 0 then 202 end,
            prior_us, is_carried,
            case when has_base then mod(number, 7) + piece end,
            case when has_base then mod(number, 5) end,
            case when has_base then 0.1 * number + piece end,
            case when has_base then 0.3 * number end
        from drawn
        cross join unnest(%s::text[]) as metric
        cross join generate_series(0, 1) as piece
        """,
        ([each["metric"] for each in METRICS],),
    )
    connection.execute(
        """
        insert into disarray.metric_block (
            dataset, subject_key, metric, channel, block_us, kind, restarts,
            base_int, before_int, base_float, before_float
        )
        select
            'D', 'S', metric, channel, block_us, split_part(metric, '_', 1), false,
            case when has_ground then mod(number, 11) + block_us end,
            case when has_ground then mod(number, 3) + block_us end,
            case when has_ground then 0.7 * number + block_us end,
            case when has_ground then 1.1 * number + block_us end
        from drawn
        cross join unnest(%s::text[]) as metric
        cross join unnest(array[100, 400]) as block_us
        where has_block
        """,
        ([each["metric"] for each in METRICS],),
    )
    locals_of = ", ".join(
        f"case when place > 0 then mod(number, 4) + {0 if each['type'] == 'int64' else 0.01} end"
        for each in METRICS
    )
    connection.execute(
        f"""
        insert into telemetry.d (
            event_at, _segment_us, position, ordinal, _source_id, subject_key, channel, _restarted_sum_int,
            {", ".join(str(each["local"]) for each in METRICS)}
        )
        select
            disarray.instant_of(segment_us + place), segment_us, 0, 3 * number + place, 1, 'S', channel,
            place = 2, {locals_of}
        from drawn
        cross join generate_series(0, 2) as place
        -- Of the second one no summary is stored.
        cross join unnest(array[200, 300]) as segment_us
        where segment_us = 200 or number = 1
        """.encode()
    )
    connection.execute("drop table drawn")
    return connection


def bases_of(connection: Connection) -> dict[tuple[str, str], tuple[Any, ...]]:
    rows = connection.execute(
        """
        select metric, channel, base_int, before_int, base_float, before_float
        from disarray.segment_metric
        where piece = 0
        """
    ).fetchall()
    return {(metric, channel): tuple(bases) for metric, channel, *bases in rows}


def value_of(metric: dict[str, Any], bases: tuple[Any, ...], local: Any, *, restarted: bool) -> Any:
    base, before = bases[:2] if metric["type"] == "int64" else bases[2:]
    if base is None and metric["kind"] not in ("min", "max"):
        return None
    if restarted and metric["restarted"] is not None:
        return local
    if local is None:
        return before
    if metric["kind"] in ("min", "max"):
        return {"min": min, "max": max}[metric["kind"]](each for each in (base, local) if each is not None)
    return base + local


def test_the_view_has_every_base_as_segment_metric_has_it(readings: Connection) -> None:
    bases = bases_of(readings)
    names = ", ".join(f"shown.{each['name']}, held.{each['local']}" for each in METRICS)
    rows = readings.execute(
        f"""
        select held.channel, held._restarted_sum_int, held.ordinal, {names}
        from telemetry.d_running as shown
        inner join telemetry.d as held using (subject_key, channel, event_at, ordinal)
        where held._segment_us = 200
        """.encode()
    ).fetchall()
    assert len(rows) == 96 * 3
    found, wanted = {}, {}
    for channel, restarted, ordinal, *values in rows:
        for place, metric in enumerate(METRICS):
            key = (channel, ordinal, str(metric["metric"]))
            shown, local = values[2 * place : 2 * place + 2]
            found[key] = shown
            wanted[key] = value_of(metric, bases[str(metric["metric"]), channel], local, restarted=restarted)
    assert found == wanted
    assert len(set(found.values())) > 100
    without_summary = readings.execute(
        """
        select sum_int, sum_float, min_int from telemetry.d_running
        where event_at >= disarray.instant_of(300)
        order by event_at
        """
    ).fetchall()
    assert without_summary == [(None, None, None), (None, None, 1), (None, None, 1)]


def relations_read(connection: Connection, view: str) -> set[str]:
    rows = connection.execute(
        """
        select distinct link.refobjid::regclass::text
        from pg_rewrite as rule
        inner join pg_depend as link on rule.oid = link.objid and link.classid = 'pg_rewrite'::regclass
        where
            rule.ev_class = %s::regclass
            and link.refclassid = 'pg_class'::regclass
        """,
        (view,),
    ).fetchall()
    return {name for (name,) in rows}


# As the programs before had it, for one metric.
FORMER = """
create or replace view telemetry.d_running as
select
    reading.subject_key,
    reading.event_at,
    reading.channel,
    case when base_1.base_float is null then null when reading._local_work is null then base_1.before_float
        else base_1.base_float + reading._local_work end as work,
    true as is_final,
    null::text as source_uri,
    reading.position,
    reading.ordinal
from telemetry.d as reading
left join disarray.segment_metric as base_1
    on
        base_1.dataset = 'D' and base_1.subject_key = reading.subject_key and base_1.metric = 'work'
        and base_1.channel = reading.channel and base_1.segment_us = reading._segment_us and base_1.piece = 0
"""


def test_a_view_of_a_former_program_is_replaced_where_it_is_once(connection: Connection) -> None:
    work = {
        "metric": "work",
        "name": "work",
        "local": "_local_work",
        "restarted": None,
        "type": "float64",
        "kind": "sum",
    }
    definition = json.dumps({**DEFINITION, "metrics": [work]})
    connection.execute("select disarray.change_store('D', 'timescale', %s::jsonb)", (definition,))
    current = connection.execute("select pg_get_viewdef('telemetry.d_running'::regclass)").fetchone()
    connection.execute("set role disarray_owner")
    connection.execute(FORMER.encode())
    connection.execute("reset role")
    connection.execute("create view public.mine as select work from telemetry.d_running")
    connection.execute("create materialized view public.kept as select work from telemetry.d_running")
    before = connection.execute(
        "select oid, relowner, relacl from pg_class where oid = 'telemetry.d_running'::regclass"
    )
    replaced = before.fetchone()
    assert "disarray.segment_metric" in relations_read(connection, "telemetry.d_running")
    migrate(connection)
    assert {"disarray.segment_summary", "disarray.metric_block"} < relations_read(
        connection, "telemetry.d_running"
    )
    assert connection.execute("select pg_get_viewdef('telemetry.d_running'::regclass)").fetchone() == current
    assert (
        replaced
        == connection.execute(
            "select oid, relowner, relacl from pg_class where oid = 'telemetry.d_running'::regclass"
        ).fetchone()
    )
    connection.execute("select from public.mine, public.kept")
    written = connection.execute("select xmin from pg_class where relname = 'd_running'").fetchone()
    rewritten = connection.execute("select disarray.flatten_running_views()").fetchone()
    assert rewritten == (0,)
    assert written == connection.execute("select xmin from pg_class where relname = 'd_running'").fetchone()


@pytest.mark.parametrize("role", ["disarray_reader", "disarray_operator", "disarray_worker"])
def test_who_reads_the_view_needs_no_right_beside_it(readings: Connection, role: str) -> None:
    own = readings.execute("select * from telemetry.d_running order by channel, ordinal").fetchall()
    readings.execute(f"set role {role}".encode())
    assert readings.execute("select * from telemetry.d_running order by channel, ordinal").fetchall() == own
