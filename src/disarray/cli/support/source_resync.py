"""Resyncs of table sources on the command line: planned, and begun."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from disarray.backfill.job_file import parse_spec
from disarray.backfill.starting import plan_backfill, start_backfill
from disarray.cli.support.backfill_report import print_detached, print_plan
from disarray.cli.support.backfill_work import opened_kinds
from disarray.cli.support.project import database_dsn

if TYPE_CHECKING:
    from disarray.backfill.description import BackfillSpec
    from disarray.config import Config
    from disarray.model.description.table_source import TableSource

# Of a job.
LONGEST_NAME = 63


def plan_resync(config: Config, source: TableSource, *, allow_deletes: bool, as_json: bool) -> None:
    """Tell how much a resync would read; nothing is started."""
    spec = _spec(config, source, allow_deletes=allow_deletes)
    with opened_kinds(config, spec.kind, runs=False) as open_kind:
        found = plan_backfill(database_dsn(config), spec, open_kind=open_kind)
    print_plan(found, as_json=as_json)


def start_resync(
    config: Config,
    source: TableSource,
    *,
    allow_deletes: bool,
    reason: str,
    by: str,
    as_json: bool,
) -> None:
    """Begin a resync, which workers carry out."""
    spec = _spec(config, source, allow_deletes=allow_deletes)
    with opened_kinds(config, spec.kind, runs=False) as open_kind:
        job_id = start_backfill(database_dsn(config), spec, reason=reason, by=by, open_kind=open_kind)
    print_detached(job_id, as_json=as_json)


def _spec(config: Config, source: TableSource, *, allow_deletes: bool) -> BackfillSpec:
    """One of a name is under way at a time, and so is one resync of a source."""
    content = {
        "name": job_name(source.name),
        "kind": "resync",
        "resync": {"source": source.name, "deletes": "allow" if allow_deletes else "refuse"},
    }
    return parse_spec(content, shown="source resync", config=config)


def job_name(source: str) -> str:
    """The name of a source's job; where it is too long, what tells it from others that begin alike ends it."""
    whole = f"resync_{source}"
    if len(whole) <= LONGEST_NAME:
        return whole
    mark = f"_{hashlib.sha256(source.encode()).hexdigest()[:8]}"
    return whole[: LONGEST_NAME - len(mark)] + mark
