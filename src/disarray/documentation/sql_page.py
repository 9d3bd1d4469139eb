"""docs/sql-api.md from the catalog of the database: `DISARRAY_WRITE_SCHEMA=1 pytest tests/control/test_schema.py`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.translation import OWN_CODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.control.connections import Connection

PREFACE = """\
# The SQL API

Made from the comments in the database by `DISARRAY_WRITE_SCHEMA=1 pytest tests/control/test_schema.py`.

The functions of schema `disarray` are the way in; nobody but their owner has any privilege on a table behind them.
Grant one of five roles to a login: `disarray_reader` looks, `disarray_operator` decides, `disarray_worker` works,
`disarray_agent` announces files, `disarray_producer` records events. Arguments with a default may be left out, and are
best given by name:

```sql
select disarray.enqueue_file('file:///srv/share/TOOL07/report.csv', 'TOOL07', p_metadata => '{"dataset": "tools"}');
select * from disarray.list_restatements(p_subject_key => 'TOOL07');
```

Times of readings are `bigint`, microseconds since 1970 in UTC, as in the kernels; times at which something happened
are `timestamptz`. Readings themselves, with running values, are tables where a dataset says `store = "timescale"`
([timescale.md](timescale.md)). What a worker calls is here to be understood, not to be called by hand: its functions
want a claim, a fence and a lease.
"""
ERRORS = """
## Errors

What a function refuses has a code of its own; the message says what state the data is in. Other codes are
PostgreSQL's.

| SQLSTATE | in Python | meaning |
|---|---|---|
"""
_FUNCTIONS = """
    select
        routine.proname,
        pg_get_function_arguments(routine.oid),
        pg_get_function_result(routine.oid),
        obj_description(routine.oid, 'pg_proc'),
        array(
            select replace(entry.grantee::regrole::text, 'disarray_', '')
            from aclexplode(routine.proacl) as entry
            where entry.grantee <> routine.proowner
            order by 1
        )
    from pg_proc as routine
    where routine.pronamespace = 'disarray'::regnamespace
    order by routine.proname, routine.oid::regprocedure::text
"""


@dataclass(frozen=True)
class SqlFunction:
    """A function that some role may call."""

    name: str
    arguments: str
    result: str
    comment: str
    roles: tuple[str, ...]


def reference(connection: Connection) -> str:
    """The page: a section for each group of roles, the functions of each by name."""
    functions = [
        SqlFunction(name, arguments, result, comment, tuple(roles))
        for name, arguments, result, comment, roles in connection.execute(_FUNCTIONS.encode()).fetchall()
        if roles
    ]
    groups = sorted({function.roles for function in functions}, key=lambda roles: (-len(roles), roles))
    sections = (
        _section(roles, [function for function in functions if function.roles == roles]) for roles in groups
    )
    return PREFACE + "".join(sections) + ERRORS + "".join(_errors())


def _section(roles: Sequence[str], functions: Sequence[SqlFunction]) -> str:
    return f"\n## For {', '.join(roles)}\n" + "".join(_function(function) for function in functions)


def _function(function: SqlFunction) -> str:
    arguments = function.arguments.split(", ") if function.arguments else []
    inside = (
        "\n    " + ",\n    ".join(arguments) + "\n" if len(function.arguments) > 60 else function.arguments
    )
    comment = " ".join(function.comment.split())
    return f"\n### {function.name}\n\n{comment}\n\n```\n{function.name}({inside})\nreturns {function.result}\n```\n"


def _errors() -> Iterator[str]:
    for code, error in sorted(OWN_CODES.items()):
        meaning = inspect.cleandoc(error.__doc__ or "").splitlines()[0]
        yield f"| `{code}` | `{error.__name__}` | {meaning} |\n"
