"""A process that refreshes the views of a database once; what is armed in its environment strikes it."""

from __future__ import annotations

from disarray.control import connections, instances
from disarray.sinks.views import ViewRefresher


def refresh_due(dsn: str) -> None:
    """One life."""
    with connections.open_pool(dsn) as pool:
        with pool.connection() as connection:
            holder = instances.register_instance(connection, "Worker02")
        list(ViewRefresher(pool, holder).refresh_due())
