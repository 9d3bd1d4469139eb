"""Materialized views over REST and as metrics."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import instances, views

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def test_what_a_view_does_not_have_is_lag_until_it_is_refreshed(plant: Plant, ada: Client) -> None:
    assert ada.get("views") == {"views": []}
    dataset = next(iter(plant.datasets))
    with plant.pool.connection() as connection:
        views.put_view(
            connection, "counts", schema_name="telemetry", definition="select 1 as one", unique_key=["one"],
            depends_on=[dataset], at_most_every=timedelta(minutes=5), timeout_seconds=60, by="ada", is_built=False,
        )  # fmt: skip
        [(commits,)] = plant.rows("select count(*) from disarray.subject_commit")
        connection.execute("update disarray.test_clock set ahead = ahead + interval '1 hour'")
        [view] = ada.get("views")["views"]
        assert (view["state"], view["lag_commits"], view["at_most_every_seconds"]) == ("stale", commits, 300)
        assert view["lag_seconds"] >= 3600
        assert f'disarray_view_lag_commits{{view="counts"}} {commits}.0' in ada.http.get("/metrics").text
        holder = instances.register_instance(connection, "Worker05")
        turn = views.claim_view(connection, holder)
        assert turn is not None
        position = views.begin_view_refresh(connection, turn, holder)
        assert ada.get("views")["views"][0]["state"] == "refreshing"
        views.end_view_refresh(connection, turn, holder, seconds=0.5, position=position)
    shown = ada.get("views/counts")
    assert (shown["view"]["state"], shown["view"]["lag_commits"], shown["view"]["lag_seconds"]) == (
        "fresh",
        0,
        0,
    )
    assert shown["query"] == "select 1 as one"
    assert [(each["seconds"], each["error"]) for each in shown["refreshes"]] == [(0.5, None)]
    assert shown["next"] is None
    with plant.pool.connection() as connection:
        connection.execute(
            "insert into disarray.view_refresh (name, refreshed_at, seconds, error) values ('counts', now(), 1, 'away')"
        )
    newest = ada.get("views/counts", limit="1")
    assert [each["error"] for each in newest["refreshes"]] == ["away"]
    older = ada.get("views/counts", limit="1", after=newest["next"])
    assert ([each["error"] for each in older["refreshes"]], older["next"]) == ([None], None)
    assert 'disarray_view_lag_seconds{view="counts"} 0.0' in ada.http.get("/metrics").text
    assert 'disarray_view_failing{view="counts"} 0.0' in ada.http.get("/metrics").text
    ada.get("views/count", expect=404)
