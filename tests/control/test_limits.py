"""What is refused on its way in: each time a clear error of the right class, and nothing stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.control import blacklist, claim_ends, claims, dirty_ranges, files, instances, queue
from disarray.control.files import Notification, Reason
from disarray.control.metadata import MAX_BYTES
from disarray.control.translation import translate
from disarray.errors import InvalidRequestError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

# Room for the list of reasons, which the database adds itself when requests become one.
NOTE_BYTES = 256

UNUSABLE_TEXT = {
    "empty": "",
    "NUL": "a\0b",
    "newline": "a\nb",
    "escape": "a\x1b[2Jb",
    "delete": "a\x7fb",
    "C1 control": "a\x85b",
    "undecodable byte": b"a\xffb".decode(errors="surrogateescape"),
}


def stored_rows(connection: Connection) -> int:
    row = connection.execute(
        """
        select
            (select count(*) from disarray.file_info)
            + (select count(*) from disarray.ingest_queue)
            + (select count(*) from disarray.ingest_event)
            + (select count(*) from disarray.subject)
            + (select count(*) from disarray.file_blacklist)
            + (select count(*) from disarray.dirty_range)
        """
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("uri", UNUSABLE_TEXT.values(), ids=UNUSABLE_TEXT)
def test_an_unusable_uri_is_refused(connection: Connection, uri: str) -> None:
    with pytest.raises(InvalidRequestError, match="Nothing was stored"):
        files.enqueue_file(connection, uri, "TOOL01")
    with pytest.raises(InvalidRequestError, match="Nothing was stored"):
        blacklist.blacklist_file(connection, uri, "TOOL01", reason="broken", by="alice")
    assert stored_rows(connection) == 0


@pytest.mark.parametrize("subject", UNUSABLE_TEXT.values(), ids=UNUSABLE_TEXT)
def test_an_unusable_subject_is_refused(connection: Connection, subject: str) -> None:
    with pytest.raises(InvalidRequestError, match="Nothing was stored"):
        files.enqueue_file(connection, "file:///a", subject)
    assert stored_rows(connection) == 0


@pytest.mark.parametrize("name", UNUSABLE_TEXT.values(), ids=UNUSABLE_TEXT)
def test_an_unusable_instance_name_is_refused(connection: Connection, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        instances.register_instance(connection, name)
    with pytest.raises(InvalidRequestError):
        files.enqueue_file(connection, "file:///a", "TOOL01", instance_name=name)
    assert stored_rows(connection) == 0


@pytest.mark.parametrize(
    ("uri", "subject"),
    [
        pytest.param("é" * 1024, "TOOL01", id="uri"),
        pytest.param("file:///a", "é" * 128, id="subject"),
    ],
)
def test_limits_count_bytes_and_the_longest_is_taken(connection: Connection, uri: str, subject: str) -> None:
    assert files.enqueue_file(connection, uri, subject) is not None
    [item] = claims.fetch_items(connection, instances.register_instance(connection, "é" * 64))
    assert (item.source_uri, item.subject_key) == (uri, subject)


@pytest.mark.parametrize(
    ("uri", "subject", "instance"),
    [
        pytest.param("é" * 1024 + "x", "TOOL01", None, id="uri"),
        pytest.param("file:///a", "é" * 128 + "x", None, id="subject"),
        pytest.param("file:///a", "TOOL01", "é" * 64 + "x", id="instance"),
        pytest.param("x" * 10_000_000, "TOOL01", None, id="ten megabytes"),
    ],
)
def test_one_byte_too_many_is_refused_with_a_short_message(
    connection: Connection, uri: str, subject: str, instance: str | None
) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        files.enqueue_file(connection, uri, subject, instance_name=instance)
    assert len(str(refusal.value)) < 1000
    assert stored_rows(connection) == 0


def test_an_undecodable_name_is_refused_with_a_short_printable_message(connection: Connection) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        files.enqueue_file(connection, "file:///" + "\udcff" * 100_000, "TOOL01")
    assert len(str(refusal.value)) < 2000
    str(refusal.value).encode()


def test_uris_that_name_work_on_a_whole_subject_cannot_be_announced_or_blacklisted(
    connection: Connection,
) -> None:
    with pytest.raises(InvalidRequestError, match="subject:"):
        files.enqueue_file(connection, "subject:reconcile:TOOL01", "TOOL01")
    with pytest.raises(InvalidRequestError, match="subject:"):
        blacklist.blacklist_file(connection, "subject:reconcile:TOOL01", "TOOL01", reason="no", by="alice")
    assert stored_rows(connection) == 0


def test_one_bad_file_in_a_batch_refuses_the_batch(connection: Connection) -> None:
    good = [Notification(f"file:///{number}", "TOOL01") for number in range(3)]
    with pytest.raises(InvalidRequestError):
        files.enqueue_files(connection, [*good, Notification("file:///bad\nname", "TOOL01")])
    assert stored_rows(connection) == 0


def test_a_batch_whose_columns_differ_in_length_is_refused(connection: Connection) -> None:
    with pytest.raises(psycopg.Error) as refusal:
        connection.execute("select * from disarray.enqueue_files(array['a', 'b'], array['TOOL01'])")
    assert isinstance(translate(refusal.value), InvalidRequestError)
    assert stored_rows(connection) == 0


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


UNUSABLE_METADATA: dict[str, Any] = {
    "a megabyte": {"a": "x" * 1_000_000},
    "a byte too many": {"a": "x" * (MAX_BYTES - 8)},
    "many keys": {f"key{number}": number for number in range(5000)},
    "eight levels": nested(8),
    "bottomless": nested(100_000),
    "NaN": {"a": float("nan")},
    "infinity": {"a": [float("inf")]},
    "NUL": {"a": "x\0y"},
    "NUL in a key": {"a": [{"x\0y": 1}]},
    "lone surrogate": {"a": "x\udcffy"},
    "lone surrogate in a key": {"x\ud800y": 1},
    "5,000 digits": {"a": 10**5000},
    "numbers that grow when written out": {"a": [1e308] * 100},
    "not JSON": {"a": datetime.now(UTC)},
    "not an object": ["a"],
}


@pytest.mark.parametrize("metadata", UNUSABLE_METADATA.values(), ids=UNUSABLE_METADATA)
def test_unusable_metadata_is_refused(connection: Connection, metadata: Any) -> None:
    with pytest.raises(InvalidRequestError, match="Nothing was stored") as refusal:
        files.enqueue_file(connection, "file:///a", "TOOL01", metadata=metadata)
    assert len(str(refusal.value)) < 1000
    assert stored_rows(connection) == 0


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param("[]", id="array"),
        pytest.param("null", id="null"),
        pytest.param(json.dumps(nested(8)), id="eight levels"),
        pytest.param(json.dumps({"a": "{{", "b": nested(7)}), id="eight levels behind two braces"),
        pytest.param(json.dumps({"a": "x" * MAX_BYTES}), id="too long"),
        pytest.param('{"a": 1e100000}', id="a number of a hundred thousand digits"),
    ],
)
def test_the_database_refuses_by_itself_what_python_would(connection: Connection, metadata: str) -> None:
    with pytest.raises(psycopg.Error) as refusal:
        connection.execute(
            "select disarray.enqueue_file('file:///a', 'TOOL01', p_metadata => %s::jsonb)", (metadata,)
        )
    assert isinstance(translate(refusal.value), InvalidRequestError)
    assert stored_rows(connection) == 0


def test_metadata_at_its_limits_is_stored_as_it_is(connection: Connection) -> None:
    largest = {"a": "x" * (MAX_BYTES - 9)}
    deepest = nested(7)
    files.enqueue_file(connection, "file:///a", "TOOL01", metadata=largest)
    files.enqueue_file(connection, "file:///b", "TOOL01", metadata=deepest)
    items = claims.fetch_items(connection, instances.register_instance(connection, "Worker01"))
    assert [item.metadata for item in items] == [largest, deepest]


def test_an_unknown_reason_is_refused_with_those_that_are_known(connection: Connection) -> None:
    with pytest.raises(psycopg.Error) as refusal:
        connection.execute("select disarray.enqueue_file('file:///a', 'TOOL01', 'whim')")
    error = translate(refusal.value)
    assert isinstance(error, InvalidRequestError)
    assert all(reason.value in str(error) for reason in Reason)
    assert stored_rows(connection) == 0


def largest_metadata(connection: Connection) -> int:
    row = connection.execute(
        """
        select max(octet_length(stored.metadata::text))
        from (
            select metadata from disarray.ingest_queue
            union all select metadata from disarray.file_info
        ) as stored
        """
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_ever_new_keys_never_grow_metadata_past_its_cap(connection: Connection) -> None:
    reasons = [each for each in Reason if each not in (Reason.RECONCILE, Reason.COMPACT, Reason.COPY)]
    for number in range(44):
        metadata = {f"key{number}": "x" * 4000}
        reason = reasons[number % len(reasons)]
        files.enqueue_file(connection, "file:///a", "TOOL01", reason=reason, metadata=metadata)
        assert largest_metadata(connection) <= MAX_BYTES + NOTE_BYTES
    [entry] = claims.fetch_items(connection, instances.register_instance(connection, "Worker01"))
    assert entry.metadata["key43"] == "x" * 4000


def test_one_uri_many_times_in_a_batch_never_grows_metadata_past_its_cap(connection: Connection) -> None:
    batch = [
        Notification("file:///a", "TOOL01", metadata={f"key{number}": "x" * 4000}) for number in range(20)
    ]
    files.enqueue_files(connection, batch)
    assert largest_metadata(connection) <= MAX_BYTES
    [entry] = claims.fetch_items(connection, instances.register_instance(connection, "Worker01"))
    assert "key19" in entry.metadata


def test_a_blacklist_entry_has_limits_too(connection: Connection) -> None:
    for reason, by in (("x" * 5000, "alice"), ("broken", "x" * 200), ("broken", "al\nice"), (" ", "alice")):
        with pytest.raises(InvalidRequestError, match="Nothing was"):
            blacklist.blacklist_file(connection, "file:///a", "TOOL01", reason=reason, by=by)
    assert stored_rows(connection) == 0


@pytest.mark.parametrize(
    "call",
    [
        "fetch_items('Worker01', null)",
        "fetch_items('Worker01', 10, null)",
        "fetch_items('Worker01', 10, 300, null, null)",
        "fetch_items('Worker01', 10, 300, null, 1, null)",
        "fetch_items('Worker01', 0)",
        "fetch_items(null)",
        "renew_subjects(array['TOOL01'], 'Worker01', null)",
        "renew_subjects(array['TOOL01'], 'Worker01', 0)",
        "bind_instance('Worker01', null, 'alice')",
        "bind_instance('Worker01', '{}', 'alice')",
        "provision_event_partitions(100000)",
        "drop_old_events(null)",
        "complete_items(array[1, 2], 'Worker01', array['{}'::jsonb])",
    ],
)
def test_a_missing_or_absurd_number_is_refused_and_never_means_no_limit(
    connection: Connection, call: str
) -> None:
    files.enqueue_files(connection, [Notification(f"file:///{number}", "TOOL01") for number in range(20)])
    instances.register_instance(connection, "Worker01")
    before = stored_rows(connection)
    with pytest.raises(psycopg.Error) as refusal:
        connection.execute(f"select disarray.{call}".encode())
    assert isinstance(translate(refusal.value), InvalidRequestError), refusal.value
    assert stored_rows(connection) == before


@pytest.mark.parametrize(
    "call",
    [
        "assert_subject_held('TOOL01', null)",
        "assert_subject_held(null, null)",
        "mark_dirty('TOOL01', null, now(), now() + interval '1 hour', 'late')",
        "reconcile_subject('TOOL01', null)",
        "release_subject('TOOL01', null)",
        "complete_items(array[null]::bigint[], 'Worker01')",
        "complete_item(null, null)",
        "fail_item(null, null, 'unreadable')",
    ],
)
def test_a_caller_without_a_name_holds_nothing(connection: Connection, call: str) -> None:
    with pytest.raises(psycopg.Error) as refusal:
        connection.execute(f"select disarray.{call}".encode())
    assert isinstance(translate(refusal.value), LeaseLostError), refusal.value
    assert stored_rows(connection) == 0


def test_an_empty_dirty_range_is_refused(connection: Connection) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    claims.fetch_items(connection, holder)
    now = datetime.now(UTC)
    for range_end in (now, now - timedelta(seconds=1)):
        with pytest.raises(InvalidRequestError, match="Nothing was stored"):
            dirty_ranges.mark_dirty(
                connection, "TOOL01", holder, range_start=now, range_end=range_end, reason="late"
            )


@pytest.mark.parametrize("message", ["x\0y", "cannot read b\udcff.csv", "x" * 1_000_000, ""])
def test_whatever_an_error_says_the_item_goes_back(connection: Connection, message: str) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder)
    claim_ends.fail_item(connection, item.queue_id, holder, error_message=message)
    [record] = files.list_files(connection)
    assert (record.status, record.retry_count) == ("pending", 1)
    assert record.last_error is not None
    assert len(record.last_error) <= 4000


hostile_text = st.text(
    alphabet=st.one_of(
        st.sampled_from("'\"\\%_*?;-$:(){}[]<>&|/ éß漢\U0001f4a5\u202e\u2028"),
        st.characters(exclude_categories=("Cc", "Cs")),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(uri=hostile_text.map("share:".__add__), subject=hostile_text, name=hostile_text)
def test_hostile_names_come_back_as_they_went_in(
    connect: Callable[[], Connection], uri: str, subject: str, name: str
) -> None:
    connection = connect()
    try:
        with connection.transaction(force_rollback=True):
            _one_life_of(connection, uri, subject, name)
    finally:
        connection.close()


def _one_life_of(connection: Connection, uri: str, subject: str, name: str) -> None:
    files.enqueue_file(connection, uri, subject, metadata={name: subject})
    files.enqueue_file(connection, "file:///other", "OTHER")
    holder = instances.register_instance(connection, name, subject_patterns=[f"{subject}", "nobody"])
    [item] = claims.fetch_items(connection, holder)
    assert (item.source_uri, item.subject_key, item.metadata) == (uri, subject, {name: subject})
    assert claim_ends.renew_subjects(connection, [subject], holder, lease_seconds=60) == [subject]
    claim_ends.fail_item(connection, item.queue_id, holder, error_message=name, retry_delay_seconds=0)
    [again] = claims.fetch_items(connection, holder)
    claim_ends.complete_item(connection, again.queue_id, holder, metadata={name: name})
    assert blacklist.blacklist_file(connection, uri, subject, reason=name + ".", by="x" + name) is not None
    assert blacklist.allow_file(connection, uri, reason=name + ".", by="x" + name) is not None
    assert [entry.source_uri for entry in queue.list_queue(connection, subject_key=subject)] == [uri]
    [record] = files.list_files(connection, subject_key=subject)
    assert (record.source_uri, record.last_error) == (uri, None)
