"""Verification finds what went wrong behind its back: a corrupted row, a lost chunk, a chunk that was applied twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from disarray.backfill.arrow_function import table_of
from disarray.backfill.checksum import row_hash, shown_checksum, value_text
from disarray.backfill.user_database.row_check import with_derived_check
from disarray.backfill.user_database.session import load_layout, prepare_session
from disarray.backfill.user_database.table import RowsRead, Stretch, UserTable
from disarray.control import backfills, connections, hooks, side_effects
from disarray.errors import BackfillTargetError
from tests.backfill.conftest import ADD_ONE, Shop, merged, spec_of

if TYPE_CHECKING:
    from disarray.control.backfills import BackfillRecord

HOOK: dict[str, object] = {
    "hook_name": "ends", "kind": "webhook", "subject_patterns": ["*"], "dataset_patterns": ["*"],
    "causes": ["backfill_ended"], "larger_than": {}, "no_data_since_seconds": None,
    "stale_longer_than_seconds": None, "definition": {}, "definition_digest": "d",
}  # fmt: skip
DERIVED = {"update": {"set": {"net": "gross - tax"}}}
VALUES = """
create table shop.things (
    id int8 primary key, flag bool, small int2, words text, name varchar(20), real4 float4, real8 float8,
    price numeric(20, 4), any_number numeric, day date, at timestamp, instant timestamptz, raw bytea, code uuid
);
insert into shop.things values
    (1, true, -3, 'Größe: 5 µm 😀', '', 0.1, 1e300, 12.5, 1e30, '1999-12-31', '2026-01-02 03:04:05.678901',
     '2026-01-02 03:04:05+05', '\\x00ff', '0aa9d1b8-8c1c-4d6c-b6e5-0c5d9c2f7a11'),
    (2, false, 0, '-', '1:2', -0.0, '-0.0', 0, 0.000, '2024-02-29', '1969-12-31 23:59:59.999999',
     '1900-01-01', '', '00000000-0000-0000-0000-000000000000'),
    (3, null, null, null, null, null, null, null, null, null, null, null, null, null),
    (4, true, 7, '5:', 'x', 16777217, 0.30000000000000004, -1000.0001, 100, '0001-01-01', '2000-01-01',
     '2026-06-01', '\\x01', 'ffffffff-ffff-ffff-ffff-ffffffffffff')
"""


def run_and_then(shop: Shop, document: dict[str, Any], statement: str) -> BackfillRecord:
    """A backfill, something behind its back before it is verified, and the verdict."""
    job_id = shop.start(document)
    worker = shop.worker(job_id)
    while shop.job(job_id).chunks_done < 5:
        worker.step()
    shop.connection.execute(statement.encode())
    shop.run(job_id)
    return shop.job(job_id)


def test_the_checksum_is_the_same_in_sql_and_in_python(shop: Shop) -> None:
    shop.connection.execute(VALUES.encode())
    prepare_session(shop.connection)
    layout = load_layout(shop.connection, "shop.things")
    columns = [column.name for column in layout.columns if column.name != "id"]
    spec = spec_of(
        ADD_ONE, {"source": {"table": "shop.things"}, "update": {"set": dict.fromkeys(columns, "null")}}
    )
    table = UserTable(spec, layout)
    measured = table.measure(shop.connection, Stretch(None, ("9",)))
    # As a function gets them and gives them back: through Arrow, in any order.
    with shop.connection.cursor() as cursor:
        rows = cursor.execute("select * from shop.things order by id desc").fetchall()
    read = RowsRead(
        [], [], {column.name: [row[n] for row in rows] for n, column in enumerate(layout.columns)}
    )
    read.values["code"] = [None if code is None else str(code) for code in read.values["code"]]
    given = table_of(read, layout.columns)
    values = [given.column(column.name).to_pylist() for column in layout.columns]
    rules = [column.rule for column in layout.columns]
    texts = [
        [value_text(own[n], rule) for own, rule in zip(values, rules, strict=True)] for n in range(len(rows))
    ]
    assert (measured.rows, measured.checksum) == (4, shown_checksum(sum(map(row_hash, texts))))
    for name in columns:
        with shop.connection.transaction(force_rollback=True):
            shop.connection.execute(f"update shop.things set {name} = null where id = 2".encode())
            assert table.measure(shop.connection, Stretch(None, ("9",))) != measured, name


@pytest.mark.parametrize(
    ("document", "statement", "verdict", "named"),
    [
        ({}, "update shop.orders set touched = 7 where id = 75", "changed", "chunk 2: 1 rows were changed"),
        (
            DERIVED,
            "update shop.orders set net = net + 1 where id = 75",
            "failed",
            "chunk 2: 1 rows do not hold",
        ),
        (
            {},
            "update shop.orders set touched = touched - 1 where id > 60 and id <= 120",
            "changed",
            "chunk 2: 20 rows were changed",
        ),
        (
            DERIVED,
            "update shop.orders set net = null where id > 60 and id <= 120",
            "failed",
            "chunk 2: 20 rows",
        ),
        (
            {},
            "update shop.orders set touched = touched + 1 where id > 60 and id <= 120",
            "changed",
            "chunk 2: 20 rows were changed",
        ),
        (
            {},
            "delete from disarray.backfill_chunk where chunk_no = 3",
            "failed",
            "between chunk 2 and chunk 4 was never done: a chunk is lost",
        ),
        (
            {},
            "delete from disarray.backfill_chunk where chunk_no = 5",
            "failed",
            "what lies behind chunk 4 was never done",
        ),
        (
            {},
            "update disarray.backfill_chunk set checksum = repeat('0', 32) where chunk_no = 4",
            "failed",
            "chunk 4: its rows are not those that were written",
        ),
        ({}, "delete from shop.orders where id = 3", "changed", "chunk 1: 0 rows were changed"),
        (DERIVED, "update shop.orders set note = 'x' where id = 75", "verified", ""),
        (DERIVED, "update shop.orders set gross = 0, net = -tax where id = 75", "verified", ""),
        (
            {"verification": {"changes": "allow"}},
            "update shop.orders set touched = 7 where id = 75",
            "verified",
            "chunk 2: 1 rows were changed",
        ),
        (
            {"verification": {"check": "touched = 1"}},
            "update shop.orders set touched = 7 where id = 75",
            "failed",
            "chunk 2: 1 rows do not hold",
        ),
        (
            {"verification": {"checksum_query": "select sum(gross), count(*) from shop.orders"}},
            "update shop.orders set gross = gross + 1 where id = 75",
            "failed",
            "checksum_query answers otherwise",
        ),
        (
            {"verification": {"checksum_query": "select sum(gross), count(*) from shop.orders"}},
            "select",
            "verified",
            "",
        ),
    ],
    ids=[
        "a corrupted row",
        "a corrupted row of a derived column",
        "a chunk whose effect is lost",
        "a chunk of a derived column whose effect is lost",
        "a chunk that was applied twice",
        "a chunk that was never done",
        "the last chunk was never done",
        "bits that changed by themselves",
        "a deleted row",
        "a change elsewhere in the row",
        "a change that holds the rule",
        "a change that is allowed",
        "a check of the user",
        "a query that answers otherwise",
        "a query that answers the same",
    ],
)
def test_what_happened_behind_its_back_is_found_and_named(
    shop: Shop, document: dict[str, Any], statement: str, verdict: str, named: str
) -> None:
    job = run_and_then(shop, merged(document), statement)
    assert job.verdict == verdict
    assert named in " ".join([*job.verdict_details["failed"], *job.verdict_details["changed"]])  # type: ignore[index]


@pytest.mark.parametrize(
    ("column", "expression", "more", "check"),
    [
        ("net", "gross - tax", {}, '("net" is not distinct from (gross - tax\n)::double precision)'),
        ("touched", "touched + 1", {}, None),  # reads what it sets
        ("net", "gross - tax", {"source": {"where": "net is null"}}, None),  # not every row is transformed
        ("net", "random()", {}, None),
        ("note", "'seen ' || now()", {}, None),
        ("net", "(select max(gross) from shop.orders)", {}, None),
    ],
)
def test_a_check_follows_from_expressions_that_give_the_same_again(
    shop: Shop, column: str, expression: str, more: dict[str, Any], check: str | None
) -> None:
    spec = spec_of(ADD_ONE, {"update": {"set": {column: expression}}}, more)
    assert with_derived_check(shop.connection, spec).row_check == check


def test_rows_of_a_volatile_expression_that_others_touch_are_no_false_alarm(shop: Shop) -> None:
    document = {"update": {"set": {"net": "random()"}}}
    assert run_and_then(shop, document, "select 1").verdict == "verified"
    job = run_and_then(shop, document, "update shop.orders set note = 'x' where id = 75")
    assert job.verdict == "verified"
    assert run_and_then(shop, document, "update shop.orders set net = 7 where id = 75").verdict == "changed"


def test_a_check_of_the_user_that_may_answer_otherwise_each_time_is_refused(shop: Shop) -> None:
    with pytest.raises(BackfillTargetError, match="calls a function that may answer otherwise each time"):
        shop.start({"verification": {"check": "net < random()"}})


def test_a_value_that_its_column_rounds_is_no_false_alarm(shop: Shop) -> None:
    shop.connection.execute("alter table shop.orders alter net type real")
    job = run_and_then(shop, DERIVED, "update shop.orders set gross = 0, net = -tax where id = 75")
    assert (job.verdict, job.verdict_details["failed"]) == ("verified", [])  # type: ignore[index]


@pytest.mark.parametrize("savepoint", [False, True])
def test_a_change_of_a_transaction_that_began_before_the_chunk_is_somebody_elses(
    shop: Shop, savepoint: bool
) -> None:
    """It has a smaller number than the chunk's own transaction, and wrote its row after the chunk did."""
    with connections.connect(shop.dsn) as early, early.transaction():
        early.execute("select pg_current_xact_id()")
        job_id = shop.start()
        worker = shop.worker(job_id)
        while shop.job(job_id).chunks_done < 5:
            worker.step()
        if savepoint:
            early.execute("savepoint within")
        early.execute("update shop.orders set touched = 7 where id = 75")
    job = shop.run(job_id)
    assert job.verdict == "changed"
    assert "1 rows were changed since by somebody else" in job.verdict_details["changed"][0]  # type: ignore[index]


def test_what_is_inserted_where_the_greatest_row_was_deleted_is_verified(shop: Shop) -> None:
    job_id = shop.start()
    worker = shop.worker(job_id)
    shop.connection.execute("delete from shop.orders where id > 240")
    while shop.job(job_id).chunks_done < 4:
        worker.step()
    # The last stretch is empty, and is the job's own up to the greatest cursor that there was.
    while shop.job(job_id).chunks_done < 5:
        worker.step()
    shop.connection.execute("insert into shop.orders (id, gross, tax) values (299, 1, 1)")
    job = shop.run(job_id)
    assert job.verdict == "changed"
    assert "chunk 5: 1 rows were changed since" in job.verdict_details["changed"][0]  # type: ignore[index]


def test_a_value_that_is_too_long_for_its_column_is_refused_and_not_cut_off(shop: Shop) -> None:
    shop.connection.execute(
        "create table shop.codes (id numeric primary key, code varchar(3));"
        " insert into shop.codes select n, 'x' from generate_series(1, 3) as n"
    )
    job_id = shop.start(
        {
            "name": "codes",
            "source": {"table": "shop.codes"},
            "update": {
                "function": "tests.backfill.functions:long_codes",
                "set": ["code"],
                "columns": ["code"],
            },
            "processing": {"retry_policy": {"max_attempts": 1}},
        }
    )
    shop.run(job_id)
    assert shop.connection.execute("select distinct code from shop.codes").fetchall() == [("x",)]
    assert shop.job(job_id).chunks_dead == 1


def test_hooks_hear_of_every_end_with_its_verdict(shop: Shop) -> None:
    hooks.register_hooks(shop.connection, [HOOK])
    ends = {
        str(run_and_then(shop, merged(ADD_ONE, {"name": "good"}), "select 1").verdict),
        str(
            run_and_then(
                shop,
                merged(ADD_ONE, DERIVED, {"name": "bad"}),
                "delete from shop.orders where id between 60 and 90",
            ).verdict
        ),
    }
    backfills.decide_backfill(
        shop.connection, shop.start(), backfills.BackfillDecision.CANCELLED, reason="no", by="ada"
    )
    noted = side_effects.list_side_effects(shop.connection, state="pending")
    assert {each.cause for each in noted} == {"backfill_ended"}
    assert len(noted) == 3
    assert len(ends) == 2
    assert {each.details.get("verdict") for each in noted} == {*ends, None}
