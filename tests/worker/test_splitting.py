"""Files about several subjects: each is split once, and its parts count as if each subject had a file of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disarray.control import blacklist, files, instances, quarantine, verification
from disarray.control.verification_runs import subject_keys
from disarray.engine.runner import InProcessRunner
from disarray.engine.verification.sources import gather_sources
from disarray.engine.verification.verify import verify
from disarray.errors import ControlError
from disarray.model.file_parts import part_uri
from disarray.model.uris import file_uri
from disarray.queries.files import find_file, show_file
from disarray.store.audit.parts import find_wrong_parts
from disarray.store.belonging import queue_moves
from disarray.worker.passes import committing
from tests.plant import Plant
from tests.worker.split_plant import (
    APART,
    HEADER,
    SPLIT,
    assert_sound,
    mixed,
    text_of,
    write_apart,
    write_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Databases

pytestmark = pytest.mark.postgres


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant whose files are about several subjects."""
    built = Plant(tmp_path, dsn, description=SPLIT)
    yield built
    built.pool.close()


@pytest.fixture
def apart(tmp_path: Path, databases: Databases, template_database: str) -> Iterator[Plant]:
    """A plant of the same dataset that has a file for each subject."""
    folder = tmp_path / "apart"
    folder.mkdir()
    name = databases.create(template=template_database)
    built = Plant(folder, databases.dsn(name), description=APART)
    yield built
    built.pool.close()
    databases.discard(name)


def part(path: Path, tool: str) -> str:
    return part_uri(str(path), column="tool", subject_key=tool)


def lines_of(plant: Plant, uri: str) -> dict[str, int]:
    [(lines,)] = plant.rows(f"select metadata -> 'lines' from disarray.file_info where source_uri = '{uri}'")
    assert isinstance(lines, dict)
    return lines


def test_a_part_counts_like_a_file_of_its_own(plant: Plant, apart: Plant) -> None:
    lines = mixed(range(0, 200, 5))
    path = write_lines(plant, "all.csv", lines)
    plant.ingest(path)
    apart.ingest(*write_apart(apart, "all.csv", lines))
    assert plant.derived() == apart.derived()
    assert plant.rows("select subject_key from disarray.file_part order by 1") == [
        ("TOOL01",),
        ("TOOL02",),
        ("TOOL03",),
    ]
    assert_sound(plant)


def test_every_line_of_the_file_is_accounted_for(plant: Plant) -> None:
    path = plant.write(
        "all.csv",
        HEADER + text_of(mixed(range(3))) + "2026-09-01T00:09:00Z,,1.0,1\n\nnonsense,TOOL01,x,1\n",
    )
    plant.ingest(path)
    lines = lines_of(plant, str(path))
    assert lines == {"seen": 13, "kept": 9, "rejected": 2, "blank": 1, "preamble": 1, "waiting": 0}
    kept = [lines_of(plant, part(path, tool))["kept"] for tool in ("TOOL01", "TOOL02", "TOOL03")]
    assert kept == [3, 3, 3]
    rejected = plant.rows("select line, reason from disarray.rejected_row order by 1")
    assert rejected == [(11, "no_subject"), (13, "bad_time")]
    figures = plant.rows(
        "select sum(readings_seen), sum(readings_kept), sum(readings_rejected), sum(files_read) from disarray.figure"
    )
    assert figures == [(13, 9, 2, 1)]


def test_growth_costs_its_tail_and_only_the_subjects_in_it(plant: Plant, apart: Plant) -> None:
    path = write_lines(plant, "all.csv", mixed(range(0, 60, 5)))
    plant.ingest(path)
    more = mixed(range(60, 120, 5), tools=("TOOL01", "TOOL04"))
    with path.open("a") as stream:
        stream.write(text_of(more))
    plant.notify(path)
    reports = plant.drain()
    touched = {plan.subject_key for report in reports for plan in report.plans}
    assert touched == {"TOOL01", "TOOL04"}
    assert plant.rows("select count(*) from disarray.fragment where subject_key = 'TOOL02'") == [(1,)]
    apart.ingest(*write_apart(apart, "all.csv", [*mixed(range(0, 60, 5)), *more]))
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_what_lies_after_the_seam_of_a_changed_tail_is_replaced(plant: Plant, apart: Plant) -> None:
    first = mixed(range(0, 60, 5))
    path = write_lines(plant, "all.csv", first)
    plant.ingest(path)
    # The instrument mends its last lines and goes on: TOOL03 has no line there any more.
    mended = [*first[:-3], ("TOOL01", 55, 7.0), ("TOOL02", 55, 8.0), *mixed(range(60, 90, 5))]
    write_lines(plant, "all.csv", mended)
    plant.ingest(path)
    apart.ingest(*write_apart(apart, "all.csv", mended))
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_equal_lines_of_a_subject_stay_told_apart_across_growth(plant: Plant) -> None:
    plant.redefine(SPLIT.replace("key = []", 'key = "content"'), is_on_purpose=True)
    line = text_of([("TOOL01", 5, 1.0)])
    path = plant.write("all.csv", HEADER + line)
    plant.ingest(path)
    with path.open("a") as stream:
        stream.write(line)
    plant.ingest(path)
    assert plant.rows("select readings from disarray.segment") == [(2,)]


def test_blacklisting_a_file_takes_its_parts_and_allowing_it_brings_them_back(plant: Plant) -> None:
    other = write_lines(plant, "a.csv", mixed(range(0, 30, 5)))
    plant.ingest(other)
    without = plant.derived()
    path = write_lines(plant, "b.csv", mixed(range(30, 90, 5)))
    plant.ingest(path)
    before = plant.derived()
    fragments = plant.rows("select fragment_id, state from disarray.fragment order by 1")
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, part(path, "TOOL02"), "TOOL02", reason="wrong", by="ann")
    plant.drain()
    only_one = plant.derived()
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "any", reason="wrong", by="ann")
    plant.drain()
    assert plant.derived() == without
    with plant.pool.connection() as connection:
        with pytest.raises(ControlError, match="belongs to a file that is blacklisted"):
            blacklist.allow_file(connection, part(path, "TOOL01"), reason="right", by="ann")
        blacklist.allow_file(connection, str(path), reason="right", by="ann")
    plant.drain()
    assert plant.derived() == only_one
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, part(path, "TOOL02"), reason="right", by="ann")
    plant.drain()
    assert plant.derived() == before
    assert plant.rows("select fragment_id, state from disarray.fragment order by 1") == fragments
    assert_sound(plant)


def test_a_file_that_is_read_again_is_split_again(plant: Plant) -> None:
    path = write_lines(plant, "all.csv", mixed(range(0, 90, 5)))
    plant.ingest(path)
    before = plant.derived()
    with plant.pool.connection() as connection:
        files.reingest_file(connection, str(path), reason="again", by="ann")
    plant.drain()
    assert plant.derived() == before
    assert plant.rows("select distinct process_count from disarray.file_info") == [(2,)]
    with plant.pool.connection() as connection:
        files.reingest_file(connection, part(path, "TOOL02"), reason="again", by="ann")
    plant.drain()
    assert plant.derived() == before
    assert_sound(plant)


def test_a_file_that_shrinks_is_parked_with_all_of_its_parts_until_it_is_released(
    plant: Plant, apart: Plant
) -> None:
    path = write_lines(plant, "all.csv", mixed(range(0, 90, 5)))
    plant.ingest(path)
    before = plant.derived()
    less = mixed(range(0, 90, 5), tools=("TOOL01", "TOOL02"))
    write_lines(plant, "all.csv", less)
    plant.ingest(path)
    assert plant.derived() == before
    with plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
        assert waiting.source_uri == str(path)
        quarantine.release_file(connection, str(path), reason="right", by="ann")
    plant.drain()
    apart.ingest(*write_apart(apart, "all.csv", less))
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_a_replaced_file_that_begins_later_is_a_new_generation_of_each_part(
    plant: Plant, apart: Plant
) -> None:
    first, second = mixed(range(0, 60, 5)), mixed(range(60, 120, 5), tools=("TOOL01", "TOOL02"))
    third = mixed(range(120, 150, 5))
    path = write_lines(plant, "all.csv", first)
    plant.ingest(path)
    write_lines(plant, "all.csv", second)
    plant.ingest(path)
    write_lines(plant, "all.csv", [*second, *third])
    plant.ingest(path)
    apart.ingest(*write_apart(apart, "all.csv", [*first, *second, *third]))
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_parts_that_were_not_taken_in_yet_are_taken_in_one_after_the_other(
    plant: Plant, apart: Plant
) -> None:
    path = write_lines(plant, "all.csv", mixed(range(0, 30, 5)))
    plant.notify(path)
    lines = mixed(range(0, 30, 5))
    for start in (30, 60):
        split_only(plant)
        more = mixed(range(start, start + 30, 5))
        lines += more
        with path.open("a") as stream:
            stream.write(text_of(more))
        plant.notify(path)
    split_only(plant)
    assert plant.rows("select count(*) from disarray.part_delivery") == [(9,)]
    plant.drain()
    apart.ingest(*write_apart(apart, "all.csv", lines))
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def split_only(plant: Plant) -> None:
    """Let the worker split files, and keep it from their parts."""
    with plant.pool.connection() as connection:
        instances.bind_instance(connection, "Worker01", ["tools/*"], by="ann")
    plant.drain()
    with plant.pool.connection() as connection:
        instances.bind_instance(connection, "Worker01", ["*"], by="ann")


def test_a_new_definition_reads_the_parts_again(plant: Plant, apart: Plant) -> None:
    lines = mixed(range(0, 200, 5))
    plant.ingest(write_lines(plant, "all.csv", lines))
    plant.redefine(SPLIT.replace('segment = "1 h"', 'segment = "2 h"'), is_on_purpose=True)
    plant.drain()
    apart.redefine(APART.replace('segment = "1 h"', 'segment = "2 h"'), is_on_purpose=True)
    apart.ingest(*write_apart(apart, "all.csv", lines))
    assert plant.derived() == apart.derived()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_other_formats_are_split_as_well(plant: Plant, apart: Plant, kind: str) -> None:
    lines = mixed(range(0, 60, 5))
    apart.ingest(*write_apart(apart, "all.csv", lines))
    plant.redefine(
        SPLIT.replace('format = "csv"', f'format = "{kind}"').replace("*.csv", f"*.{kind}"),
        is_on_purpose=True,
    )
    rows = pa.table(
        {
            "time": [f"2026-09-01T{minute // 60:02d}:{minute % 60:02d}:00Z" for _, minute, _ in lines],
            "tool": [tool for tool, *_ in lines],
            "watts": [watts for *_, watts in lines],
            "good": [1] * len(lines),
        }
    )
    path = plant.inbox / f"all.{kind}"
    if kind == "parquet":
        pq.write_table(rows, path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows.to_pylist()))
    plant.ingest(path)
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_a_part_is_announced_by_nobody(plant: Plant) -> None:
    with (
        plant.pool.connection() as connection,
        pytest.raises(ControlError, match="queued when the file is split"),
    ):
        files.enqueue_file(connection, part_uri("/a.csv", column="tool", subject_key="T"), "T")


def test_files_name_their_parts_and_parts_their_file(plant: Plant) -> None:
    path = write_lines(plant, "all.csv", mixed(range(3)))
    plant.ingest(path)
    with plant.pool.connection() as connection:
        parent = files.describe_file(connection, str(path))
        own = files.describe_file(connection, part(path, "TOOL01"))
        listed = {record.source_uri: record.parent_uri for record in files.list_files(connection)}
    assert parent is not None
    assert own is not None
    assert [(each["subject_key"], each["readings"]) for each in parent["parts"]] == [
        ("TOOL01", 3),
        ("TOOL02", 3),
        ("TOOL03", 3),
    ]
    assert own["parent_uri"] == str(path)
    assert listed[part(path, "TOOL02")] == str(path)
    assert listed[str(path)] is None
    assert file_uri(str(path)) in part(path, "TOOL01")


def test_readings_of_a_part_that_are_too_late_wait_and_can_be_released(plant: Plant) -> None:
    plant.redefine(SPLIT.replace("key = []", 'key = []\nhorizon = "5 h"'), is_on_purpose=True)
    plant.ingest(write_lines(plant, "new.csv", mixed(range(600, 660, 5), tools=("TOOL01",))))
    path = write_lines(plant, "old.csv", mixed(range(0, 30, 5), tools=("TOOL01", "TOOL02")))
    plant.ingest(path)
    with plant.pool.connection() as connection:
        waiting = quarantine.list_quarantine(connection)
        assert [(each.source_uri, each.subject_key) for each in waiting] == [(part(path, "TOOL01"), "TOOL01")]
        quarantine.release_file(connection, part(path, "TOOL01"), reason="right", by="ann")
    plant.drain()
    counted = plant.rows("select subject_key, sum(readings)::int from disarray.segment group by 1 order by 1")
    assert counted == [("TOOL01", 18), ("TOOL02", 6)]
    assert_sound(plant)


def test_asked_for_as_a_backfill_a_file_is_split_into_parts_that_skip_the_horizon(plant: Plant) -> None:
    plant.redefine(SPLIT.replace("key = []", 'key = []\nhorizon = "5 h"'), is_on_purpose=True)
    plant.ingest(write_lines(plant, "new.csv", mixed(range(600, 660, 5), tools=("TOOL01",))))
    path = write_lines(plant, "old.csv", mixed(range(0, 30, 5), tools=("TOOL01",)))
    with plant.pool.connection() as connection:
        connection.execute(
            "select * from disarray.enqueue_requests(%s, %s, '{backfill}', null, null)",
            ([str(path)], ["tools/old.csv#tool"]),
        )
    plant.drain()
    assert plant.rows("select sum(readings)::int from disarray.segment") == [(18,)]


def test_a_late_file_about_several_subjects_restates_each_of_them(plant: Plant) -> None:
    plant.ingest(write_lines(plant, "new.csv", mixed(range(600, 900, 5))))
    path = write_lines(plant, "old.csv", mixed(range(0, 30, 5)))
    plant.ingest(path)
    causes = plant.rows("select distinct subject_key, source_uris from disarray.restatement order by 1")
    assert causes == [(tool, [part(path, tool)]) for tool in ("TOOL01", "TOOL02", "TOOL03")]


def test_a_file_that_is_about_one_subject_by_a_new_rule_takes_its_parts_back(
    plant: Plant, apart: Plant
) -> None:
    lines = mixed(range(0, 60, 5), tools=("TOOL01", "TOOL02"))
    path = write_lines(plant, "all.csv", lines)
    plant.ingest(path)
    plant.redefine(SPLIT.replace('{ column = "tool" }', '{ constant = "PLANT" }'), is_on_purpose=True)
    with plant.pool.connection() as connection:
        queue_moves(connection, plant.datasets.values())
    plant.drain()
    counted = plant.rows("select distinct subject_key from disarray.segment")
    assert counted == [("PLANT",)]
    plant.redefine(SPLIT, is_on_purpose=True)
    with plant.pool.connection() as connection:
        queue_moves(connection, plant.datasets.values())
    plant.drain()
    apart.ingest(*write_apart(apart, "all.csv", lines))
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_another_column_splits_the_file_anew(plant: Plant) -> None:
    text = "time,tool,watts,good\n" + "".join(
        f"2026-09-01T00:{minute:02d}:00Z,TOOL01,1.0,{minute % 2}\n" for minute in range(10)
    )
    path = plant.write("all.csv", text)
    plant.ingest(path)
    plant.redefine(SPLIT.replace('column = "tool"', 'column = "good"'), is_on_purpose=True)
    with plant.pool.connection() as connection:
        queue_moves(connection, plant.datasets.values())
    plant.drain()
    counted = plant.rows("select subject_key, sum(readings)::int from disarray.segment group by 1 order by 1")
    assert counted == [("0", 5), ("1", 5)]


@pytest.mark.parametrize(
    "change",
    [
        "update disarray.file_part set subject_key = subject_key || 'x' where subject_key = 'TOOL02'",
        "update disarray.file_part set parent_uri = parent_uri || 'x' where subject_key = 'TOOL02'",
        "delete from disarray.file_part where subject_key = 'TOOL02'",
        "delete from disarray.file_fingerprint where source_uri like '%TOOL02'",
    ],
)
def test_an_audit_finds_parts_that_do_not_add_up(plant: Plant, change: str) -> None:
    plant.ingest(write_lines(plant, "all.csv", mixed(range(0, 30, 5))))
    assert_sound(plant)
    with plant.pool.connection() as connection:
        connection.execute(change.encode())
        assert [finding.rule for finding in find_wrong_parts(connection)] != []


def test_verification_asks_each_line_of_the_file_whom_it_is_about(plant: Plant, tmp_path: Path) -> None:
    path = write_lines(plant, "all.csv", mixed(range(0, 90, 5)))
    plant.ingest(path)
    [dataset] = plant.datasets.values()
    assert compared(plant) == {"TOOL01": True, "TOOL02": True, "TOOL03": True}
    # The file says now that the last line of TOOL02 is about TOOL03, and nobody was told.
    text = path.read_text()
    at = text.rindex("TOOL02")
    path.write_text(f"{text[:at]}TOOL03{text[at + 6 :]}")
    with plant.pool.connection() as connection:
        stored = verification.load_subject(connection, "TOOL02")
    sources = gather_sources(
        InProcessRunner(), dataset, [stored], lake=plant.place.lake, folder=tmp_path, now_us=2**60
    )
    assert [each.reason for each in sources.unproven] == ["the source changed since it was taken in"]


def compared(plant: Plant) -> dict[str, bool]:
    """Whether the file says of each subject what is stored of it."""
    found: dict[str, bool] = {}
    with plant.pool.connection() as connection:
        for subject in subject_keys(connection):
            report = verify(
                connection,
                InProcessRunner(),
                plant.datasets,
                lake=plant.place.lake,
                subject_key=subject,
            )
            if report.files:
                found[subject] = report.is_identical() and report.readings > 0
    return found


def test_what_waits_for_parts_is_read_again_under_a_new_definition(plant: Plant, apart: Plant) -> None:
    path = write_lines(plant, "all.csv", mixed(range(0, 30, 5)))
    plant.ingest(path)
    lines = mixed(range(0, 60, 5))
    write_lines(plant, "all.csv", lines)
    plant.notify(path)
    split_only(plant)
    plant.redefine(SPLIT.replace('segment = "1 h"', 'segment = "2 h"'), is_on_purpose=True)
    plant.drain()
    apart.redefine(APART.replace('segment = "1 h"', 'segment = "2 h"'), is_on_purpose=True)
    apart.ingest(*write_apart(apart, "all.csv", lines))
    assert plant.derived() == apart.derived()
    # Announced once more, the file itself is read under the new definition, and nothing changes.
    plant.notify(path)
    plant.drain()
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_what_waits_for_parts_of_a_blacklisted_file_comes_when_it_is_allowed(
    plant: Plant, apart: Plant
) -> None:
    lines = mixed(range(0, 60, 5))
    path = write_lines(plant, "all.csv", lines[:18])
    plant.ingest(path)
    write_lines(plant, "all.csv", lines)
    plant.notify(path)
    split_only(plant)
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "any", reason="wrong", by="ann")
    plant.drain()
    assert plant.rows("select count(*) from disarray.segment") == [(0,)]
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(path), reason="right", by="ann")
    plant.drain()
    apart.ingest(*write_apart(apart, "all.csv", lines))
    assert plant.derived() == apart.derived()
    assert_sound(plant)


def test_a_file_that_is_blacklisted_while_it_is_split_has_parts_that_count_for_nothing(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(plant, "all.csv", mixed(range(0, 30, 5)))

    struck: list[str] = []

    def strike(name: str, connection: object = None, *, about: str = "") -> None:
        if name == "commit.begun" and about.startswith("tools/") and not struck:
            struck.append(name)
            with plant.pool.connection() as other:
                blacklist.blacklist_file(other, str(path), "any", reason="wrong", by="ann")

    monkeypatch.setattr(committing, "failpoint", strike)
    plant.ingest(path)
    monkeypatch.undo()
    assert plant.rows("select count(*) from disarray.segment") == [(0,)]
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(path), reason="right", by="ann")
    plant.drain()
    assert plant.rows("select sum(readings)::int from disarray.segment") == [(18,)]
    assert_sound(plant)


def test_a_part_is_found_by_its_file_and_what_follows_it(plant: Plant) -> None:
    path = write_lines(plant, "all.csv", mixed(range(3)))
    plant.ingest(path)
    with plant.pool.connection() as connection:
        own = show_file(connection, find_file(connection, f"{path}#tool=TOOL01"))
        whole = show_file(connection, find_file(connection, str(path)))
    assert own.parent_uri == str(path)
    assert [each["source_uri"] for each in whole.parts] == [
        part(path, tool) for tool in ("TOOL01", "TOOL02", "TOOL03")
    ]
