"""Where samples stand: our own small ones beside the tests, real instrument files beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from disarray.formats.loader import Description, shipped_descriptions

FIXTURES = Path(__file__).parent / "fixtures"
REAL_DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def shipped() -> dict[str, Description]:
    return shipped_descriptions()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real instrument files; without it the test reports itself skipped."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real instrument files at {REAL_DATA}")
    return REAL_DATA
