"""`disarray sink`: how far destinations have come, and what may be decided about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.control import destinations, instances
from tests.reading_lines import HEADER
from tests.sinks.destination_plant import DestinationPlant
from tests.sinks.test_destination_repairs import QUARTER, described, lines

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from disarray.control.connections import Connection

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def hourly(connection: Connection) -> Connection:
    """A destination into which nothing can be loaded."""
    destinations.register_destination(
        connection,
        "hourly",
        dataset="press",
        definition={"target": "plant.hourly in this database", "load": "upsert"},
        subject_patterns=["*"],
    )
    destinations.note_destination_error(
        connection, "hourly", "plant.hourly does not fit: column n is missing"
    )
    return connection


def done(run: Run, *arguments: str) -> str:
    ended = run("sink", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_destination_that_fails_says_why(run: Run, hourly: Connection) -> None:
    [listed] = json.loads(done(run, "list", "--json"))
    assert (listed["name"], listed["state"]) == ("hourly", "failing")
    shown = done(run, "show", "hourly")
    assert "hourly is failing: upsert into plant.hourly in this database." in shown
    assert "Nothing can be loaded: plant.hourly does not fit: column n is missing." in shown
    unknown = run("sink", "show", "hourli")
    assert unknown.returncode == 1
    assert "did you mean 'hourly'?" in unknown.stderr


def test_a_pause_is_written_down_and_ends_when_it_is_resumed(run: Run, hourly: Connection) -> None:
    done(run, "pause", "hourly", "--reason", "the warehouse moves", "--dry-run")
    assert json.loads(done(run, "list", "--json"))[0]["state"] == "failing"
    done(run, "pause", "hourly", "--reason", "the warehouse moves")
    assert "Paused: the warehouse moves." in done(run, "show", "hourly")
    holder = instances.register_instance(hourly, "Worker01")
    assert destinations.claim_destination(hourly, "hourly", holder, lease_seconds=60) is None
    done(run, "resume", "hourly")
    assert json.loads(done(run, "list", "--json"))[0]["state"] == "failing"
    events = hourly.execute(
        "select event_type::text from disarray.ingest_event where event_type::text like 'destination%' order by 1"
    ).fetchall()
    assert events == [("destination_paused",), ("destination_resumed",)]


def test_a_destination_that_is_forgotten_is_gone(run: Run, hourly: Connection) -> None:
    assert "hourly is forgotten" in done(run, "forget", "hourly")
    assert json.loads(done(run, "list", "--json")) == []
    assert run("sink", "republish", "hourly").returncode == 1


@pytest.mark.parametrize("name", ["same_upsert", "delta"])
def test_a_republish_tells_what_it_would_delete_and_refuses_much_of_it(
    run: Run, tmp_path: Path, dsn: str, name: str
) -> None:
    plant = DestinationPlant(tmp_path, dsn, description=described(name), target_dsn=dsn)
    for subject in "L1", "L2", "L3":
        plant.ingest(plant.write(f"{subject}/1.csv", HEADER + lines(1)))
    plant.load()
    told = done(run, "republish", name, "--dry-run")
    assert "The target has no subject that is not asked for." in told
    rows = len(plant.target_rows(plant.loaders[name].destination))
    plant.redefine(described(name, what=f'{QUARTER}\nsubjects = ["L1"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    told = done(run, "republish", name, "--dry-run")
    share = f"2 of 3 subjects with {rows // 3 * 2} of {rows} rows"
    assert f"The target has {share} that are not asked for: they are deleted." in told
    assert "Without --allow-deletes it is refused" in told
    counted = json.loads(done(run, "republish", name, "--dry-run", "--json"))["deletes"]
    assert counted == {"subjects": 2, "of_subjects": 3, "rows": rows // 3 * 2, "of_rows": rows}
    refused = run("sink", "republish", name)
    assert refused.returncode == 1
    assert f"has {share}" in refused.stderr
    assert "Nothing was deleted. If this database is empty, or was restored" in refused.stderr
    assert plant.load() == []  # and nothing was decided
    with plant.pool.connection() as connection:
        destinations.decide_destination(connection, name, "republished", reason="by REST", by="ada")
    assert plant.load() == []
    assert f"Held back: the target of {name} has {share}" in done(run, "show", name)
    told = run("status").stdout
    assert f"Destination {name} is held back" in told
    assert f"disarray sink republish {name} --allow-deletes" in told
    assert len(plant.target_rows(plant.loaders[name].destination)) == rows
    refused = run("sink", "republish", name, "--subject", "L1", "--allow-deletes")
    assert refused.returncode == 1
    assert "deletes are allowed for a destination, not for its subject 'L1' alone" in refused.stderr
    assert f"disarray sink republish {name} --allow-deletes allows them for all" in refused.stderr
    done(run, "republish", name, "--allow-deletes")
    plant.load()
    assert len(plant.target_rows(plant.loaders[name].destination)) == rows // 3
    plant.pool.close()


def test_what_cannot_be_counted_here_is_left_to_the_worker(run: Run, hourly: Connection) -> None:
    told = done(run, "republish", "hourly")
    assert "What it deletes cannot be counted here: " in told
    assert "A worker counts it before it deletes." in told
