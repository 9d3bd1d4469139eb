"""The pages of the documentation, and a place to do what they say."""

from __future__ import annotations

import psycopg
import pytest

from tests.blocks import set_block_length


@pytest.fixture
def in_process(dsn: str) -> dict[str, str]:
    """An environment in which commands work on the test's database, with the kernels in their own process."""
    return {"DISARRAY_DSN": dsn, "DISARRAY_WORKER_RUNNER": "in-process"}


@pytest.fixture(autouse=True)
def real_blocks(request: pytest.FixtureRequest) -> None:
    """Blocks as long as everywhere: those of the tests are shorter, and pages say how many bases a late file shifts."""
    if "dsn" in request.fixturenames:
        with psycopg.connect(request.getfixturevalue("dsn"), autocommit=True) as connection:
            set_block_length(connection, 128)
