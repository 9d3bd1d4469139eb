"""Every list in pages: nothing is left out and nothing comes twice, also while data arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from disarray.errors import InvalidRequestError
from disarray.queries.conflicts import list_conflicts
from disarray.queries.dead_letters import list_dead_letters
from disarray.queries.events import list_events
from disarray.queries.files import list_files
from disarray.queries.instances import list_instances
from disarray.queries.quarantine import list_quarantine
from disarray.queries.queue import list_queue
from disarray.queries.restatements import list_restatements
from disarray.queries.runs import list_runs
from disarray.queries.subjects import list_subject_states, list_subjects
from disarray.queries.tokens import list_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

# Entries with the numbers from %(first)s to %(last)s. Many have the same instant, and most the same name but for a sign
# at the end: what tells two of them apart is the last part of the order.
FILLED: dict[Callable[..., Any], str] = {
    list_conflicts: """
        insert into disarray.conflict
        select 'D', 'S', 5 - number / 4, 'file:///w', 'file:///ü' || number, 1, '[]'
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_dead_letters: """
        insert into disarray.file_info (
            source_uri, subject_key, status, failed_at, failed_request, first_seen_at, last_seen_at
        )
        select 'file:///' || number, 'S', 'failed', timestamptz '2026-10-01' + (number / 4) * interval '1 us',
            '{"reason": "file_notification"}', now(), now()
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_events: """
        insert into disarray.ingest_event (occurred_at, event_type, subject_key, metadata)
        select date_trunc('hour', now()) + (number / 4) * interval '1 us', 'failed', 'S' || number, '{}'
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_files: """
        insert into disarray.file_info (source_uri, subject_key, status, first_seen_at, last_seen_at)
        select 'file:///' || chr(64 + number), 'S', 'processed', now(), now()
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_instances: """
        select disarray.register_instance('Worker-' || number)
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_quarantine: """
        insert into disarray.fragment (
            dataset, subject_key, segment_us, source_uri, generation, path, row_group, readings, first_position,
            last_position, first_us, last_us, parse_version, state, run_id, created_at
        )
        select 'D', 'S' || number, number, 'file:///' || number / 4, 1, 'p', number, 1, 1, 1, 1, 1, 'v', 'parked',
            gen_random_uuid(), timestamptz '2026-10-01' + (number / 8) * interval '1 us'
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_queue: """
        select disarray.enqueue_file('file:///' || number, 'S')
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_restatements: """
        insert into disarray.restatement (
            run_id, dataset, subject_key, metric, channel, changed_from, source_uris, is_redefined, restated_at
        )
        select gen_random_uuid(), 'D', 'S', 'm' || number, '', now(), '{}', false,
            timestamptz '2026-10-01' + (number / 4) * interval '1 us'
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_runs: """
        insert into disarray.run (run_id, subject_key, instance_name, fence, committed_at)
        select md5((number / 4)::text)::uuid, 'S' || number, 'Worker', 1,
            timestamptz '2026-10-01' + (number / 8) * interval '1 us'
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_subject_states: """
        insert into disarray.subject (subject_key, first_seen_at)
        select 'S' || number, now()
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_subjects: """
        insert into disarray.segment (
            dataset, subject_key, segment_us, segment_end_us, revision, readings, duplicates, conflicts,
            first_us, last_us, digest, scan_version, run_id
        )
        select 'D' || mod(number, 3), 'S' || number / 3, 0, 1, 1, 1, 0, 0, 0, 0, '', '', gen_random_uuid()
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
    list_tokens: """
        select disarray.create_token(lpad(number::text, 16, '0'), 'token-' || number, decode(md5(number::text), 'hex')
            || decode(md5(number::text), 'hex'), 'read', 'test', null)
        from generate_series(%(first)s::integer, %(last)s) as number
    """,
}
# What makes an entry of the list go away.
TAKEN_AWAY = {
    list_files: "delete from disarray.file_info where source_uri = (select min(source_uri) from disarray.file_info)",
    list_queue: "delete from disarray.ingest_queue where queue_id = (select min(queue_id) from disarray.ingest_queue)",
    list_events: """
        delete from disarray.ingest_event where event_id = (select max(event_id) from disarray.ingest_event)
    """,
}


def fill(connection: Connection, view: Callable[..., Any], first: int, last: int) -> None:
    connection.execute(FILLED[view].encode(), {"first": first, "last": last})


def entries(page: Any) -> list[Any]:
    [listed] = [value for name, value in vars(page).items() if name != "next"]
    return list(listed)


@pytest.mark.parametrize("view", FILLED, ids=lambda view: view.__name__)
def test_all_pages_are_the_whole_list(connection: Connection, view: Callable[..., Any]) -> None:
    fill(connection, view, 20, 42)
    whole = view(connection, limit=1000)
    assert (len(entries(whole)), whole.next) == (23, None)
    found, after = [], None
    for _ in range(8):
        page = view(connection, limit=3, after=after)
        assert len(entries(page)) <= 3
        found += entries(page)
        after = page.next
    assert (found, after) == (entries(whole), None)
    assert view(connection, limit=23).next is None


@pytest.mark.parametrize("view", FILLED, ids=lambda view: view.__name__)
def test_what_was_there_from_the_beginning_is_seen_once_while_others_come(
    connection: Connection, view: Callable[..., Any]
) -> None:
    fill(connection, view, 20, 42)
    whole = entries(view(connection, limit=1000))
    page = view(connection, limit=3)
    found = entries(page)
    for number in range(6):
        # Two more, at other places of the list, and of some lists the entry that was shown first is gone.
        fill(connection, view, 19 - number, 19 - number)
        fill(connection, view, 43 + number, 43 + number)
        if view in TAKEN_AWAY:
            connection.execute(TAKEN_AWAY[view].encode())
        page = view(connection, limit=3, after=page.next)
        found += entries(page)
    found += entries(view(connection, limit=1000, after=page.next))
    assert [each for each in found if each in whole] == whole


@pytest.mark.parametrize(
    "after",
    [
        "x",
        "e30",  # {}
        "W10",  # []
        "WyJmaWxlcyJd",  # ["files"]
        "WyJmaWxlcyIsMV0",  # ["files",1]
        "WyJldmVudHMiLCJ4Il0",  # ["events","x"]
        "WyJmaWxlcyIsIlx1MDAwMCJd",  # ["files","\u0000"]
        "WyJmaWxlcyIsIlx1ZDgwMCJd",  # ["files","\ud800"]
        "ü",
    ],
)
def test_a_cursor_that_no_page_gave_is_refused(connection: Connection, after: str) -> None:
    with pytest.raises(InvalidRequestError, match="is no place in the list of files"):
        list_files(connection, after=after)


def test_a_cursor_of_another_list_is_refused(connection: Connection) -> None:
    fill(connection, list_files, 1, 5)
    cursor = list_files(connection, limit=2).next
    with pytest.raises(InvalidRequestError, match="is no place in the list of subjects"):
        list_subjects(connection, after=cursor)
