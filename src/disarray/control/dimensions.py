"""Dimensions: values of a column that live once, and the numbers that stand for them in tables of readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.audit import Finding
from disarray.control.calls import fetch_records, fetch_value, find_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection


def rows_relation(connection: Connection, dataset: str) -> str | None:
    """What in schema `telemetry` shows the rows of a dataset, values for numbers; None: it has no table.

    Asked of the database, because a definition that is read from elsewhere may be older than the table.
    """
    return find_value(connection, str, "select disarray.rows_relation(%s)", (dataset,))


def number_values(connection: Connection, dataset: str, column_name: str, values: Sequence[str]) -> list[int]:
    """The numbers that stand for some values, in their order; new ones are given out in the caller's transaction.

    The caller goes by the names of columns and then by the bytes of values, in as many calls as it likes.
    """
    return fetch_value(
        connection,
        list,
        "select disarray.number_values(%s, %s, %s::text[])",
        (dataset, column_name, list(values)),
    )


def audit_dimensions(connection: Connection, *, limit: int) -> list[Finding]:
    """Dimension values that are not what was written."""
    return fetch_records(connection, Finding, "select * from disarray.audit_dimensions(%s)", (limit,))


def audit_numbers(connection: Connection, *, limit: int) -> list[Finding]:
    """Numbers in tables of readings that stand for no value; reads every row."""
    return fetch_records(connection, Finding, "select * from disarray.audit_numbers(%s)", (limit,))
