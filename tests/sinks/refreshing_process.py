"""A process that refreshes the views of a database once; what is armed in its environment strikes it."""

from __future__ import annotations

import sys

from disarray.control import connections, instances
from disarray.sinks.views import ViewRefresher

if __name__ == "__main__":
    with connections.open_pool(sys.argv[1]) as pool:
        with pool.connection() as connection:
            holder = instances.register_instance(connection, "Worker02")
        list(ViewRefresher(pool, holder).refresh_due())
