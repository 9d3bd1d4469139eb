"""Who may decide: the database role says so, and never what is sent; every decision has a who and a why."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from disarray.control import blacklist, claim_ends, claims, events, files, instances, quarantine
from disarray.control.files import Notification, Reason
from disarray.errors import AccessDeniedError, ControlError, InvalidRequestError, StalePlanError
from disarray.model.notification import RESERVED_KEYS
from disarray.model.uris import file_uri, is_spelled_right

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

ROLES = ("disarray_agent", "disarray_producer", "disarray_worker", "disarray_operator", "disarray_reader")
ANNOUNCING = {"disarray_agent", "disarray_worker", "disarray_operator"}
ANNOUNCEMENTS = {Reason.FILE_NOTIFICATION, Reason.QUIET}
CELL = "file:///lab/cell.csv"


def may_enqueue(connection: Connection, reason: Reason, metadata: dict[str, Any] | None = None) -> bool:
    try:
        files.enqueue_file(connection, CELL, "CELL1", reason=reason, metadata=metadata or {})
    except (AccessDeniedError, InvalidRequestError):
        return False
    return True


@pytest.mark.parametrize("role", ROLES)
def test_announcing_is_all_that_anybody_may_ask_of_the_queue(
    connect_as: Callable[..., Connection], role: str
) -> None:
    session = connect_as(role)
    allowed = {reason for reason in Reason if may_enqueue(session, reason)}
    assert allowed == (ANNOUNCEMENTS if role in ANNOUNCING else set())


@pytest.mark.parametrize("role", sorted(ANNOUNCING))
def test_a_session_that_takes_on_a_role_may_no_more_than_the_role(connection: Connection, role: str) -> None:
    connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
    assert {reason for reason in Reason if may_enqueue(connection, reason)} == ANNOUNCEMENTS
    connection.execute("reset role")
    assert may_enqueue(connection, Reason.REMOVE)


@pytest.mark.parametrize("role", sorted(ANNOUNCING))
def test_keys_that_are_the_servers_are_refused_whoever_sends_them(
    connect_as: Callable[..., Connection], connection: Connection, role: str
) -> None:
    session = connect_as(role)
    believed = [
        key for key in sorted(RESERVED_KEYS) if may_enqueue(session, Reason.QUIET, {key: ["release"]})
    ]
    assert believed == []
    known = connection.execute("select disarray.reserved_keys()").fetchone()
    assert known is not None
    assert set(known[0]) == RESERVED_KEYS
    assert connection.execute("select count(*) from disarray.ingest_queue").fetchone() == (0,)


def test_one_reserved_key_in_a_batch_refuses_it_and_the_others_come_again(
    connect_as: Callable[..., Connection],
) -> None:
    agent = connect_as("disarray_agent")
    batch = [
        Notification("file:///a", "CELL1", metadata={"dataset": "cells"}),
        Notification("file:///b", "CELL1", metadata={"reasons": ["release"], "release": "readings"}),
    ]
    with pytest.raises(InvalidRequestError, match="'reasons': it is the server's"):
        files.enqueue_files(agent, batch)
    assert files.enqueue_files(agent, batch[:1])[0].queue_id is not None


DECISIONS: dict[str, Callable[[Connection], object]] = {
    "blacklist_file": lambda session: blacklist.blacklist_file(session, CELL, "CELL1", reason="x", by="eve"),
    "allow_file": lambda session: blacklist.allow_file(session, CELL, reason="x", by="eve"),
    "reingest_file": lambda session: files.reingest_file(session, CELL, reason="x", by="eve"),
    "release_file": lambda session: quarantine.release_file(session, CELL, reason="x", by="eve"),
    "reject_file": lambda session: quarantine.reject_file(session, CELL, reason="x", by="eve"),
}


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("role", sorted(set(ROLES) - {"disarray_operator"}))
def test_only_operators_decide(connect_as: Callable[..., Connection], role: str, decision: str) -> None:
    session = connect_as(role)
    with pytest.raises(AccessDeniedError):
        DECISIONS[decision](session)


def test_a_decision_keeps_the_role_that_the_database_vouches_for(
    connect_as: Callable[..., Connection], connection: Connection
) -> None:
    operator = connect_as("disarray_operator")
    role = operator.execute("select session_user").fetchone()
    assert role is not None
    files.enqueue_file(operator, CELL, "CELL1", metadata={"dataset": "cells"})
    DECISIONS["reingest_file"](operator)
    DECISIONS["blacklist_file"](operator)
    DECISIONS["allow_file"](operator)
    told = {
        event.event_type: event.metadata
        for event in events.list_file_events(connection, CELL)
        if "by" in event.metadata
    }
    assert {kind: (said["by"], said["reason"], said["role"]) for kind, said in told.items()} == dict.fromkeys(
        ["reingest_requested", "blacklisted", "allowed"], ("eve", "x", role[0])
    )


def test_a_worker_carries_decisions_out_and_makes_none(
    connect_as: Callable[..., Connection], connection: Connection
) -> None:
    """A commit that takes a file away for which nobody asked is refused, whatever the worker says."""
    worker = connect_as("disarray_worker")
    holder = instances.register_instance(worker, "Worker01")
    files.enqueue_file(worker, CELL, "CELL1", metadata={"dataset": "cells"})
    [item] = claims.fetch_items(worker, holder)
    for document in (
        f'{{"removed": ["{CELL}"]}}',
        f'{{"replaced": ["{CELL}"]}}',
    ):
        with pytest.raises(StalePlanError, match="nobody who may"):
            asked(connection, document, item.queue_id)
    blacklist.blacklist_file(connection, CELL, "CELL1", reason="x", by="eve")
    claim_ends.complete_item(worker, item.queue_id, holder)
    [removal] = claims.fetch_items(worker, holder)
    asked(connection, f'{{"removed": ["{CELL}"]}}', removal.queue_id)


def asked(connection: Connection, document: str, queue_id: int) -> None:
    from disarray.control.translation import translated_errors

    with translated_errors():
        connection.execute(
            "select disarray.assert_decided('CELL1', %s::json, %s::json)",
            (document, f'[{{"queue_id": {queue_id}}}]'),
        )


def test_a_worker_may_not_put_a_former_definition_in_force(connect_as: Callable[..., Connection]) -> None:
    worker = connect_as("disarray_worker")
    with pytest.raises(ControlError, match="may not put a former definition"):
        _define(worker, is_on_purpose=True)
    _define(worker, is_on_purpose=False)


def test_a_definition_that_is_put_in_force_has_a_who(
    connect_as: Callable[..., Connection], connection: Connection
) -> None:
    operator = connect_as("disarray_operator")
    _define(operator, is_on_purpose=True)
    role = operator.execute("select session_user").fetchone()
    told = connection.execute(
        """
        select metadata ->> 'dataset', metadata ->> 'role' from disarray.ingest_event
        where event_type = 'dataset_defined'
        """
    ).fetchall()
    assert role is not None
    assert told == [("cells", role[0])]


def _define(session: Connection, *, is_on_purpose: bool) -> None:
    from disarray.control.translation import translated_errors

    with translated_errors():
        session.execute(
            "select disarray.register_dataset('cells', 'p1', 's1', '{}', '[]', %s)", (is_on_purpose,)
        )


@pytest.mark.parametrize("path", ["/lab/cell 1.csv", "/lab/Zelle ä+~%41.csv"])
@pytest.mark.parametrize("is_path_first", [True, False])
def test_a_blacklisted_file_stays_so_under_its_other_name(
    connection: Connection, connect_as: Callable[..., Connection], path: str, *, is_path_first: bool
) -> None:
    first, second = (path, file_uri(path)) if is_path_first else (file_uri(path), path)
    files.enqueue_file(connection, first, "CELL1")
    blacklist.blacklist_file(connection, first, "CELL1", reason="a loose cable", by="ada")
    agent = connect_as("disarray_agent")
    [answer] = files.enqueue_files(
        agent, [Notification(second, "CELL1", metadata={"content_hash": "v2", "dataset": "cells"})]
    )
    assert (answer.source_uri, answer.queue_id) == (first, None)
    assert [each.source_uri for each in files.list_files(connection)] == [first]
    with pytest.raises(InvalidRequestError, match=r"is known as .*Nothing was changed"):
        blacklist.blacklist_file(connection, second, "CELL1", reason="a loose cable", by="ada")


def test_a_file_under_both_of_its_names_in_one_batch_is_one_file(connection: Connection) -> None:
    files.enqueue_file(connection, CELL, "CELL1")
    path = CELL.removeprefix("file://")
    batch = [Notification(uri, "CELL1") for uri in (path, CELL, "file:///lab/other.csv")]
    answers = files.enqueue_files(connection, batch)
    assert sorted(answer.source_uri for answer in answers) == [CELL, "file:///lab/other.csv"]
    assert len(files.list_files(connection)) == 2


@pytest.mark.parametrize(
    "uri",
    [
        "file:///lab//cell.csv",
        "file:///lab/./cell.csv",
        "file:///lab/x/../cell.csv",
        "file:///l%61b/cell.csv",
        "file:///lab/cell%2ecsv",
        "file:///lab/cell%c3%a4.csv",
        "file:///lab/cell ä.csv",
        "file://localhost/lab/cell.csv",
        "FILE:///lab/cell.csv",
        "file:/lab/cell.csv",
        "file:///lab/",
        "/lab//cell.csv",
        "//lab/cell.csv",
        "/lab/../cell.csv",
        "/lab/cell.csv/.",
    ],
)
def test_a_third_spelling_of_a_path_is_refused(connection: Connection, uri: str) -> None:
    assert not is_spelled_right(uri)
    with pytest.raises(InvalidRequestError, match="not the one spelling of its path"):
        files.enqueue_file(connection, uri, "CELL1")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_every_path_has_one_uri_which_the_database_knows(connection: Connection, name: str) -> None:
    path = posixpath.normpath(f"/lab/{name}")
    uri = file_uri(path)
    assert is_spelled_right(uri)
    assert is_spelled_right(path)
    found = connection.execute(
        """
        select
            disarray.other_spelling(%s), disarray.other_spelling(%s), disarray.check_uri(%s), disarray.check_uri(%s)
        """,
        (uri, path, uri, path),
    ).fetchone()
    assert found is not None
    assert found[:2] == (path, uri)
