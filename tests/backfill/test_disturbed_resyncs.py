"""Resyncs that are disturbed: frozen workers, decisions, altered tables, outages, keys in an order of their own."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from disarray.control.backfills import BackfillDecision
from disarray.errors import DisarrayError
from disarray.model.description.table_source import SubjectColumn
from disarray.model.uris import file_path
from tests.backfill.resynced_plant import NOON, ResyncedPlant
from tests.crashes import CrashError, crash, striking
from tests.processes import eventually
from tests.sources.table_history import DESCRIPTION, make_table, reader_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection


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


def test_a_worker_that_froze_in_a_comparison_and_wakes_after_the_swap_changes_nothing(
    plant: ResyncedPlant,
) -> None:
    plant.execute("delete from public.readings where id = 3")
    job_id = plant.start()
    other = plant.server("Other")

    def freeze() -> None:
        """As the first comparison is claimed: its lease runs out, and another worker goes on to the end."""
        plant.execute(
            "update disarray.backfill_chunk set lease_expires_at = now() - interval '1 s' where state = 'claimed'"
        )
        other.run_job(job_id, threading.Event(), threads=1)

    with striking("backfill.claimed", freeze, at_hit=7):
        plant.serve(job_id, name="Frozen")
    job = plant.job(job_id)
    assert (job.state, job.verdict) == ("done", "verified"), "its staged files are gone because they count"
    assert plant.rows("select distinct state from disarray.backfill_chunk") == [("done",)]
    assert plant.numbers() == plant.table()


def test_rows_that_are_pulled_again_and_again_meanwhile_hide_no_deletes(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where id > 15")
    job_id = plant.start(deletes="refuse")

    def change() -> None:
        """What is left changes and is pulled: as many rows as are gone, and no key more."""
        plant.execute("update public.readings set watts = watts + 1, updated_at = now()")
        assert plant.pull() == 15

    with striking("resync.staged", change):
        stopped = plant.serve(job_id)
    assert stopped.state == "stopped"
    assert "30 readings of source historian count, and its table has 15 rows" in (stopped.state_reason or "")


def test_what_was_pulled_and_not_read_yet_when_it_began_is_guarded_as_well(plant: ResyncedPlant) -> None:
    plant.execute(
        """
        insert into public.readings (id, tool, at, watts)
        select n, 'TOOL07', timestamptz '2026-03-04 12:00Z' + n * interval '1 min', n
        from generate_series(101, 200) as n
        """
    )
    assert plant.pull() == 100
    plant.execute("delete from public.readings where id > 150")
    stopped = plant.serve(plant.start(deletes="refuse"))
    assert stopped.state == "stopped"
    assert "130 readings of source historian count, and its table has 80 rows" in (stopped.state_reason or "")


def test_a_decision_and_a_chunk_that_stages_its_files_do_not_wait_for_each_other(
    plant: ResyncedPlant,
) -> None:
    job_id = plant.start()
    failures: list[Exception] = []

    def pause() -> None:
        try:
            plant.decide(job_id, BackfillDecision.PAUSED)
        except DisarrayError as error:
            failures.append(error)

    pausing = threading.Thread(target=pause)

    def decide() -> None:
        """While the files of a stretch are named, and the chunk is not ended yet."""
        pausing.start()
        eventually(lambda: plant.rows("select from pg_locks where not granted"), seconds=60)

    with striking("backfill.written", decide, at_hit=2):
        job = plant.serve(job_id)
    pausing.join()
    assert failures == []
    assert (job.state, job.chunks_done, job.chunks_claimed) == ("paused", 2, 0)


@pytest.mark.parametrize("decision", [BackfillDecision.CANCELLED, BackfillDecision.PAUSED])
def test_a_subject_that_nobody_swaps_holds_up_no_job_that_was_given_up(
    plant: ResyncedPlant, decision: BackfillDecision
) -> None:
    before = plant.numbers()
    plant.execute("delete from public.readings where id = 3")
    job_id = plant.start()
    server = plant.server("Backfiller")
    ended = threading.Event()

    def work() -> None:
        server.run_job(job_id, threading.Event(), threads=1)
        ended.set()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    eventually(lambda: plant.rows("select from disarray.ingest_queue where kind = 'resync'"), seconds=60)
    eventually(lambda: plant.job(job_id).held_by == "worker", seconds=60)
    assert "waits for a worker" in (plant.job(job_id).held_reason or "")
    plant.decide(job_id, decision)
    if decision is BackfillDecision.CANCELLED:
        eventually(ended.is_set, seconds=60)
        plant.drain()  # the order that is left is about nothing
        assert plant.numbers() == before
    else:
        plant.drain()  # what is at work ends as it would have
        eventually(ended.is_set, seconds=60)
        plant.decide(job_id, BackfillDecision.RESUMED)
        assert plant.serve(job_id).verdict == "verified"
        assert plant.numbers() == plant.table()
    assert plant.rows("select * from disarray.ingest_queue") == []


def test_a_subject_whose_staged_files_are_gone_keeps_its_numbers_until_the_next_resync(
    plant: ResyncedPlant,
) -> None:
    plant.execute("delete from public.readings where id in (3, 7)")  # of TOOL00 and TOOL01
    before = [each for each in plant.numbers() if each[0] == "TOOL01"]
    job_id = plant.start()

    def lose() -> None:
        """After all was compared."""
        for (uri,) in plant.rows(
            "select source_uri from disarray.staged_delivery where subject_key = 'TOOL01'"
        ):
            Path(file_path(str(uri))).unlink()

    with striking("resync.queued", lose):
        job = plant.serve(job_id)
    assert (job.state, job.verdict) == ("done", "incomplete")
    [dead] = job.dead_chunks
    assert dead.attempts == 2
    retries = plant.rows("select retry_count from disarray.ingest_queue where kind = 'resync'")
    assert retries == [(1,)], "the second attempt waited for no delay of the queue"
    assert "TOOL01 cannot be read" in (dead.last_error or "")
    assert "When that job has ended: disarray source resync NAME" in (dead.last_error or "")
    numbers = plant.numbers()
    assert [each for each in numbers if each[0] == "TOOL01"] == before
    assert [each for each in numbers if each[0] == "TOOL00"] == [e for e in plant.table() if e[0] == "TOOL00"]
    assert plant.serve(plant.start()).verdict == "verified"
    assert plant.numbers() == plant.table()


def test_what_is_asked_for_each_subject_looks_at_its_own_deliveries_alone(plant: ResyncedPlant) -> None:
    plant.execute(
        """
        insert into disarray.delivery_batch
        select 1000 + n, 'historian', 'historian', gen_random_uuid(), 'Worker01', 1, 1, 0, 0, null, null, now()
        from generate_series(1, 300) as n;
        insert into disarray.delivery (source_uri, batch_no, subject_key, rows, bytes)
        select format('file:///%s/%s', n, tool), 1000 + n, 'TOOL' || tool, 1, 1
        from generate_series(1, 300) as n, generate_series(100, 199) as tool;
        insert into disarray.resync
            (job_id, source_name, dataset, batch_no, arrival, readings_before, begun_at, verified_at)
        values (1, 'historian', 'historian', 5000, 1, 0, now(), now());
        analyze disarray.delivery, disarray.delivery_batch, disarray.staged_delivery;
        """
    )
    questions = {
        "select * from disarray.next_swapped_subject(1, 'TOOL150')": ("TOOL151", 0),
        "select is_pending from disarray.resync_progress(1, 'TOOL150', now())": (True,),
        "select is_pending from disarray.resync_progress(1, 'TOOL200', now())": (False,),
        "select count(*) from disarray.load_swap(1, 'TOOL150')": (0,),
    }
    with plant.pool.connection() as connection:
        for question, answer in questions.items():
            before = _rows_read(connection)
            assert connection.execute(question.encode()).fetchone() == answer
            assert _rows_read(connection) - before < 2_000, question


def _rows_read(connection: Connection) -> int:
    """Of the table of deliveries, by this session."""
    connection.execute("select pg_stat_force_next_flush()")
    connection.execute("select pg_stat_clear_snapshot()")
    row = connection.execute(
        "select seq_tup_read + idx_tup_fetch from pg_stat_all_tables where relid = 'disarray.delivery'::regclass"
    ).fetchone()
    assert row is not None
    return int(row[0])


ALTERED = {
    "a column is gone": ("rename watts to w", "rename w to watts"),
    "a column has another type": ("alter watts type text", "alter watts type float8 using watts::float8"),
    "the table has another name": ("rename to others", "-- others"),
}


@pytest.mark.parametrize("point", ["resync.staged", "resync.compared"])
@pytest.mark.parametrize("how", ALTERED)
def test_a_table_that_is_altered_before_the_first_swap_stops_the_resync_until_it_is_mended(
    plant: ResyncedPlant, how: str, point: str
) -> None:
    before = plant.everything()
    plant.execute("delete from public.readings where id = 3")
    job_id = plant.start()
    alter, mend = ALTERED[how]
    with striking(point, lambda: plant.execute(f"alter table public.readings {alter}"), at_hit=2):
        stopped = plant.serve(job_id)
    assert stopped.state == "stopped"
    assert plant.everything() == before
    reason = stopped.state_reason or ""
    assert reason.startswith("source historian: ")
    assert reason.endswith(f". Nothing was changed. When it is mended: disarray backfill resume {job_id}")
    assert "by itself" not in reason, "that is said of pulls"
    name, mend = ("others", "rename to readings") if mend.startswith("--") else ("readings", mend)
    plant.execute(f"alter table public.{name} {mend}")
    plant.decide(job_id, BackfillDecision.RESUMED)
    assert plant.serve(job_id).verdict == "verified"
    assert plant.numbers() == plant.table()


def test_a_job_whose_source_is_away_says_so_and_goes_on_when_it_is_back(
    plant: ResyncedPlant, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = plant.start()
    monkeypatch.setenv("HISTORIAN_URL", make_conninfo(reader_url(dsn), port="1"))
    told: list[str] = []

    def wait() -> None:
        eventually(lambda: plant.job(job_id).held_by == "database", seconds=60)
        told.append(plant.job(job_id).held_reason or "")
        monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))

    waiting = threading.Thread(target=wait)
    waiting.start()
    job = plant.serve(job_id)
    waiting.join()
    assert told
    assert "historian" in told[0]
    assert (job.verdict, job.held_by) == ("verified", None)
    assert {chunk for (chunk,) in plant.rows("select attempts from disarray.backfill_chunk")} == {1}


NAMES = ("a", "B", "ä", "Z", "zz", "A", "_", "Ärger", "o'hara", "a b", "ab", "😀", "ß", "10", "9")
PARTS = ("1.50", "-2", "10", "9")  # as texts they have another order


def test_a_key_of_several_columns_is_read_whole_in_the_order_that_its_types_have_in_the_database(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    described = DESCRIPTION.replace('key = ["id"]\nsubject', 'key = ["grade", "name", "part"]\nsubject')
    monkeypatch.setattr("tests.sources.table_plant.DESCRIPTION", described)
    make_table(dsn)
    plant = ResyncedPlant(tmp_path, dsn)
    plant.execute(
        """
        create type public.grade as enum ('low', 'high', 'Middle');
        alter table public.readings
            add grade public.grade, add name text, add part numeric, add constraint named unique (grade, name, part)
        """
    )
    with psycopg.connect(dsn, autocommit=True) as writer:
        for number, (name, part) in enumerate(product(NAMES, PARTS)):
            writer.execute(
                """
                insert into public.readings (id, tool, at, watts, grade, name, part)
                values (
                    %(number)s, 'TOOL00', timestamptz '2026-03-02 12:00Z' + %(number)s * interval '1 min', 1,
                    (enum_range(null::public.grade))[1 + %(number)s %% 3], %(name)s, %(part)s
                )
                """,
                {"number": number, "name": name, "part": part},
            )
    plant.pull()
    plant.drain()
    plant.execute("delete from public.readings where id % 5 = 2")
    assert plant.serve(plant.start(), threads=2).verdict == "verified"
    assert plant.numbers() == plant.table()
    [(read,)] = plant.rows("select sum(rows_after) from disarray.backfill_chunk where cursor_to[1] = 'read'")
    assert read == len(plant.table()), "each row once"
    plant.pool.close()


def test_the_table_of_another_server_is_not_taken_for_the_one_that_was_pulled(plant: ResyncedPlant) -> None:
    before = plant.everything()
    elsewhere = "jsonb_set(watermark, '{server}', '\"elsewhere/1\"')"
    started = plant.start(deletes="refuse")
    plant.execute(f"update disarray.source_state set watermark = {elsewhere}")
    with pytest.raises(DisarrayError, match="restored, replaced or failed over"):
        plant.start(deletes="refuse")
    plant.execute("update public.readings set watts = -1")
    job = plant.serve(started)
    assert job.state == "stopped"
    assert "restored, replaced or failed over" in (job.state_reason or "")
    assert f"disarray backfill cancel {started}" in (job.state_reason or "")
    assert plant.everything() == before


def test_a_server_that_is_replaced_while_its_table_is_read_stops_the_resync(plant: ResyncedPlant) -> None:
    job_id = plant.start()
    before = plant.everything()

    def fail_over() -> None:
        """As if the server had got another timeline since the resync began; its connections are gone."""
        plant.execute(
            """
            update disarray.resync set server = 'elsewhere/1';
            select pg_terminate_backend(pid) from pg_stat_activity where usename = 'plain_reader';
            """
        )

    with striking("resync.staged", fail_over):
        job = plant.serve(job_id)
    assert job.state == "stopped"
    assert "restored, replaced or failed over" in (job.state_reason or "")
    assert plant.everything() == before


@pytest.mark.parametrize("point", ["resync.staged", "resync.compared", "resync.swapped"])
def test_a_description_that_changes_under_a_resync_stops_it(plant: ResyncedPlant, point: str) -> None:
    plant.execute("delete from public.readings where id = 3")
    job_id = plant.start()

    def describe() -> None:
        """A worker that is started again knows what disarray.toml says now."""
        line = replace(plant.place.sources[0], subject=SubjectColumn(constant="LINE1"))
        plant.place = replace(plant.place, sources=(line,))
        crash()

    with striking(point, describe), pytest.raises(CrashError):
        plant.serve(job_id)
    plant.execute(
        "update disarray.backfill_chunk set lease_expires_at = now() - interval '1 s' where state = 'claimed'"
    )
    job = plant.serve(job_id, name="Restarted")
    assert job.state == "stopped"
    assert "is described otherwise than when its resync began" in (job.state_reason or "")
    assert "LINE1" not in {subject for subject, *_ in plant.numbers()}


def test_subjects_that_make_way_for_others_are_not_made_up_for_by_them(plant: ResyncedPlant) -> None:
    before = plant.everything()
    plant.execute(
        "update public.readings set id = id + 1000, tool = 'MOVED' || tool, updated_at = '2020-01-01'"
    )
    job = plant.serve(plant.start(deletes="refuse"))
    assert job.state == "stopped"
    assert "30 or more would go, 3 of 6 subjects with all that they have" in (job.state_reason or "")
    assert plant.everything() == before


def test_a_subject_that_is_small_is_guarded_as_well(plant: ResyncedPlant) -> None:
    plant.execute(f"insert into public.readings (id, tool, at, watts) values (31, 'TOOL09', '{NOON}', 1);")
    plant.pull()
    plant.drain()
    plant.execute("delete from public.readings where id = 31")
    job = plant.serve(plant.start(deletes="refuse"))
    assert "1 or more would go, 1 of 4 subjects with all that they have" in (job.state_reason or "")


def test_a_job_in_whose_place_another_resync_began_does_not_run_for_ever(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where id in (3, 7)")
    first = plant.start()

    def lose() -> None:
        """What was staged of one subject is gone, so that it cannot be swapped."""
        for (uri,) in plant.rows(
            "select source_uri from disarray.staged_delivery where subject_key = 'TOOL01'"
        ):
            Path(file_path(str(uri))).unlink()

    with striking("resync.queued", lose):
        assert plant.serve(first).verdict != "verified"
    second = plant.start()
    with striking("resync.compared", lambda: plant.decide(second, BackfillDecision.CANCELLED)):
        plant.serve(second)
    plant.decide(first, BackfillDecision.RESUMED)
    job = plant.serve(first)
    assert job.state == "stopped"
    assert "another resync of source historian began" in (job.state_reason or "")
    plant.decide(first, BackfillDecision.CANCELLED)
    assert plant.serve(plant.start()).verdict == "verified"
    assert plant.numbers() == plant.table()


def test_a_source_that_is_reset_while_it_is_resynced_says_what_to_do(plant: ResyncedPlant) -> None:
    job_id = plant.start()

    def reset() -> None:
        with plant.pool.connection() as connection:
            for decision in ("paused", "reset"):
                connection.execute(
                    "select disarray.decide_source('historian', 'public.readings', %s, 'test', 'ada')",
                    (decision,),
                )

    with striking("resync.staged", reset):
        job = plant.serve(job_id)
    assert job.state == "stopped"
    assert "was reset since its resync began. Nothing was changed" in (job.state_reason or "")


def test_what_is_staged_is_no_file_that_could_be_announced_or_blacklisted(plant: ResyncedPlant) -> None:
    plant.execute("delete from public.readings where id = 3")
    job_id = plant.start()
    refusals: list[str] = []

    def take_for_files() -> None:
        [(uri, subject)] = plant.rows("select source_uri, subject_key from disarray.staged_delivery limit 1")
        for statement in (
            "select * from disarray.enqueue_files(array[%s], array[%s])",
            "select disarray.blacklist_file(%s, %s, 'test', 'ada')",
        ):
            with (
                pytest.raises(psycopg.DatabaseError) as refused,
                psycopg.connect(plant.dsn) as connection,
            ):
                connection.execute(statement, (uri, subject))
            refusals.append(str(refused.value))

    with striking("resync.compared", take_for_files, at_hit=2):
        job = plant.serve(job_id)
    assert [("was staged by a resync" in each) for each in refusals] == [True, True]
    assert job.verdict == "verified"
    assert plant.numbers() == plant.table()
