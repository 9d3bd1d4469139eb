"""`disarray verify` as a process of its own."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from tests.engine.verification_world import DESCRIPTION, report
from tests.plant import Plant

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


def test_verify_prints_identical_and_shows_where_it_is_not(
    tmp_path: Path, dsn: str, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    plant = Plant(tmp_path, dsn, description=DESCRIPTION % {"key": ""})
    plant.ingest(plant.write("T1/a.csv", report(random.Random(6), hour=0, rows=50)))
    well = run("verify", "--subject", "T1", timeout=240)
    assert well.returncode == 0, well.stderr
    assert well.stdout.splitlines()[0] == "verify: identical"
    assert well.stdout.splitlines()[1].startswith("compared: 1 files, ")

    plant.rows("update disarray.rollup set points = points + 1 where aggregate = 'good' returning 1")
    plant.pool.close()
    ill = run("verify", "--json", timeout=240)
    assert ill.returncode == 1, ill.stderr
    found = json.loads(ill.stdout)
    assert not found["identical"]
    assert {(each["what"], each["name"]) for each in found["differences"]} == {
        ("rollup points", "shift.good")
    }
