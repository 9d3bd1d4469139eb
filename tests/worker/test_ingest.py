"""The whole path on a real database: what lands, when and how often must leave no trace in the numbers."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist
from disarray.control.files import Reason
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from tests.plant import Plant

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)


def report(hour: int, *, rows: int = 120, step: int = 30) -> str:
    start = START + timedelta(hours=hour)
    lines = [
        f"{(start + timedelta(seconds=step * row)).isoformat()},{(hour + 1) * 0.1 + row / 7},{row % 3}\n"
        for row in range(rows)
    ]
    return "time,watts,good\n" + "".join(lines)


def test_a_late_file_gives_the_numbers_of_files_in_order_and_changes_no_other_fragment(plant: Plant) -> None:
    paths = [plant.write(f"T1/{hour}.csv", report(hour)) for hour in range(4)]
    plant.ingest(paths[0])
    plant.ingest(paths[2], paths[3])
    before = plant.rows("select fragment_id, path, row_group, state, cut_position from disarray.fragment")
    [late] = plant.ingest(paths[1])
    assert [len(plan.units) for plan in late.plans] == [1]
    after = plant.rows("select fragment_id, path, row_group, state, cut_position from disarray.fragment")
    assert set(before) < set(after)
    totals = plant.rows(
        """
        select base_float + total_float from disarray.segment_metric
        where metric = 'energy' order by segment_us desc limit 1
        """
    )
    assert len(plant.derived()["segments"]) == 4
    assert totals[0][0] == pytest.approx(expected_energy(range(4)), rel=1e-12)


def expected_energy(hours: range) -> float:
    rows = [(hour * 3600 + 30 * row, (hour + 1) * 0.1 + row / 7) for hour in hours for row in range(120)]
    return sum((x0 + x1) / 2 * (t1 - t0) for (t0, x0), (t1, x1) in itertools.pairwise(rows))


def test_replaying_a_file_changes_nothing_but_bookkeeping(plant: Plant) -> None:
    path = plant.write("T1/0.csv", report(0))
    plant.ingest(path)
    before = plant.derived()
    for _ in range(3):
        plant.ingest(path)
    assert plant.derived() == before
    assert plant.rows("select count(*) from disarray.fragment") == [(1,)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_of_arrival_leaves_no_trace(plant: Plant, order: tuple[int, ...]) -> None:
    texts = [report(0), report(1), report(0, rows=60, step=45)]
    paths = [plant.write(f"T1/{number}.csv", text) for number, text in enumerate(texts)]
    for number in order:
        plant.ingest(paths[number])
    separately = plant.derived()
    plant.forget_everything()
    plant.ingest(*paths)
    assert plant.derived() == separately


def test_blacklisting_a_late_file_restores_the_former_numbers_bit_for_bit(plant: Plant) -> None:
    early, late = plant.write("T1/0.csv", report(0)), plant.write("T1/late.csv", report(0, rows=70, step=31))
    plant.ingest(early, plant.write("T1/2.csv", report(2)))
    before = plant.derived()
    plant.ingest(late)
    with_late = plant.derived()
    assert with_late != before
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(late), "T1", reason="wrong cell", by="ada")
    plant.drain()
    assert plant.derived() == before
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(late), reason="it was right", by="ada")
    plant.drain()
    assert plant.derived() == with_late


def test_a_growing_file_gives_the_numbers_of_one_read(plant: Plant) -> None:
    text = report(0, rows=400)
    path = plant.write("T1/0.csv", "")
    for end in (100, 101, 3000, 3017, len(text) - 5, len(text)):
        path.write_text(text[:end])
        plant.ingest(path)
    grown = plant.derived()
    plant.forget_everything()
    plant.ingest(path)
    assert plant.derived() == grown


def test_an_unterminated_last_line_counts_once_the_file_is_quiet_and_its_final_value_replaces_it(
    plant: Plant,
) -> None:
    text = report(0, rows=10)
    path = plant.write("T1/0.csv", text + "2026-10-01T00:30:00+00:00,5.0,1")
    plant.ingest(path)
    assert plant.rows("select sum(readings) from disarray.segment") == [(10,)]
    plant.ingest(path, reason=Reason.QUIET)
    assert plant.rows("select sum(readings) from disarray.segment") == [(11,)]
    path.write_text(text + "2026-10-01T00:30:00+00:00,5.0,17\n")
    plant.ingest(path)
    assert plant.rows("select sum(readings) from disarray.segment") == [(11,)]
    assert plant.rows("select total_int from disarray.segment_metric where metric = 'good_total'") == [
        (9 + 17,)
    ]


def test_a_copy_shares_the_fragments_of_its_original_and_takes_over_when_that_goes(plant: Plant) -> None:
    original, copy = (plant.write(f"T1/{name}.csv", report(0)) for name in ("a", "b"))
    plant.ingest(original)
    before = plant.derived()
    plant.ingest(copy)
    assert plant.rows("select count(distinct (path, row_group)) from disarray.fragment") == [(1,)]
    assert plant.rows("select readings, duplicates from disarray.segment") == [(120, 120)]
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(original), "T1", reason="only one of them", by="ada")
    plant.drain()
    assert plant.derived() == before


def test_a_bad_file_is_a_dead_letter_with_its_reason_and_its_batch_mates_go_on(plant: Plant) -> None:
    good = plant.write("T1/good.csv", report(0))
    bad = plant.write("T1/bad.csv", "")
    bad.write_bytes("time,watts,good\n".encode("utf-16"))
    plant.ingest(good, bad)
    states = plant.rows("select status::text, last_error is null from disarray.file_info order by source_uri")
    assert states == [("failed", False), ("processed", True)]


def test_a_restatement_is_written_down_when_a_late_file_changes_old_numbers(plant: Plant) -> None:
    plant.ingest(plant.write("T1/0.csv", report(0)), plant.write("T1/9.csv", report(9)))
    assert plant.rows("select count(*) from disarray.restatement") == [(0,)]
    plant.ingest(plant.write("T1/3.csv", report(3)))
    noted = plant.rows(
        """
        select changed_from, changed_to, delta_int::bigint, old_int, new_int, source_uris
        from disarray.restatement where metric = 'good_total' order by changed_from
        """
    )
    uris = [str(plant.inbox / "T1/3.csv")]
    last = START + timedelta(hours=3, seconds=119 * 30)
    assert noted == [
        # The first late reading says 0; from the second on the total rises to that of the last.
        (START + timedelta(hours=3, seconds=30), last - timedelta(seconds=30), None, 120, 238, uris),
        (last, START + timedelta(hours=9, seconds=119 * 30), 120, 240, 360, uris),
    ]


def test_appending_to_the_newest_segment_restates_nothing(plant: Plant) -> None:
    text = report(0, rows=115)
    path = plant.write("T1/0.csv", "")
    for end in (len(text) // 3, 2 * len(text) // 3, len(text)):
        path.write_text(text[: text.rindex("\n", 0, end) + 1])
        plant.ingest(path)
    plant.ingest(plant.write("T1/1.csv", report(1)))
    assert plant.rows("select count(*) from disarray.restatement") == [(0,)]


def test_a_file_that_grows_into_a_copy_of_another_in_one_batch_shares_with_it(plant: Plant) -> None:
    text = report(0)
    grows = plant.write("T1/a.csv", text[: text.rindex("\n", 0, 2000) + 1])
    plant.ingest(grows)
    grows.write_text(text)
    plant.ingest(grows, plant.write("T1/b.csv", text))
    active = (
        "select count(distinct (path, row_group)), count(*) from disarray.fragment where state = 'active'"
    )
    assert plant.rows(active) == [(1, 2)]
    assert plant.rows("select readings from disarray.segment") == [(120,)]


def test_of_a_file_that_grows_only_the_first_thousand_rejected_lines_are_kept(plant: Plant) -> None:
    good = "".join(
        f"2026-10-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z,1,1\n"
        for second in range(4000)
    )
    bad = "yesterday,1,1\n" * 700
    path = plant.write("T1/bad.csv", "time,watts,good\n" + good + bad)
    plant.ingest(path)
    path.write_text(path.read_text() + bad)
    plant.ingest(path)
    assert plant.rows("select metadata #>> '{lines,rejected}' from disarray.file_info") == [("1400",)]
    assert plant.rows("select count(*), max(line) from disarray.rejected_row") == [(1000, 5001)]


def test_a_file_that_lost_all_of_its_readings_is_shown_without_their_span(plant: Plant) -> None:
    plant.redefine(DATASET.replace("key = []", 'key = []\non_shrink = "replace"'))
    path = plant.write("T1/0.csv", report(0))
    plant.ingest(path)
    spans = "select logical_start is not null, logical_end is not null from disarray.file_info"
    assert plant.rows(spans) == [(True, True)]
    path.write_text("time,watts,good\n")
    plant.ingest(path)
    assert plant.derived()["segments"] == []
    assert plant.rows(spans) == [(False, False)]
