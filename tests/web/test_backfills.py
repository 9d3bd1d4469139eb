"""Backfills over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import backfills

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def test_jobs_are_listed_in_pages_and_shown_with_what_holds_them_back(plant: Plant, ada: Client) -> None:
    assert ada.get("backfills") == {"backfills": [], "next": None}
    with plant.pool.connection() as connection:
        for name in ("first", "second"):
            backfills.start_backfill(
                connection,
                name,
                "update",
                description={"source": {"table": "shop.orders"}},
                cursor_end=["9"],
                rows_estimated=9,
                answer_before=None,
                rate_limit=5,
                max_concurrency=1,
                chunk_rows=3,
                reason="new column",
                by="ada",
            )
        backfills.note_backfill_hold(connection, 2, "max_queue_age", "the oldest live item waits")
    newest = ada.get("backfills", limit="1")
    assert [job["name"] for job in newest["backfills"]] == ["second"]
    assert [job["name"] for job in ada.get("backfills", after=newest["next"])["backfills"]] == ["first"]
    job = ada.get("backfills/2")
    assert (job["state"], job["held_by"], job["rate_limit"]) == ("running", "max_queue_age", 5)
    assert job["description"] == {"source": {"table": "shop.orders"}}
    assert ada.http.get("/api/v1/backfills/7").status_code == 404
