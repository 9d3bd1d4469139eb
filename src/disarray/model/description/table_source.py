"""Tables that are read by a watermark: the values that `[[source]]` tables in disarray.toml become."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.model.description.read_spec import KeyKind
from disarray.model.description.spec_table import MisfitError, Problems, Table, near_miss
from disarray.model.description.spec_values import (
    choice,
    duration,
    integer,
    name,
    one_of,
    several,
    subject_key,
    text,
)
from disarray.model.duration import DAY, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disarray.model.description.dataset import Dataset

MOST_ROWS = 1_000_000
QUERY = "(query)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WatermarkKind(StrEnum):
    """By what it is known which rows were taken; docs/sources.md says which one fits which table."""

    TIMESTAMP = "timestamp"
    SEQUENCE = "sequence"
    SNAPSHOT = "snapshot"
    BUFFER = "buffer"


class Start(StrEnum):
    """Where a source that was never read begins."""

    BEGINNING = "beginning"
    NOW = "now"


class InitialLoad(StrEnum):
    """Whether a table that is there already is taken in by chunks of its key, beside the watermark."""

    AUTO = "auto"  # where it is large and the key has an index
    ALWAYS = "always"
    NEVER = "never"


class UrlOrigin(StrEnum):
    """Where the url of a source is written."""

    ENVIRONMENT = "env"
    FILE = "file"
    INLINE = "url"


@dataclass(frozen=True, slots=True)
class SourceUrl:
    """Where to find the url, never the secret itself; `text` is a variable, a path, or a url without a password."""

    origin: UrlOrigin
    text: str


@dataclass(frozen=True, slots=True)
class SubjectColumn:
    """The column that names the subject of a row, or the one subject of all rows."""

    column: str | None = None
    constant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table or query of another database, and how it is read; times in microseconds."""

    name: str
    dataset: str
    url: SourceUrl
    table: str | None  # one of these two
    query: str | None
    key: tuple[str, ...]
    cursor: str | None
    watermark: WatermarkKind
    subject: SubjectColumn
    limit: int
    every_us: int
    buffer: int  # microseconds; of a whole-number cursor, how many numbers
    timeout_us: int
    at: Start | int | str
    initial_load: InitialLoad = InitialLoad.AUTO
    load_tasks: int = 4  # chunks that are read at the same time

    @property
    def table_name(self) -> str:
        """Under which its state is kept."""
        return self.table or QUERY

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the source itself names."""
        named = (*((self.cursor,) if self.cursor else ()), *self.key)
        return named if self.subject.column is None else (*named, self.subject.column)


def read_sources(
    document: Mapping[str, object], *, problems: Problems, datasets: Mapping[str, Dataset]
) -> tuple[TableSource, ...]:
    """Every `[[source]]`; faults go to `problems`."""
    top = Table(document, path="", kind="document", problems=problems)
    sources = tuple(_read_source(table, datasets) for table in top.array("source", "source"))
    names = [source.name for source in sources]
    for index, own_name in enumerate(names):
        if own_name in names[:index]:
            problems.add(f"source[{index}].name", f"expected a name of its own, found {own_name!r} again")
    return sources


def read_start(value: object, kind: WatermarkKind) -> Start | int | str:
    """Where to begin: a word, or the last value of the cursor that is not wanted any more."""
    if value in tuple(Start):
        return Start(str(value))
    expected = "beginning, now"
    match kind:
        case WatermarkKind.SNAPSHOT:
            raise MisfitError(f"one of {expected}: a snapshot has no cursor")
        case WatermarkKind.SEQUENCE:
            return _whole(value, f"{expected} or a whole number")
        case WatermarkKind.TIMESTAMP:
            return _instant_us(value, f"{expected} or an ISO time")
        case WatermarkKind.BUFFER:
            # Which of them the cursor is, the table says.
            return value if isinstance(value, int) and not isinstance(value, bool) else _text_of(value)


def instant_us(written: str) -> int:
    """Microseconds since 1970 of an ISO time, in UTC where it names no zone; ValueError if it is none."""
    instant = datetime.fromisoformat(written)
    return (instant.replace(tzinfo=instant.tzinfo or UTC) - _EPOCH) // (_EPOCH.resolution)


def _read_source(table: Table, datasets: Mapping[str, Dataset]) -> TableSource:
    table.required("kind", one_of("table"), "table")
    own_name = table.required("name", name, "unnamed")
    kind = table.required("watermark", choice(WatermarkKind), WatermarkKind.BUFFER)
    chosen = table.optional("dataset", _dataset(datasets), own_name)
    source = TableSource(
        name=own_name,
        dataset=chosen,
        url=table.required("url", _url, SourceUrl(UrlOrigin.INLINE, "sqlite://")),
        table=table.optional("table", text, None),
        query=table.optional("query", _query, None),
        key=table.required("key", several(text, at_least=1), ()),
        cursor=table.optional("cursor", text, None),
        watermark=kind,
        subject=table.required("subject", _subject, SubjectColumn()),
        limit=table.optional("limit", integer(at_least=1, at_most=MOST_ROWS), 100_000),
        every_us=table.optional("every", duration(at_least=SECOND // 10, at_most=365 * DAY), 10 * SECOND),
        buffer=table.optional(
            "buffer", _buffer, 10 * MINUTE if kind is WatermarkKind.BUFFER else 10 * SECOND
        ),
        timeout_us=table.optional("timeout", duration(at_least=SECOND, at_most=DAY), MINUTE),
        at=table.optional("at", lambda value: read_start(value, kind), Start.BEGINNING),
        initial_load=table.optional("initial_load", choice(InitialLoad), InitialLoad.AUTO),
        load_tasks=table.optional("load_tasks", integer(at_least=1, at_most=64), 4),
    )
    _check(table, source, datasets)
    table.close()
    return source


def _check(table: Table, source: TableSource, datasets: Mapping[str, Dataset]) -> None:
    if (source.table is None) == (source.query is None) and not (
        {"table", "query"} & table.values.keys() and table.problems.lines
    ):
        table.problems.add(table.path, "expected one of table and query, found both or neither")
    if (source.cursor is None) != (source.watermark is WatermarkKind.SNAPSHOT):
        wants = (
            "no cursor: a snapshot needs none" if source.cursor else "the column that grows with every change"
        )
        table.refuse("cursor", f"expected {wants}, with watermark = '{source.watermark}'")
    if source.watermark is WatermarkKind.SNAPSHOT and "buffer" in table.values:
        table.refuse("buffer", "expected none: a snapshot has no cursor to go back on")
    dataset = datasets.get(source.dataset)
    if dataset is None:
        if "dataset" not in table.values and source.name != "unnamed":
            table.refuse(
                "dataset",
                f"expected the dataset that reads what is delivered; none is called '{source.name}', "
                f"{near_miss(source.name, list(datasets))}",
            )
        return
    if not dataset.is_delivered:
        table.refuse(
            "dataset",
            f"'{dataset.name}' does not take deliveries; give it subject = {{ delivery = 'folders' }}",
        )
    if dataset.key.kind is not KeyKind.COLUMNS:
        table.refuse(
            "dataset",
            f"'{dataset.name}' has no key columns, so a row that changes would count twice; give it key = [...]",
        )


def _dataset(datasets: Mapping[str, Dataset]) -> Callable[[object], str]:
    return one_of(*datasets) if datasets else name


def _url(value: object) -> SourceUrl:
    expected = "{ env = 'NAME' }, { file = 'path' }, or a url without a password"
    match value:
        case {"env": str(variable), **more} if variable and not more:
            return SourceUrl(UrlOrigin.ENVIRONMENT, variable)
        case {"file": str(path), **more} if path and not more:
            return SourceUrl(UrlOrigin.FILE, path)
        case str(url) if url:
            # Up to the last @: a password may hold a slash that should have been written as %2F.
            if ":" in url.partition("://")[2].rpartition("@")[0] or "password" in url.lower():
                raise MisfitError(
                    expected, found="a url with a password", hint="a secret is not written here"
                )
            if not url.startswith(("postgresql://", "postgres://", "sqlite://")):
                raise MisfitError(expected, hint="it begins with postgresql:// or sqlite://")
            return SourceUrl(UrlOrigin.INLINE, url)
        case _:
            # What is in there may be the secret: it is not shown.
            raise MisfitError(expected, found="something else")


def _subject(value: object) -> SubjectColumn:
    match value:
        case {"constant": found, **more} if not more:
            return SubjectColumn(constant=subject_key(found))
        case str(column) if column:
            return SubjectColumn(column=column)
        case _:
            raise MisfitError("the name of a column, or { constant = 'SUBJECT' }")


def _query(value: object) -> str:
    query = text(value).strip().rstrip(";")
    if not query.lower().startswith(("select", "with")):
        raise MisfitError("a query that begins with select or with")
    return query


def _buffer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return duration()(value)


def _whole(value: object, expected: str) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise MisfitError(expected)
    return value


def _text_of(value: object) -> str:
    written = value.isoformat() if isinstance(value, date) else value
    if not isinstance(written, str) or not written:
        raise MisfitError("beginning, now or a value of the cursor")
    return written


def _instant_us(value: object, expected: str) -> int:
    try:
        return instant_us(_text_of(value))
    except (ValueError, MisfitError):
        raise MisfitError(expected) from None
