"""Materialized views that follow commits: compared with their files, applied, refreshed, dropped.

A refresh is one transaction: the position that the view will have is noted, the view is filled anew while others read
it, and the refresh is logged. Killed anywhere, it leaves the view, its position and its log as they were, and a lease
that runs out.
"""

from __future__ import annotations

import difflib
import logging
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.config import read_toml
from disarray.control import views
from disarray.control.connections import transaction
from disarray.errors import (
    AccessDeniedError,
    ConfigError,
    ControlError,
    DatabaseUnavailableError,
    LeaseLostError,
    SchemaMissingError,
    UnknownNameError,
    ViewError,
)
from disarray.failpoints import failpoint
from disarray.formats.loader import load_datasets
from disarray.model.description.readings_table import LONGEST_IDENTIFIER
from disarray.model.description.spec_table import Problems, near_miss
from disarray.model.description.view_rule import read_views

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.control.connections import Connection, Pool
    from disarray.control.queue import Holder
    from disarray.control.views import Relation, ViewRecord, ViewTurn
    from disarray.model.description.view_rule import ViewRule

log = logging.getLogger(__name__)

_MATERIALIZED = "m"


class ViewChange(StrEnum):
    """What applying a view would do."""

    NONE = "unchanged"
    CREATE = "create"
    REPLACE = "replace"  # another query or key, or the view or its unique index is gone
    ADJUST = "adjust"  # when it is refreshed


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredView:
    """A view of disarray.toml, with the text of its file."""

    rule: ViewRule
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPlan:
    """What applying a view does, and how its definition differs from the one that is in force."""

    name: str
    change: ViewChange
    diff: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """A refresh that ended; with an error, the view is as it was and tried again later."""

    name: str
    seconds: float
    position: int | None = None
    error: str | None = None


def load_views(path: Path) -> tuple[DeclaredView, ...]:
    """The views of a disarray.toml and their queries; files are sought beside it."""
    datasets = load_datasets(path)
    _, document = read_toml(path, shown=str(path))
    problems = Problems(str(path))
    rules = read_views(document, problems=problems, datasets=datasets)
    problems.raise_if_any()
    return tuple(DeclaredView(rule=rule, query=_read_query(path.absolute().parent, rule)) for rule in rules)


def chosen_views(declared: tuple[DeclaredView, ...], names: list[str]) -> tuple[DeclaredView, ...]:
    """Those that are named, or all."""
    known = {each.rule.name: each for each in declared}
    for name in names:
        if name not in known:
            raise UnknownNameError(
                f"disarray.toml declares no view '{name}'; {near_miss(name, list(known))}. Nothing was changed"
            )
    return tuple(known[name] for name in names) if names else declared


def plan_view(connection: Connection, declared: DeclaredView) -> ViewPlan:
    """What applying it would do. Refused with a reason where it cannot be made; inside a transaction of the caller."""
    rule = declared.rule
    applied = _applied(connection, rule.name)
    relation = views.find_relation(connection, rule.schema, rule.name)
    if relation is not None and (
        applied is None or (relation.kind, relation.owner) != (_MATERIALIZED, views.OWNER)
    ):
        raise ViewError(
            f"{rule.schema}.{rule.name} is there already, and disarray did not make it: it belongs to "
            f"{relation.owner}. Nothing was changed. Give the view another name, or move what is there"
        )
    columns = _columns(connection, declared)
    missing = [column for column in rule.key if column not in columns]
    if missing:
        raise ViewError(
            f"view {rule.name} has no column {', '.join(missing)}, which its key names; it has {', '.join(columns)}. A "
            "view without a unique key cannot be refreshed while others read it. Nothing was changed"
        )
    return ViewPlan(
        name=rule.name,
        change=_change(declared, applied, is_whole=relation is not None and relation.has_unique_index),
        diff=_diff(declared, applied),
    )


def apply_view(connection: Connection, declared: DeclaredView, *, by: str) -> ViewPlan:
    """Make the view that is declared the one in force; in a transaction of its own, whole or not at all.

    A new one is built beside the old, which stays readable; the two change places at the end.
    """
    rule = declared.rule
    seconds = int(rule.timeout.total_seconds())
    with transaction(connection):
        views.limit_statements(connection, seconds)
        plan = plan_view(connection, declared)
        if plan.change is ViewChange.NONE:
            return plan
        if plan.change is ViewChange.ADJUST:
            _put(connection, declared, by=by, is_built=False)
            return plan
        applied = _applied(connection, rule.name)
        with views.creation_granted(connection):
            _put(connection, declared, by=by, is_built=True)
            _build(connection, declared, applied)
    return plan


def drop_view(connection: Connection, name: str) -> None:
    """Drop a view that was applied, in a transaction of its own; refused where something depends on it."""
    with transaction(connection):
        applied = _applied(connection, name)
        if applied is None:
            known = [each.name for each in views.list_views(connection)]
            raise UnknownNameError(
                f"no view '{name}' was applied; {near_miss(name, known)}. Nothing was dropped"
            )
        views.drop_view(connection, name)
        if views.find_relation(connection, applied.schema_name, name) is not None:
            with _explained(name):
                views.remove_view(connection, applied.schema_name, name)


@dataclass(frozen=True, slots=True)
class ViewRefresher:
    """Refreshes the views of a database. Any number of workers may do so at once: each view has one at a time."""

    pool: Pool
    holder: Holder
    _running: list[Connection] = field(default_factory=list)

    def break_off(self) -> None:
        """From another thread: end the refresh that runs, if one does. Its view stays as it was, and is due soon."""
        for connection in tuple(self._running):
            connection.cancel_safe(timeout=5)

    def refresh_due(self) -> Iterator[Refreshed]:
        """Refresh what is due and stale, until nothing is; one that fails waits, and stops no other."""
        while True:
            with self.pool.connection() as connection:
                turn = views.claim_view(connection, self.holder)
            if turn is None:
                return
            failpoint("view.claimed", about=turn.name)
            try:
                yield self._refresh(turn)
            except LeaseLostError as error:
                log.warning("%s", error)

    def _refresh(self, turn: ViewTurn) -> Refreshed:
        begun = time.monotonic()
        with self.pool.connection() as connection:
            self._running.append(connection)
            try:
                with transaction(connection):
                    views.limit_statements(connection, turn.timeout_seconds)
                    position = views.begin_view_refresh(connection, turn, self.holder)
                    failpoint("view.begun", connection, about=turn.name)
                    relation = _ready_relation(connection, turn)
                    views.refresh_view(connection, turn, is_populated=relation.is_populated)
                    failpoint("view.refreshed", connection, about=turn.name)
                    seconds = time.monotonic() - begun
                    views.end_view_refresh(connection, turn, self.holder, seconds=seconds, position=position)
                    failpoint("view.recorded", connection, about=turn.name)
            except (DatabaseUnavailableError, LeaseLostError):
                raise
            except (ControlError, ViewError) as error:
                seconds = time.monotonic() - begun
                message = str(error)
                views.end_view_refresh(connection, turn, self.holder, seconds=seconds, error=message)
                log.warning("view %s could not be refreshed and is as it was: %s", turn.name, message)
                return Refreshed(name=turn.name, seconds=seconds, error=message)
            finally:
                self._running.clear()
        failpoint("view.committed", about=turn.name)
        return Refreshed(name=turn.name, seconds=seconds, position=position)


def _ready_relation(connection: Connection, turn: ViewTurn) -> Relation:
    relation = views.find_relation(connection, turn.schema_name, turn.name)
    if relation is None or (relation.kind, relation.owner) != (_MATERIALIZED, views.OWNER):
        raise ViewError(
            f"{turn.schema_name}.{turn.name} is not the view that was applied. Nothing was changed. "
            f"Run: disarray view apply {turn.name}"
        )
    if not relation.has_unique_index:
        raise ViewError(
            f"{turn.schema_name}.{turn.name} has lost its unique index, and cannot be refreshed while others read it. "
            f"Nothing was changed. Run: disarray view apply {turn.name}"
        )
    return relation


def _applied(connection: Connection, name: str) -> ViewRecord | None:
    return next((each for each in views.list_views(connection) if each.name == name), None)


def _read_query(folder: Path, rule: ViewRule) -> str:
    path = folder / rule.file
    try:
        query = path.read_text(encoding="utf-8").strip().removesuffix(";").rstrip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the query of view {rule.name} cannot be read from {path}: {error}. Nothing was changed"
        ) from error
    if not query or "\0" in query:
        raise ConfigError(f"{path}, the query of view {rule.name}, holds no query. Nothing was changed")
    return query


def _columns(connection: Connection, declared: DeclaredView) -> list[str]:
    with _explained(declared.rule.name):
        return views.describe_query(connection, declared.query)


def _change(declared: DeclaredView, applied: ViewRecord | None, *, is_whole: bool) -> ViewChange:
    rule = declared.rule
    if applied is None:
        return ViewChange.CREATE
    if not is_whole or _built_from(declared) != (
        applied.schema_name,
        applied.definition,
        tuple(applied.unique_key),
    ):
        return ViewChange.REPLACE
    when = rule.depends_on, rule.at_most_every, int(rule.timeout.total_seconds())
    if when != (tuple(applied.depends_on), applied.at_most_every, applied.timeout_seconds):
        return ViewChange.ADJUST
    return ViewChange.NONE


def _built_from(declared: DeclaredView) -> tuple[str, str, tuple[str, ...]]:
    return declared.rule.schema, declared.query, declared.rule.key


def _diff(declared: DeclaredView, applied: ViewRecord | None) -> tuple[str, ...]:
    rule = declared.rule
    before: list[str] = []
    if applied is not None:
        before = _lines(
            applied.schema_name, applied.unique_key, applied.depends_on, applied.at_most_every,
            applied.timeout_seconds, applied.definition,
        )  # fmt: skip
    after = _lines(
        rule.schema,
        rule.key,
        rule.depends_on,
        rule.at_most_every,
        int(rule.timeout.total_seconds()),
        declared.query,
    )
    names = f"{rule.name} in force", f"{rule.name} in {rule.file}"
    return tuple(difflib.unified_diff(before, after, *names, lineterm=""))


def _lines(*parts: object) -> list[str]:
    *settings, query = parts
    names = ("schema", "key", "depends_on", "at_most_every", "timeout")
    shown = [", ".join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in settings]
    return [f"-- {name}: {value}" for name, value in zip(names, shown, strict=True)] + str(query).splitlines()


def _put(connection: Connection, declared: DeclaredView, *, by: str, is_built: bool) -> None:
    rule = declared.rule
    views.put_view(
        connection,
        rule.name,
        schema_name=rule.schema,
        definition=declared.query,
        unique_key=rule.key,
        depends_on=rule.depends_on,
        at_most_every=rule.at_most_every,
        timeout_seconds=int(rule.timeout.total_seconds()),
        by=by,
        is_built=is_built,
    )


def _build(connection: Connection, declared: DeclaredView, applied: ViewRecord | None) -> None:
    rule = declared.rule
    # Beside the old one and under a name of nobody's: readers have the old one until both change places.
    mark = uuid.uuid4().hex[:8]
    beside = f"{rule.name[: LONGEST_IDENTIFIER - 9]}_{mark}"
    index = f"{rule.name[: LONGEST_IDENTIFIER - 13]}_key_{mark}"
    with _explained(rule.name):
        views.build_view(
            connection, rule.schema, beside, query=declared.query, unique_key=rule.key, index=index
        )
        if (
            applied is not None
            and views.find_relation(connection, applied.schema_name, rule.name) is not None
        ):
            views.remove_view(connection, applied.schema_name, rule.name)
        views.rename_view(connection, rule.schema, beside, rule.name)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Errors of the database about a view, with its name and what became of it."""
    try:
        yield
    except DatabaseUnavailableError:
        raise
    except SchemaMissingError as error:
        raise ViewError(
            f"view {name}: {_reason(error)}. Nothing was changed. The readings of a dataset are in telemetry where it "
            'says store = "timescale"'
        ) from error
    except AccessDeniedError as error:
        raise ViewError(
            f"view {name}: {_reason(error)}. Nothing was changed. Views are made and refreshed as role {views.OWNER}, "
            "which reads what disarray_reader reads: grant it what the query needs, create on the schema of the view, "
            "and itself to disarray_operator and disarray_worker"
        ) from error
    except ControlError as error:
        raise ViewError(f"view {name}: {_reason(error)}. Nothing was changed") from error


def _reason(error: ControlError) -> str:
    """What is wrong, without what became of the data: nothing did."""
    return str(error).partition(". Nothing was ")[0].removesuffix(".")
