"""What disarray was told, read once into frozen values: flag > environment > file > default."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "disarray.toml"
_HIDDEN = "********"
# Settings of others, Spark's above all, are known by their names alone; a name too many does no harm.
_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|(^|[._-])(pass|pat|sas)($|[._-])|token|credential|"
    r"(access|account|private|api|signing|encryption).?key",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Option:
    """One thing that can be set, and the names it goes by: `section.key` in the file, flag, variable."""

    name: str
    flag: str
    variable: str
    default: str | None
    meaning: str
    is_path: bool = False


# Later sections are added here; the file may hold nothing that is not listed.
OPTIONS = (
    Option(
        "state.dir",
        flag="--state-dir",
        variable="DISARRAY_STATE_DIR",
        default=".disarray",
        meaning="where the embedded database, the lake, the agent's memory and Spark's log live",
        is_path=True,
    ),
    Option(
        "database.dsn",
        flag="--dsn",
        variable="DISARRAY_DSN",
        default=None,
        meaning="PostgreSQL 15 or later; without it one is embedded in the state folder",
    ),
    Option(
        "broker.url",
        flag="--broker",
        variable="DISARRAY_BROKER",
        default=None,
        meaning="`amqp://user:password@host:5672/%2F`; without it agents queue straight in the database",
    ),
    Option(
        "broker.prefix",
        flag="--broker-prefix",
        variable="DISARRAY_BROKER_PREFIX",
        default="disarray",
        meaning="what exchanges and queues are called; two installations on one broker differ in it",
    ),
    Option(
        "agent.scan_every",
        flag="--scan-every",
        variable="DISARRAY_SCAN_EVERY",
        default="1 s",
        meaning="how often roots are listed; a listing that takes long is followed by a pause nine times as long",
    ),
    Option(
        "agent.tiers",
        flag="--tiers",
        variable="DISARRAY_TIERS",
        default="1 h every 0 s, 7 d every 1 min, older every 10 min",
        meaning="how often files are looked at, by the time since they last changed; every scan sees new names",
    ),
    Option(
        "agent.ignore",
        flag="--ignore",
        variable="DISARRAY_IGNORE",
        default=".* ~* *~ *.tmp *.temp *.part *.partial *.crdownload *.swp Thumbs.db",
        meaning="names of files and folders that are passed over",
    ),
    Option(
        "agent.spool_mb",
        flag="--spool-mb",
        variable="DISARRAY_SPOOL_MB",
        default="64",
        meaning="how many MB of notifications wait on disk while the broker is away",
    ),
    Option(
        "agent.announce_again",
        flag="--announce-again",
        variable="DISARRAY_ANNOUNCE_AGAIN",
        default="1 d",
        meaning="every file is announced again after this time, unread, in case that a message was lost",
    ),
    Option(
        "agent.deep_rescan",
        flag="--deep-rescan",
        variable="DISARRAY_DEEP_RESCAN",
        default="7 d",
        meaning="every file is hashed whole again after this time",
    ),
    Option(
        "lake.root",
        flag="--lake-root",
        variable="DISARRAY_LAKE_ROOT",
        default=None,
        meaning="the folder of fragments, shared by all workers and readers; without it `lake` in the state folder",
        is_path=True,
    ),
    Option(
        "api.host",
        flag="--host",
        variable="DISARRAY_API_HOST",
        default="127.0.0.1",
        meaning="where the REST server listens; elsewhere than on this machine callers need a token",
    ),
    Option(
        "api.port",
        flag="--port",
        variable="DISARRAY_API_PORT",
        default="8321",
        meaning="its port; 0 takes a free one, which is printed",
    ),
    Option(
        "output.zone",
        flag="--zone",
        variable="DISARRAY_ZONE",
        default="UTC",
        meaning="the IANA zone in which the command line shows instants and reads those that name none; JSON is in UTC",
    ),
    Option(
        "worker.name",
        flag="--name",
        variable="DISARRAY_WORKER_NAME",
        default="Worker01",
        meaning="under which it holds subjects; of two processes of one name the later takes over",
    ),
    Option(
        "worker.patterns",
        flag="--patterns",
        variable="DISARRAY_WORKER_PATTERNS",
        default=None,
        meaning="globs of the subjects it serves, with commas between; without it those it served before, or all",
    ),
    Option(
        "worker.runner",
        flag="--runner",
        variable="DISARRAY_WORKER_RUNNER",
        default="spark",
        meaning="`in-process` runs the kernels in the worker itself: for tests and tiny machines, without Java",
    ),
    Option(
        "worker.lease",
        flag="--lease",
        variable="DISARRAY_WORKER_LEASE",
        default="5 min",
        meaning="how long a subject stays held by a worker that says nothing",
    ),
    Option(
        "worker.drain_within",
        flag="--drain-within",
        variable="DISARRAY_WORKER_DRAIN_WITHIN",
        default="30 s",
        meaning="how long a pass may take to end after SIGTERM, before it is handed back",
    ),
    *(
        Option(
            f"housekeeping.{name}",
            flag=f"--{name.replace('_', '-')}",
            variable=f"DISARRAY_{name.upper()}",
            default=default,
            meaning=meaning,
        )
        for name, default, meaning in (
            ("cold_after", "1 h", "a segment that nothing changed for so long may be compacted"),
            ("compact_fragments", "8", "it is compacted when it lies in at least so many row groups"),
            ("compact_readings", "20000", "and when they hold fewer readings than this on average"),
            ("vacuum_after", "1 d", "a file of the lake is deleted so long after the last need of it"),
            ("keep_history", "90 d", "how long resolved dirty ranges and runs are kept"),
            ("keep_commits", "30 d", "how long notices of commits are kept that every follower has done"),
            ("keep_events", "365 d", "how long events are kept, in whole months"),
        )
    ),
)
# Tables of the file that are no settings, and one that holds whatever Spark knows.
DATASET_TABLE = "dataset"
SPARK_TABLE = "spark"


@dataclass(frozen=True)
class Setting:
    """A value and where it came from."""

    name: str
    value: str | None
    origin: str

    @property
    def shown(self) -> str | None:
        """The value as it may appear on a screen or in a log."""
        if self.value is None:
            return None
        return _HIDDEN if _SECRET_NAME.search(self.name) else redact(self.value)


@dataclass(frozen=True)
class Config:
    """Everything disarray was told. Without a DSN it uses the embedded server of the state folder."""

    settings: tuple[Setting, ...]
    project: Path = Path()

    @property
    def state_dir(self) -> Path:
        value = self._setting("state.dir").value
        assert value is not None
        return Path(value)

    @property
    def dsn(self) -> str | None:
        return self._setting("database.dsn").value

    @property
    def broker_url(self) -> str | None:
        return self._setting("broker.url").value

    def text(self, name: str) -> str:
        """The value of a setting that always has one."""
        value = self._setting(name).value
        assert value is not None
        return value

    @property
    def lake_root(self) -> Path:
        """Where fragments lie: beside the embedded database unless told otherwise."""
        value = self._setting("lake.root").value
        return self.state_dir / "lake" if value is None else Path(value)

    @property
    def worker_name(self) -> str:
        value = self._setting("worker.name").value
        assert value is not None
        return value

    @property
    def worker_patterns(self) -> tuple[str, ...] | None:
        """The globs of the subjects that the worker serves; None: those it served before, or all."""
        value = self._setting("worker.patterns").value
        return None if value is None else tuple(value.replace(",", " ").split())

    @property
    def spark_settings(self) -> dict[str, str]:
        """What `[spark]` says, as Spark spells it: `master` under `[spark]` is `spark.master`."""
        return {
            setting.name: setting.value
            for setting in self.settings
            if setting.name.startswith(f"{SPARK_TABLE}.") and setting.value is not None
        }

    @property
    def dataset_file(self) -> Path:
        """The file that describes the datasets."""
        return self.project / FILE_NAME

    def origin(self, name: str) -> str:
        """Where the value of a setting came from."""
        return self._setting(name).origin

    def _setting(self, name: str) -> Setting:
        return next(setting for setting in self.settings if setting.name == name)


def load(
    project: Path,
    *,
    flags: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """Read the configuration of a project folder; `flags` maps flags to what the command line gave.

    `file` names another file than the folder's own.

    A relative path in the file counts from the file, any other from the project folder.
    """
    file = file or project / FILE_NAME
    told = _read_file(file)
    flags = flags or {}
    environment = os.environ if environment is None else environment
    settings = []
    for option in OPTIONS:
        # An empty variable is an unset one: `DISARRAY_DSN= disarray …` switches it off for one command.
        candidates = (
            (flags.get(option.flag), f"flag {option.flag}"),
            (environment.get(option.variable) or None, f"environment {option.variable}"),
            (told.get(option.name), f"file {file}"),
            (option.default, "default"),
        )
        value, origin = next((found for found in candidates if found[0] is not None), (None, "default"))
        if value is not None and option.is_path:
            value = str(project / Path(value).expanduser())
        settings.append(Setting(option.name, value, origin))
    settings += [
        Setting(name, value, f"file {file}")
        for name, value in told.items()
        if name.startswith(f"{SPARK_TABLE}.")
    ]
    return Config(tuple(settings), project)


def _read_file(file: Path) -> dict[str, str]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:  # ValueError: not UTF-8, or not TOML
        raise ConfigError(f"{file} cannot be read: {problem}. Nothing was changed.") from problem
    told: dict[str, str] = {}
    known = {option.name for option in OPTIONS}
    content.pop(DATASET_TABLE, None)  # formats.loader reads these, with a grammar of their own
    for section, table in content.items():
        for name, value in _entries(section, table):
            if name not in known and not name.startswith(f"{SPARK_TABLE}."):
                raise ConfigError(
                    f"{file}: there is no setting {name}. Nothing was changed. "
                    f"There are: {', '.join(sorted(known))}."
                )
            if not isinstance(value, str):
                raise ConfigError(f"{file}: {name} must be a text in quotes. Nothing was changed.")
            told[name] = value
    return told


def _entries(section: str, table: object) -> list[tuple[str, Any]]:
    if not isinstance(table, dict):
        return [(section, table)]
    # `driver.memory = "4g"` is a table in a table to TOML, and one name to Spark.
    is_deep = section.partition(".")[0] == SPARK_TABLE
    return [
        entry
        for key, value in table.items()
        for entry in (_entries(f"{section}.{key}", value) if is_deep else [(f"{section}.{key}", value)])
    ]


def redact(dsn: str) -> str:
    """Hide the passwords and secrets of a DSN, in either form that libpq takes."""
    # Greedy up to the last @: a password that holds one unescaped is hidden whole.
    dsn = re.sub(r"(://[^:/?#@]*):.*@", rf"\1:{_HIDDEN}@", dsn, flags=re.DOTALL)
    dsn = re.sub(r"([?&])([^=&]*)=([^&]*)", _redacted_parameter, dsn)
    return re.sub(
        r"""(?<![?&\w])(\w*(?:passw|secret)\w*\s*=\s*)('(?:[^'\\]|\\.)*'?|"[^"]*"?|(?:\\.|[^\s\\])+)""",
        rf"\1{_HIDDEN}",
        dsn,
        flags=re.IGNORECASE | re.DOTALL,
    )


def _redacted_parameter(found: re.Match[str]) -> str:
    # libpq decodes the names of parameters too.
    is_secret = _SECRET_NAME.search(unquote(found[2])) is not None
    return f"{found[1]}{found[2]}={_HIDDEN if is_secret else found[3]}"
