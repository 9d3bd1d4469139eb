"""What is stored, made once more by the code of the pipeline: identical where all is well; one wrong bit is named."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from disarray.control import blacklist
from disarray.engine.replay import subject_replay
from disarray.engine.replay.subject_replay import replay_subject
from disarray.engine.runner import InProcessRunner
from disarray.formats.loader import load_datasets
from disarray.model.replay_finding import FindingKind
from disarray.model.segments import FIRST_US, LAST_US
from tests.engine.verification_world import DESCRIPTION, report
from tests.plant import Plant
from tests.worker.split_plant import SPLIT, mixed, write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.engine.replay.subject_findings import SubjectReplayed
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
    from disarray.model.replay_finding import ReplayFinding


class ReplayedPlant(Plant):
    """A plant whose subjects can be replayed."""

    def fill(self, seed: int) -> None:
        """A late file, a copy, overlaps, a file that grew, and one that was blacklisted."""
        source = random.Random(seed)
        text = report(source, hour=0, rows=160)
        early, grown = self.write("T1/a.csv", text), self.write("T1/grown.csv", "")
        self.ingest(early)
        long = report(source, hour=2, rows=200)
        for end in (900, len(long)):
            grown.write_text(long[:end])
            self.ingest(grown)
        refused = self.write("T1/refused.csv", report(source, hour=0, rows=50, step=13))
        self.ingest(refused, self.write("T1/late.csv", report(source, hour=0.7, rows=60, step=31)))
        self.ingest(self.write("T1/copy.csv", text), self.write("T1/part.csv", text[: len(text) // 2]))
        with self.pool.connection() as connection:
            blacklist.blacklist_file(connection, str(refused), "T1", reason="wrong tool", by="ada")
        self.drain()

    def replay(
        self,
        *,
        runner: Runner | None = None,
        dataset: Dataset | None = None,
        from_us: int = FIRST_US,
        to_us: int = LAST_US,
    ) -> SubjectReplayed:
        """Replay T1."""
        with self.pool.connection() as connection:
            return replay_subject(
                connection,
                runner or InProcessRunner(),
                dataset or self.datasets["tools"],
                "T1",
                lake=self.place.lake,
                from_us=from_us,
                to_us=to_us,
            )

    def damage(self, statement: str) -> None:
        """Change what is stored behind everybody's back."""
        with self.pool.connection() as connection:
            assert connection.execute(statement.encode()).rowcount == 1

    def described(self, description: str) -> Dataset:
        """A description that nobody has put in force."""
        candidate = self.description.with_name("candidate.toml")
        candidate.write_text(description)
        [dataset] = load_datasets(candidate)
        return dataset


@pytest.fixture
def key() -> str:
    """How the dataset tells readings apart."""
    return ""


@pytest.fixture
def plant(tmp_path: Path, dsn: str, key: str) -> Iterator[ReplayedPlant]:
    """A plant whose dataset has every kind of metric and aggregate."""
    built = ReplayedPlant(tmp_path, dsn, description=DESCRIPTION % {"key": key})
    yield built
    built.pool.close()


def shown(found: SubjectReplayed, kind: FindingKind = FindingKind.DIFFERENT) -> list[ReplayFinding]:
    return [each for each in found.findings if each.kind is kind]


@pytest.mark.parametrize("key", ["", 'key = ["shot"]', 'key = "none"'], ids=["content", "columns", "none"])
def test_a_plant_with_late_copied_grown_and_refused_files_is_identical(plant: ReplayedPlant) -> None:
    plant.fill(seed=1)
    before = plant.derived()
    found = plant.replay()
    assert found.findings == []
    assert (found.differences, found.files) == (0, 5)
    assert found.bases > 100
    assert found.rollup_parts > 100
    assert plant.derived() == before


@pytest.mark.parametrize("slice_readings", [1, 5_000_000], ids=["by segment", "at once"])
def test_from_any_segment_on_it_is_identical(
    plant: ReplayedPlant, slice_readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.fill(seed=1)
    monkeypatch.setattr(subject_replay, "SLICE_READINGS", slice_readings)
    segments = [
        segment_us for (segment_us,) in plant.rows("select segment_us from disarray.segment order by 1")
    ]
    assert len(segments) > 4
    # A span that begins within a block is carried on from the block before it.
    for segment_us in segments:
        assert isinstance(segment_us, int)
        found = plant.replay(from_us=segment_us)
        assert found.findings == []
        assert found.bases > 0


def test_one_bit_of_a_base_is_found_and_named(plant: ReplayedPlant) -> None:
    plant.fill(seed=2)
    [(segment_us, base)] = plant.rows(
        "select segment_us, base_float from disarray.segment_metric where metric = 'work' and channel = 'L' "
        "order by segment_us desc limit 1"
    )
    assert isinstance(base, float)
    plant.damage(
        f"update disarray.segment_summary set base_float = {flipped(base)!r} "
        f"where metric = 'work' and channel = 'L' and segment_us = {segment_us}"
    )
    found = plant.replay()
    [difference] = shown(found)
    assert (difference.what, difference.name, difference.channel) == ("metric base_float", "work", "L")
    assert difference.segment_us == segment_us
    assert difference.replayed == f"{base!r} ({base.hex()})"
    assert found.differences == 1


@pytest.mark.parametrize("lost", ["min", "max"])
def test_a_segment_that_is_lost_at_an_end_of_the_history_is_found(plant: ReplayedPlant, lost: str) -> None:
    plant.fill(seed=2)
    [(segment_us,)] = plant.rows(f"select {lost}(segment_us) from disarray.segment")
    for table in ("segment", "segment_summary", "rollup_block", "fragment"):
        plant.rows(f"delete from disarray.{table} where segment_us = {segment_us} returning 1")
    found = plant.replay()
    assert ("segment row", segment_us) in {(each.what, each.segment_us) for each in shown(found)}


def test_numbers_of_a_segment_that_is_none_are_found(plant: ReplayedPlant) -> None:
    plant.fill(seed=2)
    plant.damage(
        """
        insert into disarray.segment_summary
        select phantom.*
        from disarray.segment_summary as last
        cross join jsonb_build_object('segment_us', last.segment_us + 360000000000) as later
        cross join jsonb_populate_record(last, later) as phantom
        where last.metric = 'work' and last.channel = 'L'
        order by last.segment_us desc, last.piece desc
        limit 1
        """
    )
    assert {each.what for each in shown(plant.replay())} == {"metric row"}


def test_one_bit_of_a_rollup_part_is_found_and_named(plant: ReplayedPlant) -> None:
    plant.fill(seed=3)
    plant.damage(
        """
        update disarray.rollup_block as damaged set values_int[part.place] = damaged.values_int[part.place] # 1
        from (
            select block.ctid, place
            from disarray.rollup_block as block
            cross join generate_subscripts(block.values_int, 1) as place
            where
                rollup = 'quarter' and values_int[place] is not null
                and aggregates[1 + (place - 1) * cardinality(aggregates) / cardinality(values_int)] = 'shots'
            limit 1
        ) as part
        where damaged.ctid = part.ctid
        """
    )
    [difference] = shown(plant.replay())
    assert (difference.what, difference.name) == ("rollup value_int", "quarter.shots")


def test_one_bit_of_a_fragment_is_found_and_named_and_the_numbers_are_not_blamed(
    plant: ReplayedPlant,
) -> None:
    plant.fill(seed=4)
    [(path, uri)] = plant.rows(
        "select path, source_uri from disarray.fragment where source_uri like '%late.csv' and state = 'active' limit 1"
    )
    file = plant.place.lake.root / str(path)
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    found = shown(plant.replay())
    assert {(each.what, each.name) for each in found} == {("fragment", uri)}


def test_a_reading_that_was_changed_in_the_lake_with_its_digest_is_found_by_its_column(
    plant: ReplayedPlant,
) -> None:
    plant.ingest(plant.write("T1/a.csv", report(random.Random(5), hour=0, rows=40)))
    [(path,)] = plant.rows("select distinct path from disarray.fragment")
    file = plant.place.lake.root / str(path)
    table = pq.read_table(file)
    watts = table.column("watts").to_pylist()
    place = next(number for number, value in enumerate(watts) if value)
    watts[place] = flipped(watts[place])
    changed = table.set_column(table.column_names.index("watts"), "watts", [watts])
    metadata = pq.read_metadata(file)
    with pq.ParquetWriter(file, table.schema) as writer:
        start = 0
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            writer.write_table(changed.slice(start, rows).cast(table.schema))
            start += rows
    with plant.pool.connection() as connection:
        connection.execute("update disarray.fragment set digest = null")
        connection.execute("delete from disarray.lake_file")
    [difference] = shown(plant.replay())
    assert (difference.what, difference.name.rpartition("/")[2]) == ("reading watts", "a.csv")


def test_a_wrong_first_reset_is_found_and_one_that_was_never_kept_is_none(plant: ReplayedPlant) -> None:
    plant.fill(seed=2)
    plant.damage(
        """
        update disarray.segment_summary set reset_us = reset_us + 1
        where (metric, channel, segment_us) = (
            select metric, channel, segment_us from disarray.segment_metric
            where metric = 'held_energy' and reset_us is not null limit 1
        ) and piece = 0
        """
    )
    assert [(each.what, each.name) for each in shown(plant.replay())] == [("metric reset_us", "held_energy")]
    plant.rows("update disarray.segment_summary set reset_us = null returning 1")
    assert plant.replay().findings == []


def test_a_definition_that_is_not_in_force_is_compared_with_what_is_stored(plant: ReplayedPlant) -> None:
    plant.fill(seed=6)
    before = plant.derived()
    text = DESCRIPTION % {"key": ""}
    found = plant.replay(dataset=plant.described(text.replace('input = "watts * 0.1 end"', "")))
    assert found.differences == 0
    candidate = plant.described(text.replace("then watts * 0.1 end", "then watts * 0.2 end"))
    found = plant.replay(dataset=candidate)
    assert {each.name for each in shown(found)} == {"work"}
    assert found.differences > len(shown(found)) // 2
    assert plant.derived() == before


def test_a_span_is_carried_on_from_the_bases_before_it(plant: ReplayedPlant) -> None:
    plant.fill(seed=7)
    segments = [us for (us,) in plant.rows("select segment_us from disarray.segment order by 1")]
    middle = segments[len(segments) // 2]
    assert isinstance(middle, int)
    found = plant.replay(from_us=middle)
    assert found.findings == []
    assert 0 < found.segments < len(segments)
    text = DESCRIPTION % {"key": ""}
    candidate = plant.described(text.replace("then watts * 0.1 end", "then watts * 0.2 end"))
    found = plant.replay(dataset=candidate, from_us=middle)
    assert [each.name for each in shown(found, FindingKind.NOT_COMPARED)] == ["work"]
    assert {each.what for each in shown(found)} == {
        *("metric first_float", "metric last_float", "metric total_float"),
    }


def test_sources_that_are_gone_are_named_and_what_is_kept_stands_in_for_them(plant: ReplayedPlant) -> None:
    plant.fill(seed=8)
    (plant.inbox / "T1/late.csv").unlink()
    (plant.inbox / "T1/copy.csv").write_text("something else")
    found = plant.replay()
    assert shown(found) == []
    assert sorted(each.name.rpartition("/")[2] for each in shown(found, FindingKind.UNPROVEN)) == [
        "copy.csv",
        "late.csv",
    ]


def test_kernels_of_a_replay_run_as_tasks_of_spark(plant: ReplayedPlant, spark_runner: Runner) -> None:
    plant.fill(seed=9)
    found = plant.replay(runner=spark_runner)
    assert (found.findings, found.differences) == ([], 0)
    assert found.readings > 300
    plant.damage(
        "update disarray.segment set digest = reverse(digest) where segment_us = "
        "(select min(segment_us) from disarray.segment)"
    )
    [difference] = shown(plant.replay(runner=spark_runner))
    assert difference.what == "segment digest"


def test_a_replay_that_is_overtaken_by_a_commit_begins_anew(plant: ReplayedPlant) -> None:
    source = random.Random(10)
    plant.ingest(plant.write("T1/a.csv", report(source, hour=0, rows=60)))
    late = plant.write("T1/late.csv", report(source, hour=0.5, rows=60))
    before = plant.replay().readings

    class Meddling(InProcessRunner):
        def run(self, kernel: Any, tasks: Any) -> list[Any]:
            results = super().run(kernel, tasks)
            if not plant.rows("select from disarray.fragment where source_uri like '%late.csv'"):
                plant.ingest(late)
            return results

    found = plant.replay(runner=Meddling())
    assert found.findings == []
    assert found.readings > before


def test_parts_of_a_file_about_several_subjects_are_replayed_from_their_file(plant: ReplayedPlant) -> None:
    plant.redefine(SPLIT)
    path = write_lines(plant, "all.csv", mixed(range(0, 200, 3), tools=("T1", "T2")))
    plant.notify_as(path, "all", dataset="tools")
    plant.drain()
    found = plant.replay()
    assert (found.findings, found.readings, found.files) == ([], 67, 1)


def test_what_a_file_said_before_it_was_replaced_stands_in_for_itself(plant: ReplayedPlant) -> None:
    source = random.Random(11)
    path = plant.write("T1/replaced.csv", report(source, hour=0, rows=40))
    plant.ingest(path, plant.write("T1/b.csv", report(source, hour=0, rows=40)))
    path.write_text(report(source, hour=20, rows=40))
    plant.ingest(path)
    found = plant.replay()
    assert shown(found) == []
    assert [each.name for each in shown(found, FindingKind.UNPROVEN)] == [str(path)]


def flipped(value: float) -> float:
    """The value with its last bit flipped."""
    [bits] = struct.unpack("<q", struct.pack("<d", value))
    found: float = struct.unpack("<d", struct.pack("<q", bits ^ 1))[0]
    return found
