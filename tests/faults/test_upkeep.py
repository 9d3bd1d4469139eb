"""Housekeeping, rebuilds and copies between stores are broken off at every step: no number is ever wrong for it."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.arrivals import differences, stored
from tests.faults.deliveries import DESCRIPTION
from tests.faults.prepared import PreparedSite
from tests.faults.watcher import Watcher
from tests.reading_lines import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.faults.site import Site
    from tests.oracle import Table

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

# Files are merged as soon as a segment has two fragments; of the lake's dataset the older half is not kept.
EAGER = '[housekeeping]\ncold_after = "0 s"\ncompact_fragments = "2"\n' + DESCRIPTION.replace(
    'key = "content"', 'key = "content"\nretain = "1 d"'
)
HOUSEKEEPING = (
    "housekeeping.queued",
    "seal.after",
    "compact.written",
    "compact.after_commit",
    "vacuum.doomed",
    "vacuum.deleted",
    "sweep.deleted",
)
REBUILD = ("rebuild.due", "read.written", "scan.after", "commit.stated", "commit.after_commit")
COPY = (
    "copy.store_changed",
    "copy.queued",
    "commit.rows_cleared",
    "commit.rows_copied",
    "commit.before_commit",
    "commit.after_commit",
)


LIVES = pytest.mark.parametrize("lives", [1, pytest.param(2, marks=pytest.mark.long)], ids=["once", "twice"])


def leave_untidy(site: Site) -> None:
    """Segments in many fragments, segments to seal, dead files to delete, and orphans."""
    site.deliveries.deliver_history()
    site.deliveries.deliver_batch()
    text = HEADER
    for _ in range(4):
        text += site.deliveries.lines(around=600, days=2)
        site.deliveries.write("content/L1/9.csv", text)
        site.deliveries.notify("content/L1/9.csv")
        site.plant.drain()
    site.deliveries.note_versions()
    # What the batch replaced is dead for longer than anybody may still read it.
    site.advance(timedelta(days=2))
    for number in range(3):
        orphan = site.root / "lake" / "content" / "ab" / f"ab{'0' * 30}-{number:05d}.parquet"
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_bytes(b"never finished")
        long_ago = time.time() - timedelta(days=3).total_seconds()
        os.utime(orphan, (long_ago, long_ago))


@pytest.fixture(scope="module")
def untidy_site(
    tmp_path_factory: pytest.TempPathFactory, server_dsn: str, template_database: str
) -> Iterator[PreparedSite]:
    """The plant that is brought into this state once."""
    prepared = PreparedSite(
        tmp_path_factory.mktemp("untidy"),
        server_dsn,
        template_database,
        description=EAGER,
        bring_about=leave_untidy,
    )
    yield prepared
    prepared.remove()


@pytest.fixture
def untidy(untidy_site: PreparedSite, tmp_path: Path) -> Iterator[Site]:
    """A plant that has been waiting for housekeeping."""
    with untidy_site.copy(tmp_path / "site") as copied:
        yield copied


@LIVES
@pytest.mark.parametrize("point", HOUSEKEEPING)
def test_housekeeping_broken_off_anywhere_changes_no_number_and_is_finished_by_the_next(
    untidy: Site, point: str, lives: int
) -> None:
    before = stored(untidy.plant)
    with Watcher(untidy.dsn, untidy.deliveries) as watcher:
        life = untidy.start("housekeeping", armed=f"{point}=kill")
        assert (life.await_end(), life.strikes[-1:]) == (-signal.SIGKILL, [(point, "kill")]), life.log
        for _ in range(1, lives):
            # Again; what is done stays done, so that the point may not come.
            untidy.start("housekeeping", armed=f"{point}=kill").await_end()
        done = untidy.start("housekeeping")
        assert done.await_end() == 0, done.log
        untidy.advance(timedelta(minutes=10))  # the lease of what the dead one held
        untidy.heal()
    assert differences(stored(untidy.plant), before) == []
    assert watcher.problems() == []
    assert (
        untidy.plant.rows(
            """
            select source_uri, segment_us from disarray.fragment where state = 'active'
            group by dataset, subject_key, 1, 2 having count(*) > 1
            """
        )
        == []
    )
    assert untidy.plant.rows("select 1 from disarray.segment where sealed_at is not null")
    assert untidy.problems() == []


def redefined(site: Site) -> str:
    """The description with another key in one dataset and other parsing in the other."""
    changed = DESCRIPTION.replace('key = "content"', 'key = ["part", "sensor"]').replace(
        'segment = "3 h"', 'segment = "4 h"'
    )
    settings, _, _ = (site.root / "disarray.toml").read_text().partition("[[dataset]]")
    return settings + changed.lstrip()


@LIVES
@pytest.mark.parametrize("point", REBUILD)
def test_a_rebuild_broken_off_anywhere_serves_the_old_numbers_until_the_new_are_whole(
    site: Site, point: str, lives: int
) -> None:
    before = by_subject(stored(site.plant))
    with Watcher(site.dsn, site.deliveries) as watcher:
        site.plant.redefine(redefined(site))
        for _ in range(lives):
            life = site.live_until_struck(f"{point}=kill")
            assert (life.code, life.strikes) == (-signal.SIGKILL, [(point, "kill")]), life.log
        site.heal()
    for source in site.deliveries.sources.values():
        source.dataset = site.plant.datasets[source.dataset.name]
    assert site.problems() == []
    after = by_subject(stored(site.plant))
    assert before != after
    for sight in watcher.sights:
        for place, numbers in by_subject(sight.tables).items():
            assert numbers in (before[place], after[place]), f"{place} was seen between two definitions"


def by_subject(tables: Mapping[str, Table]) -> dict[tuple[object, ...], set[str]]:
    """The rows of each dataset and subject."""
    found: defaultdict[tuple[object, ...], set[str]] = defaultdict(set)
    for table, rows in tables.items():
        for key, row in rows.items():
            found[key[:2]].add(f"{table} {row!r}")
    return dict(found)


@pytest.mark.parametrize("point", COPY)
def test_a_copy_between_stores_broken_off_anywhere_goes_on_where_it_ended(site: Site, point: str) -> None:
    site.deliveries.write("content/L2/5.csv", HEADER + site.deliveries.lines(around=300))
    site.deliveries.notify("content/L2/5.csv")
    site.plant.drain()
    site.deliveries.note_versions()
    copy = ("store", "copy", "content", "--to", "timescale")
    with Watcher(site.dsn, site.deliveries) as watcher:
        life = site.start(*copy, armed=f"{point}=kill")
        assert (life.await_end(), life.strikes) == (-signal.SIGKILL, [(point, "kill")]), life.log
        again = site.start(*copy)
        assert again.await_end() == 0, again.log
    moved = (site.root / "disarray.toml").read_text()
    moved = moved.replace(
        '[[dataset]]\nname = "content"', '[[dataset]]\nstore = "timescale"\nname = "content"'
    )
    site.plant.redefine(moved)
    assert watcher.problems() == []
    assert site.problems() == []
    assert len(site.plant.tables()) == 2
