"""Large loads in pieces: the target is the same as after one transaction, whoever dies or comes too late."""

from __future__ import annotations

import pickle
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from disarray.control import instances
from disarray.control.destinations import decide_destination
from disarray.errors import DestinationUnavailableError
from disarray.sinks import destination_pieces
from disarray.sinks.destination_pieces import load_piece
from tests.reading_lines import HEADER
from tests.sinks.destination_history import LINE
from tests.sinks.destination_plant import URL, DestinationPlant
from tests.sinks.loading_process import CUT_READINGS
from tests.sinks.test_destination_faults import OTHER, load_once
from tests.worker.deliveries import deliveries, remove_and_allow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from disarray.sinks.destination_pieces import Piece, PieceOutcome

LOADS = ("upsert", "append", "replace")
POINTS = ("destination.begun", "destination.pieced")


def described(*loads: str) -> str:
    return LINE + "".join(
        f'[[destination]]\nname = "{load}"\nreadings = "line"\n{OTHER.format(name=load, load=load)}\n'
        for load in loads or LOADS
    )


@pytest.fixture
def build(
    tmp_path: Path, dsn: str, target_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., DestinationPlant]]:
    built: list[DestinationPlant] = []
    monkeypatch.setattr(destination_pieces, "PIECE_READINGS", 5)

    def make(*loads: str) -> DestinationPlant:
        plant = DestinationPlant(tmp_path, dsn, description=described(*loads), target_dsn=target_dsn)
        plant.loaders = plant.make_loaders(cut_readings=1)
        built.append(plant)
        return plant

    yield make
    for plant in built:
        plant.pool.close()


class Tasks:
    """Runs tasks here; something may happen before one of them, or it is run twice, or by nobody."""

    cores = 2

    def __init__(self, before: Callable[[Piece], object] = lambda _: None) -> None:
        self.before = before
        self.seen: list[Piece] = []

    def beside(self, pool: str) -> Tasks:
        return self

    def run(self, kernel: Callable[[Piece], PieceOutcome], tasks: Sequence[Piece]) -> list[PieceOutcome]:
        found = []
        for task in tasks:
            self.before(task)
            self.seen.append(task)
            found.append(kernel(task))
        return found


def test_pieces_give_what_one_transaction_gives(build: Callable[..., DestinationPlant]) -> None:
    plant = build()
    tasks = Tasks(before=load_piece)  # every piece twice: of two tasks one was believed to be lost
    plant.loaders = plant.make_loaders(cut_readings=1, runner=tasks)  # type: ignore[arg-type]
    for each in deliveries(4):
        path = plant.write(each.name, each.text)
        plant.ingest(path)
        plant.load()
        assert plant.differences() == {}
    remove_and_allow(plant, path)
    plant.load()
    assert plant.differences() == {}
    assert max(task.number for task in tasks.seen) > 2
    # Spark writes what travels to its tasks into files.
    assert plant.target_dsn.encode() not in pickle.dumps(tasks.seen)
    assert "postgresql" not in repr(tasks.seen)
    assert "dbname" not in repr(tasks.seen)


@pytest.mark.parametrize(("point", "load"), list(zip(POINTS, ("upsert", "replace"), strict=True)))
def test_a_large_load_that_is_killed_is_loaded_whole_by_the_next_life(
    build: Callable[..., DestinationPlant], target_dsn: str, tmp_path: Path, point: str, load: str
) -> None:
    plant = build(load)
    first, *others = deliveries(4)
    plant.ingest(plant.write(first.name, first.text))
    plant.load()
    with psycopg.connect(target_dsn, autocommit=True) as target:
        # As after a load that this database knows nothing of.
        target.execute(f"update published.{load} set volts = -1".encode())
        target.execute("update published.disarray_position set fence = 1")
    with plant.pool.connection() as connection:
        # Who has to count what goes loads all in one transaction.
        decide_destination(connection, load, "republished", reason="a test", by="ada", allows_deletes=True)
    for each in others:
        plant.ingest(plant.write(each.name, each.text))
    log = tmp_path / "points.log"
    armed = {"DISARRAY_FAILPOINTS": f"{point}=kill", "DISARRAY_FAILPOINT_LOG": str(log), CUT_READINGS: "1"}
    assert load_once(plant, **armed) == -signal.SIGKILL
    assert f"{point} kill" in log.read_text()
    with plant.pool.connection() as connection:
        plant.place = replace(plant.place, holder=instances.register_instance(connection, "Loader"))
    plant.loaders = plant.make_loaders(cut_readings=1)
    assert any(report.is_whole for report in plant.load())
    assert plant.differences() == {}


def test_a_piece_whose_load_is_over_changes_nothing(
    build: Callable[..., DestinationPlant], target_dsn: str
) -> None:
    plant = build("replace")
    tasks = Tasks()
    plant.loaders = plant.make_loaders(cut_readings=1, runner=tasks)  # type: ignore[arg-type]
    first, *_ = deliveries(4)
    plant.ingest(plant.write(first.name, first.text))
    plant.load()
    with psycopg.connect(target_dsn, autocommit=True) as target:
        target.execute("update published.replace set volts = -1")
        for piece in tasks.seen:
            outcome = load_piece(piece)
            assert outcome.error == "TargetFencedError"
        assert target.execute("select bool_and(volts = -1) from published.replace").fetchone() == (True,)


def test_a_target_that_goes_away_between_two_pieces_is_caught_up_with(
    build: Callable[..., DestinationPlant], target_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build("upsert")

    def deny(piece: Piece) -> None:
        nowhere = "postgresql://nobody@127.0.0.1:1/nowhere"
        monkeypatch.setenv(URL, nowhere if piece.number == 1 else target_dsn)

    plant.loaders = plant.make_loaders(cut_readings=1, runner=Tasks(deny))  # type: ignore[arg-type]
    first, *_ = deliveries(3)
    plant.ingest(plant.write(first.name, first.text))
    with pytest.raises(DestinationUnavailableError, match="does not answer"):
        plant.load()
    with psycopg.connect(target_dsn) as target:
        assert target.execute("select fence < 0 from published.disarray_position").fetchone() == (True,)
    monkeypatch.setenv(URL, target_dsn)
    plant.loaders = plant.make_loaders(cut_readings=1)
    plant.load()
    assert plant.differences() == {}


def test_a_table_with_wider_types_is_loaded_through_a_staged_one(
    build: Callable[..., DestinationPlant], target_dsn: str
) -> None:
    plant = build("upsert")
    with psycopg.connect(target_dsn, autocommit=True) as target:
        target.execute("create schema published")
        # Binary COPY into a numeric would be refused at best, and into a float take the bits of a whole number for it.
        target.execute(
            "create table published.upsert (subject_key varchar, event_time timestamptz, channel text, "
            "ordinal numeric, sensor text, part numeric, work_order varchar(200), volts float8, commit_seq bigint, "
            "primary key (subject_key, channel, event_time, ordinal))"
        )
    plant.ingest(plant.write("L1/1.csv", HEADER + deliveries(3)[0].text.removeprefix(HEADER)))
    plant.load()
    assert plant.differences() == {}
