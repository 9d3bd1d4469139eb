"""The columns of a table source: which are read, as what type, and whether they are what they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.errors import SourceLayoutError, UnreadableFileError
from disarray.kernels.parsing.binding import bind_header
from disarray.model.description.spec_table import near_miss
from disarray.sources.table_session import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_session import TableSession

# How each type of PostgreSQL travels. A number of any length travels as text and is read as the dataset says: cast to a
# float, one value that is too large would fail the whole statement.
_EXPRESSIONS = {
    "bool": "{}",
    "int2": "{}::int8",
    "int4": "{}::int8",
    "int8": "{}::int8",
    "float4": "{}::float8",
    "float8": "{}::float8",
    "numeric": "{}::text",
    "text": "{}::text",
    "varchar": "{}::text",
    "bpchar": "{}::text",
    "name": "{}::text",
    "uuid": "{}::text",
    "date": "{}::timestamp",
    "timestamp": "{}",
    "timestamptz": "{}",
}
STAMPS = ("date", "timestamp", "timestamptz")
WHOLE_NUMBERS = ("int2", "int4", "int8")
# Beyond them the driver gives another time without a word; and no dataset takes such a time.
_FIRST, _LAST = "0001-01-01", "9999-12-31 23:59:59"
SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that is read, and the name of its type."""

    name: str
    type_name: str

    @property
    def quoted(self) -> str:
        """Its name in a statement."""
        return quoted(self.name)

    @property
    def expression(self) -> str:
        """How it is selected."""
        if self.type_name == SQLITE:
            return self.quoted
        raw = _EXPRESSIONS.get(self.type_name, "{}::text").format(self.quoted)
        if self.type_name in STAMPS:
            return f"case when {self._within} then {raw} end"
        return raw

    @property
    def _within(self) -> str:
        return f"{self.quoted} between '{_FIRST}' and '{_LAST}'"

    @property
    def beyond(self) -> str | None:
        """What is true where it holds a time that nothing can take."""
        if self.type_name not in STAMPS:
            return None
        return f"({self.quoted} < '{_FIRST}' or {self.quoted} > '{_LAST}')"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns that are read in the order of the table, and the names of all that there are."""

    columns: tuple[TableColumn, ...]
    names: tuple[str, ...]

    def column(self, name: str) -> TableColumn:
        """The column of that name, which is one of those that are read."""
        return next(column for column in self.columns if column.name == name)

    def document(self) -> dict[str, Any]:
        """As it is kept, to tell a change by."""
        return {
            "columns": {column.name: column.type_name for column in self.columns},
            "names": list(self.names),
        }


def relation_of(source: TableSource) -> str:
    """What a statement reads from."""
    if source.table is None:
        return f"({source.query}) as extracted"
    return ".".join(quoted(part) for part in source.table.split("."))


def read_layout(session: TableSession, source: TableSource, dataset: Dataset) -> TableLayout:
    """The columns that the dataset and the source name; one of an unknown type is refused by name."""
    relation = relation_of(source)
    schema = session.schema_of(f"select * from {relation}")  # noqa: S608 - quoted, or the user's own query
    names = tuple(schema.names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SourceLayoutError.of(source.name, f"it has several columns called {twice}")
    for name in source.columns:
        if name not in names:
            raise SourceLayoutError.of(
                source.name,
                f"it has no column {name}, which the source names; {near_miss(name, list(names))}",
            )
    try:
        binding = bind_header(dataset.read_spec(), names, {})
    except UnreadableFileError as error:
        raise SourceLayoutError.of(source.name, f"for dataset {dataset.name}, {error}") from error
    wanted = {
        *source.columns,
        *(names[cell] for cell in binding.time_cells),
        *(names[bound.cell] for bound in binding.columns if bound.cell is not None),
    }
    fields = [field for field in schema if field.name in wanted]
    return TableLayout(_typed(session, source.name, fields), names)


def _typed(
    session: TableSession, source_name: str, fields: Sequence[pa.Field[Any]]
) -> tuple[TableColumn, ...]:
    if session.server is Server.SQLITE:
        return tuple(TableColumn(field.name, SQLITE) for field in fields)
    typed = [(field.name, _type_name(field)) for field in fields]
    unknown = [(name, type_name) for name, type_name in typed if type_name not in _EXPRESSIONS]
    enums = _enums(session, [type_name for _, type_name in unknown])
    for name, type_name in unknown:
        if type_name not in enums:
            shown = f"array of {type_name[1:]}" if type_name.startswith("_") else type_name
            raise SourceLayoutError.of(
                source_name,
                f"column {name} is of type {shown}, which is no type of a reading. Read a query that casts it",
            )
    return tuple(TableColumn(name, type_name) for name, type_name in typed)


def _type_name(field: pa.Field[Any]) -> str:
    metadata = field.metadata or {}
    return (
        metadata.get(b"POSTGRESQL:type") or metadata.get(b"ADBC:postgresql:typname") or b"unknown"
    ).decode()


def _enums(session: TableSession, type_names: Sequence[str]) -> set[str]:
    if not type_names:
        return set()
    listed = ", ".join(literal(name) for name in type_names)
    found = session.rows(
        f"select typname::text as name from pg_type where typtype = 'e' and typname in ({listed})"  # noqa: S608
    )
    return set(found.column("name").to_pylist())


def layout_notices(source_name: str, layout: TableLayout, known: Mapping[str, Any] | None) -> list[str]:
    """What was added since the first extract and nobody names; a column that is gone or changed stops the source."""
    if known is None:
        return []
    now = {column.name: column.type_name for column in layout.columns}
    for name, type_name in known["columns"].items():
        if name not in layout.names:
            raise SourceLayoutError.of(source_name, f"column {name} ({type_name}) is gone")
        if now.get(name, type_name) != type_name:
            raise SourceLayoutError.of(
                source_name, f"column {name} was of type {type_name} and is of type {now[name]}"
            )
    added = [name for name in layout.names if name not in known["names"] and name not in now]
    return [f"column {name} was added to the table; nobody names it, and it is not read" for name in added]


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A text as a literal; the server reads it as the type that it is compared with."""
    return "'" + value.replace("'", "''") + "'"
