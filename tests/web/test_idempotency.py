"""A POST that is sent twice acts once, whoever interrupts it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from disarray.web.route import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def blacklistings(plant: Plant) -> int:
    [(count,)] = plant.rows(
        "select count(*)::int from disarray.ingest_event where event_type = 'blacklisted'"
    )
    assert isinstance(count, int)
    return count


@pytest.fixture
def uri(plant: Plant) -> str:
    return str(plant.inbox / "TOOL07/0.csv")


def test_the_same_request_gets_the_stored_answer_and_acts_no_second_time(
    plant: Plant, ada: Client, uri: str
) -> None:
    first = ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    second = ada.http.post(
        "/api/v1/files/blacklist",
        # Spaces and the order of names make no other request of it.
        content=b'{ "reason": "broken",  "source_uri": "%s"}' % uri.encode(),
        headers={"Idempotency-Key": "k1", "Content-Type": "application/json"},
    )
    assert second.json() == first
    assert second.headers["idempotency-replayed"] == "true"
    assert blacklistings(plant) == 1


def test_another_request_with_the_same_key_is_refused(plant: Plant, ada: Client, uri: str) -> None:
    ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    refused = ada.post("files/blacklist", key="k1", source_uri=uri, reason="other", expect=422)
    assert "used for another request" in refused["detail"]
    assert blacklistings(plant) == 1


def test_a_key_is_its_callers_and_its_routes_own(
    plant: Plant, call_as: Callable[..., Client], uri: str
) -> None:
    ada, grace = call_as("ada"), call_as("grace", Scope.OPERATE)
    ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    ada.post("files/allow", key="k1", source_uri=uri, reason="broken")
    grace.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    assert blacklistings(plant) == 2


def test_a_day_later_the_key_is_free_again_and_nothing_piles_up(
    plant: Plant, ada: Client, uri: str, advance_clock: Callable[[timedelta], None]
) -> None:
    ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    advance_clock(timedelta(hours=23))
    ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    assert blacklistings(plant) == 1
    advance_clock(timedelta(hours=2))
    ada.post("files/blacklist", key="k1", source_uri=uri, reason="another reason")
    assert blacklistings(plant) == 2
    advance_clock(timedelta(hours=25))
    ada.post("files/allow", key="k2", source_uri=uri, reason="mended")
    assert plant.rows("select idempotency_key from disarray.api_request") == [("k2",)]


def test_a_refusal_is_not_stored(plant: Plant, ada: Client, uri: str) -> None:
    ada.post("files/allow", key="k1", source_uri=uri, reason="mended", expect=409)
    ada.post("files/blacklist", key="k2", source_uri=uri, reason="broken")
    ada.post("files/allow", key="k1", source_uri=uri, reason="mended")


def test_a_request_beside_its_twin_is_told_so(plant: Plant, ada: Client, uri: str) -> None:
    # The twin has begun and not ended: its transaction holds the key.
    with plant.pool.connection() as twin, twin.transaction():
        twin.execute("select disarray.begin_request('ada', 'POST /api/v1/files/blacklist', 'k1', 'x')")
        refused = ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken", expect=409)
    assert "under way" in refused["detail"]
    assert blacklistings(plant) == 0
    ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    assert blacklistings(plant) == 1


def test_of_many_at_once_exactly_one_acts(plant: Plant, ada: Client, uri: str) -> None:
    barrier = Barrier(8)

    def send(_: int) -> int:
        barrier.wait()
        response = ada.http.post(
            "/api/v1/files/blacklist",
            json={"source_uri": uri, "reason": "b"},
            headers={"Idempotency-Key": "k1"},
        )
        status: int = response.status_code
        return status

    # One event loop for all of them, as in the server.
    with ada.http, ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(send, range(8)))
    assert set(statuses) <= {202, 409}
    assert 202 in statuses
    assert blacklistings(plant) == 1


def test_an_action_that_is_undone_leaves_no_answer_behind(plant: Plant, ada: Client, uri: str) -> None:
    with plant.pool.connection() as admin:
        # What breaks after the action and before the commit.
        admin.execute(
            """
            create function public.refuse() returns trigger language plpgsql as
            $$ begin raise exception 'disk full' using errcode = '53100'; end $$;
            create trigger refuse before insert on disarray.api_request for each row execute function refuse();
            """
        )
        ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken", expect=503)
        assert blacklistings(plant) == 0
        admin.execute("drop trigger refuse on disarray.api_request")
    ada.post("files/blacklist", key="k1", source_uri=uri, reason="broken")
    assert blacklistings(plant) == 1


@pytest.mark.parametrize("key", ["", "two words", "k" * 129, "ü"])
def test_a_key_that_cannot_be_stored_is_refused(plant: Plant, ada: Client, uri: str, key: str) -> None:
    response = ada.http.post(
        "/api/v1/files/blacklist",
        json={"source_uri": uri, "reason": "b"},
        headers={"Idempotency-Key": key.encode("latin-1")},
    )
    assert response.status_code == 400
    assert blacklistings(plant) == 0
