"""Where values come from, and what is never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg.pq import Conninfo

from disarray.config import FILE_NAME, default_config, load, redact
from disarray.errors import ConfigError, SpecError

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
[state]
dir = "from-file"
[database]
dsn = "service=file"
[lake]
root = "lake-from-file"
[worker]
name = "from-file"
"""
ENVIRONMENT = {
    "DISARRAY_STATE_DIR": "from-environment",
    "DISARRAY_DSN": "service=environment",
    "DISARRAY_LAKE_ROOT": "lake-from-environment",
    "DISARRAY_WORKER_NAME": "from-environment",
}
FLAGS = {
    "--state-dir": "from-flag",
    "--dsn": "service=flag",
    "--lake-root": "lake-from-flag",
    "--name": "from-flag",
}


def test_without_any_word_state_lives_in_the_project_and_the_database_is_embedded(tmp_path: Path) -> None:
    config = load(tmp_path, environment={})
    assert config.state_dir == tmp_path / ".disarray"
    assert config.dsn is None
    assert {setting.origin for setting in config.settings} == {"default"}
    assert config.lake_root == tmp_path / ".disarray" / "lake"
    assert config.spark_settings == {}


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        pytest.param({}, {}, "file", id="file-before-default"),
        pytest.param({}, ENVIRONMENT, "environment", id="environment-before-file"),
        pytest.param(FLAGS, ENVIRONMENT, "flag", id="flag-before-environment"),
        pytest.param(dict.fromkeys(FLAGS), dict.fromkeys(ENVIRONMENT, ""), "file", id="empty-is-unset"),
    ],
)
def test_the_nearest_word_wins_and_is_named(
    tmp_path: Path, flags: dict[str, str | None], environment: dict[str, str], expected: str
) -> None:
    (tmp_path / "disarray.toml").write_text(FILE)
    config = load(tmp_path, flags=flags, environment=environment)
    assert config.state_dir == tmp_path / f"from-{expected}"
    assert config.dsn == f"service={expected}"
    assert config.lake_root == tmp_path / f"lake-from-{expected}"
    assert config.text("worker.name") == f"from-{expected}"
    named = ("state.dir", "database.dsn", "lake.root", "worker.name")
    assert {config.origin(name).split()[0] for name in named} == {expected}


def test_an_absolute_state_folder_stays_where_it_is(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    assert (
        load(tmp_path / "project", flags={"--state-dir": str(elsewhere)}, environment={}).state_dir
        == elsewhere
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[databse]\ndsn = "x"\n', "databse: unknown key; did you mean 'database'"),
        ('[database]\nurl = "x"\n', "database.url: unknown key; known are dsn"),
        ('dsn = "x"\n', "dsn: unknown key"),
        ("[database]\ndsn = 5\n", "database.dsn: expected a text, found 5"),
        ('database = "x"\n', "database: expected a table, found 'x'"),
        ("[spark]\nmaster = [2]\n", "spark.master: expected a text, a number, true or false, found a list"),
        ("[agent]\nspool_mb = 0\n", "agent.spool_mb: expected a whole number, 1 to 1000000, found 0"),
        ("[agent]\nspool_mb = 1.5\n", "agent.spool_mb: expected a whole number, 1 to 1000000, found 1.5"),
        ("[agent]\nspool_mb = true\n", "agent.spool_mb: expected a whole number, 1 to 1000000, found true"),
        ('[worker]\nlease = "2 d"\n', "worker.lease: expected a duration from 1 s to 1 d, found '2 d'"),
        ('[worker]\nlease = "long"\n', "worker.lease: expected a duration such as '15 min', found 'long'"),
        ("[api]\nport = 65536\n", "api.port: expected a whole number, 0 to 65535, found 65536"),
        ("[database\n", "not TOML"),
    ],
)
def test_a_file_with_a_slip_is_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "disarray.toml").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load(tmp_path, environment={})


def test_all_slips_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_text("[agent]\nspool_mb = 0\nscan_evry = 1\n[databse]\n")
    with pytest.raises(SpecError) as refused:
        load(tmp_path, environment={})
    assert len(refused.value.problems) == 3


def test_numbers_need_no_quotes_and_may_have_them(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_text(
        '[agent]\nspool_mb = 12\n[api]\nport = "81"\n[spark]\nx.cores = 4\nui = false\n'
    )
    config = load(tmp_path, environment={})
    assert (config.number("agent.spool_mb"), config.number("api.port")) == (12, 81)
    assert config.spark_settings == {"spark.x.cores": "4", "spark.ui": "false"}


@pytest.mark.parametrize(
    ("flags", "environment", "complaint"),
    [
        ({"--port": "x"}, {}, "flag --port: api.port: expected a whole number, 0 to 65535, found 'x'"),
        (
            {},
            {"DISARRAY_SPOOL_MB": "lots"},
            "environment DISARRAY_SPOOL_MB: agent.spool_mb: expected a whole",
        ),
        (
            {},
            {"DISARRAY_KEEP_EVENTS": "1 d"},
            "DISARRAY_KEEP_EVENTS: housekeeping.keep_events: expected a dur",
        ),
    ],
)
def test_a_slip_elsewhere_is_refused_with_its_origin(
    tmp_path: Path, flags: dict[str, str | None], environment: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load(tmp_path, flags=flags, environment=environment)


def test_every_default_is_what_its_setting_takes(tmp_path: Path) -> None:
    read = load(tmp_path, environment={})
    assert {each.name: each.value for each in default_config().settings if each.name != "state.dir"} == {
        each.name: each.value for each in read.settings if each.name != "state.dir"
    }


def test_what_spark_is_told_goes_through_as_spark_spells_it_and_datasets_are_no_settings(
    tmp_path: Path,
) -> None:
    text = '[spark]\nmaster = "local[2]"\ndriver.memory = "2g"\n[[dataset]]\nname = "cells"\n'
    (tmp_path / "disarray.toml").write_text(text)
    config = load(tmp_path, environment={})
    assert config.spark_settings == {"spark.master": "local[2]", "spark.driver.memory": "2g"}
    assert config.dataset_file == tmp_path / "disarray.toml"


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_bytes("# Größe\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8 at byte 4"):
        load(tmp_path, environment={})


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://alice:s3cret@db:5432/lab",
        "postgresql://alice:s3cret@more@db/lab?sslmode=require",
        "postgresql://:s3cret@db/lab",
        "postgres://db/lab?user=alice&password=s3cret&sslmode=require",
        "postgresql://db/lab?sslpassword=s3cret",
        "host=db password=s3cret dbname=lab",
        "host=db password = 'a s3cret\\' word' dbname=lab",
        "host=db PASSWORD=a\\ s3cret dbname=lab",
        "password='s3cret never closed",
        "postgresql://db/lab?p%61ssword=s3cret&sslmode=require",
        "postgresql://db/lab?oauth_client_secret=s3cret",
        "host=db oauth_client_secret=s3cret dbname=lab",
        "postgresql://alice@db/lab?scram_client_key=s3cret&sslmode=require",
        "postgresql://alice@db/lab?sslmode=require&scram_server_key=s3cret",
        "postgresql://alice@db/lab?scram%5Fclient_key=s3cret",
        "host=db scram_client_key=s3cret dbname=lab",
        "host=db scram_server_key = 's3cret' dbname=lab",
        "host=db sslpassword=s3cret dbname=lab",
        "postgresql://alice:a s3cret\n@db/lab",
        "-Djavax.net.ssl.keyStorePassword=s3cret -Xmx1g",
        'org.apache.kafka.PlainLoginModule required password="a s3cret"',
    ],
)
def test_no_form_of_password_is_shown(dsn: str) -> None:
    shown = redact(dsn)
    assert "s3cret" not in shown
    assert "word'" not in shown
    assert "********" in shown


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://postgres@/disarray?host=/tmp/disarray-1",
        "postgresql://alice@db:5432/lab",
        "host=db dbname=lab passfile=/etc/pass",
        "host=db sslkey=/etc/client.key require_auth=scram-sha-256 oauth_client_id=lab",
        "postgresql://db/lab?sslkey=/etc/client.key&require_auth=scram-sha-256&oauth_client_id=lab",
    ],
)
def test_a_dsn_without_password_is_shown_as_it_is(dsn: str) -> None:
    assert redact(dsn) == dsn


@pytest.mark.parametrize(
    "name",
    [
        "authenticate.secret",
        "hadoop.fs.s3a.secret.key",
        "hadoop.fs.s3a.access.key",
        "ssl.keyPassword",
        "hadoop.fs.azure.account.key.lab",
        "kubernetes.authenticate.oauthToken",
        "hadoop.fs.s3a.encryption.key",
        "hadoop.fs.azure.sas.lab",
        "executorEnv.DB_PASS",
        "executorEnv.GITHUB_PAT",
    ],
)
def test_secrets_of_spark_are_known_by_their_names(tmp_path: Path, name: str) -> None:
    (tmp_path / FILE_NAME).write_text(f'[spark]\nmaster = "local[2]"\n"{name}" = "s3cret"\n')
    settings = {setting.name: setting for setting in load(tmp_path, environment={}).settings}
    assert settings[f"spark.{name}"].shown == "********"
    assert settings["spark.master"].shown == "local[2]"


def test_every_parameter_that_libpq_calls_a_secret_is_hidden() -> None:
    # Those that it does not print, and the keys of SCRAM, which it marks as for developers: whoever has one can log in.
    secrets = {
        option.keyword.decode()
        for option in Conninfo.get_defaults()
        if b"*" in option.dispchar or option.keyword.startswith(b"scram_")
    }
    assert "sslpassword" in secrets
    shown = [
        redact(dsn)
        for name in secrets
        for dsn in (f"host=db {name}=s3cret", f"postgresql://db/lab?{name}=s3cret")
    ]
    assert [each for each in shown if "s3cret" in each] == []


def test_what_surrounds_a_password_stays_readable() -> None:
    assert redact("postgresql://alice:x@db/lab") == "postgresql://alice:********@db/lab"
    assert redact("host=db password='x y' dbname=lab") == "host=db password=******** dbname=lab"


def test_datasets_in_the_file_are_no_settings(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('[[dataset]]\nname = "tools"\n[state]\ndir = "elsewhere"\n')
    assert load(tmp_path, environment={}).state_dir == tmp_path / "elsewhere"
