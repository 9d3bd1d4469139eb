"""A materialized view as declared: the value that a `[[view]]` table in disarray.toml becomes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.model.description.spec_table import MisfitError, Table, near_miss
from disarray.model.description.spec_values import duration, name, several, text
from disarray.model.duration import DAY, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.spec_table import Problems

DEFAULT_SCHEMA = "telemetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRule:
    """A view: its query lies in a file, and it is refreshed when something that it depends on was committed."""

    name: str
    schema: str
    file: str  # below the folder of disarray.toml, or absolute
    key: tuple[str, ...]  # columns that are unique together
    depends_on: tuple[str, ...]  # datasets, and rollups as `dataset.rollup`
    at_most_every: timedelta
    timeout: timedelta


def read_views(
    document: Mapping[str, object], *, problems: Problems, datasets: Sequence[Dataset]
) -> tuple[ViewRule, ...]:
    """The views of a file; faults are added to the problems, all at once."""
    root = Table(document, path="", kind="file", problems=problems)
    known = {
        *(dataset.name for dataset in datasets),
        *(f"{dataset.name}.{rollup.name}" for dataset in datasets for rollup in dataset.rollups),
    }
    rules = tuple(_read_view(table, known) for table in root.array("view", "view"))
    names = [rule.name for rule in rules]
    for index, own_name in enumerate(names):
        if own_name in names[:index]:
            problems.add(f"view[{index}].name", f"expected a name of its own, found {own_name!r} again")
    return rules


def _read_view(table: Table, known: Collection[str]) -> ViewRule:
    rule = ViewRule(
        name=table.required("name", name, "unnamed"),
        schema=table.optional("schema", name, DEFAULT_SCHEMA),
        file=table.required("file", text, ""),
        key=table.required("key", several(text, at_least=1), ()),
        depends_on=table.required("depends_on", several(_part(known), at_least=1), ()),
        at_most_every=_span(table.optional("at_most_every", duration(at_least=SECOND), MINUTE)),
        timeout=_span(table.optional("timeout", duration(at_least=SECOND, at_most=DAY), 10 * MINUTE)),
    )
    table.close()
    return rule


def _part(known: Collection[str]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in known:
            raise MisfitError(
                "a dataset, or a rollup as dataset.rollup", hint=near_miss(str(value), set(known))
            )
        return str(value)

    return read


def _span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)
