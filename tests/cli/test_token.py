"""`disarray token` and `disarray api`: a token is made, used over a real socket, and revoked."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from disarray.cli.support.local_token import local_token
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(run: Run) -> None:
    assert "There is no token." in run("token", "list").stdout
    made = run("token", "create", "grafana", "--scope", "read", "--expires", "90d", "--by", "ada")
    token = made.stdout.strip()
    assert token.startswith("dsr_")
    assert "grafana may read until " in made.stderr
    [listed] = json.loads(run("token", "list", "--json").stdout)
    assert (listed["token_name"], listed["scope"], listed["created_by"]) == ("grafana", "read", "ada")
    assert token.rpartition("_")[2] not in run("token", "list").stdout
    assert run("token", "revoke", "grafana").stdout == "grafana is revoked.\n"
    assert run("token", "revoke", "grafana").stdout == "grafana was revoked before.\n"
    unknown = run("token", "revoke", "nobody")
    assert (unknown.returncode, "there is no token named 'nobody'" in unknown.stderr) == (1, True)


def test_a_token_needs_a_scope_that_there_is(run: Run) -> None:
    assert run("token", "create", "x").returncode == 2
    assert run("token", "create", "x", "--scope", "root").returncode == 2
    assert run("token", "create", "x", "--scope", "read", "--expires", "soon").returncode == 2


def test_a_token_ends_by_itself_unless_told_otherwise(run: Run) -> None:
    run("token", "create", "usual", "--scope", "read")
    assert (
        "forever may read for good"
        in run("token", "create", "forever", "--scope", "read", "--expires", "never").stderr
    )
    forever, usual = json.loads(run("token", "list", "--json").stdout)
    assert (forever["token_name"], forever["expires_at"]) == ("forever", None)
    lifetime = datetime.fromisoformat(usual["expires_at"]) - datetime.fromisoformat(usual["created_at"])
    assert lifetime == timedelta(days=90)


@pytest.mark.parametrize("name", ["local", "LOCAL", "local "])
def test_no_token_is_named_as_those_who_call_without_one(run: Run, name: str) -> None:
    refused = run("token", "create", name, "--scope", "read")
    assert (refused.returncode, f"no token can be named '{name}'" in refused.stderr) == (1, True)
    assert "There is no token." in run("token", "list").stdout


def test_the_server_answers_until_it_is_told_to_stop(
    run: Run, command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> None:
    token = run("token", "create", "ada", "--scope", "admin").stdout.strip()
    with subprocess.Popen(
        command("api", "--port", "0"),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            # A database by DSN is not the embedded mode: being on this machine is not enough.
            assert httpx.get(f"{url}/api/v1/status").status_code == 401
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{url}/api/v1/status", headers=headers).status_code == 200
            assert "disarray_commits_total" in httpx.get(f"{url}/metrics", headers=headers).text
            taken = run("api", "--port", url.rpartition(":")[2])
            assert (taken.returncode, "cannot listen" in taken.stderr) == (1, True)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_the_embedded_mode_takes_the_token_of_its_state_folder_alone(
    state_dir: Path, environment: dict[str, str]
) -> None:
    import sys

    project = state_dir.parent
    project.mkdir()
    base = [sys.executable, "-m", "disarray"]
    subprocess.run([*base, "db", "migrate"], cwd=project, env=environment, check=True, capture_output=True)
    token = subprocess.run(
        [*base, "token", "local"], cwd=project, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    file = state_dir / "api-token"
    assert (file.read_text().strip(), file.stat().st_mode & 0o777) == (token, 0o600)
    for arguments, expected in ((["--port", "0"], 200), (["--port", "0", "--require-token"], 401)):
        with subprocess.Popen(
            [*base, "api", *arguments],
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().strip()
                assert httpx.get(f"{url}/api/v1/status").status_code == 401
                headers = {"Authorization": f"Bearer {token}"}
                assert httpx.get(f"{url}/api/v1/status", headers=headers).status_code == expected
            finally:
                process.terminate()


def test_a_token_of_the_machine_that_others_could_read_is_made_anew(tmp_path: Path) -> None:
    first = local_token(tmp_path)
    assert local_token(tmp_path) == first
    (tmp_path / "api-token").chmod(0o644)
    second = local_token(tmp_path)
    assert second != first
    assert (tmp_path / "api-token").stat().st_mode & 0o777 == 0o600
    (tmp_path / "elsewhere").write_text(first.text)
    (tmp_path / "api-token").unlink()
    (tmp_path / "api-token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be used"):
        local_token(tmp_path)
