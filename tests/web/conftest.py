"""The real application on a real database, called as a client would call it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from disarray.control import backfills, connections, tokens
from disarray.model.api_token import make_token
from disarray.store.lake import Lake
from disarray.web.access import Access
from disarray.web.app import create_app
from disarray.web.route import Scope, Sources
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.applications import Starlette

    from disarray.control.connections import Connection, Pool

LOCAL_TOKEN = make_token()
START = datetime(2026, 10, 1, tzinfo=UTC)


def report(*hours: float, rows: int = 120) -> str:
    """A file of readings every 30 s."""
    lines = [
        f"{(START + timedelta(hours=hour, seconds=30 * row)).isoformat()},{hour + row / 8},{row % 3}\n"
        for hour in hours
        for row in range(rows)
    ]
    return "time,watts,good\n" + "".join(lines)


class Client:
    """Calls the API with a token, from this machine or as if from elsewhere."""

    def __init__(self, app: Starlette, *, token: str | None, peer: str = "127.0.0.1") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self.http = TestClient(
            app,
            base_url="http://127.0.0.1:8321",
            client=(peer, 50_000),
            headers=headers,
            raise_server_exceptions=False,
        )

    def get(
        self, path: str, *, expect: int = 200, span: tuple[str, str] | None = None, **parameters: str
    ) -> Any:
        """The document at a path of the API; `span` is from when to when."""
        if span is not None:
            parameters |= {"from": span[0], "to": span[1]}
        response = self.http.get(f"/api/v1/{path}", params=parameters)
        assert response.status_code == expect, response.text
        return response.json()

    def post(self, path: str, *, expect: int | None = None, key: str | None = None, **body: object) -> Any:
        """What the API answers to an action, which is done or queued where nothing else is expected."""
        headers = {} if key is None else {"Idempotency-Key": key}
        response = self.http.post(f"/api/v1/{path}", json=body, headers=headers)
        assert response.status_code in ((200, 202) if expect is None else (expect,)), response.text
        return response.json()


def add_token(pool: Pool, name: str, scope: Scope, *, valid_for: timedelta | None = None) -> str:
    """A token as `disarray token create` makes it."""
    token = make_token()
    with pool.connection() as connection:
        tokens.create_token(
            connection,
            token_id=token.token_id,
            token_name=name,
            token_hash=token.token_hash,
            scope=scope,
            by="test",
            valid_for=valid_for,
        )
    return token.text


def start_backfill(connection: Connection, name: str) -> int:
    """A backfill of nine rows that nobody works on."""
    return backfills.start_backfill(
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


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A project whose subject TOOL07 has readings of hours 0 and 9 to 11; what is over six hours late is parked."""
    text = DATASET.replace("key = []", 'key = []\nhorizon = "6 h"')
    built = Plant(tmp_path, dsn, description=text)
    built.ingest(built.write("TOOL07/0.csv", report(0)))
    built.ingest(built.write("TOOL07/new.csv", report(9, 10, 11)))
    yield built
    built.pool.close()


@pytest.fixture
def late(plant: Plant) -> str:
    """The uri of a file of which hour 2 is parked and hour 8 is in."""
    path = plant.write("TOOL07/late.csv", report(2, 8))
    plant.ingest(path)
    return str(path)


@pytest.fixture
def call_as(plant: Plant) -> Callable[..., Client]:
    """Makes clients of the plant's API, each with a token of its own."""
    sources = Sources(plant.pool, plant.place.lake, plant.datasets)
    app = create_app(sources)

    def make(name: str = "ada", scope: Scope = Scope.ADMIN) -> Client:
        return Client(app, token=add_token(plant.pool, name, scope), peer="192.0.2.7")

    return make


@pytest.fixture
def ada(call_as: Callable[..., Client]) -> Client:
    """A client who may do everything."""
    return call_as()


@pytest.fixture(scope="module")
def shared_pool(shared_dsn: str) -> Iterator[Pool]:
    """Connections to a database that holds nothing, for tests that need no plant."""
    with connections.open_pool(shared_dsn) as pool:
        yield pool


@pytest.fixture(scope="module")
def empty_app(shared_pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Starlette:
    """The application on that database."""
    return create_app(Sources(shared_pool, Lake(tmp_path_factory.mktemp("lake")), {}))


@pytest.fixture(scope="module")
def embedded_app(shared_pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Starlette:
    """The same as in the embedded mode, with a token of this machine."""
    sources = Sources(shared_pool, Lake(tmp_path_factory.mktemp("lake")), {})
    return create_app(sources, access=Access(local_token=LOCAL_TOKEN))
