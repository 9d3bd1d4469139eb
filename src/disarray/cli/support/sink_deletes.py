"""What a destination that is published again would delete of its target, counted from here where that can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.cli.support.project import APPLICATION_NAME, configuration
from disarray.errors import DisarrayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

    from disarray.config import Config
    from disarray.sinks.destination_deletes import Deletes


def counted_deletes(
    context: typer.Context, name: str, *, allows_deletes: bool, dry_run: bool
) -> tuple[Deletes | None, str]:
    """What would go, with a sentence about it; refused where it is more than may go without being asked for.

    None where it cannot be counted: the url or the keys of a target may be known where workers run, and nowhere else.
    """
    config = configuration(context)
    try:
        deletes = _count(config, name)
    except (DisarrayError, ModuleNotFoundError) as error:
        return None, f"What it deletes cannot be counted here: {error}. A worker counts it before it deletes."
    if not deletes.subjects and not deletes.rows:
        return deletes, "The target has no subject that is not asked for."
    from disarray.sinks.destination_deletes import excess_of

    percent = config.number("sinks.most_deleted_percent")
    excess = excess_of(name, deletes, percent=percent)
    if excess is not None and not allows_deletes and not dry_run:
        raise excess
    is_refused = excess is not None and not allows_deletes
    refused = f" That is more than {percent} %. Without --allow-deletes it is refused." if is_refused else ""
    return deletes, f"The target has {deletes} that are not asked for: they are deleted.{refused}"


def _count(config: Config, name: str) -> Deletes:
    from disarray.control import connections, destinations
    from disarray.errors import UnknownNameError
    from disarray.model.description.spec_table import near_miss
    from disarray.queries.project import answering_dsn, configured_datasets
    from disarray.sinks.destination_file import load_destinations
    from disarray.sinks.destination_shape import shape_of
    from disarray.sinks.destination_targets import opened_target
    from disarray.worker.process.settings import loader_settings

    described = {
        each.name: each for each in load_destinations(config.dataset_file, configured_datasets(config))
    }
    if name not in described:
        raise UnknownNameError(
            f"{config.dataset_file} describes no [[destination]] '{name}'; {near_miss(name, list(described))}"
        )
    destination = described[name]
    dsn = answering_dsn(config, on_start=lambda: None)
    with connections.open_pool(dsn, application_name=APPLICATION_NAME) as pool:

        def list_unasked(found: Sequence[str]) -> Sequence[str]:
            with pool.connection() as connection:
                return destinations.list_unasked_subjects(connection, name, found)

        lease_seconds = loader_settings(config).lease_seconds
        with opened_target(
            destination, shape_of(destination), pool=pool, lease_seconds=lease_seconds
        ) as target:
            return target.count_deletes(list_unasked)
