"""What is done by one session at a time is kept apart by rows, which nobody but our functions can lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import connections, events, housekeeping, instances
from disarray.control.claims import fetch_items

if TYPE_CHECKING:
    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

# The keys of advisory locks that stood for these things once; anybody can compute them.
FORMER_KEYS = (
    "hashtext('disarray.fetch_items'), hashtext('Worker01')",
    "hashtext('disarray.housekeeping')",
    "hashtext('disarray.provision_event_partitions')",
    "hashtext('disarray.dataset_store'), hashtext('tools')",
    "hashtextextended('disarray definition of tools', 0)",
)


def test_a_reader_with_advisory_locks_stops_nobody(connection: Connection, dsn: str) -> None:
    holder = instances.register_instance(connection, "Worker01")
    with connections.connect(dsn) as reader:
        reader.execute("set role disarray_reader")
        for key in FORMER_KEYS:
            reader.execute(f"select pg_advisory_lock({key})".encode())
        connection.execute("set lock_timeout = '2s'")
        assert fetch_items(connection, holder) == []
        with housekeeping.housekeeping_turn(connection) as is_ours:
            assert is_ours
        connection.execute("drop table if exists disarray.ingest_event_2099_01")
        events.provision_event_partitions(connection)
        for store in ("hold_store", "provision_readings"):
            text = (
                f"select disarray.{store}('tools', 'lake'{', null' if store == 'provision_readings' else ''})"
            )
            connection.execute(text.encode())


def test_no_function_takes_an_advisory_lock_that_a_worker_waits_for(connection: Connection) -> None:
    found = connection.execute(
        """
        select routine.proname
        from pg_proc as routine
        where routine.pronamespace = 'disarray'::regnamespace and routine.prosrc like '%advisory%'
        """
    ).fetchall()
    # This one is tried, not waited for, and its key has the secret of a caller in it.
    assert found == [("begin_request",)]


def test_a_turn_to_keep_house_ends_with_its_session(connection: Connection, dsn: str) -> None:
    with connections.connect(dsn) as other:
        with (
            housekeeping.housekeeping_turn(other) as is_theirs,
            housekeeping.housekeeping_turn(connection) as is_ours,
        ):
            assert (is_theirs, is_ours) == (True, False)
        with housekeeping.housekeeping_turn(connection) as is_ours:
            assert is_ours
        other.execute("select disarray.begin_housekeeping()")
    connection.execute("select pg_stat_clear_snapshot()")
    for _ in range(100):
        if connection.execute("select disarray.begin_housekeeping()").fetchone() == (True,):
            return
        connection.execute("select pg_sleep(0.1)")
    pytest.fail("the turn of a session that is gone was never free")


def test_a_gate_is_shared_by_those_who_share_it_and_closed_to_others(
    connection: Connection, dsn: str
) -> None:
    with connections.connect(dsn) as other, connection.transaction():
        connection.execute("select disarray.enter_gate('a thing', true)")
        # The first who enters makes the row; from then on it is shared.
        other.execute("set lock_timeout = '200ms'")
        with pytest.raises(Exception, match="lock timeout"):
            other.execute("select disarray.enter_gate('a thing')")
    with connections.connect(dsn) as other, connection.transaction():
        connection.execute("select disarray.enter_gate('a thing', true)")
        other.execute("set lock_timeout = '200ms'")
        other.execute("select disarray.enter_gate('a thing', true)")
        with pytest.raises(Exception, match="lock timeout"):
            other.execute("select disarray.enter_gate('a thing')")
    connection.execute("select disarray.enter_gate('a thing')")
