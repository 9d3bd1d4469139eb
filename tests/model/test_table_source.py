"""What a `[[source]]` may say: every fault is named at once, and no secret is ever shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.errors import SpecError
from disarray.formats.loader import load_datasets, load_sources
from disarray.model.description.table_source import Start, UrlOrigin, WatermarkKind

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.table_source import TableSource

DATASET = """
[[dataset]]
name = "historian"
roots = ["landing/historian"]
files = ["**/*.parquet"]
format = "parquet"
subject = { delivery = "folders" }
event_time = { from = "at", layouts = ["iso"] }
zone = "UTC"
key = ["id"]
[dataset.columns.id]
type = "int64"
"""
SOURCE = """
[[source]]
name = "historian"
kind = "table"
url = { env = "HISTORIAN_URL" }
table = "public.readings"
key = ["id"]
cursor = "updated_at"
watermark = "timestamp"
subject = "tool"
"""


def read(folder: Path, text: str, dataset: str = DATASET) -> tuple[TableSource, ...]:
    file = folder / "disarray.toml"
    file.write_text(dataset + text)
    return load_sources(file, {each.name: each for each in load_datasets(file)})


def test_a_source_is_read_with_its_defaults(tmp_path: Path) -> None:
    [source] = read(tmp_path, SOURCE)
    assert (source.dataset, source.watermark, source.limit) == ("historian", WatermarkKind.TIMESTAMP, 100_000)
    assert (source.url.origin, source.at, source.table_name) == (
        UrlOrigin.ENVIRONMENT,
        Start.BEGINNING,
        "public.readings",
    )
    assert source.columns == ("updated_at", "id", "tool")


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    faulty = SOURCE.replace('kind = "table"', 'kind = "tabel"').replace("cursor", "cursr") + "limit = 0\n"
    with pytest.raises(SpecError) as told:
        read(tmp_path, faulty)
    told_lines = "\n".join(told.value.problems)
    for words in ("kind", "did you mean 'cursor'?", "limit: expected a whole number, 1 to 1000000"):
        assert words in told_lines


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('{ env = "HISTORIAN_URL" }', '"postgresql://me:s3cret@host/db"'), "secret is not written here"),
        (('{ env = "HISTORIAN_URL" }', '{ password = "s3cret" }'), "expected { env"),
        (('{ env = "HISTORIAN_URL" }', '"postgresql://app:s3cret/x@host:5432/db"'), "a url with a password"),
        (('{ env = "HISTORIAN_URL" }', '"mysql://host/db"'), "postgresql:// or sqlite://"),
        (('table = "public.readings"', ""), "one of table and query"),
        (('table = "public.readings"', 'query = "delete from readings"'), "begins with select"),
        (('watermark = "timestamp"', 'watermark = "snapshot"'), "a snapshot needs none"),
        (('cursor = "updated_at"', ""), "the column that grows"),
        (('name = "historian"', 'name = "historin"'), "none is called 'historin'"),
        (('watermark = "timestamp"', 'watermark = "timestamp"\nat = "yesterday"'), "ISO time"),
        (("", SOURCE), "a name of its own"),
    ],
)
def test_what_cannot_be_is_refused_without_showing_secrets(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    text = SOURCE + change[1] if not change[0] else SOURCE.replace(*change)
    with pytest.raises(SpecError) as told:
        read(tmp_path, text)
    assert words in str(told.value)
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('subject = { delivery = "folders" }', 'subject = { constant = "A" }'), "does not take deliveries"),
        (('key = ["id"]', ""), "would count twice"),
    ],
)
def test_a_dataset_that_cannot_take_the_rows_is_told(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        read(tmp_path, SOURCE, DATASET.replace(*change))
