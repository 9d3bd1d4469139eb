"""An answer that pandas, Polars, DuckDB and PyArrow take as it is."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHOWN_ROWS = 10


class Result:
    """A table that is made while it is read, batch after batch; it can be read any number of times.

    It speaks the Arrow PyCapsule interface, so that `pa.table(result)`, `polars.DataFrame(result)`,
    `pandas.DataFrame.from_arrow(result)` and DuckDB take it without a copy. `batches()` holds one batch at a time.
    `document` is the same answer as frozen dataclasses, as `--json` and REST have it; readings have none. `notes` say
    what a reader has to know: numbers that are stale, a list that was cut off.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Callable[[], Iterator[pa.RecordBatch]],
        *,
        title: str,
        notes: tuple[str, ...] = (),
        document: Any = None,
    ) -> None:
        self.schema = schema
        self.title = title
        self.notes = notes
        self.document = document
        self._batches = batches

    @classmethod
    def of_rows(
        cls,
        rows: list[dict[str, Any]],
        schema: pa.Schema,
        *,
        title: str,
        notes: tuple[str, ...] = (),
        document: Any = None,
    ) -> Result:
        """An answer that is small enough to be held."""
        table = pa.Table.from_pylist(rows, schema=schema)
        return cls(schema, lambda: iter(table.to_batches()), title=title, notes=notes, document=document)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """One batch after the other, read when it is asked for. Errors are those of `disarray.errors`."""
        return self._batches()

    def to_arrow(self) -> pa.Table:
        """All of it in memory."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names, rows, is_cut = self._head()
        widths = [
            max([len(name), *(len(row[place]) for row in rows)]) if rows else len(name)
            for place, name in enumerate(names)
        ]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in [names, *rows]
        ]
        return "\n".join([self.title, *lines, *(["…"] if is_cut else []), *self.notes])

    def _repr_html_(self) -> str:
        names, rows, is_cut = self._head()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for row in [*rows, *([["…"] * len(names)] if is_cut else [])]
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{notes}"
        )

    def _head(self) -> tuple[list[str], list[list[str]], bool]:
        """The first rows as texts; no more is read than they need."""
        rows = list(islice(self._rows(), SHOWN_ROWS + 1))
        return self.schema.names, rows[:SHOWN_ROWS], len(rows) > SHOWN_ROWS

    def _rows(self) -> Iterator[list[str]]:
        for batch in self.batches():
            for row in batch.slice(0, SHOWN_ROWS + 1).to_pylist():
                yield [_shown(row[name]) for name in self.schema.names]


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.12g}"
        case list():
            return ", ".join(str(each) for each in value)
        case _:
            text = str(value)
            # Names come from files: what moves a cursor must not reach a terminal.
            return text if text.isprintable() else ascii(text)[1:-1]
