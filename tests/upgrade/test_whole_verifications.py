"""Of verdicts from before it was written down, only those of runs that left nothing out are of whole subjects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.upgrade.former import database_before, migration_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

pytestmark = pytest.mark.postgres

MIGRATION = migration_named("first_resets_and_whole_verifications")


@pytest.fixture
def former(server_dsn: str, template_database: str) -> Iterator[psycopg.Connection]:
    """The tables of before."""
    assert template_database, "the roles of the server are there"
    with database_before(MIGRATION, server_dsn) as connection:
        yield connection


def test_a_verdict_of_a_run_that_left_something_out_or_is_forgotten_is_one_of_a_part(
    former: psycopg.Connection,
) -> None:
    former.execute(
        """
        insert into disarray.verification
        select run.id::uuid, run.selection::jsonb, now(), now(), 1, 1
        from (values
            ('00000000-0000-0000-0000-000000000001', '{"budget_seconds": 600}'),
            ('00000000-0000-0000-0000-000000000002', '{"sample": 0.01}'),
            ('00000000-0000-0000-0000-000000000003', '{"dataset": "tools"}')
        ) as run (id, selection)
        """
    )
    former.execute(
        """
        insert into disarray.subject_verification
        select
            'T' || run, ('00000000-0000-0000-0000-00000000000' || run)::uuid, '2026-01-01Z',
            case when run = 3 then 'different' else 'identical' end, 5, case when run = 3 then 1 else 0 end, '[]'
        from generate_series(1, 4) as run
        """
    )
    former.execute(MIGRATION.text.encode())
    rows = former.execute(
        "select subject_key, verdict, wholly_verified_at = verified_at from disarray.subject_verification order by 1"
    ).fetchall()
    assert rows == [
        ("T1", "identical", True),
        ("T2", "identical_in_part", None),
        ("T3", "different", None),
        ("T4", "identical_in_part", None),
    ]
