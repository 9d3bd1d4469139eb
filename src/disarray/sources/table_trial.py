"""A table that nobody has described yet: what a source and a dataset for it would be, and what they would read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from disarray.errors import SourceLayoutError
from disarray.formats.dataset_text import dataset_block
from disarray.formats.infer import name_and_unit, names_time
from disarray.model.description.dataset_reader import read_datasets
from disarray.model.description.spec_table import Problems
from disarray.model.description.table_source import UrlOrigin, read_sources
from disarray.sources.table_columns import STAMPS, WHOLE_NUMBERS, literal, quoted, read_layout, relation_of
from disarray.sources.table_extract import exactness_of, extract
from disarray.sources.table_pages import PagedTable
from disarray.sources.table_session import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import SourceUrl, TableSource
    from disarray.sources.table_session import TableSession

_COUNTED_BUFFER = 1000
SHOWN_ROWS = 10
_TEXTS = ("text", "varchar", "bpchar", "name", "uuid")
_NUMBERS = ("float4", "float8", "numeric", *WHOLE_NUMBERS)
_CURSORS = (
    "updated_at",
    "modified_at",
    "changed_at",
    "last_modified",
    "updated",
    "modified",
    "row_version",
    "revision",
)
_SQLITE_TYPES = {
    "INTEGER": "int8",
    "INT": "int8",
    "BIGINT": "int8",
    "REAL": "float8",
    "FLOAT": "float8",
    "DOUBLE": "float8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person said of the table; None: it is guessed."""

    name: str | None = None
    key: Sequence[str] = ()
    cursor: str | None = None
    subject: str | None = None
    event_time: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What would be read, how the database would find it, and the blocks that say so."""

    rows: Sequence[Mapping[str, Any]]
    plan: Sequence[str]
    warnings: Sequence[str]
    blocks: str


def try_table(
    session: TableSession, url: SourceUrl, table: str, choices: Choices, *, landing: PurePath
) -> Trial:
    """Describe a table, read a few rows by that description, and ask how the next ones would be found."""
    types = _column_types(session, table)
    written = _written(session, url, table, types, choices, landing)
    dataset, source = _described(written)
    if (
        source.cursor is not None
        and types.get(source.cursor) in (*WHOLE_NUMBERS, "float8")
        and exactness_of(session, source).reason
    ):
        # Of a number nobody but the user knows how many are written at the same time.
        written["source"][0]["buffer"] = _COUNTED_BUFFER
        dataset, source = _described(written)
    found = extract(session, replace(source, limit=SHOWN_ROWS), dataset, watermark=None, layout=None)
    plan = _plan(session, source, dataset)
    warnings = [notice for notice in found.notices if notice]
    if not any("index" in line.lower() or "primary key" in line.lower() for line in plan):
        order = ", ".join(dict.fromkeys((*([source.cursor] if source.cursor else []), *source.key)))
        warnings.append(
            f"no index serves the extract, so that each one reads the whole table. An index on ({order}) helps"
        )
    rows = [row for part in found.parts.values() for row in part.to_pylist()]
    return Trial(
        rows,
        plan,
        warnings,
        _source_block(written["source"][0]) + "\n" + dataset_block(written["dataset"][0]),
    )


def _described(written: Mapping[str, Any]) -> tuple[Dataset, TableSource]:
    problems = Problems("the proposed blocks")
    datasets = read_datasets(
        written, problems=problems, descriptions={"parquet": {"kind": "parquet"}}, folder=PurePath("/")
    )
    sources = read_sources(written, problems=problems, datasets={each.name: each for each in datasets})
    problems.raise_if_any()
    [dataset], [source] = datasets, sources
    return dataset, source


def _column_types(session: TableSession, table: str) -> dict[str, str]:
    if session.server is Server.SQLITE:
        listed = session.rows(f"select name, type from pragma_table_info({literal(table)})")  # noqa: S608
        return {row["name"]: _SQLITE_TYPES.get(row["type"].upper(), "text") for row in listed.to_pylist()}
    schema = session.schema_of(f"select * from {'.'.join(quoted(part) for part in table.split('.'))}")  # noqa: S608
    return {
        field.name: (field.metadata or {}).get(b"POSTGRESQL:type", b"unknown").decode() for field in schema
    }


def _written(
    session: TableSession,
    url: SourceUrl,
    table: str,
    types: Mapping[str, str],
    choices: Choices,
    landing: PurePath,
) -> dict[str, Any]:
    own_name = choices.name or name_and_unit(table.rpartition(".")[2], ())[0]
    key = list(choices.key) or _primary_key(session, table)
    if not key:
        raise SourceLayoutError.of(
            own_name, f"{table} has no primary key; say what tells rows apart: --key COLUMN"
        )
    cursor = choices.cursor or next((name for name in _CURSORS if name in types), None)
    event_time = choices.event_time or _event_time(types, cursor)
    if event_time is None:
        raise SourceLayoutError.of(
            own_name, f"{table} has no column that looks like a time; say which: --event-time COLUMN"
        )
    texts = [
        name for name, kind in types.items() if kind in _TEXTS and name not in (*key, event_time, cursor)
    ]
    subject: Any = choices.subject or next(iter(texts), None) or {"constant": own_name.upper()}
    source: dict[str, Any] = {
        "name": own_name,
        "kind": "table",
        "url": url.text if url.origin is UrlOrigin.INLINE else {str(url.origin): url.text},
        "table": table,
        "key": key,
        **_watermark(session, types, cursor),
        "subject": subject,
    }
    columns: dict[str, Any] = {}
    for name, kind in types.items():
        if name in (event_time, subject) or (name == cursor and name not in key):
            continue
        if kind not in (*_NUMBERS, *_TEXTS, "bool"):
            continue
        plain_name, unit = name_and_unit(name, columns)
        type_ = (
            "string"
            if kind in _TEXTS
            else "bool"
            if kind == "bool"
            else "int64"
            if kind in WHOLE_NUMBERS
            else "float64"
        )
        columns[plain_name] = {
            **({"from": name} if plain_name != name else {}),
            "type": type_,
            **({"unit": unit} if unit else {}),
        }
    keys = [own for own, column in columns.items() if column.get("from", own) in key]
    dataset: dict[str, Any] = {
        "name": own_name,
        "roots": [str(landing / own_name)],
        "files": ["**/*.parquet"],
        "format": "parquet",
        "subject": {"delivery": "folders"},
        "event_time": {"from": event_time, "layouts": ["iso"]},
        "zone": "UTC",
        "key": keys,
        "order_by": keys,
        "columns": columns,
    }
    return {"source": [source], "dataset": [dataset]}


def _watermark(session: TableSession, types: Mapping[str, str], cursor: str | None) -> dict[str, str]:
    if cursor is None:
        return {"watermark": "snapshot"}
    if session.server is Server.SQLITE:
        return {"cursor": cursor, "watermark": "buffer"}
    return {"cursor": cursor, "watermark": "sequence" if types.get(cursor) in WHOLE_NUMBERS else "timestamp"}


def _event_time(types: Mapping[str, str], cursor: str | None) -> str | None:
    stamps = [name for name, kind in types.items() if kind in STAMPS]
    named = [name for name, kind in types.items() if kind in (*STAMPS, *_TEXTS) and names_time(name)]
    return next((name for name in (*stamps, *named) if name != cursor), cursor if cursor in stamps else None)


def _primary_key(session: TableSession, table: str) -> list[str]:
    if session.server is Server.SQLITE:
        statement = f"select name from pragma_table_info({literal(table)}) where pk > 0 order by pk"  # noqa: S608
    else:
        relation = literal(".".join(quoted(part) for part in table.split(".")))
        statement = (
            "select named.attname::text as name from pg_index as known "  # noqa: S608
            "join pg_attribute as named on named.attrelid = known.indrelid and named.attnum = any(known.indkey) "
            f"where known.indisprimary and known.indrelid = {relation}::regclass "
            "order by array_position(known.indkey::int2[], named.attnum)"
        )
    return [str(name) for name in session.rows(statement).column("name").to_pylist()]


def _plan(session: TableSession, source: TableSource, dataset: Dataset) -> list[str]:
    layout = read_layout(session, source, dataset)
    table = PagedTable(session, source, layout, has_transactions=exactness_of(session, source).reason is None)
    relation, first = relation_of(source), table.order[0]
    [middle] = session.rows(f"select max({first.quoted}) as top from {relation}").column("top").to_pylist()  # noqa: S608
    after = None if middle is None else (middle if isinstance(middle, int | float) else str(middle),)
    statement = table.statement(after, None, rows=table.page_rows)
    if session.server is Server.SQLITE:
        return [str(row["detail"]) for row in session.rows(f"explain query plan {statement}").to_pylist()]
    # A short table is read whole although there is an index: the question is whether there is one.
    session.rows("select set_config('enable_seqscan', 'off', false)")
    return session.explain(statement)


def _source_block(written: Mapping[str, Any]) -> str:
    return dataset_block(written).replace("[[dataset]]", "[[source]]", 1)
