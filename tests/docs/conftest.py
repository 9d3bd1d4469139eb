"""The pages of the documentation, and a place to do what they say."""

from __future__ import annotations

import pytest


@pytest.fixture
def in_process(dsn: str) -> dict[str, str]:
    """An environment in which commands work on the test's database, with the kernels in their own process."""
    return {"DISARRAY_DSN": dsn, "DISARRAY_WORKER_RUNNER": "in-process"}
