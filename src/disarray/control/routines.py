"""The functions of the schema are those of the files: replaced where they are, so that what users built on them stays.

The schema `disarray` is private, and whatever is in it and not in the files goes. The schema `telemetry` is shared with
its users: only what a program of disarray created there is touched, by the names that it wrote down.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from psycopg import errors, sql

from disarray import __version__
from disarray.errors import ObjectInTheWayError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from disarray.control.connections import Connection

SQL_FOLDER = files("disarray.control") / "sql"
GRANTS = "grant.sql"
# What the programs created in `telemetry` that did not write it down yet.
UNRECORDED = ("final_totals", "junction_float", "junction_int", "recompute_running_totals")

_CREATE = re.compile(r"^create (function|procedure|aggregate) (disarray|telemetry)\.(\w+)", re.MULTILINE)
# The same arguments with another result, other names or fewer defaults; or a function that was an aggregate.
_OTHER_SHAPE = (errors.InvalidFunctionDefinition, errors.WrongObjectType)


@dataclass(frozen=True)
class _Routine:
    oid: int
    signature: str
    version: str  # of its row in the catalog: another one after it was replaced
    is_own: bool


@cache
def functions_hash() -> str:
    """Tells whether the functions of a database are those of this program."""
    digest = hashlib.sha256()
    for file in _function_files():
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def routine_names(schema: str) -> tuple[str, ...]:
    """The functions that the files create in a schema. A name is never used twice, so that it tells whose one is."""
    return tuple(
        sorted(
            name
            for file in _function_files()
            for _, owner, name in _CREATE.findall(file.read_text(encoding="utf-8"))
            if owner == schema
        )
    )


def replace_functions(connection: Connection) -> None:
    """Make the functions those of the files, inside the caller's transaction and as the owner of the schema.

    One whose arguments and result are as before is replaced where it is: views and grants of users stay. Else it is
    dropped first, and `ObjectInTheWayError` names what depends on it.
    """
    # Files are created by name, not by dependency; bodies are checked when they run, and every one is run by a test.
    connection.execute("set local check_function_bodies = off")
    recorded = _recorded_names(connection)
    before = _routines(connection, recorded)
    _drop(connection, [routine for routine in before if not routine.is_own])
    scripts = [*(_text(file) for file in _function_files() if file.name != GRANTS), _release(connection)]
    for script in scripts:
        _install(connection, script)
    unchanged = {(routine.oid, routine.version) for routine in before}
    _drop(
        connection,
        [each for each in _routines(connection, recorded) if (each.oid, each.version) in unchanged],
    )
    connection.execute(_text(SQL_FOLDER / "functions" / GRANTS).encode())


def _install(connection: Connection, script: str) -> None:
    replacing = _CREATE.sub(r"create or replace \1 \2.\3", script)
    try:
        with connection.transaction():
            connection.execute(replacing.encode())
    except _OTHER_SHAPE:
        for part in re.split(r"^(?=create or replace )", replacing, flags=re.MULTILINE):
            _install_one(connection, part)


def _install_one(connection: Connection, statement: str) -> None:
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except _OTHER_SHAPE:
        created = re.match(r"create or replace \w+ (\w+)\.(\w+)", statement)
        if created is None:
            raise
        schema, name = created.groups()
        former = [
            each for each in _routines(connection, [name]) if each.signature.startswith(f"{schema}.{name}(")
        ]
        _drop(connection, former)
        connection.execute(statement.encode())


def _drop(connection: Connection, routines: list[_Routine]) -> None:
    if not routines:
        return
    # All in one statement: they may depend on each other.
    with dependants_named():
        connection.execute(f"drop routine {', '.join(each.signature for each in routines)}".encode())


@contextmanager
def dependants_named() -> Iterator[None]:
    """Where a view or function of a user keeps one of our objects from being changed, say which one it is."""
    try:
        yield
    except errors.DependentObjectsStillExist as error:
        raise ObjectInTheWayError.of(error.diag.message_detail or str(error)) from error
    except errors.FeatureNotSupported as error:
        # The type of a column cannot be changed under a view.
        if error.diag.message_detail is None:
            raise
        raise ObjectInTheWayError.of(f"{error.diag.message_primary}: {error.diag.message_detail}") from error


def _routines(connection: Connection, names_in_telemetry: list[str]) -> list[_Routine]:
    rows = connection.execute(
        """
        select
            routine.oid,
            routine.oid::regprocedure::text,
            routine.ctid::text || ' ' || routine.xmin::text,
            routine.proowner = current_user::regrole
        from pg_proc as routine
        where
            routine.pronamespace = 'disarray'::regnamespace
            or (
                routine.pronamespace = 'telemetry'::regnamespace
                and routine.proowner = current_user::regrole
                and routine.proname = any(%s)
            )
        order by 2
        """,
        (names_in_telemetry,),
    ).fetchall()
    return [_Routine(*row) for row in rows]


def _recorded_names(connection: Connection) -> list[str]:
    """What was created in `telemetry` so far, by whichever program came last, and what is about to be."""
    names = {*routine_names("telemetry")}
    known = connection.execute("select to_regprocedure('disarray.function_release()') is not null").fetchone()
    if known is None or not known[0]:
        return sorted(names.union(UNRECORDED))
    recorded = connection.execute("select telemetry_routines from disarray.function_release()").fetchone()
    return sorted(names.union(recorded[0] if recorded else ()))


def _release(connection: Connection) -> str:
    template = sql.SQL(_text(SQL_FOLDER / "function_release.sql"))
    return template.format(
        functions_hash=sql.Literal(functions_hash()),
        program_version=sql.Literal(__version__),
        telemetry_routines=sql.Literal(list(routine_names("telemetry"))),
    ).as_string(connection)


@cache
def _function_files() -> tuple[Traversable, ...]:
    # What an editor or a patch left beside them would take the place of what it is a copy of.
    found = (file for file in (SQL_FOLDER / "functions").iterdir() if file.name.endswith(".sql"))
    return tuple(sorted(found, key=lambda file: file.name))


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")
