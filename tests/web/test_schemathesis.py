"""Whatever a client sends, by all methods: answers are as documented, and none is an error of the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disarray.cli.support.serving import Previewer
from disarray.web.app import create_app
from disarray.web.http_server import Server
from disarray.web.route import Scope, Sources
from tests.web.conftest import add_token

if TYPE_CHECKING:
    from tests.plant import Plant

pytestmark = pytest.mark.postgres


def test_whatever_is_sent_is_answered_as_documented(plant: Plant, late: str, tmp_path: Path) -> None:
    token = add_token(plant.pool, "schemathesis", Scope.ADMIN)
    lake = plant.place.lake
    sources = Sources(plant.pool, lake, plant.datasets, preview=Previewer(plant.datasets, lake))
    server = Server(create_app(sources), host="127.0.0.1", port=0)
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(
        f"""
        [parameters]
        # Names that there are, beside those that are made up: so the answers with content are looked at too.
        "query.source_uri" = "{late}"
        "query.subject_key" = "TOOL07"
        "query.metric" = "energy"
        "query.rollup" = "hourly"
        [checks]
        # As documented is not always possible: a reason of spaces, an end before the start.
        positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422"]
        # A list with too many entries is a body that is too large before anybody counts them.
        negative_data_rejection.expected-statuses = ["400", "401", "404", "413", "415", "422"]
        """
    )
    server.start()
    try:
        ended = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                f"--config-file={settings}",
                "run",
                f"{server.url}/api/v1/openapi.json",
                f"--header=Authorization: Bearer {token}",
                "--checks=all",
                "--phases=coverage,fuzzing",
                "--max-examples=15",
                "--seed=1",
                "--no-color",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    finally:
        server.stop()
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2_000:]
