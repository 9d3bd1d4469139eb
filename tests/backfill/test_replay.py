"""Replays as jobs: subjects are chunks, what differs is stored and named, and what is found can be taken over."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from disarray.backfill.replay import chunk_result
from disarray.control import backfills
from disarray.control.backfill_chunks import HeldChunk
from disarray.control.queue import Holder, Incarnation
from disarray.engine.replay.subject_findings import SubjectReplayed
from tests.cli.conftest import IN_PROCESS, report
from tests.forked import plain_environment, run_command
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

REPLAYS = ("replay.read", "replay.scan", "replay.compared")
APPLIED = "replay.applied"


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """Two tools with readings of some hours."""
    built = Plant(tmp_path, dsn, description=DATASET)
    built.ingest(
        *(built.write(f"{tool}/{hour}.csv", report(hour)) for tool in ("T1", "T2") for hour in (0, 5, 30)),
    )
    (tmp_path / "disarray.toml").write_text(DATASET + IN_PROCESS)
    yield built
    built.pool.close()


@pytest.fixture
def run(tmp_path: Path, dsn: str) -> Run:
    """Runs a command to its end in the project of the plant."""

    def run_one(*arguments: str, armed: str = "") -> subprocess.CompletedProcess[str]:
        environment = plain_environment() | {"DISARRAY_FAILPOINT_LOG": str(tmp_path / "failpoints.log")}
        if armed:
            environment["DISARRAY_FAILPOINTS"] = armed
        where = ("--dsn", dsn, "--state-dir", str(tmp_path))
        return run_command(*where, *arguments, project=tmp_path, environment=environment)

    return run_one


def checked(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def damage_base(plant: Plant) -> None:
    with plant.pool.connection() as connection:
        changed = connection.execute(
            "update disarray.segment_summary set base_float = base_float + 1 where (subject_key, metric, segment_us) = "
            "(select subject_key, metric, max(segment_us) from disarray.segment_metric "
            "where subject_key = 'T2' and metric = 'energy' group by 1, 2)"
        )
        assert changed.rowcount == 1


def damage_rollup(plant: Plant) -> None:
    with plant.pool.connection() as connection:
        # All aggregates share their points; written out for each of them, those of one part can be damaged alone.
        for change in (
            "points = array(select point from generate_subscripts(aggregates, 1) cross join unnest(points) as point)",
            "points[1] = points[1] # 1",
        ):
            statement = f"""
                update disarray.rollup_block set {change}
                where (subject_key, segment_us) = (
                    select subject_key, max(segment_us) from disarray.rollup_block where subject_key = 'T1' group by 1
                )
            """
            changed = connection.execute(statement.encode())
            assert changed.rowcount == 1


def test_a_clean_plant_is_identical_and_what_differs_is_named_and_taken_over(plant: Plant, run: Run) -> None:
    before = plant.derived()
    done = run("backfill", "check", "--json")
    assert done.returncode == 0, done.stderr
    found = checked(done)
    assert (found["verdict"], found["chunks_done"], found["rows_done"]) == ("verified", 2, 720)
    assert plant.derived() == before
    assert not list(plant.place.lake.root.glob("scratch-*"))

    damage_base(plant)
    damage_rollup(plant)
    done = run("backfill", "check", "--json", "--apply", "--by", "ada")
    assert done.returncode == 1
    found = checked(done)
    assert (found["verdict"], found["rows_written"]) == ("failed", 2)
    assert [(each["subject_key"], each["what"]) for each in found["findings"]] == [
        ("T1", "rollup points"),
        ("T2", "metric base_float"),
    ]
    shown = run("backfill", "show", str(found["job_id"])).stdout
    assert "different    tools/T2 2026-10-02T06:00:00Z" in shown, shown
    assert "metric base_float energy: stored" in shown
    assert "2 files to be read again" in done.stderr
    applied = (
        "select metadata ->> 'by', metadata ->> 'files' from disarray.ingest_event where event_type = '%s'"
    )
    assert plant.rows(applied % "backfill_applied") == [("ada", "1"), ("ada", "1")]
    plant.drain()
    assert run("backfill", "check").returncode == 0
    assert plant.derived() == before


@pytest.mark.parametrize(("segments", "left"), [(2000, 1), (20_000, 17_501)])
def test_what_a_replay_cannot_have_made_anew_is_counted(segments: int, left: int) -> None:
    files = {f"/data/{'x' * 100}/{number}.csv" for number in range(5)}
    at_us = [number * 3_600_000_000 + (1 << 50) for number in range(segments)]
    found = SubjectReplayed(to_make_anew=dict.fromkeys(at_us, files) | {0: set()})
    chunk = HeldChunk(
        job_id=1,
        chunk_no=1,
        cursor_from=None,
        cursor_to=("T1", "tools"),
        rows_cut=1,
        attempts=1,
        fence=1,
        holder=Holder("here", Incarnation(1)),
    )
    details = chunk_result(chunk, found).details
    assert details is not None
    anew = details["to_make_anew"]
    assert anew == {"segments": at_us[: segments + 1 - left], "files": sorted(files), "left": left}


def test_a_span_and_some_subjects_alone_are_replayed_from_a_file_of_a_job(
    plant: Plant, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "job.toml").write_text(
        'name = "again"\nkind = "replay"\n[replay]\ndatasets = ["tools"]\nsubjects = ["T2"]\nlast = "9000 d"\n'
    )
    planned = json.loads(run("backfill", "plan", "job.toml", "--json").stdout)
    assert (planned["rows"], planned["sample"]["rows"]) == (360, 360)
    done = run("backfill", "start", "job.toml", "--json")
    assert (done.returncode, checked(done)["chunks_done"]) == (0, 1), done.stderr
    done = run("backfill", "check", "--last", "1 s", "--json")
    assert (done.returncode, checked(done)["chunks_done"]) == (0, 0), done.stderr
    assert "nothing is stored of what was asked for" in run("backfill", "show", "2").stdout
    done = run("backfill", "check", "--subject", "T22")
    assert (done.returncode, "did you mean 'T2'?" in done.stderr) == (1, True), done.stderr


def test_a_description_that_is_not_in_force_is_compared_and_not_applied(
    plant: Plant, run: Run, tmp_path: Path
) -> None:
    before = plant.derived()
    text = DATASET.replace('input = "good"', 'input = "good * 2"') + IN_PROCESS
    (tmp_path / "disarray.toml").write_text(text)
    done = run("backfill", "check", "--dataset", "tools", "--json")
    assert done.returncode == 1
    assert "the definition of disarray.toml is not in force" in done.stderr
    assert {each["name"] for each in checked(done)["findings"]} == {"good_total"}
    done = run("backfill", "apply", str(checked(done)["job_id"]))
    assert done.returncode != 0
    assert "disarray rebuild --dataset tools" in done.stderr
    assert plant.derived() == before
    assert plant.rows("select kind from disarray.ingest_queue") == []


def test_files_that_are_gone_prove_nothing_unless_that_is_allowed(plant: Plant, run: Run) -> None:
    (plant.inbox / "T1/5.csv").unlink()
    done = run("backfill", "check", "--json")
    assert (done.returncode, checked(done)["verdict"]) == (1, "changed")
    assert [each["kind"] for each in checked(done)["findings"]] == ["unproven"]
    assert run("backfill", "check", "--allow-vanished").returncode == 0


def test_a_check_whose_time_is_up_is_paused_and_can_be_resumed(plant: Plant, run: Run) -> None:
    done = run("backfill", "check", "--budget", "0 s", "--json")
    assert (done.returncode, checked(done)["state"]) == (1, "paused")
    done = run("backfill", "resume", str(checked(done)["job_id"]), "--json")
    assert (done.returncode, checked(done)["verdict"]) == (0, "verified"), done.stderr


@pytest.mark.parametrize("point", REPLAYS)
def test_a_killed_replay_goes_on_and_changes_nothing(
    plant: Plant, run: Run, tmp_path: Path, point: str
) -> None:
    damage_base(plant)
    before = plant.derived()
    done = run("backfill", "check", "--json", armed=f"{point}[T2]=kill")
    assert done.returncode == -signal.SIGKILL
    assert f"{point} kill" in (tmp_path / "failpoints.log").read_text()
    with plant.pool.connection() as connection:
        [job] = backfills.list_backfills(connection)
    done = run("backfill", "resume", str(job.job_id), "--json")
    found = checked(done)
    assert (found["verdict"], found["chunks_done"], found["rows_written"]) == ("failed", 2, 1)
    assert len(found["findings"]) == 1
    assert plant.derived() == before


def test_taking_over_is_one_transaction_for_each_subject_and_goes_on_after_a_kill(
    plant: Plant, run: Run, tmp_path: Path
) -> None:
    before = plant.derived()
    damage_base(plant)
    damage_rollup(plant)
    apply = ("backfill", "apply", str(checked(run("backfill", "check", "--json"))["job_id"]), "--by", "ada")
    queued = "select subject_key from disarray.ingest_queue order by 1"

    assert run(*apply, armed=f"{APPLIED}[T1]=kill").returncode == -signal.SIGKILL
    assert f"{APPLIED} kill" in (tmp_path / "failpoints.log").read_text()
    assert plant.rows(queued) == [("T1",)]
    plant.drain()

    for rehearsal in (("--dry-run",), ()):
        done = run(*apply, *rehearsal, "--json")
        found = json.loads(done.stdout)
        assert (found["files"], found["subjects_before"]) == (1, 1), done.stderr
        assert plant.rows(queued) == ([] if rehearsal else [("T2",)])
    plant.drain()
    assert plant.derived() == before
    assert "Taken over before: 2 subjects" in run(*apply).stdout
    assert plant.rows(queued) == []
