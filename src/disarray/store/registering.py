"""A dataset made known to the database, with the table that its readings go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import definitions, readings
from disarray.control.connections import transaction
from disarray.errors import StoreMismatchError
from disarray.store.belonging import queue_moves

if TYPE_CHECKING:
    from collections.abc import Collection

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset


def register_all(
    connection: Connection, datasets: Collection[Dataset], *, is_on_purpose: bool = False
) -> None:
    """Make all datasets of a project known, and queue the files that belong to another one now."""
    for dataset in datasets:
        register(connection, dataset, is_on_purpose=is_on_purpose)
    queue_moves(connection, datasets)


def register(
    connection: Connection, dataset: Dataset, *, is_on_purpose: bool = False, queues: bool = True
) -> int:
    """Make a dataset's definition the one in force, and its table fit it; how many subjects are to be rebuilt.

    Without `queues` their orders are left to whoever queues them one by one.

    Refused where the catalog has its readings in another store, or where the definition was replaced by another.
    """
    # One transaction: a definition that is refused must not have changed the table of the one in force.
    with transaction(connection):
        in_force = readings.provision_readings(connection, dataset)
        if in_force is not dataset.store:
            raise StoreMismatchError(
                f"the readings of dataset '{dataset.name}' live in store '{in_force}', and disarray.toml says "
                f"'{dataset.store}'. Nothing was changed. Run "
                f"'disarray store copy {dataset.name} --to {dataset.store}' to move them, "
                f'or write store = "{in_force}"'
            )
        return definitions.register_dataset(connection, dataset, is_on_purpose=is_on_purpose, queues=queues)
