"""Resyncs: deletes and moves that no watermark sees are found, and a resync that does not verify changes nothing."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disarray.control import backfills, deliveries, files
from disarray.control.backfills import BackfillDecision
from disarray.errors import LeaseLostError
from disarray.model.uris import file_path
from disarray.store.audit.audit import Outcome, audit
from disarray.worker.upkeep.housekeeping import vacuum
from tests.backfill.resynced_plant import ResyncedPlant
from tests.crashes import striking
from tests.faults.checkers import AT_REST
from tests.sources.table_history import make_table, reader_url

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def plant(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResyncedPlant]:
    """Thirty rows of three tools, pulled and read."""
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    make_table(dsn)
    built = ResyncedPlant(tmp_path, dsn)
    built.fill(30)
    built.pull()
    built.drain()
    yield built
    built.pool.close()


def broken_rules(plant: ResyncedPlant) -> list[object]:
    with plant.pool.connection() as connection:
        vacuum(connection, plant.place)
        verdicts = audit(connection, plant.place.lake, AT_REST)
    return [
        (verdict.rule.name, verdict.note, verdict.findings[:3])
        for verdict in verdicts
        if verdict.outcome is not Outcome.HOLDS
    ]


def restated(plant: ResyncedPlant) -> list[str]:
    return [
        str(subject)
        for (subject,) in plant.rows("select distinct subject_key from disarray.restatement order by 1")
    ]


def test_deleted_and_moved_rows_are_gone_after_a_resync_and_the_ledger_has_what_changed_alone(
    plant: ResyncedPlant,
) -> None:
    assert plant.numbers() == plant.table()
    plant.execute("delete from public.readings where id in (3, 15)")  # of TOOL00
    plant.execute("update public.readings set at = at + interval '5 h' where id = 7")  # of TOOL01
    assert plant.pull() == 0, "no watermark sees it"
    assert plant.numbers() != plant.table()
    job = plant.serve(plant.start())
    assert (job.state, job.verdict) == ("done", "verified"), job
    assert plant.numbers() == plant.table()
    assert restated(plant) == ["TOOL00", "TOOL01"], "what is the same is not restated"


def test_a_resync_of_a_table_that_is_as_it_was_restates_nothing(plant: ResyncedPlant) -> None:
    before = plant.numbers()
    job = plant.serve(plant.start())
    assert job.verdict == "verified"
    assert plant.numbers() == before
    assert plant.rows("select * from disarray.restatement") == []
    [(former, now)] = plant.rows(
        """
        select count(*) filter (where superseded_at is not null), count(*) filter (where superseded_at is null)
        from disarray.delivery
        """
    )
    assert former
    assert now
    assert plant.rows("select * from disarray.staged_delivery") == []


def test_a_subject_that_the_table_has_no_row_of_any_more_ends_with_no_readings(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where tool = 'TOOL02'")
    assert plant.serve(plant.start()).verdict == "verified"
    assert plant.numbers() == plant.table()
    assert plant.rows("select * from disarray.segment where subject_key = 'TOOL02'") == []
    assert restated(plant) == ["TOOL02"]


@pytest.mark.parametrize("gone", ["delete from public.readings", "delete from public.readings where id > 20"])
def test_more_deletes_than_usual_are_refused_and_nothing_is_changed(plant: ResyncedPlant, gone: str) -> None:
    before = plant.everything()
    plant.execute(gone)
    job = plant.serve(plant.start(deletes="refuse"))
    assert job.state == "stopped"
    assert "30 readings of source historian count" in (job.state_reason or "")
    assert "--allow-deletes" in (job.state_reason or "")
    assert plant.everything() == before
    plant.decide(job.job_id, BackfillDecision.CANCELLED)
    assert plant.rows("select * from disarray.staged_delivery") == []
    assert plant.serve(plant.start()).verdict == "verified"
    assert plant.numbers() == plant.table()


@pytest.mark.parametrize("conflict", ["path", "arrival"])
def test_what_is_pulled_meanwhile_wins_and_comes_once(plant: ResyncedPlant, conflict: str) -> None:
    plant.redefine(
        plant.description_text.replace('key = ["id"]', f'key = ["id"]\nconflict = "{conflict}"', 1)
    )
    plant.drain()
    job_id = plant.start()
    server = plant.server("Backfiller")
    writes = iter(range(1, 40))

    def write() -> None:
        number = next(writes, None)
        if number is not None and number % 3 == 0:
            plant.execute(
                f"update public.readings set watts = watts + 100, updated_at = now() where id = {number % 30 + 1}"
            )
            plant.insert((100 + number, "2026-03-02 12:10+00", 1.0))
        # Where the resync begins meanwhile, the next pull takes the same rows.
        with suppress(LeaseLostError):
            plant.pull()

    plant.beside(lambda: server.run_job(job_id, threading.Event(), threads=1), between=write)
    assert plant.job(job_id).verdict == "verified"
    plant.pull()
    plant.drain()
    assert plant.numbers() == plant.table()
    assert len(plant.table()) > 30


def test_a_pull_that_began_before_the_resync_loses_its_turn_and_takes_the_same_rows_again(
    plant: ResyncedPlant,
) -> None:
    plant.insert((31, "2026-03-02 12:10+00", 1.0))
    jobs = []

    def begin() -> None:
        """While rows are in memory: the resync reads row 31 as it is by then."""
        jobs.append(plant.start())
        plant.execute("update public.readings set watts = 2, updated_at = now() where id = 31")
        plant.serve(jobs[0])

    with striking("pull.extracted", begin), pytest.raises(LeaseLostError):
        plant.pull()
    assert plant.job(jobs[0]).verdict == "verified"
    assert plant.numbers() == plant.table()
    plant.pull()
    plant.drain()
    assert plant.numbers() == plant.table()


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_a_staged_file_that_is_not_what_was_read_stops_the_resync_which_changed_nothing(
    plant: ResyncedPlant, damage: str
) -> None:
    before = plant.everything()
    plant.execute("delete from public.readings where id = 3")
    job_id = plant.start()

    def harm() -> None:
        [(uri,)] = plant.rows("select min(source_uri) from disarray.staged_delivery")
        path = Path(file_path(str(uri)))
        match damage:
            case "changed":
                rows = pq.read_table(path)
                watts = pa.array([9.0] * rows.num_rows)
                pq.write_table(rows.set_column(rows.column_names.index("watts"), "watts", watts), path)
            case "cut":
                path.write_bytes(path.read_bytes()[:-100])
            case _:
                path.unlink()

    with striking("resync.staged", harm, at_hit=4):
        stopped = plant.serve(job_id)
    assert stopped.state == "stopped", stopped
    assert "Nothing was changed" in (stopped.state_reason or "")
    assert f"disarray backfill resume {job_id}" in (stopped.state_reason or "")
    assert plant.everything() == before
    plant.decide(job_id, BackfillDecision.RESUMED)
    assert plant.serve(job_id).verdict == "verified"
    assert plant.numbers() == plant.table()


def test_a_lost_chunk_keeps_the_resync_from_changing_anything(plant: ResyncedPlant) -> None:
    before = plant.everything()
    job_id = plant.start()

    def lose() -> None:
        plant.execute("delete from disarray.backfill_chunk where job_id = 1 and chunk_no = 3")

    with striking("resync.staged", lose, at_hit=4):
        stopped = plant.serve(job_id)
    assert stopped.state == "stopped", stopped
    assert "a chunk is lost" in (stopped.state_reason or "")
    assert plant.everything() == before


def test_a_cancelled_resync_changes_nothing_and_leaves_its_files_to_the_sweep(plant: ResyncedPlant) -> None:
    before = plant.everything()
    job_id = plant.start()

    def cancel() -> None:
        plant.decide(job_id, BackfillDecision.CANCELLED)

    with striking("resync.compared", cancel, at_hit=2):
        plant.serve(job_id)
    assert plant.job(job_id).state == "cancelled"
    assert plant.everything() == before
    assert plant.rows("select * from disarray.staged_delivery") == []


def test_staged_files_are_no_orphans_until_the_resync_is_given_up(plant: ResyncedPlant) -> None:
    job_id = plant.start()
    found: list[tuple[int, int]] = []

    def look() -> None:
        uris = [str(uri) for (uri,) in plant.rows("select source_uri from disarray.staged_delivery")]
        with plant.pool.connection() as connection:
            unknown = deliveries.find_unknown_deliveries(connection, uris)
            found.append((len(uris), len(unknown)))
            backfills.decide_backfill(connection, job_id, BackfillDecision.CANCELLED, reason="test", by="ada")
            assert sorted(deliveries.find_unknown_deliveries(connection, uris)) == sorted(uris)

    with striking("resync.compared", look):
        plant.serve(job_id)
    [(staged, unknown)] = found
    assert staged
    assert not unknown


def test_a_resync_is_refused_while_another_one_is_under_way_or_before_the_source_was_read(
    plant: ResyncedPlant, dsn: str, tmp_path: Path
) -> None:
    job_id = plant.start()
    plant.execute("update disarray.backfill_job set name = 'another'")
    second = plant.start()
    assert plant.serve(job_id).verdict == "verified"
    plant.execute(
        f"update disarray.backfill_job set state = 'running', ended_at = null where job_id = {job_id}"
    )
    stopped = plant.serve(second)
    assert stopped.state == "stopped"
    assert f"is being resynced by backfill job {job_id}" in (stopped.state_reason or "")


def test_a_former_delivery_that_is_read_again_by_hand_counts_for_nothing(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where id = 3")
    [(uri,)] = plant.rows("select min(source_uri) from disarray.delivery where subject_key = 'TOOL00'")
    assert plant.serve(plant.start()).verdict == "verified"
    with plant.pool.connection() as connection:
        files.reingest_file(connection, str(uri), reason="test", by="ada")
    plant.drain()
    assert plant.numbers() == plant.table()
    assert plant.rows("select * from disarray.ingest_queue") == []


def test_a_second_resync_takes_the_place_of_the_first(plant: ResyncedPlant) -> None:
    assert plant.serve(plant.start()).verdict == "verified"
    plant.execute("delete from public.readings where id in (4, 5)")
    assert plant.serve(plant.start()).verdict == "verified"
    assert plant.numbers() == plant.table()


def test_two_workers_share_a_resync(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where id in (3, 15)")
    job_id = plant.start()
    servers = [plant.server(name) for name in ("First", "Second")]
    plant.beside(
        *(lambda server=server: server.run_job(job_id, threading.Event(), threads=2) for server in servers)
    )
    assert plant.job(job_id).verdict == "verified"
    assert plant.numbers() == plant.table()


def test_the_audit_finds_nothing_wrong_after_a_resync(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where id in (3, 15)")
    plant.insert((31, "2026-03-02 12:10+00", 1.0))
    plant.pull()
    assert plant.serve(plant.start()).verdict == "verified"
    assert broken_rules(plant) == []


def test_what_was_parked_as_too_late_counts_after_a_resync(plant: ResyncedPlant) -> None:
    plant.redefine(plant.description_text.replace('zone = "UTC"', 'zone = "UTC"\nhorizon = "2 h"', 1))
    plant.drain()
    plant.insert((31, "2026-03-01 12:00+00", 1.0), (32, "2026-03-02 12:00+00", 1.0))
    plant.pull()
    plant.drain()
    plant.insert((33, "2026-03-01 10:00+00", 1.0))
    plant.pull()
    plant.drain()
    assert plant.rows("select * from disarray.fragment where state = 'parked'")
    assert plant.serve(plant.start()).verdict == "verified"
    assert plant.numbers() == plant.table()
    assert not plant.rows("select * from disarray.fragment where state = 'parked'")
    assert broken_rules(plant) == []


def test_sealed_segments_stay_as_they_were_counted(plant: ResyncedPlant) -> None:
    plant.redefine(plant.description_text.replace('zone = "UTC"', 'zone = "UTC"\nretain = "1 d"', 1))
    plant.execute(
        """
        insert into public.readings (id, tool, at, watts)
        select n, 'TOOL0' || n % 3, timestamptz '2026-03-08 12:00Z' + n * interval '30 min', n
        from generate_series(31, 42) as n
        """
    )
    plant.pull()
    plant.drain()
    plant.keep_house()
    [(sealed,)] = plant.rows("select count(*) from disarray.segment where sealed_at is not null")
    assert sealed
    before = {tool: plant.total(tool) for tool in ("TOOL00", "TOOL01", "TOOL02")}
    plant.execute("delete from public.readings where id in (1, 42)")  # sealed, and not
    assert plant.serve(plant.start()).verdict == "verified"
    assert plant.total("TOOL00") == before["TOOL00"] - 42
    assert (plant.total("TOOL01"), plant.total("TOOL02")) == (before["TOOL01"], before["TOOL02"])
    assert plant.rows("select count(*) from disarray.segment where sealed_at is not null") == [(sealed,)]
    assert not plant.rows("select * from disarray.fragment where state = 'parked'")
    plant.execute("delete from public.readings where id in (41)")
    assert plant.serve(plant.start()).verdict == "verified", "and once more"
    assert plant.total("TOOL02") == before["TOOL02"] - 41
    assert broken_rules(plant) == []


def test_a_subject_that_waits_for_a_rebuild_is_rebuilt_and_then_swapped(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where id in (3, 15)")
    job_id = plant.start()

    def redefine() -> None:
        plant.redefine(plant.description_text.replace('segment = "1 h"', 'segment = "2 h"', 1))

    with striking("resync.compared", redefine):
        job = plant.serve(job_id)
    assert job.verdict == "verified"
    assert plant.numbers() == plant.table()
    plant.redefine(plant.description_text.replace('segment = "1 h"', 'segment = "3 h"', 1))
    plant.drain()
    assert plant.numbers() == plant.table(), "a rebuild reads what counts, not what was swapped out"
    assert broken_rules(plant) == []


def test_the_generation_before_is_deleted_as_the_landing_folder_says(plant: ResyncedPlant) -> None:
    former = [Path(file_path(str(uri))) for (uri,) in plant.rows("select source_uri from disarray.delivery")]
    assert plant.serve(plant.start()).verdict == "verified"
    keep = replace(plant.place.housekeeping, keep_landing=timedelta(days=1))
    plant.place = replace(plant.place, housekeeping=keep)
    plant.keep_house()
    assert all(path.exists() for path in former)
    plant.execute("update disarray.delivery set superseded_at = superseded_at - interval '2 days'")
    plant.keep_house()
    assert not any(path.exists() for path in former)
    assert plant.numbers() == plant.table()
