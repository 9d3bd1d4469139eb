from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.errors import ConfigError
from disarray.kernels.parsing.zones import END_EVENT_US, FIRST_EVENT_US, load_zone, pinned_zone

if TYPE_CHECKING:
    from disarray.model.fingerprints import FoldMark

BERLIN = "Europe/Berlin"
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local stamps are naive by nature
ZONES = (
    BERLIN,
    "America/St_Johns",
    "Africa/Casablanca",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Europe/Dublin",
)


def local(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def utc(*texts: str, folds: tuple[FoldMark, ...] = ()) -> tuple[list[str], tuple[FoldMark, ...]]:
    stamps, in_gap, after = load_zone(BERLIN).to_utc(np.array([local(text) for text in texts]), folds)
    assert in_gap is None
    return [str(EPOCH + timedelta(microseconds=us))[11:16] for us in stamps.tolist()], after


@given(
    st.sampled_from(ZONES), st.lists(st.integers(FIRST_EVENT_US, END_EVENT_US - 1), min_size=1, max_size=20)
)
def test_every_instant_survives_the_way_to_local_time_and_back(name: str, instants: list[int]) -> None:
    zone, table = pinned_zone(name), load_zone(name)
    for instant in instants:
        moment = (EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=instant)).astimezone(zone)
        naive = (moment.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
        if moment.fold == 0:
            assert table.instant(naive) == instant


def test_a_repeated_hour_is_the_earlier_one_until_time_runs_backwards() -> None:
    stamps = (
        "2023-10-29 01:50",
        "2023-10-29 02:10",
        "2023-10-29 02:50",
        "2023-10-29 02:10",
        "2023-10-29 02:50",
    )
    assert utc(*stamps)[0] == ["23:50", "00:10", "00:50", "01:10", "01:50"]


def test_what_is_known_of_a_repeated_hour_is_carried_to_the_next_part_of_the_file() -> None:
    stamps = [
        "2023-10-29 02:10",
        "2023-10-29 02:50",
        "2023-10-29 02:20",
        "2023-10-29 02:40",
        "2023-10-29 03:00",
    ]
    whole, _ = utc(*stamps)
    for cut in range(len(stamps)):
        first, folds = utc(*stamps[:cut])
        second, _ = utc(*stamps[cut:], folds=folds)
        assert first + second == whole


def test_each_autumn_is_judged_by_itself() -> None:
    _, folds = utc("2023-10-29 02:50", "2023-10-29 02:10")
    assert utc("2024-10-27 02:10", folds=folds)[0] == ["00:10"]


def test_a_stamp_that_no_clock_showed_in_spring_is_marked() -> None:
    stamps = np.array([local("2024-03-31 01:59"), local("2024-03-31 02:30"), local("2024-03-31 03:00")])
    _, in_gap, _ = load_zone(BERLIN).to_utc(stamps, ())
    assert in_gap is not None
    assert in_gap.tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "", "Europe"])
def test_an_unknown_zone_is_a_clear_error(name: str) -> None:
    with pytest.raises(ConfigError, match="IANA"):
        load_zone(name)
