"""Databases that tests share, roles beside the ordinary ones, and actors with a connection each."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, LiteralString

import psycopg
import pytest
from psycopg import sql

from tests.control.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection


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


@pytest.fixture
def login_role(server_dsn: str, dsn: str) -> Iterator[Callable[..., str]]:
    """Creates login roles with the memberships and attributes given, and removes them with all they own."""
    created: list[str] = []
    with psycopg.connect(server_dsn, autocommit=True) as admin:

        def create(*member_of: str, attributes: LiteralString = "") -> str:
            name = f"disarray_test_{uuid.uuid4().hex[:12]}"
            admin.execute(
                sql.SQL("create role {} login {}").format(sql.Identifier(name), sql.SQL(attributes))
            )
            created.append(name)
            for role in member_of:
                admin.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(name)))
            return name

        yield create
        with psycopg.connect(dsn, autocommit=True) as database:
            for name in created:
                database.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(name)))
        for name in created:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def connect_as(
    connect: Callable[[], Connection], login_role: Callable[..., str]
) -> Callable[..., Connection]:
    """Opens a session of a fresh login role that is a member of the roles named."""

    def open_one(*member_of: str) -> Connection:
        name = login_role(*member_of)
        connection = connect()
        connection.execute(sql.SQL("set session authorization {}").format(sql.Identifier(name)))
        return connection

    return open_one
