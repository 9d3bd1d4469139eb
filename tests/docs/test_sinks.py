"""What the page about sinks shows is what its commands print, with a bucket, a warehouse that is down, and deletes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from disarray.cli.main import make_app
from tests.docs.transcripts import check_page
from tests.sinks.object_store import KEYS, ObjectStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.databases import Databases

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "sinks.md"
PRESS = """
[[dataset]]
name = "press"
roots = ["inbox"]
files = ["*.csv"]
format = "csv"
subject = { file_name = '^(?P<subject>TOOL\\d+)_' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"

[dataset.columns.force_kn]
type = "float64"

[dataset.rollups.hourly]
bucket = "1 h"
[dataset.rollups.hourly.aggregates]
strokes = "count"
mean_kn = { function = "avg", input = "force_kn" }
"""
ENDPOINT, SECRET_FILE = "https://s3.plant.example", "/run/secrets/lakehouse"


@pytest.fixture
def warehouse(databases: Databases) -> Iterator[str]:
    """The database of somebody else."""
    name = databases.create()
    yield databases.dsn(name)
    databases.discard(name)


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[ObjectStore]:
    """A server with buckets, which knows none of the keys."""
    store = ObjectStore(tmp_path / "s3")
    store.start()
    yield store
    store.kill()


class Shop:
    """A press shop whose destinations are those of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blocks = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        (folder / "inbox").mkdir()

    def describe(self, destinations: str) -> None:
        (self.folder / "disarray.toml").write_text(PRESS + destinations)

    def press(self, name: str, *strokes: tuple[str, int]) -> None:
        lines = [f"2026-09-02T{at}:00Z,{force}\n" for at, force in strokes]
        (self.folder / "inbox" / name).write_text("time,force_kn\n" + "".join(lines))


def take_in(*, is_well: bool = True) -> None:
    """One run of a worker, by hand."""
    result = CliRunner().invoke(make_app(["up", "--once"]), ["up", "--once"], prog_name="disarray")
    assert result.exit_code == (0 if is_well else 1), result.output


def forget(name: str) -> None:
    words = ["sink", "forget", name]
    assert CliRunner().invoke(make_app(words), words, prog_name="disarray").exit_code == 0


@pytest.mark.postgres
def test_every_command_of_the_page_prints_what_it_shows(
    tmp_path: Path,
    in_process: dict[str, str],
    warehouse: str,
    bucket: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "plant"
    folder.mkdir()
    shop, secret = Shop(folder), folder / "secret"
    by_page, in_bucket = shop.blocks[:2]

    def give_a_wrong_secret() -> None:
        secret.write_text("of-somebody-else")
        monkeypatch.setenv("LAKEHOUSE_ACCESS_KEY", KEYS["loader"][0])
        shop.describe(in_bucket.replace(ENDPOINT, bucket.endpoint).replace(SECRET_FILE, str(secret)))
        shop.press("TOOL07_1.csv", ("08:05", 120), ("08:15", 121), ("10:05", 119))
        take_in(is_well=False)

    def stop_the_warehouse() -> None:
        forget("lakehouse")
        shop.describe(by_page)
        monkeypatch.setenv("WAREHOUSE_URL", warehouse)
        take_in()
        monkeypatch.setenv("WAREHOUSE_URL", "postgresql://127.0.0.1:1/warehouse")
        shop.press("TOOL07_2.csv", ("08:25", 122))

    def start_the_warehouse() -> None:
        monkeypatch.setenv("WAREHOUSE_URL", warehouse)

    def narrow_the_subjects() -> None:
        for tool in "TOOL08", "TOOL09":
            shop.press(f"{tool}_1.csv", ("08:05", 80), ("09:05", 81))
        take_in()
        shop.describe(by_page.replace('name = "hourly"', 'name = "hourly"\nsubjects = ["TOOL07"]'))
        take_in()

    before: dict[str, Callable[[], object]] = {
        "disarray sink show lakehouse": give_a_wrong_secret,
        "disarray up --once | tail -1": stop_the_warehouse,
        "disarray up --once > /dev/null     # the warehouse is back": start_the_warehouse,
        "disarray sink republish hourly --dry-run": narrow_the_subjects,
    }
    check_page(
        PAGE,
        folder=folder,
        environment={**in_process, "DISARRAY_STATE_DIR": str(tmp_path)},
        before=before,
        shown_as={str(secret): SECRET_FILE, bucket.endpoint: ENDPOINT, str(folder): "/plant"},
    )
