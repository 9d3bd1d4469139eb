"""The settings, read once into frozen values: flag > environment > file > default."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from disarray.config_options import OPTIONS
from disarray.errors import ConfigError, SpecError
from disarray.model.description.spec_table import MisfitError, Problems, Table, describe
from disarray.model.duration import parse_duration
from disarray.model.option import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from disarray.model.option import Option

FILE_NAME = "disarray.toml"
# A description is a page; a thousand times that is a wrong file.
MAX_FILE_BYTES = 4 << 20
_HIDDEN = "********"
# Settings of others, Spark's above all, are known by their names alone; a name too many does no harm.
_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|(^|[._-])(pass|pat|sas)($|[._-])|token|credential|"
    r"(access|account|private|api|signing|encryption|scram_client|scram_server).?key",
    re.IGNORECASE,
)


# Tables of the file that are no settings and are read where they are used, and one that holds whatever Spark knows.
DECLARED_TABLES = ("dataset", "source", "destination", "view", "hook")
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
    """Every setting, and the folder of the project. Without a DSN the embedded server of the state folder is used."""

    settings: tuple[Setting, ...]
    project: Path = Path()

    @property
    def state_dir(self) -> Path:
        return Path(self.text("state.dir"))

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

    def number(self, name: str) -> int:
        """The value of a setting that is a whole number."""
        return int(self.text(name))

    def length_us(self, name: str) -> int:
        """The value of a setting that is a length of time, in microseconds."""
        return parse_duration(self.text(name))

    def length(self, name: str) -> timedelta:
        """The same as a timedelta."""
        return timedelta(microseconds=self.length_us(name))

    def words(self, name: str) -> tuple[str, ...]:
        """The words of a setting, with commas or blanks between; none where it is not set."""
        return tuple((self._setting(name).value or "").replace(",", " ").split())

    @property
    def lake_root(self) -> Path:
        """Where fragments lie: beside the embedded database by default."""
        value = self._setting("lake.root").value
        return self.state_dir / "lake" if value is None else Path(value)

    @property
    def landing_root(self) -> Path:
        """Where deliveries of sources lie: beside the embedded database by default."""
        value = self._setting("landing.root").value
        return self.state_dir / "landing" if value is None else Path(value)

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

    def is_set(self, name: str) -> bool:
        """Whether a setting has a value."""
        return self._setting(name).value is not None

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
    written, spark = _read_file(file)
    flags = flags or {}
    environment = os.environ if environment is None else environment
    settings = [
        _setting(option, project, written.get(option.name), flags=flags, environment=environment, file=file)
        for option in OPTIONS
    ]
    return Config(
        (*settings, *(Setting(name, value, f"file {file}") for name, value in spark.items())), project
    )


def default_config() -> Config:
    """The configuration of a project that sets nothing: for programs that are put together in Python."""
    return Config(tuple(Setting(option.name, option.default, "default") for option in OPTIONS))


def _setting(
    option: Option,
    project: Path,
    written: str | None,
    *,
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Path,
) -> Setting:
    # An empty variable is an unset one: `DISARRAY_DSN= disarray …` switches it off for one command.
    candidates = (
        (flags.get(option.flag), f"flag {option.flag}"),
        (environment.get(option.variable) or None, f"environment {option.variable}"),
        (written, f"file {file}"),
        (option.default, "default"),
    )
    value, origin = next((found for found in candidates if found[0] is not None), (None, "default"))
    if value is None:
        return Setting(option.name, None, origin)
    try:
        value = option.read(value)
    except MisfitError as misfit:
        raise ConfigError(
            f"{origin}: {option.name}: expected {misfit.expected}, found {value!r}. Nothing was changed."
        ) from None
    if option.kind is Kind.PATH:
        value = str(project / Path(value).expanduser())
    return Setting(option.name, value, origin)


def read_toml(entry: Traversable, *, shown: str) -> tuple[str, dict[str, object]]:
    """The text of a TOML file and what it says; `shown` is what errors call it."""
    try:
        with entry.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read ({error.strerror}); nothing was changed") from error
    if len(content) > MAX_FILE_BYTES:
        raise SpecError((f"{shown}: larger than {MAX_FILE_BYTES >> 20} MiB; this is no description",))
    try:
        written = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError((f"{shown}: not UTF-8 at byte {error.start}; TOML has to be",)) from error
    return written, parse_toml(written, shown=shown)


def parse_toml(written: str, *, shown: str) -> dict[str, object]:
    """What a text says as TOML."""
    try:
        return tomllib.loads(written)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError((f"{shown}: not TOML: {error}",)) from error


def _read_file(file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a file by name, and those of Spark; every fault of the file is named at once."""
    try:
        _, content = read_toml(file, shown=str(file))
    except FileNotFoundError:
        return {}, {}
    problems = Problems(str(file))
    root = Table(content, path="", kind="file", problems=problems)
    for name in DECLARED_TABLES:
        root.optional(name, lambda value: value, None)
    written: dict[str, str] = {}
    for section, options in groupby(OPTIONS, key=lambda option: option.section):
        table = root.table(section, section)
        for option in options:
            value = table.optional(option.key, option.read, None)
            if value is not None:
                written[option.name] = value
        table.close()
    spark = dict(_spark_settings(root.table(SPARK_TABLE, SPARK_TABLE)))
    root.close()
    problems.raise_if_any()
    return written, spark


def _spark_settings(table: Table) -> Iterator[tuple[str, str]]:
    """Names as Spark spells them: `driver.memory = "4g"` is a table in a table to TOML, and one name to Spark."""
    for key, value in table.values.items():
        if isinstance(value, dict):
            yield from _spark_settings(table.table(key, f"{table.path}.{key}"))
        elif isinstance(value, bool):
            yield table.path_of(key), str(value).lower()
        elif isinstance(value, str | int | float):
            yield table.path_of(key), str(value)
        else:
            table.refuse(key, f"expected a text, a number, true or false, found {describe(value)}")


def redact(dsn: str) -> str:
    """Hide the passwords and secrets of a DSN, in either form that libpq takes."""
    # Greedy up to the last @: a password that holds one unescaped is hidden whole.
    dsn = re.sub(r"(://[^:/?#@]*):.*@", rf"\1:{_HIDDEN}@", dsn, flags=re.DOTALL)
    dsn = re.sub(r"([?&])([^=&]*)=([^&]*)", _redacted_parameter, dsn)
    return re.sub(
        r"""(?<![?&\w])(\w*(?:passw|secret|scram_(?:client|server)_key)\w*\s*=\s*)('(?:[^'\\]|\\.)*'?|"[^"]*"?|(?:\\.|[^\s\\])+)""",
        rf"\1{_HIDDEN}",
        dsn,
        flags=re.IGNORECASE | re.DOTALL,
    )


def _redacted_parameter(found: re.Match[str]) -> str:
    # libpq decodes the names of parameters too.
    is_secret = _SECRET_NAME.search(unquote(found[2])) is not None
    return f"{found[1]}{found[2]}={_HIDDEN if is_secret else found[3]}"
