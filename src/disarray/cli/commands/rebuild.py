"""`disarray rebuild`: which numbers are of a former definition, and the work that makes them anew."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.options import AsJson, By, DryRun, OfSubject
from disarray.cli.support.printing import print_json
from disarray.cli.support.project import chosen_dataset, configuration, control_session, extra_installed
from disarray.cli.support.rendering import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.control.definitions import PendingRebuild
    from disarray.model.description.dataset import Dataset
    from disarray.store.belonging import Belonging

SHOWN_FILES = 5


@dataclass(frozen=True)
class DatasetRebuild:
    """What a rebuild of one dataset does: the changes of its definition as sentences, and the subjects to rebuild."""

    dataset: Dataset
    is_put_in_force: bool
    changes: tuple[str, ...]
    subjects: tuple[SubjectRebuild, ...]


@dataclass(frozen=True)
class SubjectRebuild:
    """One subject: its files are read again, or its segments scanned from what is kept of them."""

    pending: PendingRebuild
    reads_files: bool


def rebuild(
    context: typer.Context,
    *,
    dataset: Annotated[
        str | None,
        typer.Option(help="Only this one, also where its definition was in force before and was replaced."),
    ] = None,
    subject: OfSubject = None,
    as_job: Annotated[
        bool,
        typer.Option(
            "--as-job",
            help="Leave it to a backfill of the workers: one subject after the other, at a rate, compared.",
        ),
    ] = False,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put the definitions of disarray.toml in force, and queue what has to be made anew under them."""
    with extra_installed("worker", purpose="`rebuild`"):
        from disarray.cli.support.backfill_report import detached_sentence
        from disarray.control.definitions import queue_rebuilds
        from disarray.queries.project import configured_datasets
        from disarray.store.belonging import belonging_files, queue_moves
        from disarray.store.registering import register
    config = configuration(context)
    datasets = configured_datasets(config)
    chosen = list(datasets.values()) if dataset is None else [chosen_dataset(datasets, dataset)]
    with control_session(context) as connection:
        rebuilds = [rebuild_of(connection, each, subject) for each in chosen]
        files = [
            each
            for each in belonging_files(connection, datasets.values())
            if not each.file.is_rebuild_pending
        ]
        queued = moves = 0
        job_id: int | None = None
        if not dry_run:
            for each in chosen:
                register(connection, each, is_on_purpose=dataset is not None, queues=not as_job)
                if not as_job:
                    queued += queue_rebuilds(connection, dataset=each.name, subject_key=subject)
            if as_job and any(each.subjects for each in rebuilds):
                job_id = _start_job(connection, config, chosen, subject, by=by)
            moves = queue_moves(connection, datasets.values(), is_asked_for=True)
    if as_json:
        moved = [
            {"file": each.file.source_uri, "from": each.counts_for, "to": each.belongs_to}
            for each in files
            if each.is_elsewhere
        ]
        unmatched = [each.file.source_uri for each in files if each.dataset is None]
        print_json(
            {
                "datasets": [document(each) for each in rebuilds],
                "moves": moved,
                "unmatched": unmatched,
                "queued": queued,
                "job_id": job_id,
                "dry_run": dry_run,
            }
        )
        return
    for line in (line for of_dataset in rebuilds for line in describe(of_dataset)):
        typer.echo(line)
    for line in describe_moves(files):
        typer.echo(line)
    if moves:
        typer.echo(
            f"{counted(moves, 'file')} queued to be moved; a worker does it next. Or run: disarray ingest"
        )
    if job_id is not None:
        typer.echo(detached_sentence(job_id))
    if queued:
        typer.echo(f"{counted(queued, 'rebuild')} queued; a worker does them next. Or run: disarray ingest")


def _start_job(
    connection: Connection, config: Config, chosen: Sequence[Dataset], subject: str | None, *, by: str
) -> int:
    from disarray.backfill.starting import start_backfill
    from disarray.cli.support.backfill_check import rebuild_spec
    from disarray.cli.support.backfill_work import opened_kinds
    from disarray.cli.support.project import database_dsn

    spec = rebuild_spec(connection, config, chosen, subject=subject)
    described = {each.name: each for each in chosen}
    with opened_kinds(config, spec.kind, datasets=described, runs=False) as open_kind:
        return start_backfill(
            database_dsn(config), spec, reason="definitions of disarray.toml", by=by, open_kind=open_kind
        )


def rebuild_of(connection: Connection, dataset: Dataset, subject: str | None) -> DatasetRebuild:
    """What a rebuild of a dataset would do, looked up."""
    from disarray.control import definitions
    from disarray.model.description.versions import changed_parts

    in_force = definitions.definition_in_force(connection, dataset.name)
    waiting = definitions.list_rebuilds(
        connection, dataset=dataset.name, subject_key=subject, version=dataset.version
    )
    former = {each.version for each in waiting} | ({in_force} if in_force is not None else set())
    changes = [
        change
        for version in sorted(former - {dataset.version}, key=lambda version: (version.parse, version.scan))
        for change in changed_parts(definitions.load_definition(connection, dataset.name, version), dataset)
    ]
    return DatasetRebuild(
        dataset,
        in_force != dataset.version,
        tuple(dict.fromkeys(changes)),
        tuple(SubjectRebuild(each, each.parse_version != dataset.parse_version) for each in waiting),
    )


def describe(rebuild: DatasetRebuild) -> Iterator[str]:
    """The rebuild of a dataset as a person reads it."""
    name = rebuild.dataset.name
    if not rebuild.subjects and not rebuild.is_put_in_force:
        yield f"{name}: all numbers are of the definition in force."
        return
    state = "is not in force yet" if rebuild.is_put_in_force else "is in force"
    yield f"{name}: the definition of disarray.toml {state}; {counted(len(rebuild.subjects), 'subject')} to rebuild"
    for change in rebuild.changes:
        yield f"  {change}"
    for each in rebuild.subjects:
        pending = each.pending
        work = (
            f"{counted(pending.files, 'file')} to read again"
            if each.reads_files
            else f"{counted(pending.segments, 'segment')} to scan again, no file is read"
        )
        queued = ", queued" if pending.is_queued else ""
        yield f"  {pending.subject_key}: {work} ({counted(pending.readings, 'reading')}{queued})"


def describe_moves(files: Sequence[Belonging]) -> Iterator[str]:
    """Files that are about another dataset or subject than they count for, and those that no dataset takes any more."""
    moves: dict[tuple[str, str], int] = defaultdict(int)
    for each in files:
        if each.is_elsewhere:
            moves[each.counts_for, each.belongs_to] += 1
    for (former, now), count in sorted(moves.items()):
        yield f"{counted(count, 'file')} to move from {former} to {now}; each is read there, then removed here"
    unmatched = [each.file.source_uri for each in files if each.dataset is None]
    if unmatched:
        more = f" and {len(unmatched) - SHOWN_FILES} more" if len(unmatched) > SHOWN_FILES else ""
        yield (
            f"{counted(len(unmatched), 'file')} that no dataset takes any more stay as they are: "
            f"{', '.join(unmatched[:SHOWN_FILES])}{more}. To take one out: disarray files blacklist"
        )


def document(rebuild: DatasetRebuild) -> dict[str, Any]:
    """The same for programs."""
    return {
        "dataset": rebuild.dataset.name,
        "in_force": not rebuild.is_put_in_force,
        "changes": list(rebuild.changes),
        "subjects": [
            {
                "subject": each.pending.subject_key,
                "reads_files": each.reads_files,
                "files": each.pending.files,
                "segments": each.pending.segments,
                "readings": each.pending.readings,
                "queued": each.pending.is_queued,
            }
            for each in rebuild.subjects
        ],
    }
