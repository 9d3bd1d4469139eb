"""The schema as one text, so that every change of it is one diff in review; and a comment on everything.

Regenerate the text with: DISARRAY_WRITE_SCHEMA=1 pytest tests/control/test_schema.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disarray.control.files import Reason
from disarray.control.migrations import migrate
from disarray.documentation.sql_page import reference

if TYPE_CHECKING:
    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

SNAPSHOT = Path(__file__).parent / "schema.txt"
PAGE = Path(__file__).parents[2] / "docs" / "sql-api.md"

# The months for which there are partitions depend on the day; test_clock exists in tests alone.
OWN_RELATIONS = """
    relation.relnamespace = 'disarray'::regnamespace
    and relation.relname !~ '^(ingest_event_\\d{4}_\\d{2}|test_clock)'
"""


def described(connection: Connection, query: str) -> list[str]:
    return [line for (line,) in connection.execute(query.encode()).fetchall()]


def describe_types(connection: Connection) -> list[str]:
    return described(
        connection,
        """
        select concat_ws(
            e'\\n',
            format('%s %s', case kind.typtype when 'e' then 'enum' else 'type' end, kind.typname),
            '    -- ' || obj_description(kind.oid, 'pg_type'),
            (
                select string_agg('    ' || label.enumlabel, e'\\n' order by label.enumsortorder)
                from pg_enum as label
                where label.enumtypid = kind.oid
            ),
            (
                select string_agg(
                    format('    %s %s', attribute.attname, format_type(attribute.atttypid, attribute.atttypmod)),
                    e'\\n'
                    order by attribute.attnum
                )
                from pg_attribute as attribute
                where attribute.attrelid = kind.typrelid
            )
        )
        from pg_type as kind
        left join pg_class as relation on kind.typrelid = relation.oid
        where
            kind.typnamespace = 'disarray'::regnamespace
            and (kind.typtype = 'e' or relation.relkind = 'c')
        order by kind.typname
        """,
    )


def describe_relations(connection: Connection) -> list[str]:
    return described(
        connection,
        f"""
        select concat_ws(
            e'\\n',
            format(
                '%s %s%s',
                case relation.relkind when 'S' then 'sequence' else 'table' end,
                relation.relname,
                ' ' || pg_get_partkeydef(relation.oid)
            ),
            '    -- ' || obj_description(relation.oid, 'pg_class'),
            '    with ' || array_to_string(relation.reloptions, ', '),
            (
                select string_agg(
                    concat(
                        format('    %s %s', attribute.attname, format_type(attribute.atttypid, attribute.atttypmod)),
                        case when attribute.attnotnull then ' not null' end,
                        -- Before PostgreSQL 17 a partition does not show the identity of its parent.
                        case when attribute.attidentity <> '' and not relation.relispartition then ' identity' end,
                        ' default ' || pg_get_expr(value.adbin, value.adrelid),
                        '  -- ' || col_description(relation.oid, attribute.attnum)
                    ),
                    e'\\n'
                    order by attribute.attnum
                )
                from pg_attribute as attribute
                left join pg_attrdef as value on attribute.attrelid = value.adrelid and attribute.attnum = value.adnum
                where
                    attribute.attrelid = relation.oid
                    and attribute.attnum > 0
                    and relation.relkind <> 'S'
            ),
            (
                select string_agg(
                    format('    constraint %s %s', rule.conname, pg_get_constraintdef(rule.oid)),
                    e'\\n'
                    order by rule.conname
                )
                from pg_constraint as rule
                -- Since PostgreSQL 18 every "not null" is listed here as well.
                where rule.conrelid = relation.oid and rule.contype <> 'n'
            ),
            (
                select string_agg(
                    '    ' || pg_get_indexdef(index.indexrelid),
                    e'\\n'
                    order by index.indexrelid::regclass::text
                )
                from pg_index as index
                where index.indrelid = relation.oid
            )
        )
        from pg_class as relation
        where
            {OWN_RELATIONS}
            and relation.relkind in ('r', 'p', 'v', 'm', 'S')
        order by relation.relkind = 'S', relation.relname
        """,
    )


def describe_functions(connection: Connection) -> list[str]:
    return described(
        connection,
        """
        select concat_ws(
            e'\\n',
            format('%s %s', case routine.prokind when 'a' then 'aggregate' else 'function' end, routine.proname),
            '    -- ' || obj_description(routine.oid, 'pg_proc'),
            (
                select string_agg('    ' || argument, e'\\n' order by place)
                from unnest(string_to_array(pg_get_function_arguments(routine.oid), ', '))
                    with ordinality as listed (argument, place)
                where argument <> ''
            ),
            '    returns ' || pg_get_function_result(routine.oid),
            '    ' || concat_ws(
                ', ',
                language.lanname,
                case routine.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
                case when routine.prosecdef then 'security definer' end,
                array_to_string(routine.proconfig, ', ')
            ),
            '    for ' || nullif(array_to_string(array(
                select entry.grantee::regrole::text
                from aclexplode(routine.proacl) as entry
                where entry.grantee <> routine.proowner
                order by 1
            ), ', '), '')
        )
        from pg_proc as routine
        inner join pg_language as language on routine.prolang = language.oid
        where routine.pronamespace = 'disarray'::regnamespace
        order by routine.proname, routine.oid::regprocedure::text
        """,
    )


def test_the_schema_is_the_one_that_was_reviewed(connection: Connection) -> None:
    # The tests' own clock goes away again.
    migrate(connection)
    parts = [*describe_types(connection), *describe_relations(connection), *describe_functions(connection)]
    schema = "\n\n".join(parts) + "\n"
    if os.environ.get("DISARRAY_WRITE_SCHEMA"):
        SNAPSHOT.write_text(schema, encoding="utf-8")
    assert schema == SNAPSHOT.read_text(encoding="utf-8"), (
        "the schema changed; if that was meant, run: DISARRAY_WRITE_SCHEMA=1 pytest tests/control/test_schema.py"
    )


def test_the_page_of_the_sql_api_is_what_the_functions_say_today(connection: Connection) -> None:
    migrate(connection)
    page = reference(connection)
    if os.environ.get("DISARRAY_WRITE_SCHEMA"):
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8"), (
        "the functions changed; run: DISARRAY_WRITE_SCHEMA=1 pytest tests/control/test_schema.py"
    )


def test_every_table_sequence_type_and_function_has_a_comment(connection: Connection) -> None:
    connection.execute("select disarray.provision_event_partitions()")
    uncommented = described(
        connection,
        """
        select 'relation ' || relation.relname
        from pg_class as relation
        where
            relation.relnamespace = 'disarray'::regnamespace
            and relation.relkind in ('r', 'p', 'v', 'm', 'S')
            and relation.relname <> 'test_clock'
            -- The sequence of an identity column is a part of that column.
            and not exists (
                select
                from pg_depend as link
                where relation.relkind = 'S' and link.objid = relation.oid and link.deptype = 'i'
            )
            and obj_description(relation.oid, 'pg_class') is null
        union all
        select 'type ' || kind.typname
        from pg_type as kind
        left join pg_class as relation on kind.typrelid = relation.oid
        where
            kind.typnamespace = 'disarray'::regnamespace
            and (kind.typtype in ('e', 'd') or relation.relkind = 'c')
            and obj_description(kind.oid, 'pg_type') is null
        union all
        select 'function ' || routine.oid::regprocedure::text
        from pg_proc as routine
        where
            routine.pronamespace = 'disarray'::regnamespace
            and obj_description(routine.oid, 'pg_proc') is null
        """,
    )
    assert uncommented == []


def test_python_and_the_database_know_the_same_reasons_in_the_same_order(connection: Connection) -> None:
    labels = described(connection, "select unnest(enum_range(null::disarray.ingest_queue_reason))::text")
    assert labels == [reason.value for reason in Reason]
