"""Figures of commits: sums over periods, and classes of lateness."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import claim_ends, claims, commits, figures, files, instances
from disarray.control.commits import CommitFigures, SubjectCommit

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres


def commit(connection: Connection, counted: CommitFigures, *, instance_name: str = "Worker01") -> None:
    holder = instances.register_instance(connection, instance_name)
    files.enqueue_file(connection, f"file:///{uuid.uuid4()}", "TOOL01")
    [item] = claims.fetch_items(connection, holder)
    commits.commit_subject(
        connection,
        SubjectCommit(
            run_id=uuid.uuid4(),
            subject_key="TOOL01",
            fence=item.fence,
            completions={item.queue_id: {}},
            figures=counted,
        ),
        holder,
    )
    claim_ends.release_subject(connection, "TOOL01", holder)


def classes(connection: Connection, since: datetime | None = None) -> list[int]:
    return [each.files for each in figures.lateness_histogram(connection, since=since)]


def test_without_a_commit_every_figure_is_zero(connection: Connection) -> None:
    assert figures.sum_figures(connection).commits == 0
    assert figures.sum_figures(connection).repair_amplification is None
    assert classes(connection) == [0] * 9


def test_commits_of_all_instances_add_up_in_one_row_for_each_hour(connection: Connection) -> None:
    commit(connection, CommitFigures(files_read=2, readings_seen=10, readings_kept=9, readings_rejected=1))
    commit(connection, CommitFigures(files_read=1, late_readings=4, repair_readings=10))
    commit(connection, CommitFigures(files_read=3), instance_name="Worker02")
    told = figures.sum_figures(connection)
    assert (told.commits, told.files_read, told.readings_seen, told.readings_kept) == (3, 6, 10, 9)
    assert told.repair_amplification == 2.5
    rows = connection.execute(
        "select count(*), count(distinct instance_name) from disarray.figure"
    ).fetchone()
    assert rows is not None
    assert rows[1] == 2


def test_a_file_is_in_the_class_whose_bound_it_does_not_exceed(connection: Connection) -> None:
    commit(connection, CommitFigures(lateness=[0.0, 0.0, 0.5, 60.0, 60.5, 2_592_000.0, 2_592_001.0]))
    commit(connection, CommitFigures(lateness=[3600.0]))
    assert classes(connection) == [2, 2, 1, 1, 0, 0, 0, 1, 1]
    assert [each.bound_seconds for each in figures.lateness_histogram(connection)][-2:] == [2_592_000, None]
    assert figures.sum_figures(connection).lateness_seconds == pytest.approx(5_187_722.0)


def test_a_period_is_of_whole_hours(
    connection: Connection, advance_clock: Callable[[timedelta], None]
) -> None:
    commit(connection, CommitFigures(files_read=1, lateness=[0.0]))
    advance_clock(timedelta(hours=3))
    commit(connection, CommitFigures(files_read=10, lateness=[9.0]))
    since = datetime.now(UTC) + timedelta(hours=3)
    assert figures.sum_figures(connection, since=since).files_read == 10
    assert figures.sum_figures(connection, until=since - timedelta(hours=1)).files_read == 1
    assert sum(classes(connection, since)) == 1
    assert figures.sum_figures(connection).files_read == 11
