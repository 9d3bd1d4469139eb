"""`disarray store`: where readings live, and moving them."""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import AsJson, DryRun
from disarray.cli.support.printing import print_failures, print_json, table_of
from disarray.cli.support.project import chosen_dataset, configuration, extra_installed, open_project
from disarray.cli.support.rendering import counted
from disarray.cli.support.text_tables import print_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.config import Config
    from disarray.control.readings import WaitingCopy
    from disarray.model.description.dataset import Dataset, Store

app = typer.Typer(no_args_is_help=True, help="Where readings live.")

INSTANCE_NAME = "store-copy"


class Target(enum.StrEnum):
    """The stores that there are."""

    LAKE = "lake"
    TIMESCALE = "timescale"


@app.command()
def copy(
    context: typer.Context,
    dataset: str,
    *,
    to: Annotated[Target, typer.Option(help="The store that the readings shall live in.")],
    subject: Annotated[str | None, typer.Option(help="Only this one now; the others wait.")] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move the readings of a dataset into another store, subject by subject; interrupted, it goes on when run again."""
    from disarray.queries.project import configured_datasets

    config = configuration(context)
    datasets = configured_datasets(config)
    described = chosen_dataset(datasets, dataset)
    chosen = type(described.store)(to)
    if dry_run:
        waiting = _waiting(context, described, chosen)
        failures: list[str] = []
    else:
        waiting, failures = _copy(config, datasets, dataset, store=chosen, subject=subject)
    wanted = [each for each in waiting if subject is None or each.subject_key == subject]
    if as_json:
        print_json({"dataset": dataset, "store": to, "waiting": waiting, "failures": failures})
    elif dry_run:
        columns = {"subject": "subject_key", "segments": "segments", "readings": "readings"}
        print_parts([table_of(wanted, columns)])
        typer.echo(
            f"{counted(len(wanted), 'subject')} of {dataset} would be moved to {to}. Nothing was changed."
        )
    else:
        typer.echo(f"The store of {dataset} is {to}; {counted(len(waiting), 'subject')} still to be moved.")
        if described.store is not chosen:
            typer.echo(f'Now write store = "{to}" in disarray.toml: workers do not start before.')
            if to is Target.LAKE and any(column.is_dimension for column in described.columns):
                typer.echo("Remove dimension = true from its columns as well: the lake has none.")
    print_failures(failures, as_json=as_json)


def _waiting(context: typer.Context, dataset: Dataset, store: Store) -> list[WaitingCopy]:
    from disarray.control.readings import list_copies, store_of
    from disarray.control.values import all_subjects

    with open_project(context) as project:
        if store_of(project.connection, dataset) is store:
            return list_copies(project.connection, dataset.name)
        from disarray.control.catalog import load_segments
        from disarray.control.readings import WaitingCopy
        from disarray.model.segments import FIRST_US, LAST_US

        found = []
        for span in all_subjects(project.connection, dataset=dataset.name):
            entries = load_segments(
                project.connection, dataset.name, span.subject_key, from_us=FIRST_US, to_us=LAST_US
            )
            found.append(
                WaitingCopy(span.subject_key, len(entries), sum(entry.readings for entry in entries))
            )
        return found


def _copy(
    config: Config,
    datasets: Mapping[str, Dataset],
    name: str,
    *,
    store: Store,
    subject: str | None,
) -> tuple[list[WaitingCopy], list[str]]:
    """Change the store, then move what is there; the subjects that remain, and what failed."""
    from disarray.control.readings import change_store
    from disarray.failpoints import failpoint

    with extra_installed("worker", purpose="`store copy`"):
        from disarray.worker.process.local import open_pool, open_workplace
        from disarray.worker.process.store_copy import drain_copies

    with open_pool(config, application_name="disarray store copy") as pool, pool.connection() as connection:
        change_store(connection, datasets[name], store)
        failpoint("copy.store_changed", connection)
    moved = {**datasets, name: replace(datasets[name], store=store)}
    with open_workplace(config, instance_name=INSTANCE_NAME, datasets=moved) as place:
        return drain_copies(place, name, subject_key=subject)
