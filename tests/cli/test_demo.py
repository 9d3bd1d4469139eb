"""`disarray demo` from its first line to Ctrl-C, at its smallest size."""

from __future__ import annotations

import json
import shutil
import urllib.request
from pathlib import Path

import pytest

from tests.processes import Running, eventually

pytestmark = [pytest.mark.spark, pytest.mark.long]


def value_of(url: str, folder: Path) -> int:
    token = (folder / ".disarray" / "api-token").read_text().strip()
    asked = urllib.request.Request(
        f"{url}/api/v1/values?subject_key=TOOL07&metric=in_spec_total",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(asked) as answer:
        found = json.load(answer)
    number = found["values"][0]["value"]
    assert isinstance(number, int)
    return number


def test_the_demo_ends_identical_and_is_kept_running_until_ctrl_c(tmp_path: Path) -> None:
    process = Running("demo", "--tools", "8", "--days", "7", "--keep", "--json", project=tmp_path)
    folder: Path | None = None
    try:
        process.wait_for("In another terminal", seconds=300)
        log = process.log
        figures = json.loads(log[log.index("{") : log.index("\n}\n") + 2])
        url = next(word for word in log.split() if word.startswith("http://"))
        folder = Path(next(line for line in log.splitlines() if line.startswith("  cd ")).split()[1])
        before = value_of(url, folder)
        late = folder / "inbox" / "TOOL07" / "forgotten.csv"
        late.write_text("time,part,work_order,width\n2026-09-02T00:00:30Z,0,WO000,10.0\n")
        eventually(lambda: value_of(url, folder) == before + 1, seconds=240)
        process.interrupt_group()
        ended = process.process.wait(timeout=240)
    finally:
        process.kill()
        if folder is not None:
            shutil.rmtree(folder)
    assert ended == 0, process.log
    assert (figures["verify"], figures["check"]) == ("identical", "identical")
    assert (figures["late_files"], figures["late_by"]) == (12, "3 days")
    assert len(figures["dead_letters"]) == 1
    assert "beyond the horizon" in figures["quarantined"][0]
    assert (tmp_path / "demo.svg").exists()
