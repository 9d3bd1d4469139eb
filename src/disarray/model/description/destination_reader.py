"""From the `[[destination]]` tables of a TOML document to validated destinations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from disarray.model.description.destination import (
    BucketAccess,
    Content,
    DeltaTarget,
    Destination,
    Load,
    TableTarget,
)
from disarray.model.description.secret import SecretSource, secret_source
from disarray.model.description.spec_table import MisfitError, Table, near_miss
from disarray.model.description.spec_values import boolean, choice, duration, glob, name, several, text
from disarray.model.duration import DAY, HOUR, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import PurePath

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.spec_table import Problems

_TABLE = re.compile(r"(?P<schema>[a-z_][a-z0-9_]{0,62})\.(?P<table>[a-z_][a-z0-9_]{0,55})")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=-]+)+")
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_OF_BUCKETS = ("endpoint", "region", "access_key", "secret_key")


def read_destinations(
    document: Mapping[str, object],
    *,
    problems: Problems,
    datasets: Mapping[str, Dataset],
    folder: PurePath,
) -> tuple[Destination, ...]:
    """Every `[[destination]]`; relative paths count from `folder`."""
    top = Table(document, path="", kind="document", problems=problems)
    found: list[Destination] = []
    targets: set[TableTarget | DeltaTarget] = set()
    for table in top.array("destination", "destination"):
        destination = _read_destination(table, datasets, folder)
        table.close()
        if destination is None:
            continue
        if destination.name in {other.name for other in found}:
            table.refuse("name", f"expected a name of its own, found {destination.name!r} again")
        if destination.target in targets:
            table.refuse("table", f"{destination.target.shown} is the target of another destination")
        targets.add(destination.target)
        found.append(destination)
    return tuple(found)


def _read_destination(table: Table, datasets: Mapping[str, Dataset], folder: PurePath) -> Destination | None:
    own_name = table.required("name", name, "")
    content, dataset, part = _content(table, datasets)
    every = table.optional("every", _grid_step, None)
    if (content is Content.METRIC) != ("every" in table.values):
        table.refuse("every", "expected a length of time exactly where a metric is loaded, such as '1 h'")
    target = _target(table, folder)
    load = table.optional(
        "load", choice(Load), Load.REPLACE if isinstance(target, DeltaTarget) else Load.UPSERT
    )
    if isinstance(target, DeltaTarget) and load is not Load.REPLACE:
        table.refuse("load", "expected 'replace': a Delta table is overwritten month by month")
    subjects = table.optional("subjects", several(glob, at_least=1), ("*",))
    columns = table.optional("columns", _columns, None)
    creates = table.optional("create", boolean, isinstance(target, DeltaTarget))
    keep = table.optional("keep_superseded", duration(), 7 * DAY)
    if load is not Load.APPEND and "keep_superseded" in table.values:
        table.refuse("keep_superseded", "has a meaning for load = 'append' alone")
    if isinstance(target, DeltaTarget) and "columns" in table.values:
        table.refuse("columns", "a Delta table has our names; rename columns in a view over it")
    if not own_name or dataset is None or content is None or target is None:
        return None
    rollup = next((each for each in dataset.rollups if content is Content.ROLLUP and each.name == part), None)
    metric = next((each for each in dataset.metrics if content is Content.METRIC and each.name == part), None)
    return Destination(
        name=own_name,
        content=content,
        dataset=dataset,
        target=target,
        load=load,
        subjects=subjects,
        rollup=rollup,
        metric=metric,
        every_us=every or HOUR,
        columns=columns,
        creates=creates,
        keep_superseded_us=keep,
    )


def _content(table: Table, datasets: Mapping[str, Dataset]) -> tuple[Content | None, Dataset | None, str]:
    """What is loaded: one of four keys, whose value names a dataset and perhaps a part of it."""
    written = [content for content in Content if content.value in table.values]
    values = {content: table.optional(content.value, text, "") for content in Content}
    if len(written) != 1:
        table.refuse(
            "readings", "expected exactly one of readings, rollup, metric and newest, which names a dataset"
        )
        return None, None, ""
    [content] = written
    dataset_name, _, part = values[content].partition(".")
    if dataset_name not in datasets:
        if values[content]:
            table.refuse(
                content.value,
                f"there is no dataset '{dataset_name}'; {near_miss(dataset_name, list(datasets))}",
            )
        return content, None, ""
    dataset = datasets[dataset_name]
    parts: Sequence[str] = {
        Content.ROLLUP: [each.name for each in dataset.rollups],
        Content.METRIC: [each.name for each in dataset.metrics],
    }.get(content, [])
    if content in (Content.ROLLUP, Content.METRIC) and part not in parts:
        table.refuse(
            content.value,
            f"expected '{dataset_name}.' and a {content.value} of it, found '{values[content]}'; "
            f"{near_miss(part, parts)}",
        )
        return content, None, ""
    if content in (Content.READINGS, Content.NEWEST) and part:
        table.refuse(content.value, f"expected a dataset alone, found '{values[content]}'")
        return content, None, ""
    if content is Content.NEWEST and not dataset.metrics:
        table.refuse(content.value, f"dataset '{dataset_name}' has no metrics, so there is no newest value")
        return content, None, ""
    return content, dataset, part


def _target(table: Table, folder: PurePath) -> TableTarget | DeltaTarget | None:
    delta = table.optional("delta", text, None)
    url = table.optional("url", secret_source(folder), None)
    database = table.optional("database", _same, None)
    if delta is None or not delta.startswith("s3:"):
        for key in _OF_BUCKETS:
            table.optional(key, _only_of_buckets, None)
    written = [key for key in ("delta", "url", "database") if key in table.values]
    if len(written) != 1:
        table.refuse(
            "url",
            "expected exactly one of url = { env = 'NAME' } or { file = 'path' }, database = 'same' and delta = 'path'",
        )
        return None
    if delta is not None:
        if "table" in table.values:
            table.refuse("table", "a Delta table is named by its folder alone")
        return _delta_target(table, folder, delta)
    if "delta" in table.values:
        return None
    schema, named = table.required("table", _table, ("", ""))
    if not named or (url is None and database is None):
        return None
    return TableTarget(schema, named, url)


def _delta_target(table: Table, folder: PurePath, delta: str) -> DeltaTarget | None:
    """A folder of this machine, or a bucket with what it is reached by."""
    if not delta.startswith("s3:"):
        if ":" in delta:
            table.refuse("delta", "expected a folder of this machine, or 's3://bucket/path'")
        return DeltaTarget(str(folder / delta))
    region = table.optional("region", _matching(_REGION, "a region, such as 'eu-central-1'"), "us-east-1")
    endpoint = table.optional(
        "endpoint",
        _matching(_ENDPOINT, "'https://host' or 'https://host:port', without a path or a user"),
        f"https://s3.{region}.amazonaws.com",
    )
    access_key = table.required("access_key", secret_source(folder), SecretSource())
    secret_key = table.required("secret_key", secret_source(folder), SecretSource())
    parts = delta.removeprefix("s3://").split("/")
    if not _BUCKET.fullmatch(delta) or ".." in parts or "." in parts:
        table.refuse("delta", "expected 's3://bucket/path' of letters, digits and - _ . =")
        return None
    access = BucketAccess(endpoint=endpoint, region=region, access_key=access_key, secret_key=secret_key)
    return DeltaTarget(delta, access)


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            # An endpoint may have been written with a password in it: it is not repeated.
            raise MisfitError(expected, found="********")
        return value

    return read


def _only_of_buckets(value: object) -> None:
    raise MisfitError("delta = 's3://bucket/path' beside it", found="********")


def _grid_step(value: object) -> int:
    step_us = duration(at_least=SECOND, at_most=DAY)(value)
    if DAY % step_us:
        # Else the instants of one day would depend on which day was the first.
        raise MisfitError("a length of time that divides the day evenly, such as '15 min' or '1 h'")
    return step_us


def _table(value: object) -> tuple[str, str]:
    found = _TABLE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise MisfitError("a table as 'schema.name', of a–z, 0–9 and _ (the name at most 56)")
    if found["schema"] in ("disarray", "pg_catalog", "information_schema"):
        raise MisfitError("a table outside of the schemas disarray, pg_catalog and information_schema")
    return found["schema"], found["table"]


def _same(value: object) -> str:
    if value != "same":
        raise MisfitError("the word 'same'; another database has a url")
    return "same"


def _columns(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not value:
        raise MisfitError("a table { theirs = 'ours' }")
    for theirs, ours in value.items():
        if not isinstance(ours, str) or not 1 <= len(theirs.encode()) <= 63 or "%" in theirs:
            raise MisfitError("a table { theirs = 'ours' } of names with at most 63 bytes", key=f".{theirs}")
    if len(set(value.values())) < len(value):
        raise MisfitError("each of our columns only once")
    return dict(value)
