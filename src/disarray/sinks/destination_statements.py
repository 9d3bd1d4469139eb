"""Statements for the table of a destination in somebody's PostgreSQL. Every name in them is quoted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.kernels.binary_copy import COPY_TYPES
from disarray.model.description.destination import Load
from disarray.sinks.destination_shape import COMMIT, IS_DELETED, LOADED_AT, SUBJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disarray.model.description.destination import TableTarget
    from disarray.sinks.destination_shape import Shape

POSITIONS = "disarray_position"
STAGED = "pg_temp.disarray_staged"
# From a staged row to the target: types that take every value of ours as it is.
FITTING_TYPES = {
    "bigint": ("bigint", "numeric"),
    "double precision": ("double precision",),
    "boolean": ("boolean",),
    "text": ("text", "character varying"),
    "timestamp with time zone": ("timestamp with time zone",),
}


def quoted(name: str) -> str:
    """A name as PostgreSQL takes it literally."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one destination; parameters are named."""

    target: TableTarget
    shape: Shape
    load: Load

    @property
    def table(self) -> str:
        return f"{quoted(self.target.schema)}.{quoted(self.target.table)}"

    @property
    def view(self) -> str:
        return f"{quoted(self.target.schema)}.{quoted(self.target.table + '_newest')}"

    @property
    def positions(self) -> str:
        return f"{quoted(self.target.schema)}.{quoted(POSITIONS)}"

    @property
    def columns(self) -> dict[str, str]:
        """Type by column, both as the target has them."""
        found = {self.shape.target_name(field.name): COPY_TYPES[field.type] for field in self.shape.loaded}
        if self.load is Load.APPEND:
            found |= {LOADED_AT: "timestamp with time zone", IS_DELETED: "boolean"}
        return found

    @property
    def key(self) -> list[str]:
        """The key as the target calls it; without what is not loaded there."""
        return [self.shape.target_name(name) for name in self.shape.key if name in self.shape.theirs]

    def create_table(self) -> str:
        """The table as it is made where it is asked for."""
        needed = {*self.key, self.shape.target_name(SUBJECT), self.shape.target_name(self.shape.time)}
        if COMMIT in self.shape.theirs:
            needed.add(self.shape.target_name(COMMIT))
        lines = [
            f"    {quoted(name)} {kind}{' not null' if name in needed or name in (LOADED_AT, IS_DELETED) else ''}"
            for name, kind in self.columns.items()
        ]
        if self.load is not Load.APPEND:
            lines.append(f"    primary key ({_list(self.key)})")
        return f"create table {self.table} (\n" + ",\n".join(lines) + "\n)"

    def create_index(self) -> str:
        """For an appended table, the order in which its view looks for the newest row of each key."""
        return (
            f"create index on {self.table} ({_list(self.key)}, {self._commit} desc, {quoted(LOADED_AT)} desc)"
        )

    def create_schema(self) -> str:
        return f"create schema if not exists {quoted(self.target.schema)}"

    def add_column(self, name: str) -> str:
        return f"alter table {self.table} add column if not exists {quoted(name)} {self.columns[name]}"

    def create_view(self) -> str:
        """The newest row of each key that has not gone."""
        names = [self.shape.target_name(field.name) for field in self.shape.loaded]
        return (
            f"create or replace view {self.view} as\n"
            f"select {_list([*names, LOADED_AT])}\nfrom (\n"
            f"    select distinct on ({_list(self.key)}) *\n    from {self.table}\n"
            f"    order by {_list(self.key)}, {self._commit} desc, {quoted(LOADED_AT)} desc\n) as newest\n"
            f"where not {quoted(IS_DELETED)}"
        )

    def create_positions(self) -> str:
        """Which load was the last of each subject: one that wakes up after it is refused."""
        return (
            f"create table if not exists {self.positions} (\n"
            "    destination text not null,\n    subject_key text not null,\n    fence bigint not null,\n"
            "    commit_seq bigint not null,\n    loaded_at timestamptz not null,\n"
            "    primary key (destination, subject_key)\n)"
        )

    def lock_position(self) -> str:
        """Locks the row of the subject until the load is over: the fence of the last load, 0 where none is known."""
        return (
            f"insert into {self.positions} as held (destination, subject_key, fence, commit_seq, loaded_at) "
            "values (%(destination)s, %(subject)s, 0, 0, clock_timestamp()) "
            "on conflict (destination, subject_key) do update set fence = held.fence returning fence"
        )

    def move_position(self) -> str:
        return (
            f"update {self.positions} set fence = %(fence)s, commit_seq = %(commit_seq)s, "
            "loaded_at = clock_timestamp() where destination = %(destination)s and subject_key = %(subject)s"
        )

    def begin_pieces(self) -> str:
        """The negative of the fence says that the load is not whole yet."""
        return self.move_position().replace("fence = %(fence)s", "fence = -%(fence)s")

    def hold_piece(self) -> str:
        """Waits for another task that loads the same piece."""
        return "select pg_advisory_xact_lock(hashtextextended(%(destination)s || %(subject)s, %(number)s))"

    def find_position(self) -> str:
        return (
            f"select fence from {self.positions} "
            "where destination = %(destination)s and subject_key = %(subject)s"
        )

    def end_pieces(self) -> str:
        return f"{self.move_position()} and fence = -%(fence)s"

    def delete_timeless(self) -> str:
        """Rows of the subject that are in no span at all."""
        time = quoted(self.shape.target_name(self.shape.time))
        return self._delete(f"{self._of_subject} and (target.{time} < 'infinity') is not true")

    def has_rows(self, *, is_everything: bool) -> str:
        there = self._of_subject if is_everything else self._in_spans
        return f"select exists (select from {self.table} as target where {there})"

    def copy_into_table(self) -> str:
        return f"copy {self.table} ({_list(self._staged)}) from stdin (format binary)"

    def lock_table(self) -> str:
        """Nobody changes a type while rows come in."""
        return f"lock table {self.table} in row exclusive mode"

    def lock_loads(self) -> str:
        """Waits for loads that are under way, and lets no other begin; readers go on."""
        return f"lock table {self.table} in share row exclusive mode"

    def forget_loads(self) -> str:
        """What every subject loaded is gone: their next loads find that none is known."""
        return f"update {self.positions} set fence = 0 where destination = %(destination)s"

    def list_positions(self) -> str:
        return f"select subject_key from {self.positions} where destination = %(destination)s"

    def list_subjects(self) -> str:
        subject = quoted(self.shape.target_name(SUBJECT))
        return f"select distinct {subject} from {self.table} where {subject} is not null"

    def count_rows(self) -> str:
        """How many rows each of some subjects has."""
        subject = quoted(self.shape.target_name(SUBJECT))
        return f"select {subject}, count(*) from {self.table} where {subject} = any(%(subjects)s) group by {subject}"

    def count_shown(self) -> str:
        """How many rows of the subject are shown, without those that were superseded."""
        return f"select count(*) from {self._shown} as target where {self._of_subject}"

    def count_lost(self, *, is_everything: bool) -> str:
        """How many rows that are shown in the spans have none of their key among the staged ones.

        A table that is replaced may lack columns of the key: of rows that look alike, as many survive as are staged.
        """
        there = self._of_subject if is_everything else self._in_spans
        keys = [f"key_{number}" for number in range(len(self.key))]
        named = ", ".join(f"{quoted(name)} as {key}" for name, key in zip(self.key, keys, strict=True))
        same = " and ".join(f"staged.{key} = has.{key}" for key in keys)
        counted = f"select {', '.join(keys)}, count(*) as rows from"
        grouped = f"as each group by {', '.join(keys)}"
        return (
            "select coalesce(sum(greatest(has.rows - coalesce(staged.rows, 0), 0)), 0)::bigint "
            f"from ({counted} (select {named} from {self._shown} as target where {there}) {grouped}) as has "
            f"left join ({counted} (select {named} from {STAGED}) {grouped}) as staged on {same}"
        )

    def delete_subject(self) -> str:
        return self._delete(self._of_subject)

    def create_staged(self) -> str:
        columns = [f"{quoted(name)} {kind}" for name, kind in self._staged.items()]
        return f"create temporary table disarray_staged ({', '.join(columns)}) on commit drop"

    def copy_staged(self) -> str:
        return f"copy {STAGED} ({_list(self._staged)}) from stdin (format binary)"

    def merge(self, *, is_whole: bool, is_everything: bool) -> list[str]:
        """The statements that make the target have the staged rows and no others in the spans; deletions first.

        A load of the whole subject looks at no number of a commit: rows of another history may have any. Where
        nothing of the subject is kept, it looks at no instant either.
        """
        there = self._of_subject if is_everything else self._in_spans
        match self.load:
            case Load.UPSERT:
                is_older = "" if is_whole else f"and target.{self._commit} <= %(commit_seq)s"
                return [
                    self._delete(f"{there} {is_older} {self._not_staged}"),
                    self._upsert(is_whole=is_whole),
                ]
            case Load.REPLACE:
                return [self._delete(there), self._insert()]
            case Load.APPEND:
                # They would hide whatever is appended.
                first = [self._delete(f"{there} {self._is_ahead}")] if is_whole else []
                return [*first, self._bury(there), self._append()]

    def vacuum(self) -> list[str]:
        """Rows of an appended table that were superseded before a time, then tombstones that hide nothing."""
        newer = f"(newer.{self._commit}, newer.{quoted(LOADED_AT)}) > (old.{self._commit}, old.{quoted(LOADED_AT)})"
        same = _same("newer", "old", self.key)
        return [
            (
                f"delete from {self.table} as old where exists (select from {self.table} as newer where {same} "
                f"and {newer} and newer.{quoted(LOADED_AT)} < clock_timestamp() - %(keep)s)"
            ),
            (
                f"delete from {self.table} as old where old.{quoted(IS_DELETED)} "
                f"and old.{quoted(LOADED_AT)} < clock_timestamp() - %(keep)s and not exists "
                f"(select from {self.table} as newer where {same} and newer.ctid <> old.ctid)"
            ),
        ]

    @property
    def _commit(self) -> str:
        return quoted(self.shape.target_name(COMMIT))

    @property
    def _staged(self) -> dict[str, str]:
        return {name: kind for name, kind in self.columns.items() if name not in (LOADED_AT, IS_DELETED)}

    @property
    def _values(self) -> list[str]:
        """What is compared: all but the commit, which says when a row became what it is."""
        skipped = {*self.key, self.shape.theirs.get(COMMIT)}
        return [name for name in self._staged if name not in skipped]

    @property
    def _of_subject(self) -> str:
        return f"target.{quoted(self.shape.target_name(SUBJECT))} = %(subject)s"

    @property
    def _shown(self) -> str:
        """The table, of an appended one the rows of the subject that were not superseded: its view may be anybody's."""
        if self.load is not Load.APPEND:
            return self.table
        return (
            f"(select newest.* from (select distinct on ({_list(self.key, of='target')}) * from {self.table} as target "
            f"where {self._of_subject} "
            f"order by {_list(self.key, of='target')}, target.{self._commit} desc, target.{quoted(LOADED_AT)} desc) "
            f"as newest where not newest.{quoted(IS_DELETED)})"
        )

    @property
    def _is_ahead(self) -> str:
        """Of an appended table, what would be shown in place of a row that is added now; clocks are set back."""
        row = f"target.{self._commit}, target.{quoted(LOADED_AT)}"
        return f"and ({row}) >= (%(commit_seq)s, clock_timestamp())"

    @property
    def _in_spans(self) -> str:
        time = quoted(self.shape.target_name(self.shape.time))
        return (
            f"{self._of_subject} and exists (select from unnest(%(from)s::timestamptz[], "
            f"%(to)s::timestamptz[]) as span (from_at, to_at) "
            f"where target.{time} >= span.from_at and target.{time} < span.to_at) "
            f"and target.{time} >= %(first)s::timestamptz and target.{time} < %(last)s::timestamptz"
        )

    @property
    def _not_staged(self) -> str:
        same = _same("staged", "target", self.key)
        return f"and not exists (select from {STAGED} as staged where {same})"

    def _delete(self, condition: str) -> str:
        return f"delete from {self.table} as target where {condition}"

    def _insert(self) -> str:
        names = _list(self._staged)
        return f"insert into {self.table} ({names}) select {names} from {STAGED}"

    def _upsert(self, *, is_whole: bool) -> str:
        updated = [name for name in self._staged if name not in self.key]
        changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in updated)
        is_differing = _differ("target", "excluded", self._values)
        is_older = f"target.{self._commit} <= excluded.{self._commit}"
        # A row that is right, under a commit that is yet to come, would refuse that commit.
        condition = (
            f"{is_differing} or ({is_older}) is not true" if is_whole else f"{is_older} and {is_differing}"
        )
        return (
            f"insert into {self.table} as target ({_list(self._staged)}) select {_list(self._staged)} "
            f"from {STAGED} on conflict ({_list(self.key)}) do update set {changed} where {condition}"
        )

    def _append(self) -> str:
        names = _list(self._staged)
        staged = ", ".join(f"staged.{quoted(name)}" for name in self._staged)
        return (
            f"insert into {self.table} ({names}, {quoted(LOADED_AT)}, {quoted(IS_DELETED)}) "
            f"select {staged}, clock_timestamp(), false from {STAGED} as staged "
            f"where not exists (select from (select newest.* from {self.table} as newest "
            f"where {_same('newest', 'staged', self.key)} "
            f"order by newest.{self._commit} desc, newest.{quoted(LOADED_AT)} desc limit 1) as target "
            f"where not target.{quoted(IS_DELETED)} and not ({_differ('target', 'staged', self._values)}))"
        )

    def _bury(self, there: str) -> str:
        """What has gone gets a row that says so, newer than all others of its key."""
        names = [name for name in self._staged if name != self.shape.theirs[COMMIT]]
        return (
            f"insert into {self.table} ({_list(names)}, {self._commit}, {quoted(LOADED_AT)}, {quoted(IS_DELETED)}) "
            f"select {_list(names, of='target')}, %(commit_seq)s, clock_timestamp(), true from "
            f"(select distinct on ({_list(self.key, of='target')}) * from {self.table} as target "
            f"where {there} "
            f"order by {_list(self.key, of='target')}, target.{self._commit} desc, target.{quoted(LOADED_AT)} desc) "
            f"as target where not target.{quoted(IS_DELETED)} {self._not_staged}"
        )


def _list(names: Iterable[str], *, of: str = "") -> str:
    return ", ".join(f"{of}.{quoted(name)}" if of else quoted(name) for name in names)


def _same(one: str, other: str, names: Sequence[str]) -> str:
    return " and ".join(f"{one}.{quoted(name)} = {other}.{quoted(name)}" for name in names)


def _differ(one: str, other: str, names: Sequence[str]) -> str:
    if not names:
        return "false"
    return f"({_list(names, of=one)}) is distinct from ({_list(names, of=other)})"
