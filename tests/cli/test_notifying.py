"""Files named by a person, as an agent would have announced them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from disarray.cli.support.notifying import notifications_of
from disarray.control.files import Reason
from disarray.errors import ConfigError, UnreadableFileError
from disarray.formats.loader import load_datasets

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.dataset import Dataset

DESCRIPTION = """
[[dataset]]
name = "cells"
roots = ["inbox"]
files = ["*.csv"]
subject = { preamble = "cell" }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
[dataset.format]
kind = "delimited"
[dataset.format.preamble]
pattern = '^#'
[dataset.format.preamble.fields]
cell = '^# cell: (\\S+)'
[dataset.columns.volts]
type = "float64"
"""


@pytest.fixture
def datasets(tmp_path: Path) -> dict[str, Dataset]:
    """A dataset whose files name their subject inside."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "disarray.toml").write_text(DESCRIPTION)
    return {dataset.name: dataset for dataset in load_datasets(tmp_path / "disarray.toml")}


def test_a_subject_that_stands_inside_the_file_is_found_there(
    tmp_path: Path, datasets: dict[str, Dataset]
) -> None:
    path = tmp_path / "inbox" / "a b.csv"
    path.write_text("# cell: C17\ntime,volts\n2026-10-01T00:00:00Z,3.7\n")
    [found] = notifications_of([str(path)], datasets)
    assert (found.subject_key, found.reason, found.metadata) == ("C17", Reason.QUIET, {"dataset": "cells"})
    assert found.source_uri == f"file://{tmp_path}/inbox/a%20b.csv"


def test_a_file_that_is_not_there_or_belongs_nowhere_is_refused(
    tmp_path: Path, datasets: dict[str, Dataset]
) -> None:
    with pytest.raises(UnreadableFileError, match=r"there is no file .*gone\.csv\. Nothing was queued"):
        notifications_of([str(tmp_path / "inbox" / "gone.csv")], datasets)
    with pytest.raises(ConfigError, match=r"no dataset of .* takes"):
        notifications_of([str(tmp_path / "elsewhere.csv")], datasets)


def test_only_the_head_of_a_file_is_looked_at(tmp_path: Path, datasets: dict[str, Dataset]) -> None:
    path = tmp_path / "inbox" / "large.csv"
    path.write_bytes(b"# cell: C18\ntime,volts\n" + b"\xff\xfe\x00 no reading at all\n" * 1000)
    # As large as a disk can hold: read whole, it would never end.
    os.truncate(path, 1 << 40)
    [found] = notifications_of([str(path)], datasets)
    assert found.subject_key == "C18"
    path.write_text("# operator: ada\n# ce")
    with pytest.raises(UnreadableFileError, match="preamble is not complete"):
        notifications_of([str(path)], datasets)
