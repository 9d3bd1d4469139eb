"""The independent recompute: identical where all is well, and it finds a single bit that is not."""

from __future__ import annotations

import math
import random
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import blacklist, verification
from disarray.control.verification_runs import find_open_verification, verification_state
from disarray.engine.runner import InProcessRunner
from disarray.engine.verification import progress, ranges, recompute
from disarray.engine.verification import verify as verify_module
from disarray.engine.verification.progress import Progress
from disarray.engine.verification.record import VerificationRecord
from disarray.engine.verification.selection import Selection
from disarray.engine.verification.tables import table_differences
from disarray.engine.verification.verify import verify
from disarray.queries.verifications import show_verification
from tests.engine.verification_world import DESCRIPTION, report
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.engine.runner import Runner
    from disarray.engine.verification.comparison import Difference
    from disarray.engine.verification.verification_report import VerificationReport

pytestmark = pytest.mark.postgres

IN_TABLE = 'store = "timescale"'


class VerifiedPlant(Plant):
    """A plant that can be verified."""

    def verify(
        self, subject_key: str | None = None, runner: Runner | None = None, **options: Any
    ) -> VerificationReport:
        """Recompute everything, or one subject."""
        with self.pool.connection() as connection:
            return verify(
                connection,
                runner or InProcessRunner(),
                self.datasets,
                lake=self.place.lake,
                subject_key=subject_key,
                **options,
            )

    def fill(self, seed: int) -> None:
        """Two tools, a late file, a copy, overlaps, a file that grew, and one that was blacklisted."""
        source = random.Random(seed)
        text = report(source, hour=0, rows=160)
        early, grown = self.write("T1/a.csv", text), self.write("T1/grown.csv", "")
        self.ingest(early, self.write("T2/a.csv", report(source, hour=1, rows=90)))
        long = report(source, hour=2, rows=200)
        for end in (900, 5000, len(long)):
            grown.write_text(long[:end])
            self.ingest(grown)
        refused = self.write("T1/refused.csv", report(source, hour=0, rows=50, step=13))
        self.ingest(refused, self.write("T1/late.csv", report(source, hour=0.7, rows=60, step=31)))
        self.ingest(self.write("T1/copy.csv", text), self.write("T1/part.csv", text[: len(text) // 2]))
        with self.pool.connection() as connection:
            blacklist.blacklist_file(connection, str(refused), "T1", reason="wrong tool", by="ada")
        self.drain()

    def damage(self, statement: str) -> None:
        """Change what is stored behind everybody's back."""
        with self.pool.connection() as connection:
            assert connection.execute(statement.encode()).rowcount == 1


@pytest.fixture
def key() -> str:
    """How the dataset tells readings apart."""
    return ""


@pytest.fixture
def plant(tmp_path: Path, dsn: str, key: str) -> Iterator[VerifiedPlant]:
    """A plant whose dataset has every kind of metric and aggregate."""
    built = VerifiedPlant(tmp_path, dsn, description=DESCRIPTION % {"key": key})
    yield built
    built.pool.close()


@pytest.mark.parametrize(
    "key", ["", 'key = ["shot"]', 'key = "none"', IN_TABLE], ids=["content", "columns", "none", "in a table"]
)
def test_a_plant_with_late_copied_grown_and_refused_files_is_identical(plant: VerifiedPlant) -> None:
    plant.fill(seed=1)
    found = plant.verify()
    assert found.differences == []
    assert found.is_identical()
    assert found.files == 6
    assert found.bases > 100
    assert found.rollup_parts > 100


@pytest.mark.spark
def test_a_history_of_many_ranges_is_chained_and_a_bit_in_any_of_them_is_found(
    plant: VerifiedPlant, spark_runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "RANGE_READINGS", 40)
    plant.fill(seed=6)
    found = plant.verify(runner=spark_runner)
    assert found.differences == []
    assert found.is_identical()
    [(last_us,)] = plant.rows("select max(segment_us) from disarray.segment where subject_key = 'T1'")
    plant.rows(
        f"""
        update disarray.segment_summary set base_float = base_float + 1, before_float = before_float + 1
        where subject_key = 'T1' and segment_us = {last_us} and base_float is not null returning 1
        """
    )
    kinds = {each.what for each in plant.verify().differences}
    assert kinds == {"metric base_float", "metric before_float", "metric over the whole history"}


def test_a_sample_believes_what_it_leaves_out_and_checks_every_base_all_the_same(
    plant: VerifiedPlant,
) -> None:
    plant.fill(seed=7)
    [(segment_us, length_us)] = plant.rows(
        """
        select segment_us, segment_end_us - segment_us from disarray.segment
        where subject_key = 'T1' order by segment_us offset 2 limit 1
        """
    )
    assert isinstance(segment_us, int)
    assert isinstance(length_us, int)
    since = Selection(since_us=segment_us)
    seed = next(
        str(number)
        for number in range(1000)
        if not Selection(share=0.5, seed=str(number)).takes("T1", segment_us, length_us=length_us)
    )
    whole, later, some = (
        plant.verify(selection=each) for each in (Selection(), since, Selection(share=0.5, seed=seed))
    )
    for found in (later, some):
        assert found.is_identical(), found.differences
        assert 0 < found.readings < whole.readings
        assert found.bases == whole.bases
    earlier_us = segment_us - 2 * length_us
    plant.damage(
        "update disarray.segment set digest = reverse(digest) "
        f"where subject_key = 'T1' and segment_us = {earlier_us}"
    )
    assert plant.verify(selection=since).is_identical()
    plant.damage(
        "update disarray.segment_summary set base_int = base_int + 1 where subject_key = 'T1' "
        f"and metric = 'readings' and channel = 'L' and piece = 0 and segment_us = {segment_us - length_us}"
    )
    [base] = plant.verify(selection=since).differences
    assert (base.what, base.segment_us) == ("metric base_int", segment_us - length_us)


def test_a_run_that_was_broken_off_goes_on_and_a_budget_goes_around_all_subjects(
    plant: VerifiedPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "SUBJECTS_AT_ONCE", 1)
    source = random.Random(8)
    tools = [f"T{number}" for number in range(1, 5)]
    plant.ingest(*(plant.write(f"{tool}/a.csv", report(source, hour=0, rows=40)) for tool in tools))
    plant.damage(
        """
        update disarray.segment set digest = reverse(digest)
        where (subject_key, segment_us) = (select 'T1', min(segment_us) from disarray.segment where subject_key = 'T1')
        """
    )
    first = VerificationRecord(uuid.uuid4(), {})
    with pytest.raises(InterruptedError):
        plant.verify(record=first, on_step=Interruption(after="subjects 3 to 3"))
    noted = "select subject_key, verdict from disarray.subject_verification order by verified_at"
    assert [subject for subject, _ in plant.rows(noted)] == tools[:2]
    with plant.pool.connection() as connection:
        open_run = find_open_verification(connection)
    assert open_run is not None
    again = VerificationRecord(open_run.verification_id, {}, is_resumed=True)
    found = plant.verify(record=again)
    assert (found.verified_before, found.subjects, found.subjects_left) == (2, 2, 0)
    # What it found before it was broken off counts.
    assert found.verdicts_before == {"different": 1}
    assert not found.is_identical()
    assert sorted(map(repr, plant.rows(noted))) == [
        "('T1', 'different')",
        *(repr((tool, "identical")) for tool in tools[1:]),
    ]
    with plant.pool.connection() as connection:
        assert find_open_verification(connection) is None
        assert verification_state(connection).different_keys == ["T1"]
    # What is left out may be what differs: only a whole run takes that back.
    some = VerificationRecord(uuid.uuid4(), {"since": "2100-01-01"})
    assert plant.verify("T1", record=some, selection=Selection(since_us=1 << 52)).is_identical()
    with plant.pool.connection() as connection:
        assert verification_state(connection).different_keys == ["T1"]
    # No time at all is enough for one page, and the next run begins where this one ended.
    seen = [
        plant.verify(record=VerificationRecord(uuid.uuid4(), {}), budget_seconds=0.0).subjects_left
        for _ in tools
    ]
    assert seen == [3, 3, 3, 3]
    assert len(plant.rows("select distinct verification_id from disarray.subject_verification")) == 4
    # However few readings of a subject are recomputed, a budget goes by the subjects that were done in this time.
    monkeypatch.setattr(Progress, "seconds", 1.0)
    segments = plant.rows("select subject_key, segment_us, readings < 10 from disarray.segment")
    few = next(
        each
        for each in (Selection(share=0.5, seed=str(number)) for number in range(5000))
        if all(each.takes(str(key), int(str(at)), length_us=1) == is_small for key, at, is_small in segments)
    )
    found = plant.verify(selection=few, budget_seconds=2.5)
    assert (found.readings, found.subjects_left) == (7, 0)


def test_a_subject_of_which_only_a_part_was_ever_recomputed_is_told_apart(
    plant: VerifiedPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(8)
    plant.ingest(
        *(plant.write(f"{tool}/a.csv", report(source, hour=0, rows=40)) for tool in ("T1", "T2", "T3"))
    )

    def told() -> tuple[int, int]:
        with plant.pool.connection() as connection:
            state = show_verification(connection)
        return state.subjects_identical, state.subjects_identical_in_part

    def sampled(subject_key: str | None = None) -> VerificationReport:
        asked = VerificationRecord(uuid.uuid4(), {"sample": 0.5})
        return plant.verify(subject_key, record=asked, selection=Selection(share=0.5, seed="1"))

    assert sampled().is_identical()
    assert told() == (0, 3)
    plant.verify("T1", record=VerificationRecord(uuid.uuid4(), {}))
    assert told() == (1, 2)
    # What was verified whole stays so, and is not taken for verified whole once more.
    [(before,)] = plant.rows(
        "select wholly_verified_at from disarray.subject_verification where subject_key = 'T1'"
    )
    sampled()
    assert told() == (1, 2)
    assert plant.rows(
        "select min(wholly_verified_at), count(wholly_verified_at) from disarray.subject_verification"
    ) == [(before, 1)]
    # And those of which a part alone was verified come first where all is asked for.
    monkeypatch.setattr(verify_module, "SUBJECTS_AT_ONCE", 1)
    some = plant.verify(record=VerificationRecord(uuid.uuid4(), {}), budget_seconds=0.0)
    assert (some.subjects, told()) == (1, (2, 1))


def test_the_progress_of_a_sample_is_told_by_its_share(
    plant: VerifiedPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(verify_module, "SUBJECTS_AT_ONCE", 1)
    plant.ingest(*(plant.write(f"T{n}/a.csv", report(random.Random(n), hour=0, rows=300)) for n in range(4)))
    [(readings,)] = plant.rows("select sum(readings)::integer from disarray.segment")
    assert isinstance(readings, int)
    lines: list[str] = []
    plant.verify(selection=Selection(share=0.5, seed="1"), on_step=lines.append)
    told = [
        int(found[1].replace(",", "")) for line in lines if (found := re.search(r"of (\S+) readings", line))
    ]
    assert set(told) == {round(readings / 2)}


def test_many_differences_of_one_subject_hide_none_of_another(
    plant: VerifiedPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recompute, "MAX_LISTED", 2)
    source = random.Random(9)
    tools = ["T1", "T2", "T3"]
    plant.ingest(*(plant.write(f"{tool}/a.csv", report(source, hour=0, rows=60)) for tool in tools))
    plant.rows(
        "update disarray.segment_summary set base_int = base_int + 1 "
        "where base_int is not null and subject_key <> 'T3' returning 1"
    )
    plant.verify(record=VerificationRecord(uuid.uuid4(), {}))
    verdicts = plant.rows("select subject_key, verdict from disarray.subject_verification order by 1")
    assert verdicts == [("T1", "different"), ("T2", "different"), ("T3", "identical")]


class Interruption:
    """Ends a run at a step."""

    def __init__(self, *, after: str) -> None:
        self.after = after

    def __call__(self, step: str) -> None:
        if self.after in step:
            raise InterruptedError(step)


def test_where_every_file_belongs_is_derived(plant: VerifiedPlant) -> None:
    plant.redefine(DATASET)
    lines = "".join(f"2026-10-01T00:0{minute}:00Z,{minute},1\n" for minute in range(9))
    plant.ingest(*(plant.write(f"T{number}/a.csv", "time,watts,good\n" + lines) for number in (1, 2)))
    plant.redefine(DATASET.replace('name = "tools"', 'name = "presses"'))
    plant.drain()
    found = plant.verify()
    assert found.is_identical()
    assert found.files == 2
    for table in (
        *("file_info", "fragment", "segment", "segment_summary", "metric_block", "rollup_block"),
        "subject_version",
    ):
        with plant.pool.connection() as connection:
            statement = f"update disarray.{table} set subject_key = 'T3' where subject_key = 'T2'"
            connection.execute(statement.encode())
    [difference] = plant.verify("T3").differences
    assert difference.what == "file counts for"
    assert (difference.stored, difference.recomputed) == ("presses/T3", "presses/T2")


def test_whatever_is_changed_behind_everybodys_back_is_found_and_shown(plant: VerifiedPlant) -> None:
    plant.fill(seed=2)
    plant.damage(
        """
        update disarray.segment_summary set base_float = base_float + 1.5e-16 * abs(base_float)
        where (subject_key, metric, channel, segment_us) = (
            select subject_key, metric, channel, max(segment_us) from disarray.segment_summary
            where
                subject_key = 'T1' and metric = 'work' and channel = 'L'
                -- In the first block, whose base is 0, it is the whole base that differs.
                and block_us = (
                    select min(block_us) from disarray.segment_summary
                    where subject_key = 'T1' and metric = 'work' and channel = 'L'
                )
            group by 1, 2, 3
        )
        """
    )
    plant.damage(
        """
        update disarray.rollup_block as damaged set values_int[part.place] = damaged.values_int[part.place] + 1
        from (
            select block.ctid, place
            from disarray.rollup_block as block
            cross join generate_subscripts(block.values_int, 1) as place
            where
                subject_key = 'T1' and rollup = 'quarter' and values_int[place] is not null
                and aggregates[1 + (place - 1) * cardinality(aggregates) / cardinality(values_int)] = 'shots'
            limit 1
        ) as part
        where damaged.ctid = part.ctid
        """
    )
    plant.damage(
        """
        update disarray.segment set digest = reverse(digest)
        where (subject_key, segment_us) = (
            select 'T2', min(segment_us) from disarray.segment where subject_key = 'T2'
        )
        """
    )
    plant.damage(
        """
        delete from disarray.fragment where fragment_id = (
            select min(fragment_id) from disarray.fragment where source_uri like '%late.csv' and state = 'active'
        )
        """
    )
    plant.damage(
        """
        delete from disarray.segment_summary where (subject_key, metric, channel, segment_us, piece) = (
            select subject_key, metric, channel, segment_us, piece from disarray.segment_metric
            where subject_key = 'T2' and metric = 'lowest' order by segment_us, channel limit 1
        )
        """
    )
    plant.damage(
        """
        update disarray.segment_summary set reset_us = reset_us + 1
        where (metric, channel, segment_us, piece, subject_key) = (
            select metric, channel, segment_us, piece, subject_key from disarray.segment_metric
            where subject_key = 'T1' and metric = 'held_energy' and reset_us is not null limit 1
        )
        """
    )
    found = plant.verify()
    assert not found.is_identical(allow_vanished=True)
    shown = {(each.subject_key, each.what, each.name.rpartition("/")[2]) for each in found.differences}
    assert shown == {
        ("T1", "metric base_float", "work"),
        ("T1", "metric reset_us", "held_energy"),
        ("T1", "rollup value_int", "quarter.shots"),
        ("T2", "segment digest", ""),
        ("T1", "readings", "late.csv"),
        ("T2", "metric row", "lowest"),
    }
    [base] = [each for each in found.differences if each.what == "metric base_float"]
    assert isinstance(base.stored, float)
    assert isinstance(base.recomputed, float)
    assert base.stored == math.nextafter(base.recomputed, math.inf * base.recomputed)


def test_summaries_from_before_first_resets_were_kept_are_identical(plant: VerifiedPlant) -> None:
    plant.fill(seed=2)
    assert plant.rows(
        "update disarray.segment_summary set reset_us = null where reset_us is not null returning 1"
    )
    assert plant.verify().is_identical()


def test_sources_that_are_gone_changed_or_replaced_are_named_and_prove_nothing(plant: VerifiedPlant) -> None:
    source = random.Random(3)
    names = ("gone", "changed", "grown", "replaced")
    paths = {
        name: plant.write(f"T1/{name}.csv", report(source, hour=number, rows=40))
        for number, name in enumerate(names)
    }
    plant.ingest(*paths.values())
    paths["replaced"].write_text(report(source, hour=20, rows=40))
    plant.ingest(paths["replaced"])
    paths["gone"].unlink()
    paths["changed"].write_text(paths["changed"].read_text().replace("true", "TRUE", 1))
    paths["grown"].write_text(paths["grown"].read_text() + "more")
    found = plant.verify()
    assert found.differences == []
    assert {each.source_uri.rpartition("/")[2]: each.reason.partition(";")[0] for each in found.unproven} == {
        "gone.csv": "the source is gone",
        "changed.csv": "the source changed since it was taken in",
        "replaced.csv": "replaced by a later generation of the file",
    }
    assert not found.is_identical()
    assert found.is_identical(allow_vanished=True)


@pytest.mark.parametrize("key", ['horizon = "3 h"'], ids=["horizon"])
def test_parked_contributions_count_for_nothing_and_numbers_that_wait_for_a_shift_are_not_final(
    plant: VerifiedPlant,
) -> None:
    source = random.Random(4)
    plant.ingest(plant.write("T1/new.csv", report(source, hour=9, rows=60)))
    plant.ingest(plant.write("T1/old.csv", report(source, hour=5.5, rows=200)))
    assert plant.rows("select state::text, count(*) > 0 from disarray.fragment group by 1 order by 1") == [
        ("active", True),
        ("parked", True),
    ]
    plant.damage(
        """
        insert into disarray.dirty_range (subject_key, dataset, range_start, range_end, reason, created_at)
        values ('T1', 'tools', '2025-10-26 07:30Z', 'infinity', 'test', now())
        """
    )
    plant.rows("update disarray.segment_summary set base_int = 77 where metric = 'readings' returning 1")
    found = plant.verify()
    assert [(each.subject_key, each.stale_from_us is None) for each in found.not_compared] == [("T1", False)]
    assert {each.what for each in found.differences} == {"metric base_int", "metric over the whole history"}
    before = plant.rows("select segment_us from disarray.segment where segment_end_us <= 1761463800000000")
    assert len(before) > 0
    assert {each.segment_us for each in found.differences} == {segment_us for (segment_us,) in before}


def test_sealed_segments_are_named_and_what_follows_from_them_is_verified(plant: VerifiedPlant) -> None:
    source = random.Random(5)
    plant.ingest(plant.write("T1/a.csv", report(source, hour=0, rows=120)))
    [(first_us,)] = plant.rows("select min(segment_us) from disarray.segment")
    plant.rows(f"update disarray.segment set sealed_at = now() where segment_us = {first_us} returning 1")
    plant.rows(
        "update disarray.fragment set state = 'sealed', dropped_at = now() "
        f"where segment_us = {first_us} returning 1"
    )
    found = plant.verify()
    assert found.is_identical(), found.differences
    assert [(each.subject_key, each.segments) for each in found.sealed] == [("T1", 1)]
    # Only what is right of the sealed segment can be off by itself, and is seen.
    [(later_us,)] = plant.rows(f"select min(segment_us) from disarray.segment where segment_us > {first_us}")
    plant.damage(
        "update disarray.segment_summary set base_int = base_int + 1 "
        f"where metric = 'readings' and channel = 'L' and piece = 0 and segment_us = {later_us}"
    )
    assert {each.what for each in plant.verify().differences} == {"metric base_int"}


def test_rows_of_a_table_are_compared_with_the_catalog(tmp_path: Path, dsn: str) -> None:
    plant = VerifiedPlant(tmp_path, dsn, description=DESCRIPTION % {"key": IN_TABLE})
    plant.fill(seed=5)
    assert differences_of_tables(plant) == []
    plant.damage(
        """
        update telemetry.tools set watts = watts + 1 where (subject_key, event_at, ordinal) = (
            select subject_key, event_at, ordinal from telemetry.tools where watts is not null order by 1, 2, 3 limit 1
        )
        """
    )
    plant.damage(
        """
        update telemetry.tools set _local_energy = _local_energy + 1 where (subject_key, event_at, ordinal) = (
            select subject_key, event_at, ordinal from telemetry.tools where _local_energy is not null
            order by 1 desc, 2 desc, 3 limit 1
        )
        """
    )
    assert differences_of_tables(plant) == [
        ("T1", "table readings"),
        ("T1", "table rows"),
        ("T2", "table rows"),
    ]
    plant.pool.close()


def differences_of_tables(plant: VerifiedPlant) -> list[tuple[str, str]]:
    found: list[Difference] = []
    with plant.pool.connection() as connection:
        for subject in ("T1", "T2"):
            rows = verification.load_subject(connection, subject).segments["tools"]
            found += table_differences(connection, plant.datasets["tools"], rows)
    return [(each.subject_key, each.what) for each in found]
