"""From the `[[dataset]]` tables of a TOML document to validated datasets."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import time
from pathlib import PurePath
from typing import TYPE_CHECKING

from disarray.model.description.attributes import read_attributes
from disarray.model.description.conflict_rule import BY_PATH, Conflict, ConflictRule
from disarray.model.description.dataset import Dataset, OnShrink, Reread, Store, SubjectKind, SubjectRule
from disarray.model.description.event_rule import read_event_rule
from disarray.model.description.format import ColumnType, FileKind, Origin
from disarray.model.description.format_choice import named_format, read_described
from disarray.model.description.metrics import read_metric
from disarray.model.description.read_spec import Key, KeyKind, RejectLimits
from disarray.model.description.rollups import read_rollup
from disarray.model.description.spec_expressions import column_name
from disarray.model.description.spec_table import MisfitError, Problems, Table, near_miss
from disarray.model.description.spec_values import (
    any_text,
    choice,
    duration,
    integer,
    name,
    number,
    one_of,
    or_none,
    regex,
    several,
    subject_key,
    text,
)
from disarray.model.description.versions import with_versions
from disarray.model.duration import DAY, HOUR, MINUTE, SECOND
from disarray.model.segments import LONGEST_SEGMENT_US

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disarray.model.description.dataset import Version
    from disarray.model.description.format import Format


def read_datasets(
    document: Mapping[str, object],
    *,
    problems: Problems,
    descriptions: Mapping[str, Mapping[str, object]],
    folder: PurePath,
) -> tuple[Dataset, ...]:
    """Every `[[dataset]]`; `descriptions` are the known formats as TOML tables, roots start at `folder`."""
    top = Table(document, path="", kind="document", problems=problems)
    datasets = tuple(_read_dataset(table, descriptions, folder) for table in top.array("dataset", "dataset"))
    for key in document:
        # A [database] is a section of its own, however much it looks like a slip of the pen.
        if key not in ("dataset", "database") and near_miss(key, ["dataset"]).startswith("did"):
            problems.add(key, "unknown key; did you mean 'dataset'?")
    names = [dataset.name for dataset in datasets]
    for index, own_name in enumerate(names):
        if own_name in names[:index]:
            problems.add(f"dataset[{index}].name", f"expected a name of its own, found {own_name!r} again")
    return datasets


def written_text(dataset: Dataset) -> str:
    """The `written` of a dataset as JSON. A time of day is the one value of TOML that JSON has no form for."""
    return json.dumps(dataset.written, default=_clock_text, allow_nan=False)


def _clock_text(value: object) -> str:
    return value.isoformat(timespec="seconds") if isinstance(value, time) else str(value)


def restore_dataset(written: Mapping[str, object], version: Version) -> Dataset:
    """A dataset from its `written`, under the version that it had: the rules behind the hash may have changed since."""
    problems = Problems("a definition that was in force before")
    formats, described = written.get("formats", {}), written["dataset"]
    assert isinstance(formats, dict)
    assert isinstance(described, dict)
    # All files of a dataset had the same priority: it never chose between two of them.
    former = {key: value for key, value in described.items() if key != "priority"}
    [dataset] = read_datasets(
        {"dataset": [former]}, problems=problems, descriptions=formats, folder=PurePath("/")
    )
    problems.raise_if_any()
    return replace(dataset, parse_version=version.parse, scan_version=version.scan)


def _written(
    dataset: Dataset, table: Table, descriptions: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """All that the dataset was read from, so that it can be read again when neither file says so any more."""
    like = named_format(table)
    formats = {like: descriptions[like]} if like in descriptions else {}
    return {"dataset": {**table.values, "roots": list(dataset.roots)}, "formats": formats}


def _read_dataset(
    table: Table, descriptions: Mapping[str, Mapping[str, object]], folder: PurePath
) -> Dataset:
    format_, event_time = read_described(table, descriptions)
    types = {column.name: column.type for column in format_.columns}
    attributes, attribute_types = read_attributes(table, types)
    known = types | attribute_types
    whole = Reread.WHOLE if format_.reread_whole else Reread.TAIL
    dataset = Dataset(
        name=table.required("name", name, "unnamed"),
        description=table.optional("description", any_text, ""),
        files=table.required("files", several(_glob, at_least=1), ()),
        roots=table.required("roots", several(_root(folder), at_least=1), ()),
        format=format_,
        subject=_read_subject(table.table("subject", "subject"), format_),
        event_time=event_time,
        columns=format_.columns,
        channel=table.optional("channel", _channel(types), None),
        attribute_types=attribute_types,
        attributes=attributes,
        order_by=table.optional("order_by", several(column_name(types)), ()),
        key=table.optional("key", _key(types), Key(KeyKind.CONTENT)),
        conflict=table.optional("conflict", _conflict(types), BY_PATH),
        segment_length_us=table.optional(
            "segment", duration(at_least=SECOND, at_most=LONGEST_SEGMENT_US), DAY
        ),
        horizon_us=table.optional("horizon", or_none(duration(at_least=SECOND)), None),
        future_tolerance_us=table.optional("future_tolerance", duration(), DAY),
        back_correction_window_us=table.optional("back_correction_window", duration(), 0),
        quiet_after_us=table.optional("quiet_after", duration(at_least=SECOND), 10 * MINUTE),
        on_shrink=table.optional("on_shrink", choice(OnShrink), OnShrink.PARK),
        reread=table.optional("reread", choice(Reread), whole),
        reject_limits=_read_limits(table.table("rejects", "rejects")),
        restate_after_us=table.optional("restate_after", duration(), HOUR),
        store=table.optional("store", choice(Store), Store.LAKE),
        chunk_us=table.optional("chunk", or_none(duration(at_least=HOUR)), None),
        retain_us=table.optional("retain", or_none(duration(at_least=DAY)), None),
        metrics=tuple(
            read_metric(each, metric, known) for each, metric in table.tables("metrics", "metric", name=name)
        ),
        rollups=tuple(
            read_rollup(each, rollup, known, zone_name=event_time.zone or "UTC")
            for each, rollup in table.tables("rollups", "rollup", name=name)
        ),
        events=read_event_rule(table.table("events", "events")) if "events" in table.values else None,
    )
    table.optional("events", lambda value: value, None)
    _check_conflict(table, dataset)
    _check_events(table, dataset)
    if dataset.subject_column is not None and dataset.key.kind is KeyKind.NONE:
        # Without a key, copies are known by their bytes; parts of two files may be equal where the files are not.
        table.refuse("key", "a file about several subjects needs a key: columns, or 'content'")
    _check_dimensions(table, dataset)
    if dataset.events is not None and "order_by" not in table.values:
        # Which events share a delivery is chance: among equal times, their files must not decide about the order.
        dataset = replace(dataset, order_by=dataset.key.columns)
    table.retired(
        "priority",
        "all files of a dataset had the same, so it chose nothing: remove it; conflict says which file wins",
    )
    table.close()
    return with_versions(replace(dataset, written=_written(dataset, table, descriptions)))


def _glob(value: object) -> str:
    pattern = text(value)
    if pattern.startswith("/") or "\\" in pattern or ".." in pattern.split("/"):
        raise MisfitError("a pattern below the roots such as 'cycler/**/*.csv', with / and without ..")
    return pattern


def _root(folder: PurePath) -> Callable[[object], str]:
    return lambda value: os.path.normpath(folder / text(value))


def _read_subject(table: Table, format_: Format) -> SubjectRule:
    fields = [field.name for field in format_.preamble.fields]
    rules = {
        SubjectKind.PATH: table.optional("path", regex(group="subject"), ""),
        SubjectKind.FILE_NAME: table.optional("file_name", regex(group="subject"), ""),
        SubjectKind.PREAMBLE: table.optional("preamble", text, ""),
        SubjectKind.CONSTANT: table.optional("constant", subject_key, ""),
        SubjectKind.DELIVERY: table.optional("delivery", one_of("folders"), ""),
        SubjectKind.COLUMN: table.optional("column", _subject_column(format_), ""),
    }
    given = [SubjectRule(kind, rule) for kind, rule in rules.items() if rule]
    if len(table.values) != 1:
        found = ", ".join(table.values) or "nothing"
        table.problems.add(table.path, f"expected one of {', '.join(SubjectKind)}, found {found}")
    field = rules[SubjectKind.PREAMBLE]
    if field and field not in fields:
        table.refuse("preamble", f"there is no preamble field '{field}'; {near_miss(field, fields)}")
    table.close()
    return given[0] if given else SubjectRule(SubjectKind.CONSTANT, "unknown")


def _subject_column(format_: Format) -> Callable[[object], str]:
    types = {column.name: column.type for column in format_.columns}
    constant = {column.name for column in format_.columns if column.origin is Origin.PREAMBLE}

    def read(value: object) -> str:
        column = column_name(types)(value)
        if types[column] not in (ColumnType.STRING, ColumnType.INT64):
            raise MisfitError("a column of type string or int64", hint=f"it is of type {types[column]}")
        if column in constant:
            raise MisfitError(
                "a column of the lines", hint='it is the same in the whole file: give preamble = "…"'
            )
        return column

    return read


def _channel(types: Mapping[str, ColumnType]) -> Callable[[object], str]:
    def read(value: object) -> str:
        column = column_name(types)(value)
        if types[column] not in (ColumnType.STRING, ColumnType.INT64):
            raise MisfitError("a column of type string or int64", hint=f"it is of type {types[column]}")
        return column

    return read


def _key(types: Mapping[str, ColumnType]) -> Callable[[object], Key]:
    def read(value: object) -> Key:
        if value in ("none", "content"):
            return Key(KeyKind(str(value)))
        if not isinstance(value, list):
            raise MisfitError("a list of columns, 'content' or 'none'")
        return Key(KeyKind.COLUMNS, several(column_name(types))(value))

    return read


def _conflict(types: Mapping[str, ColumnType]) -> Callable[[object], Conflict]:
    def read(value: object) -> Conflict:
        plain = (ConflictRule.PATH, ConflictRule.ARRIVAL, ConflictRule.PARK)
        if value in plain:
            return Conflict(ConflictRule(str(value)))
        if isinstance(value, dict) and value.keys() == {"newest"}:
            return Conflict(ConflictRule.NEWEST, column_name(types)(value["newest"]))
        raise MisfitError("'path', 'arrival', 'park' or { newest = \"column\" }")

    return read


def _check_conflict(table: Table, dataset: Dataset) -> None:
    if dataset.conflict.rule is not ConflictRule.PATH and dataset.key.kind is not KeyKind.COLUMNS:
        table.refuse(
            "conflict",
            'readings can disagree only under a key of columns: give key = ["…"], or leave conflict out',
        )
    if dataset.conflict.column in dataset.key.columns:
        table.refuse("conflict", f"'{dataset.conflict.column}' is part of the key, and equal under it")


def _check_events(table: Table, dataset: Dataset) -> None:
    if dataset.events is None:
        return
    if dataset.format.kind is not FileKind.JSONL:
        table.refuse("events", 'an event is delivered as a line of JSON: give format = "jsonl"')
    if dataset.subject.kind is not SubjectKind.DELIVERY:
        table.refuse(
            "events",
            'events are delivered in a folder for each subject: give subject = { delivery = "folders" }',
        )
    if dataset.key.kind is KeyKind.CONTENT:
        # Which equal events share a file is chance: counted by occurrence within one, chance would decide what counts.
        table.refuse(
            "events",
            'give a key: the columns that tell events apart, or "none" where every event is a reading',
        )


def _check_dimensions(table: Table, dataset: Dataset) -> None:
    if dataset.store is Store.LAKE:
        for column in dataset.columns:
            if column.is_dimension:
                table.refuse(
                    f"columns.{column.name}.dimension",
                    'the lake has no dimensions, a table of readings has: give store = "timescale", or remove it',
                )


def _read_limits(table: Table) -> RejectLimits:
    limits = RejectLimits(
        max_share=table.optional("max_share", number(at_least=0.0, at_most=1.0), None),
        max_count=table.optional("max_count", integer(at_least=0), None),
    )
    table.close()
    return limits
