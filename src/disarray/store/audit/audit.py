"""Every guarantee that can be looked up, on any database and lake, while they are in use."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from disarray.control import audit as control_audit
from disarray.control import (
    audit_catalog,
    audit_intake,
    audit_ledger,
    blocks,
    dimensions,
    moving_files,
    verification,
)
from disarray.control.audit import Finding
from disarray.control.snapshots import snapshot
from disarray.control.verification_runs import subject_keys
from disarray.store.audit.bases import RULE as BASES
from disarray.store.audit.bases import find_wrong_bases
from disarray.store.audit.lake_files import (
    find_changed_files,
    find_misread_segments,
    find_missing_files,
    find_orphans,
)
from disarray.store.audit.parts import find_wrong_parts
from disarray.store.audit.rules import RULES
from disarray.store.audit.tables import find_changed_rows
from disarray.store.belonging import belonging_files, matching_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.store.audit.rule import Rule
    from disarray.store.lake import Lake


BELONGING = "files_count_where_they_belong"
UNMATCHED = "unmatched_files_are_known"
_ALL = 2**31 - 1


class Outcome(StrEnum):
    """What an audit has to say about a rule."""

    HOLDS = "holds"
    BROKEN = "BROKEN"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one rule, and what breaks it; `note` says what was left out, and why."""

    rule: Rule
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """How far an audit looks.

    `patience` is how long something may wait that somebody is about to do: zero for a system that is at rest, where
    nothing is. `datasets` are those of the project; without them, where a file belongs is not derived, only held
    against where it counts. `orphans_after` is what housekeeping leaves files of dead runs, and twice the time between
    its turns.
    """

    patience: timedelta = timedelta(minutes=10)
    since: timedelta = timedelta(days=7)
    orphans_after: timedelta = timedelta(days=1, hours=2)
    is_deep: bool = False
    limit: int = 100
    datasets: Collection[Dataset] = ()


def audit(connection: Connection, lake: Lake, settings: AuditSettings | None = None) -> list[Verdict]:
    """Look at every rule, in one snapshot of the database; at most `limit` findings of each."""
    settings = settings or AuditSettings()
    limit = settings.limit
    notes: dict[str, str] = {}
    with snapshot(connection):
        found = [
            *control_audit.audit_files(connection, since=settings.since, limit=limit),
            *audit_catalog.audit_readings(connection, limit=limit),
            *audit_catalog.audit_commits(connection, limit=limit),
            *dimensions.audit_dimensions(connection, limit=limit),
            *control_audit.audit_leases(
                connection, since=settings.since, patience=settings.patience, limit=limit
            ),
            *control_audit.audit_progress(connection, patience=settings.patience, limit=limit),
            *control_audit.audit_limits(connection, limit=limit),
            *audit_catalog.audit_origins(connection, limit=limit),
            *audit_ledger.audit_restatements(connection, limit=limit),
            *audit_ledger.audit_notices(connection, limit=limit),
            *audit_intake.audit_file_records(connection, limit=limit),
            *audit_intake.audit_deliveries(connection, limit=limit),
            *islice(_wrong_bases(connection, notes), limit),
            *islice(find_wrong_parts(connection), limit),
            *islice(_misplaced_files(connection, settings.datasets, notes), limit),
        ]
        live = audit_catalog.list_live_lake_files(connection)
    # Outside of it, so that no snapshot is held for as long as reading takes: what was needed a moment ago is there.
    found += islice(find_missing_files(lake, live), limit)
    found += islice(find_orphans(connection, lake, after=settings.orphans_after), limit)
    if settings.is_deep:
        found += islice(find_changed_files(lake, live), limit)
        found += islice(find_misread_segments(connection, lake), limit)
        found += dimensions.audit_numbers(connection, limit=limit)
        found += islice(find_changed_rows(connection), limit)
    return list(_verdicts(found, notes, is_deep=settings.is_deep))


def _wrong_bases(connection: Connection, notes: dict[str, str]) -> Iterator[Finding]:
    stale: list[str] = []
    for subject_key in subject_keys(connection):
        links = audit_catalog.load_base_chains(connection, subject_key)
        stale_from_us = verification.load_stale_from(
            connection, subject_key, {link.dataset for link in links}
        )
        stale += [f"{dataset}/{subject_key}" for dataset in stale_from_us]
        yield from find_wrong_bases(
            subject_key,
            links,
            blocks.load_metric_blocks(connection, subject_key),
            block_lengths_us=blocks.load_block_lengths(connection, subject_key),
            stale_from_us=stale_from_us,
        )
    if stale:
        shown = ", ".join(stale[:3]) + (" …" if len(stale) > 3 else "")
        notes[BASES] = f"not at rest: what is stale of {shown} is left out"


def _misplaced_files(
    connection: Connection, datasets: Collection[Dataset], notes: dict[str, str]
) -> Iterator[Finding]:
    unmatched: set[str] = set()
    if not datasets:
        notes[BELONGING] = "no disarray.toml was given: where files belong was not derived"
        for file in moving_files.list_known_files(connection, with_fingerprints=False):
            elsewhere = [
                f"{dataset}/{subject}"
                for dataset, subject in file.homes
                if (dataset, subject) != (file.dataset or dataset, file.subject_key)
            ]
            if elsewhere and not file.is_queued:
                detail = f"known as {file.dataset}/{file.subject_key}, counts for {' and '.join(elsewhere)}"
                yield Finding(BELONGING, file.source_uri, detail)
        return
    for each in belonging_files(connection, datasets):
        if each.dataset is None:
            unmatched.add(each.file.source_uri)
        if each.is_elsewhere and not each.is_on_its_way:
            detail = f"counts for {each.counts_for}, belongs to {each.belongs_to}"
            yield Finding(BELONGING, each.file.source_uri, detail)
    if unmatched:
        notes[BELONGING] = (
            f"{len(unmatched):,} files that no dataset takes any more are left out: disarray status"
        )
    if moving_files.matching_rules(connection) != matching_rules(datasets):
        notes[UNMATCHED] = "files were not held against the rules of this disarray.toml yet: start a worker"
        return
    listed = {file.source_uri for file in moving_files.list_unmatched_files(connection, limit=_ALL)}
    for uri in sorted(listed ^ unmatched):
        yield Finding(
            UNMATCHED, uri, "listed, and a dataset takes it" if uri in listed else "no dataset takes it"
        )


def _verdicts(findings: Iterable[Finding], notes: dict[str, str], *, is_deep: bool) -> Iterator[Verdict]:
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_rule[finding.rule].append(finding)
    for rule in RULES:
        if rule.is_deep and not is_deep:
            yield Verdict(rule, Outcome.SKIPPED, note="reads all that is stored: ask for it with --deep")
            continue
        broken = tuple(by_rule.pop(rule.name, ()))
        yield Verdict(rule, Outcome.BROKEN if broken else Outcome.HOLDS, broken, notes.get(rule.name, ""))
    # A rule of the database that this program does not know must not pass for one that holds.
    assert not by_rule, f"no rule is called {', '.join(by_rule)}"
