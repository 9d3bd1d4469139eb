"""Databases on the server of the tests: made in a moment, and dropped when nobody is in them any more."""

from __future__ import annotations

import os
import time
import uuid

import psycopg
from psycopg import sql

TIMESCALE = "DISARRAY_TEST_TIMESCALE_DSN"


class Databases:
    """Makes databases on one server."""

    def __init__(self, server_dsn: str) -> None:
        self._server_dsn = server_dsn
        self._discarded: list[str] = []

    def create(self, *, template: str = "template0") -> str:
        """The name of a new database."""
        name = f"disarray_test_{uuid.uuid4().hex}"
        # Copied by the file, it need not go through the log as well, which saves a third of the time.
        statement = sql.SQL("create database {} template {} encoding 'UTF8' strategy file_copy").format(
            sql.Identifier(name), sql.Identifier(template)
        )
        self.drop_discarded()
        with psycopg.connect(self._server_dsn, autocommit=True) as admin:
            for attempt in range(50):
                try:
                    admin.execute(statement)
                    break
                except psycopg.errors.ObjectInUse:
                    # Somebody's look into the template is not over yet.
                    if attempt == 49:
                        raise
                    time.sleep(0.1)
        if os.environ.get(TIMESCALE) and template != "template0":
            self._add_timescale(name)
        return name

    def dsn(self, name: str) -> str:
        """Where it is."""
        return psycopg.conninfo.make_conninfo(self._server_dsn, dbname=name)

    def discard(self, name: str) -> None:
        """Nobody needs it; it is dropped when its connections had the time to end, and the server need not wait."""
        self._discarded.append(name)

    def drop_discarded(self) -> None:
        if self._discarded:
            with psycopg.connect(self._server_dsn, autocommit=True) as admin:
                for name in self._discarded:
                    admin.execute(
                        sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
                    )
            self._discarded.clear()

    def _add_timescale(self, name: str) -> None:
        """Not in the template: its scheduler would be connected to it, and nothing could be cloned."""
        with psycopg.connect(self._server_dsn, dbname=name, autocommit=True) as admin:
            admin.execute("set client_min_messages = error")
            admin.execute("create extension if not exists timescaledb")
            # The server may be somebody's own: the disk is spared for this database alone.
            admin.execute(
                sql.SQL("alter database {} set synchronous_commit = off").format(sql.Identifier(name))
            )
