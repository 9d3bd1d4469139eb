"""A plant that is brought into its state once, and of which every case gets a copy in the same place.

Catalog and lake name files by their whole path, so that a copy has to stand where the original stood: cases of one
test process take turns in one folder and under one name of a database.
"""

from __future__ import annotations

import shutil
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tests.faults.deliveries import DESCRIPTION
from tests.faults.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class PreparedSite:
    """A plant at rest, from which cases start."""

    def __init__(
        self,
        folder: Path,
        server_dsn: str,
        template: str,
        *,
        description: str = DESCRIPTION,
        bring_about: Callable[[Site], None],
    ) -> None:
        self._root = folder / "site"
        self._original = folder / "original"
        self._server_dsn = server_dsn
        self._description = description
        self._database = f"disarray_site_{uuid.uuid4().hex}"
        self._prepared = f"{self._database}_prepared"
        self._root.mkdir()
        self._clone(self._database, template)
        first = Site(self._root, self._dsn, description=description)
        try:
            bring_about(first)
        finally:
            first.close()
        self._deliveries = first.deliveries
        self._root.rename(self._original)
        self._administer("alter database {} rename to {}", self._database, self._prepared)

    @contextmanager
    def copy(self, remains: Path) -> Iterator[Site]:
        """A plant in that state; what its case leaves of it is moved to `remains`."""
        shutil.copytree(self._original, self._root)
        self._clone(self._database, self._prepared)
        site = Site(self._root, self._dsn, description=self._description)
        site.deliveries.resume(self._deliveries)
        try:
            yield site
        finally:
            site.close()
            self._administer("drop database {} with (force)", self._database)
            self._root.rename(remains)

    def remove(self) -> None:
        """Drop the database that cases started from."""
        self._administer("drop database {}", self._prepared)

    @property
    def _dsn(self) -> str:
        return psycopg.conninfo.make_conninfo(self._server_dsn, dbname=self._database)

    def _clone(self, name: str, template: str) -> None:
        self._administer("create database {} template {} strategy file_copy", name, template)

    def _administer(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._server_dsn, autocommit=True) as admin:
            admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
