"""Whether a table can be loaded: its columns, their types, its key and what may be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.destinations import restart_destination
from disarray.errors import DestinationMisfitError
from disarray.model.description.destination import Load
from disarray.sinks.destination_statements import FITTING_TYPES, POSITIONS, quoted

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.model.description.destination import Destination
    from disarray.sinks.destination_statements import Statements

_COLUMNS = """
    select
        attribute.attname,
        format_type(attribute.atttypid, null),
        attribute.attnotnull and not attribute.atthasdef and attribute.attidentity = '' and attribute.attgenerated = ''
    from pg_attribute as attribute
    where attribute.attrelid = to_regclass(%s) and attribute.attnum > 0 and not attribute.attisdropped
"""
_UNIQUE = """
    select array_agg(attribute.attname::text order by attribute.attname)
    from pg_index as known
    join pg_attribute as attribute
        on attribute.attrelid = known.indrelid and attribute.attnum = any(known.indkey[0:known.indnkeyatts - 1])
    where
        known.indrelid = to_regclass(%s)
        and known.indisunique
        and known.indisvalid
        and known.indpred is null
        and known.indexprs is null
    group by known.indexrelid
"""
_PRIVILEGES = """
    select privilege
    from unnest(%s::text[]) as privilege
    where not has_table_privilege(to_regclass(%s), privilege)
"""

# Two that make something in one schema at once would both find it missing; "if not exists" is no help against that.
_ALONE = "select pg_advisory_xact_lock(hashtextextended('disarray: ' || %s, 0))"

# Whose code runs where the worker writes: owners of the table and of its partitions, and of the functions of triggers.
# Those who may become the worker, and superusers, win nothing by it.
_FOREIGN_CODE = """
    with relation as (
        select to_regclass(%(table)s)::oid as oid
        union
        select tree.relid::oid
        from pg_partition_tree(to_regclass(%(table)s)) as tree
    ),

    code as (
        select relation.oid, null::regprocedure as function, known.relowner as owner
        from relation
        inner join pg_class as known on relation.oid = known.oid
        union all
        select relation.oid, called.oid::regprocedure, called.proowner
        from relation
        inner join pg_trigger as trigger on relation.oid = trigger.tgrelid and not trigger.tgisinternal
        inner join pg_proc as called on trigger.tgfoid = called.oid
    )

    select code.oid::regclass::text, code.function::text, code.owner::regrole::text
    from code
    inner join pg_roles as owner on code.owner = owner.oid
    where not owner.rolsuper and not pg_has_role(code.owner, current_user, 'MEMBER')
    order by 1, 2 nulls first
"""


def check_table(
    connection: Connection, destination: Destination, statements: Statements, *, needs_positions: bool
) -> None:
    """Refuse a table that cannot be loaded, with all that is wrong with it; make what is asked to be made."""
    target = destination.target
    if not _exists(connection, statements.table):
        _make_table(connection, destination, statements, needs_positions=needs_positions)
    if not needs_positions:
        _refuse_foreign_code(connection, destination, statements)
    faults = _column_faults(connection, destination, statements)
    faults += _key_faults(connection, destination, statements)
    if needs_positions and not _exists(connection, statements.positions):
        if destination.creates:
            with connection.transaction():
                connection.execute(_ALONE, (statements.target.schema,))
                connection.execute(statements.create_positions().encode())
        else:
            faults.append(
                f"table {POSITIONS} beside it is missing: {_one_line(statements.create_positions())}"
            )
    if destination.load is Load.APPEND and not faults:
        if destination.creates:
            _make_view(connection, statements)
        elif not _exists(connection, statements.view):
            faults.append(f"its view is missing: {_one_line(statements.create_view())}")
    needed = {statements.table: ["SELECT", "INSERT", "UPDATE", "DELETE"]}
    if needs_positions:
        needed[statements.positions] = ["SELECT", "INSERT", "UPDATE"]
    for table, privileges in needed.items():
        lacking = [
            name
            for (name,) in connection.execute(_PRIVILEGES, (privileges, table))
            if _exists(connection, table)
        ]
        if lacking:
            faults.append(f"the role may not {', '.join(lacking)} on {table}")
    if faults:
        raise DestinationMisfitError(f"{target.shown} does not fit. Nothing was loaded: {'; '.join(faults)}")


def has_our_types(connection: Connection, statements: Statements) -> bool:
    """Whether binary COPY may write into the table itself: it would store the bits of one type as another, silently."""
    found = {name: kind for name, kind, _ in connection.execute(_COLUMNS, (statements.table,))}
    return all(
        found.get(name) == kind or (kind == "text" and found.get(name) == "character varying")
        for name, kind in statements.columns.items()
    )


def _exists(connection: Connection, relation: str) -> bool:
    [found] = connection.execute("select to_regclass(%s) is not null", (relation,)).fetchone() or [False]
    return bool(found)


def _make_table(
    connection: Connection, destination: Destination, statements: Statements, *, needs_positions: bool
) -> None:
    if not destination.creates:
        raise DestinationMisfitError(
            f"{destination.target.shown} does not exist. Nothing was loaded. Say create = true, or run: "
            f"{_one_line(statements.create_table())}"
        )
    with connection.transaction():
        # Two workers, or two destinations of one schema, come to it at the same moment: the second finds it made.
        connection.execute(_ALONE, (statements.target.schema,))
        if _exists(connection, statements.table):
            return
        if connection.execute(
            "select to_regnamespace(%s) is null", (quoted(statements.target.schema),)
        ).fetchone() == (True,):
            connection.execute(statements.create_schema().encode())
        connection.execute(statements.create_table().encode())
        if destination.load is Load.APPEND:
            connection.execute(statements.create_index().encode())
        # What was loaded into a table that is gone is not in this one.
        if not needs_positions:
            restart_destination(connection, destination.name)
        elif _exists(connection, statements.positions):
            connection.execute(statements.forget_loads().encode(), {"destination": destination.name})


def _refuse_foreign_code(connection: Connection, destination: Destination, statements: Statements) -> None:
    """Refuse a table of this database on which somebody else's code would run with the rights of the worker."""
    found = connection.execute(_FOREIGN_CODE, {"table": statements.table}).fetchall()
    if not found:
        return
    faults = "; ".join(
        f"{relation} belongs to {owner}" if function is None else f"{relation} calls {function} of {owner}"
        for relation, function, owner in found
    )
    raise DestinationMisfitError(
        f"{destination.target.shown} could do whatever the worker may do in the database of disarray: {faults}. "
        "Triggers, checks and defaults of a table run with the rights of whoever loads it. Nothing was loaded. "
        "Give the table and those functions to the role of the worker, or load it by url, with a login that may do "
        "nothing else"
    )


def _make_view(connection: Connection, statements: Statements) -> None:
    with connection.transaction():
        connection.execute(_ALONE, (statements.target.schema,))
        shown = {name for name, _, _ in connection.execute(_COLUMNS, (statements.view,))}
        if not shown:
            connection.execute(statements.create_view().encode())
        elif not {*statements.columns} - {"is_deleted"} <= shown:
            # A new column stands before loaded_at, and a view can only be replaced by one that goes on.
            connection.execute(f"drop view {statements.view}".encode())
            connection.execute(statements.create_view().encode())


def _column_faults(connection: Connection, destination: Destination, statements: Statements) -> list[str]:
    faults: list[str] = []
    found = {
        name: (kind, is_needed) for name, kind, is_needed in connection.execute(_COLUMNS, (statements.table,))
    }
    for name, kind in statements.columns.items():
        if name not in found:
            if destination.creates:
                connection.execute(statements.add_column(name).encode())
            else:
                faults.append(f"column {name} ({kind}) is missing")
        elif found[name][0] not in FITTING_TYPES[kind]:
            fitting = " or ".join(FITTING_TYPES[kind])
            faults.append(f"column {name} is {found[name][0]}, and has to be {fitting}")
    faults += [
        f"column {name} must not be null, has no default and is not loaded"
        for name, (_, is_needed) in found.items()
        if is_needed and name not in statements.columns
    ]
    return faults


def _key_faults(connection: Connection, destination: Destination, statements: Statements) -> list[str]:
    if destination.load is not Load.UPSERT:
        return []
    unique = [set(names) for (names,) in connection.execute(_UNIQUE, (statements.table,))]
    if set(statements.key) in unique:
        return []
    return [f"there is no unique key on ({', '.join(statements.key)})"]


def _one_line(statement: str) -> str:
    return " ".join(statement.split())
