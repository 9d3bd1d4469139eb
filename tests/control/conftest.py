"""A database that the cheap tests of one module share, emptied before each."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from tests.control.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def shared_dsn(server_dsn: str, template_database: str) -> Iterator[str]:
    """A migrated database for a whole module: hundreds of short tests cannot afford a clone each."""
    name = sql.Identifier(f"disarray_shared_{uuid.uuid4().hex}")
    template = sql.Identifier(template_database)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template {} encoding 'UTF8'").format(name, template))
        # These tests are about order, not about durability; waiting for the disk is most of their time.
        admin.execute(sql.SQL("alter database {} set synchronous_commit = off").format(name))
        yield psycopg.conninfo.make_conninfo(server_dsn, dbname=name.as_string().strip('"'))
        admin.execute(sql.SQL("drop database if exists {} with (force)").format(name))


@pytest.fixture(scope="module")
def shared_stage(shared_dsn: str) -> Iterator[Stage]:
    with Stage(shared_dsn) as stage:
        yield stage


@pytest.fixture
def stage(shared_stage: Stage) -> Iterator[Stage]:
    """Actors with a connection each, on an empty queue."""
    shared_stage.clear()
    yield shared_stage
    shared_stage.end_transactions()
